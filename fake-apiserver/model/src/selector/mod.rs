//! Selection of objects by labels and fields.

mod field;
mod label;
mod parser;

pub use field::FieldSelector;
pub use label::LabelSelector;
use substrate::json::Value;

use super::object::Object;
use super::status::Status;
use crate::kinds::Kind;

/// Selectors of a list, watch or collection delete: both must match.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Selector {
    /// By labels.
    pub labels: LabelSelector,
    /// By fields.
    pub fields: FieldSelector,
}

/// Returns true if labels match a `meta/v1` LabelSelector; an absent selector matches nothing.
pub fn matches(selector: &Value, labels: &Value) -> bool {
    !selector.is_null() && LabelSelector::of(selector).matches_labels(labels.as_object())
}

impl Selector {
    /// Parses both selectors from their query parameters.
    ///
    /// # Errors
    /// 400 with the reason, also for unknown fields.
    pub fn parse(kind: &Kind, labels: &str, fields: &str) -> Result<Self, Status> {
        Ok(Self { labels: LabelSelector::parse(labels)?, fields: FieldSelector::parse(kind, fields)? })
    }

    /// Returns true if every object matches.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// Returns true if a stored object matches. Parses its tree only for fields that the object does not index.
    pub fn selects(&self, object: &Object) -> bool {
        self.labels.matches_with(&|key| object.label(key)) && self.fields.selects(object)
    }

    /// Returns true if `object` matches.
    pub fn matches(&self, object: &Value) -> bool {
        self.fields.matches(object) && self.labels.matches(object)
    }
}
