//! An event in text form: one JSON object.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::fields::Fields;
use crate::json::{Text, Value};

/// An event in text form.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// Milliseconds since the world began.
    pub ms: u64,
    /// Position in the total order of the run, from 1.
    pub n: u64,
    /// The process in which it happened.
    pub process: Arc<str>,
    /// Its kind, `<component>.<verb>`.
    pub kind: Text,
    /// Its fields.
    #[serde(flatten)]
    pub fields: Fields,
}

impl Line {
    /// Returns the string of a field; `None` if it is absent or of another type.
    pub fn str(&self, field: &str) -> Option<&str> {
        self.fields.get(field).and_then(Value::as_str)
    }

    /// Returns the line without its newline.
    pub fn text(&self) -> String {
        crate::encode::text(self)
    }
}
