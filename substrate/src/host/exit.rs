//! Exit codes of every program.

use std::fmt::Display;
use std::process::ExitCode;

/// Wrong usage: flags, or a file that one of them names.
pub const USAGE: u8 = 2;
/// The machine lacks something: a free port, a directory, root.
pub const ENVIRONMENT: u8 = 3;
/// SIGINT ended it.
pub const INTERRUPTED: u8 = 130;
/// A fault crashed it: the code of a process that SIGKILL ended.
pub const CRASHED: u8 = 137;

/// Why a program ends early: its exit code, and what it says.
///
/// Whatever can be shown becomes one of [`ENVIRONMENT`] with `?`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    code: u8,
    text: String,
}

impl Failure {
    /// Wrong usage.
    pub fn usage(text: impl Into<String>) -> Self {
        Self { code: USAGE, text: text.into() }
    }

    /// The machine does not allow it.
    pub fn environment(text: impl Into<String>) -> Self {
        Self { code: ENVIRONMENT, text: text.into() }
    }

    /// Says it on standard error as program `name`, and gives the exit code.
    pub fn report(&self, name: &str) -> ExitCode {
        use std::io::Write;
        // Nobody may be reading; the exit code says it all the same.
        let _ = writeln!(std::io::stderr(), "{name}: {}", self.text);
        ExitCode::from(self.code)
    }
}

// Were it `Display` itself, this would say the same of it twice.
impl<E: Display> From<E> for Failure {
    /// With all causes, where the error keeps them apart.
    fn from(error: E) -> Self {
        Self::environment(format!("{error:#}"))
    }
}
