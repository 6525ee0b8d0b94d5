//! Results of the day-to-day commands.

use serde_json::Value;

use crate::output::Exit;

/// Result of a command.
pub(in crate::cli) struct Done {
    /// Result as JSON.
    pub(super) data: Value,
    /// Result for people.
    pub(super) text: String,
    /// Warnings.
    pub(super) warnings: Vec<String>,
    /// Exit code.
    pub(super) exit: Exit,
}

impl Done {
    /// Result of a command that succeeded.
    pub(super) fn new(data: Value, text: impl Into<String>) -> Self {
        Self { data, text: text.into(), warnings: Vec::new(), exit: Exit::Passed }
    }
}
