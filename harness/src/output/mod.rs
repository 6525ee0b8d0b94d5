//! Output of every command: exit codes, the JSON envelope, progress, failures.
//!
//! Results go to stdout, progress and failures to stderr, so that a pipe receives only results.

mod envelope;
mod exit;
pub mod github;
pub mod junit;
mod progress;
mod style;

pub use envelope::{Envelope, Failure, SCHEMA_VERSION};
pub use exit::Exit;
pub use progress::{Phase, Progress};
pub use style::{Style, Tone};
pub(crate) use style::{cut, cut_front, took, wrapped};

use std::io::Write;

/// Format of results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Text for people.
    #[default]
    Human,
    /// One JSON envelope on stdout, for programs.
    Json,
}

/// Quotes a word for a POSIX shell.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=@%+,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Prints whole lines to standard output, for results. A closed pipe, as with `head`, is ignored.
pub fn say(lines: &str) {
    let mut stdout = std::io::stdout().lock();
    let _ = stdout.write_all(lines.as_bytes()).and_then(|()| stdout.flush());
}

/// Prints whole lines to standard error, for failures and progress. A closed pipe is ignored.
pub fn complain(lines: &str) {
    let mut stderr = std::io::stderr().lock();
    let _ = stderr.write_all(lines.as_bytes()).and_then(|()| stderr.flush());
}

/// Ends a command: writes its result and returns its exit code.
///
/// In the format for people, `text` goes to stdout, and a failure with the next actions to stderr. A closed pipe is
/// ignored.
pub fn finish(format: Format, envelope: &Envelope, text: &str, style: Style) -> Exit {
    match format {
        Format::Json => say(&format!("{}\n", envelope.line())),
        Format::Human => {
            say(text);
            let mut stderr = std::io::stderr().lock();
            for warning in &envelope.warnings {
                let _ = writeln!(stderr, "{} {warning}", style.paint(Tone::Warning, "warning:"));
            }
            if let Some(failure) = &envelope.error {
                let _ = stderr.write_all(failure.render(style).as_bytes());
            }
        }
    }
    envelope.exit()
}
