//! An event as text shows it: one JSON object.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::fields::Fields;
use crate::json::{Text, Value};

/// One thing that happened, for whoever reads text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// Milliseconds since the world began.
    pub ms: u64,
    /// Position in the total order of the run, from 1.
    pub n: u64,
    /// The process that it happened in.
    pub process: Arc<str>,
    /// What happened, as `<component>.<verb>`.
    pub kind: Text,
    /// What it happened to.
    #[serde(flatten)]
    pub fields: Fields,
}

impl Line {
    /// A field's text, or nothing when it is absent or not a string.
    pub fn str(&self, field: &str) -> Option<&str> {
        self.fields.get(field).and_then(Value::as_str)
    }

    /// The line without its newline.
    pub fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}
