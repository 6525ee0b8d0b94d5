//! Files of an import, their documents and errors.

use serde_json::Value;

/// Maximum size of an input file in bytes.
pub const MAX_BYTES: usize = 64 << 20;

/// A file of a cluster, or of its cloud.
#[derive(Clone, Debug)]
pub struct Input {
    /// Name in messages.
    pub name: String,
    /// Its text.
    pub text: String,
}

/// A document of a file.
#[derive(Clone, Debug)]
pub(super) struct Document {
    pub(super) file: String,
    pub(super) value: Value,
}

/// A file that cannot be imported.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}: {object}{why}")]
pub struct ImportError {
    /// The file.
    pub file: String,
    /// The object in it with a colon and a space; empty for the whole file.
    pub object: String,
    /// The error.
    pub why: String,
}

impl ImportError {
    pub(super) fn of_file(file: &str, why: impl Into<String>) -> Self {
        Self { file: file.to_owned(), object: String::new(), why: why.into() }
    }

    pub(super) fn of(file: &str, object: &str, why: impl Into<String>) -> Self {
        Self { file: file.to_owned(), object: format!("{object}: "), why: why.into() }
    }
}
