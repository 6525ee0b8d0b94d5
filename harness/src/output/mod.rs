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
pub(crate) use style::{cut, took};

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

/// Ends a command: writes its result and gives its exit code.
///
/// As text `text` goes to stdout, and a failure to stderr with what to do next. A reader that went away
/// changes nothing.
pub fn finish(format: Format, envelope: &Envelope, text: &str, style: Style) -> Exit {
    match format {
        Format::Json => {
            let _ = writeln!(std::io::stdout().lock(), "{}", envelope.line());
        }
        Format::Human => {
            let _ = std::io::stdout().lock().write_all(text.as_bytes());
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
