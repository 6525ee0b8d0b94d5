//! The three patch kinds that the server applies by itself: JSON patch, merge patch, strategic merge patch (R4).
//!
//! Pure: a patch and an object in, the patched object out. What a kind permits is the store's business.

mod json;
mod merge;
mod strategic;

use serde_json::Value;

use crate::kinds::Kind;

/// How a patch body is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchKind {
    /// RFC 6902, `application/json-patch+json`.
    Json,
    /// RFC 7396, `application/merge-patch+json`.
    Merge,
    /// Kubernetes' own, `application/strategic-merge-patch+json`.
    Strategic,
}

impl PatchKind {
    /// The patch kind of a request's Content-Type, parameters ignored.
    pub fn of_content_type(content_type: &str) -> Option<Self> {
        match content_type.split(';').next().unwrap_or_default().trim() {
            "application/json-patch+json" => Some(Self::Json),
            "application/merge-patch+json" => Some(Self::Merge),
            "application/strategic-merge-patch+json" => Some(Self::Strategic),
            _ => None,
        }
    }
}

/// Why a patch was not applied; the text is the Status message.
#[derive(Clone, Debug, PartialEq, Eq, displaydoc::Display, thiserror::Error)]
pub enum PatchError {
    /// {0}
    Malformed(String),
    /// The allowed maximum operations in a JSON patch is {limit}, got {got}
    TooManyOperations {
        /// The limit.
        limit: usize,
        /// How many the patch has.
        got: usize,
    },
    /// Unable to complete the copy, the accumulated size increase of copy is {size}, exceeding the limit {limit}
    CopyTooLarge {
        /// The limit in bytes.
        limit: usize,
        /// What the copies of the patch add up to, in bytes.
        size: usize,
    },
    /// the server rejected our request due to an error in our request: {0}
    Inapplicable(String),
}

impl PatchError {
    /// The HTTP status: 400 malformed, 413 too large, 422 it cannot be applied to this object.
    pub fn code(&self) -> u16 {
        match self {
            Self::Malformed(_) => 400,
            Self::TooManyOperations { .. } | Self::CopyTooLarge { .. } => 413,
            Self::Inapplicable(_) => 422,
        }
    }

    /// The Status reason that goes with the code.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Malformed(_) => "BadRequest",
            Self::TooManyOperations { .. } | Self::CopyTooLarge { .. } => "RequestEntityTooLarge",
            Self::Inapplicable(_) => "Invalid",
        }
    }
}

/// Applies `patch` to `target`, an object of `kind`, and returns the result; `target` itself stays as it is.
///
/// # Errors
/// See [`PatchError`].
pub fn apply(kind: &Kind, patch_kind: PatchKind, patch: &Value, target: &Value) -> Result<Value, PatchError> {
    match patch_kind {
        PatchKind::Json => json::apply(patch, target),
        PatchKind::Merge => merge::apply(patch, target),
        PatchKind::Strategic => strategic::apply(kind, patch, target),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_content_type_names_the_patch_kind() {
        assert_eq!(PatchKind::of_content_type("application/json-patch+json"), Some(PatchKind::Json));
        assert_eq!(PatchKind::of_content_type("application/merge-patch+json; charset=utf-8"), Some(PatchKind::Merge));
        assert_eq!(PatchKind::of_content_type("application/strategic-merge-patch+json"), Some(PatchKind::Strategic));
        assert_eq!(PatchKind::of_content_type("application/json"), None);
    }
}
