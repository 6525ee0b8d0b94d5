//! Validation of new objects and of updates (upstream `pkg/apis/*/validation`): helpers that several kinds share.
//! Decoding has already checked the types of the fields.

mod container;
pub(super) mod ephemeral;
pub(super) mod meta;
pub(super) mod names;
pub(super) mod pod;
pub(super) mod resource_names;
pub(super) mod selector;
mod surroundings;

pub(super) use meta::STANDARD_FINALIZERS;
use substrate::json::Value;

use super::FieldError;
use super::value::at;

/// Adds an error unless both objects are equal at `path`.
pub(super) fn unchanged(object: &Value, old: &Value, path: &[&str], errors: &mut Vec<FieldError>) {
    let (new, was) = (at(object, path), at(old, path));
    if new != was {
        errors.push(FieldError::immutable(path.join("."), new.unwrap_or(&Value::Null)));
    }
}
