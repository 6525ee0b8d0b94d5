//! Errors of a request.

use serde::Deserialize;

/// `Status` of a refused request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Status {
    /// HTTP status code.
    #[serde(default)]
    pub code: u16,
    /// Machine-readable reason: `NotFound`, `Conflict`, `AlreadyExists`, `Invalid`, `Expired` …
    #[serde(default)]
    pub reason: String,
    /// Message for people.
    #[serde(default)]
    pub message: String,
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

/// Error of a request.
#[derive(Clone, Debug, PartialEq, Eq, displaydoc::Display, thiserror::Error)]
pub enum ApiError {
    /// {0}
    Status(Box<Status>),
    /// {0}
    Transport(String),
    /// the API server's answer cannot be read: {0}
    Decode(String),
    /// the object cannot be written: {0}
    Encode(String),
}

impl ApiError {
    fn code(&self) -> u16 {
        match self {
            Self::Status(status) => status.code,
            Self::Transport(_) | Self::Decode(_) | Self::Encode(_) => 0,
        }
    }

    fn reason(&self) -> &str {
        match self {
            Self::Status(status) => &status.reason,
            Self::Transport(_) | Self::Decode(_) | Self::Encode(_) => "",
        }
    }

    /// Returns true if the object does not exist.
    pub fn is_not_found(&self) -> bool {
        self.reason() == "NotFound" || (self.reason().is_empty() && self.code() == 404)
    }

    /// Returns true if the kind does not support this patch type (415).
    pub fn is_unsupported_media_type(&self) -> bool {
        self.code() == 415
    }

    /// Returns true if the object was changed meanwhile (optimistic locking).
    pub fn is_conflict(&self) -> bool {
        self.reason() == "Conflict"
    }

    /// Returns true if an object of that name exists.
    pub fn is_already_exists(&self) -> bool {
        self.reason() == "AlreadyExists"
    }

    /// Returns true if the server refused the object as invalid (422).
    pub fn is_invalid(&self) -> bool {
        self.reason() == "Invalid"
    }

    /// Returns true if the namespace is being deleted, so that every creation in it fails.
    pub fn is_namespace_terminating(&self) -> bool {
        matches!(self, Self::Status(status) if status.reason == "Forbidden" && status.message.contains("because it is being terminated"))
    }

    /// Returns true if the requested revision is compacted: list again (410).
    pub fn is_expired(&self) -> bool {
        self.code() == 410 || matches!(self.reason(), "Expired" | "Gone")
    }
}
