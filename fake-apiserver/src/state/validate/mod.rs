//! What an object must look like to be stored, and what an update may not change (§3 of the API reference;
//! upstream `pkg/apis/*/validation`): what several kinds share. The fields' types were checked when the body was
//! decoded.

mod container;
pub(super) mod meta;
pub(super) mod names;
pub(super) mod pod;
pub(super) mod selector;

pub(super) use meta::STANDARD_FINALIZERS;
use substrate::json::Value;

use super::FieldError;
use super::value::at;

/// An error unless `path` is equal in both.
pub(super) fn unchanged(object: &Value, old: &Value, path: &[&str], errors: &mut Vec<FieldError>) {
    let (new, was) = (at(object, path), at(old, path));
    if new != was {
        errors.push(FieldError::immutable(path.join("."), new.unwrap_or(&Value::Null)));
    }
}
