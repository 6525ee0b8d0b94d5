//! Exit codes of every program.

use std::fmt::Display;
use std::process::ExitCode;

/// Wrong usage: flags, or a file that a flag names.
pub const USAGE: u8 = 2;
/// The machine lacks something: a free port, a directory, root.
pub const ENVIRONMENT: u8 = 3;
/// Ended by SIGINT.
pub const INTERRUPTED: u8 = 130;
/// Crashed by a fault: the code of a process that SIGKILL ended.
pub const CRASHED: u8 = 137;

/// Reason why a program ends early: its exit code and its message.
///
/// `?` converts any error that can be displayed to one with [`ENVIRONMENT`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    code: u8,
    text: String,
}

impl Failure {
    /// Creates a failure of wrong usage.
    pub fn usage(text: impl Into<String>) -> Self {
        Self { code: USAGE, text: text.into() }
    }

    /// Creates a failure of the environment.
    pub fn environment(text: impl Into<String>) -> Self {
        Self { code: ENVIRONMENT, text: text.into() }
    }

    /// Prints the message to standard error as program `name`, and returns the exit code.
    pub fn report(&self, name: &str) -> ExitCode {
        use std::io::Write;
        // Standard error may be closed; the exit code has the same meaning.
        let _ = writeln!(std::io::stderr(), "{name}: {}", self.text);
        ExitCode::from(self.code)
    }
}

// `Failure` cannot implement `Display` itself: this impl would then conflict with the reflexive one.
impl<E: Display> From<E> for Failure {
    /// Includes all causes, if the error has a chain.
    fn from(error: E) -> Self {
        Self::environment(format!("{error:#}"))
    }
}
