//! Types of watch events.

use serde::{Deserialize, Serialize};

/// Type of a watch event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum EventType {
    /// The object was created, or now matches the selector.
    Added,
    /// The object changed.
    Modified,
    /// The object was deleted, or no longer matches the selector.
    Deleted,
}

impl EventType {
    /// Returns the type as it is on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}
