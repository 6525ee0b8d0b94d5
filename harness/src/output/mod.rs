//! What every command says to its user: exit codes, the JSON envelope, progress, failures.
//!
//! Results go to stdout, progress and failures to stderr, so that a pipe sees results only.

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

/// How results are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// For people.
    #[default]
    Human,
    /// One JSON envelope on stdout, for programs.
    Json,
}

/// Prints whole lines on standard output: results. A reader that went away, as `head` does, changes nothing.
pub fn say(lines: &str) {
    let mut stdout = std::io::stdout().lock();
    let _ = stdout.write_all(lines.as_bytes()).and_then(|()| stdout.flush());
}

/// Prints whole lines on standard error: what went wrong, and progress. Nobody has to read them.
pub fn complain(lines: &str) {
    let mut stderr = std::io::stderr().lock();
    let _ = stderr.write_all(lines.as_bytes()).and_then(|()| stderr.flush());
}

/// Ends a command: writes its result and gives its exit code.
///
/// As text `text` goes to stdout, and a failure to stderr with what to do next. A reader that went away
/// changes nothing.
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
