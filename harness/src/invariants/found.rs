//! Findings of checkers: violations before the run adds its time and process.

use std::collections::BTreeMap;

/// A finding of a checker.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub message: String,
    pub operation: String,
    pub volume: Option<String>,
    pub node: Option<String>,
    pub details: BTreeMap<&'static str, serde_json::Value>,
}

/// Returns the first word of a message: the object or volume that it is about.
pub(super) fn first_word(message: &str) -> String {
    message.split(' ').next().unwrap_or_default().to_owned()
}
