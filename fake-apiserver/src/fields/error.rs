//! What is wrong with one field, in the words of apimachinery (`util/validation/field`).

use std::fmt;

use substrate::json::Value;

/// One field that is wrong.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldError {
    /// The path, as `spec.source.persistentVolumeName`.
    pub field: String,
    /// What kind of wrong.
    pub fault: FieldFault,
    /// The explanation; may be empty.
    pub detail: String,
}

/// What is wrong with a field.
#[derive(Clone, Debug, PartialEq)]
pub enum FieldFault {
    /// The value is not acceptable; holds it as it is shown, and nothing if it is not.
    Invalid(String),
    /// The value is missing.
    Required,
    /// The value must not be there.
    Forbidden,
    /// The value is none of those supported; holds it as it is shown.
    NotSupported(String),
    /// The value stands there twice; holds it as it is shown, and nothing if it is not.
    Duplicate(String),
    /// The value refers to something that is not there; holds it as it is shown.
    NotFound(String),
    /// The value is too long.
    TooLong,
    /// There are too many of them; holds how many there are.
    TooMany(String),
    /// The value has the wrong type; holds it as it is shown.
    TypeInvalid(String),
}

impl FieldError {
    fn new(field: impl Into<String>, fault: FieldFault, detail: impl Into<String>) -> Self {
        Self { field: field.into(), fault, detail: detail.into() }
    }

    /// A value that is not acceptable.
    pub fn invalid(field: impl Into<String>, value: &Value, detail: impl Into<String>) -> Self {
        Self::new(field, FieldFault::Invalid(shown(value)), detail)
    }

    /// A value that is not acceptable, given as upstream prints it.
    pub fn invalid_text(field: impl Into<String>, shown: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(field, FieldFault::Invalid(shown.into()), detail)
    }

    /// A missing value.
    pub fn required(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(field, FieldFault::Required, detail)
    }

    /// A value that must not be there or must not change.
    pub fn forbidden(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(field, FieldFault::Forbidden, detail)
    }

    /// A value outside an enumeration.
    pub fn not_supported(field: impl Into<String>, value: &Value, supported: &[&str]) -> Self {
        let list: Vec<String> = supported.iter().map(|s| format!("{s:?}")).collect();
        Self::new(field, FieldFault::NotSupported(shown(value)), format!("supported values: {}", list.join(", ")))
    }

    /// A value that stands there twice.
    pub fn duplicate(field: impl Into<String>, value: &Value) -> Self {
        Self::new(field, FieldFault::Duplicate(shown(value)), "")
    }

    /// A value that is longer than `limit` bytes.
    pub fn too_long(field: impl Into<String>, limit: usize) -> Self {
        Self::new(field, FieldFault::TooLong, format!("may not be more than {limit} bytes"))
    }

    /// A field that may not change.
    pub fn immutable(field: impl Into<String>, value: &Value) -> Self {
        Self::invalid(field, value, "field is immutable")
    }

    /// The text behind the path.
    pub fn body(&self) -> String {
        let head = match &self.fault {
            FieldFault::Invalid(value) if value.is_empty() => "Invalid value".to_owned(),
            FieldFault::Duplicate(value) if value.is_empty() => "Duplicate value".to_owned(),
            FieldFault::Invalid(value) => format!("Invalid value: {value}"),
            FieldFault::Required => "Required value".to_owned(),
            FieldFault::Forbidden => "Forbidden".to_owned(),
            FieldFault::NotSupported(value) => format!("Unsupported value: {value}"),
            FieldFault::Duplicate(value) => format!("Duplicate value: {value}"),
            FieldFault::NotFound(value) => format!("Not found: {value}"),
            FieldFault::TooLong => "Too long".to_owned(),
            FieldFault::TooMany(found) => format!("Too many: {found}"),
            FieldFault::TypeInvalid(value) => format!("Invalid value: {value}"),
        };
        if self.detail.is_empty() { head } else { format!("{head}: {}", self.detail) }
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.body())
    }
}

/// A value as messages show it: strings quoted, all else as Go writes JSON, safe to stand in HTML.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{text:?}"),
        other => other.to_string().replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026"),
    }
}
