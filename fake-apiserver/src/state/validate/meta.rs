//! Names, labels, annotations, finalizers and owners (apimachinery `api/validation/objectmeta.go`).

use substrate::json::Value;

use super::names;
use crate::kinds::Kind;
use crate::state::FieldError;
use crate::state::value::{at, list, name, text};

/// Maximum size of all annotations in bytes.
const ANNOTATIONS_LIMIT: usize = 256 << 10;
/// Kubernetes' own finalizers without a domain.
pub(in crate::state) const STANDARD_FINALIZERS: &[&str] = &["kubernetes", "orphan", "foregroundDeletion"];

pub(in crate::state) fn create(kind: &Kind, check_name: fn(&str) -> Option<String>, object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let (name, base) = (name(object), text(object, &["metadata", "generateName"]));
    if name.is_empty() {
        let why = if base.is_empty() { "name or generateName is required" } else { "" };
        errors.push(FieldError::required("metadata.name", why));
    } else if let Some(why) = check_name(name) {
        errors.push(FieldError::invalid("metadata.name", &name.into(), why));
    }
    errors.extend(update(kind, object));
    errors
}

/// Validates the metadata of a new or updated object.
pub(in crate::state) fn update(kind: &Kind, object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let map = |field: &str| at(object, &["metadata", field]).and_then(Value::as_object);
    for (key, value) in map("labels").into_iter().flatten() {
        if let Some(why) = names::qualified(key) {
            errors.push(FieldError::invalid("metadata.labels", &key.as_str().into(), why));
        }
        if let Some(why) = names::label_value(value.as_str().unwrap_or_default()) {
            errors.push(FieldError::invalid("metadata.labels", value, why));
        }
    }
    let mut size = 0;
    for (key, value) in map("annotations").into_iter().flatten() {
        if let Some(why) = names::qualified(&key.to_lowercase()) {
            errors.push(FieldError::invalid("metadata.annotations", &key.as_str().into(), why));
        }
        size += key.len() + value.as_str().map_or(0, str::len);
    }
    if size > ANNOTATIONS_LIMIT {
        errors.push(FieldError::too_long("metadata.annotations", ANNOTATIONS_LIMIT));
    }
    for (i, finalizer) in list(object, &["metadata", "finalizers"]).iter().enumerate() {
        let shown = finalizer.as_str().unwrap_or_default();
        let field = "metadata.finalizers";
        if let Some(why) = names::qualified(shown) {
            errors.push(FieldError::invalid(field, finalizer, why));
        }
        if !shown.contains('/') && !STANDARD_FINALIZERS.contains(&shown) && !takes_any_finalizer(kind) {
            let why = "name is neither a standard finalizer name nor is it fully qualified";
            errors.push(FieldError::invalid(format!("{field}[{i}]"), finalizer, why));
        }
    }
    owners(object, &mut errors);
    errors
}

/// Returns true if the kind uses the validation that all API servers share. That of `pkg/apis/core` is stricter about
/// finalizers.
fn takes_any_finalizer(kind: &Kind) -> bool {
    const GROUPS: [&str; 4] =
        ["admissionregistration.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io", "coordination.k8s.io"];
    kind.custom.is_some() || GROUPS.contains(&kind.group)
}

fn owners(object: &Value, errors: &mut Vec<FieldError>) {
    let mut controllers = 0;
    for owner in list(object, &["metadata", "ownerReferences"]) {
        for field in ["apiVersion", "kind", "name", "uid"] {
            if text(owner, &[field]).is_empty() {
                errors.push(FieldError::invalid(
                    format!("metadata.ownerReferences.{field}"),
                    &"".into(),
                    "must not be empty",
                ));
            }
        }
        controllers += usize::from(owner["controller"] == true);
    }
    if controllers > 1 {
        let why = "Only one reference can have Controller set to true";
        errors.push(FieldError::invalid_text("metadata.ownerReferences", controllers.to_string(), why));
    }
}
