//! Exit codes.

use std::process::ExitCode;

use serde::{Serialize, Serializer};

/// Result of a command. The declaration order is the order of precedence, weakest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exit {
    /// All expectations held.
    #[default]
    Passed,
    /// The command line, or a file that it names, is wrong.
    Usage,
    /// The machine lacks something: root, loop devices, mkfs, a free port, space.
    Environment,
    /// `--timeout` or the watchdog ended the command. A scenario that exceeds its own deadline is [`Exit::Failed`].
    Timeout,
    /// Objects or resources were left behind.
    Leaked,
    /// An expectation or invariant failed: a bug was found.
    Failed,
    /// A replay differs from the recorded run.
    Diverged,
    /// The user interrupted the command.
    Interrupted,
}

impl Exit {
    /// Exit code of the process.
    pub fn code(self) -> u8 {
        match self {
            Self::Passed => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Environment => 3,
            Self::Timeout => 4,
            Self::Diverged => 5,
            Self::Leaked => 6,
            Self::Interrupted => 130,
        }
    }

    /// Result of a process that returned `code`.
    pub fn of_code(code: u8) -> Option<Self> {
        use Exit::*;
        [Passed, Failed, Usage, Environment, Timeout, Diverged, Leaked, Interrupted]
            .into_iter()
            .find(|e| e.code() == code)
    }

    /// One-word name, also the default code of a [`super::Failure`].
    pub fn word(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::Usage => "usage",
            Self::Environment => "environment",
            Self::Timeout => "timeout",
            Self::Diverged => "diverged",
            Self::Leaked => "leaked",
            Self::Interrupted => "interrupted",
        }
    }

    /// Result of a command with several causes: the first of 130, 5, 1, 6, 4, 3, 2.
    pub fn of(causes: impl IntoIterator<Item = Self>) -> Self {
        causes.into_iter().max().unwrap_or_default()
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

impl Serialize for Exit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.word())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_several_causes_the_first_of_130_5_1_6_4_counts() {
        use Exit::*;
        let order = [Interrupted, Diverged, Failed, Leaked, Timeout];
        assert_eq!(order.map(Exit::code), [130, 5, 1, 6, 4]);
        for (i, first) in order.iter().enumerate() {
            assert_eq!(Exit::of(order[i..].iter().rev().copied().chain([Passed])), *first);
        }
        assert_eq!(Exit::of([]), Passed);
        for exit in order.into_iter().chain([Passed, Usage, Environment]) {
            assert_eq!(Exit::of_code(exit.code()), Some(exit));
        }
        assert_eq!(Exit::of_code(7), None);
    }
}
