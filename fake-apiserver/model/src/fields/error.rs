//! Errors of single fields, in the words of apimachinery (`util/validation/field`).

use std::fmt;

use substrate::json::Value;

/// An error of one field.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldError {
    /// The path, such as `spec.source.persistentVolumeName`.
    pub field: String,
    /// The kind of error.
    pub fault: FieldFault,
    /// The explanation; may be empty.
    pub detail: String,
}

/// Kind of an error.
#[derive(Clone, Debug, PartialEq)]
pub enum FieldFault {
    /// The value is invalid; has the value as messages show it, or an empty string.
    Invalid(String),
    /// The value is missing.
    Required,
    /// The field must not be set or changed.
    Forbidden,
    /// The value is not a supported one; has the value as messages show it.
    NotSupported(String),
    /// The value is a duplicate; has the value as messages show it, or an empty string.
    Duplicate(String),
    /// The value refers to a missing object; has the value as messages show it.
    NotFound(String),
    /// The value is too long.
    TooLong,
    /// There are too many elements; has their number.
    TooMany(String),
    /// The value has the wrong type; has the value as messages show it.
    TypeInvalid(String),
}

impl FieldError {
    fn new(field: impl Into<String>, fault: FieldFault, detail: impl Into<String>) -> Self {
        Self { field: field.into(), fault, detail: detail.into() }
    }

    /// Creates the error of an invalid value.
    pub fn invalid(field: impl Into<String>, value: &Value, detail: impl Into<String>) -> Self {
        Self::new(field, FieldFault::Invalid(shown(value)), detail)
    }

    /// Creates the error of an invalid value, given as upstream prints it.
    pub fn invalid_text(field: impl Into<String>, shown: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(field, FieldFault::Invalid(shown.into()), detail)
    }

    /// Creates the error of a missing value.
    pub fn required(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(field, FieldFault::Required, detail)
    }

    /// Creates the error of a value that must not be set or changed.
    pub fn forbidden(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(field, FieldFault::Forbidden, detail)
    }

    /// Creates the error of a value outside an enumeration.
    pub fn not_supported(field: impl Into<String>, value: &Value, supported: &[&str]) -> Self {
        let list: Vec<String> = supported.iter().map(|s| format!("{s:?}")).collect();
        Self::new(field, FieldFault::NotSupported(shown(value)), format!("supported values: {}", list.join(", ")))
    }

    /// Creates the error of a duplicate value.
    pub fn duplicate(field: impl Into<String>, value: &Value) -> Self {
        Self::new(field, FieldFault::Duplicate(shown(value)), "")
    }

    /// Creates the error of a value that is longer than `limit` bytes.
    pub fn too_long(field: impl Into<String>, limit: usize) -> Self {
        Self::new(field, FieldFault::TooLong, format!("may not be more than {limit} bytes"))
    }

    /// Creates the error of a field that must not change.
    pub fn immutable(field: impl Into<String>, value: &Value) -> Self {
        Self::invalid(field, value, "field is immutable")
    }

    /// Returns the message without the path.
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

/// Formats a value for messages: strings are quoted, other values are JSON with Go's escapes for HTML.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{text:?}"),
        other => other.to_string().replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026"),
    }
}
