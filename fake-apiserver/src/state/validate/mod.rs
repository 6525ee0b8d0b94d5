//! Validation of new objects and of updates (upstream `pkg/apis/*/validation`): helpers that several kinds share.
//! Decoding has already checked the types of the fields.

pub(super) mod addresses;
pub(super) mod claim;
mod container;
mod downward;
mod environment;
pub(super) mod ephemeral;
pub(super) mod keys;
pub(super) mod meta;
mod mounts;
pub(super) mod node_selector;
mod operating_system;
pub(super) mod pod;
pub(super) mod pod_status;
mod probes;
mod projected;
pub(super) mod resize;
pub(super) mod resource_names;
mod resources;
mod scheduling;
mod security;
pub(super) mod sources;
mod surroundings;

pub(super) use api_model::label_checks as selector;
pub(super) use api_model::names::{self, refuse};
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
