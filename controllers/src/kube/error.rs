//! What a request can fail with.

use serde::Deserialize;

/// The `Status` that the API server answers a refused request with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Status {
    /// HTTP status code.
    #[serde(default)]
    pub code: u16,
    /// Machine-readable cause: `NotFound`, `Conflict`, `AlreadyExists`, `Invalid`, `Expired` …
    #[serde(default)]
    pub reason: String,
    /// Text for people.
    #[serde(default)]
    pub message: String,
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

/// A request that did not succeed.
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

    /// The object does not exist.
    pub fn is_not_found(&self) -> bool {
        self.reason() == "NotFound" || (self.reason().is_empty() && self.code() == 404)
    }

    /// The kind has no patch of this sort (415).
    pub fn is_unsupported_media_type(&self) -> bool {
        self.code() == 415
    }

    /// The object was changed in between (optimistic locking).
    pub fn is_conflict(&self) -> bool {
        self.reason() == "Conflict"
    }

    /// An object of that name exists.
    pub fn is_already_exists(&self) -> bool {
        self.reason() == "AlreadyExists"
    }

    /// The revision asked for is compacted: list again (410).
    pub fn is_expired(&self) -> bool {
        self.code() == 410 || matches!(self.reason(), "Expired" | "Gone")
    }
}
