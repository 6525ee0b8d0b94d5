//! Selection of objects by labels and fields (R10).

mod field;
mod label;
mod parser;

pub use field::FieldSelector;
pub use label::LabelSelector;
use substrate::json::Value;

use super::object::Object;
use super::status::Status;
use crate::kinds::Kind;

/// What a list, watch or collection delete is about: both selectors must match.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Selector {
    /// By labels.
    pub labels: LabelSelector,
    /// By fields.
    pub fields: FieldSelector,
}

/// Whether labels match a `meta/v1` LabelSelector; an absent selector matches nothing.
pub fn matches(selector: &Value, labels: &Value) -> bool {
    !selector.is_null() && LabelSelector::of(selector).matches_labels(labels.as_object())
}

impl Selector {
    /// Reads both from their query parameters.
    ///
    /// # Errors
    /// 400 that says what is wrong, unknown fields included.
    pub fn parse(kind: &Kind, labels: &str, fields: &str) -> Result<Self, Status> {
        Ok(Self { labels: LabelSelector::parse(labels)?, fields: FieldSelector::parse(kind, fields)? })
    }

    /// Whether everything matches.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// Whether a stored object matches; asks for its tree only when a field is selected by that it does not know.
    pub fn selects(&self, object: &Object) -> bool {
        self.labels.matches_with(&|key| object.label(key)) && self.fields.selects(object)
    }

    /// Whether `object` matches.
    pub fn matches(&self, object: &Value) -> bool {
        self.fields.matches(object) && self.labels.matches(object)
    }
}
