//! A program in a scenario or on a command line.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;

use crate::output::quoted;
use crate::secrets::{is_long, sounds_secret};

/// A user's program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramSpec {
    /// Its name, which steps, faults, logs and reports use.
    pub name: String,
    /// The command and its arguments. `$(NAME)` is replaced by a variable, as in the command of a container.
    pub command: Vec<String>,
    /// Its environment variables, which take precedence over those of the cluster.
    pub env: BTreeMap<String, String>,
    /// Components that it replaces, by their upstream names.
    pub replaces: BTreeSet<String>,
    /// The directory in which it starts.
    pub directory: PathBuf,
    /// Line in the file that names it; 0 on a command line.
    pub line: u64,
    /// Column in that file.
    pub column: u64,
}

impl ProgramSpec {
    /// Returns the values among its variables that no report may show.
    pub(crate) fn secrets(&self) -> impl Iterator<Item = &str> {
        let named = self.env.iter().filter(|(name, _)| sounds_secret(name));
        named.map(|(_, value)| value.as_str()).filter(|value| is_long(value))
    }

    /// Returns true if it is the CSI driver, which listens on its CSI socket. Other programs call this socket.
    pub fn is_driver(&self) -> bool {
        self.replaces.contains("csi-mock")
    }
}

impl fmt::Display for ProgramSpec {
    /// Formats the command for a shell.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<String> = self.command.iter().map(|word| quoted(word)).collect();
        f.write_str(&words.join(" "))
    }
}
