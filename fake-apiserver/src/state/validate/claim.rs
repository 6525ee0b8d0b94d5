//! Specs of claims (`ValidatePersistentVolumeClaimSpec`): those of claims, and the templates in pods.

use substrate::json::Value;

use super::{meta, names, refuse, selector};
use crate::state::value::{has, list, text};
use crate::state::{FieldError, quantity};

/// Known access modes.
const MODES: &[&str] = &["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

/// Validates the spec at `at`.
pub(in crate::state) fn spec(spec: &Value, at: &str, errors: &mut Vec<FieldError>) {
    if list(spec, &["accessModes"]).is_empty() {
        errors.push(FieldError::required(format!("{at}.accessModes"), "at least 1 access mode is required"));
    }
    selector::label_selector(&spec["selector"], &format!("{at}.selector"), errors);
    access_modes(spec, at, errors);
    positive(&spec["resources"]["requests"]["storage"], &format!("{at}.resources[storage]"), errors);
    let class = text(spec, &["storageClassName"]);
    if !class.is_empty() {
        refuse(class, &format!("{at}.storageClassName"), names::subdomain(class), errors);
    }
    volume_mode(spec, at, errors);
    for field in ["dataSource", "dataSourceRef"] {
        data_source(&spec[field], &format!("{at}.{field}"), errors);
    }
    same_source(spec, at, errors);
    let class = text(spec, &["volumeAttributesClassName"]);
    if !class.is_empty() {
        refuse(class, &format!("{at}.volumeAttributesClassName"), names::subdomain(class), errors);
    }
}

/// Validates the template of a claim: its metadata has only labels and annotations.
pub(super) fn template(template: &Value, at: &str, errors: &mut Vec<FieldError>) {
    let metadata = &template["metadata"];
    meta::annotations(&metadata["annotations"], &format!("{at}.metadata.annotations"), errors);
    selector::labels(&metadata["labels"], &format!("{at}.metadata.labels"), errors);
    for (field, _) in metadata.as_object().into_iter().flatten() {
        if !matches!(field.as_str(), "annotations" | "labels") && has(metadata, &[field.as_str()]) {
            errors.push(FieldError::forbidden(format!("{at}.metadata.{field}"), "cannot be set"));
        }
    }
    spec(&template["spec"], &format!("{at}.spec"), errors);
}

/// Validates the access modes of a claim or a volume, which may be missing.
pub(in crate::state) fn access_modes(spec: &Value, at: &str, errors: &mut Vec<FieldError>) {
    let field = format!("{at}.accessModes");
    let known = |mode: &Value| mode.as_str().is_some_and(|mode| MODES.contains(&mode));
    let modes = list(spec, &["accessModes"]);
    for mode in modes.iter().filter(|mode| !known(mode)) {
        errors.push(FieldError::not_supported(&field, mode, MODES));
    }
    let is_single = |mode: &Value| *mode == "ReadWriteOncePod";
    if modes.iter().any(is_single) && modes.iter().any(|mode| known(mode) && !is_single(mode)) {
        errors.push(FieldError::forbidden(field, "may not use ReadWriteOncePod with other access modes"));
    }
}

/// Validates the mode of a claim or a volume.
pub(in crate::state) fn volume_mode(spec: &Value, at: &str, errors: &mut Vec<FieldError>) {
    let mode = &spec["volumeMode"];
    if !mode.is_null() && !matches!(mode.as_str(), Some("Filesystem" | "Block")) {
        errors.push(FieldError::not_supported(format!("{at}.volumeMode"), mode, &["Block", "Filesystem"]));
    }
}

/// Validates a required quantity: it is positive.
pub(in crate::state) fn positive(amount: &Value, field: &str, errors: &mut Vec<FieldError>) {
    match amount.as_str() {
        None => errors.push(FieldError::required(field, "")),
        Some(text) if quantity::nanos(text).is_none_or(|n| n <= 0) => {
            errors.push(FieldError::invalid(field, amount, "must be greater than zero"));
        }
        Some(_) => {}
    }
}

/// Validates a data source: it has a name and a kind, and in the core group only claims are allowed.
fn data_source(source: &Value, at: &str, errors: &mut Vec<FieldError>) {
    if source.is_null() {
        return;
    }
    for field in ["name", "kind"] {
        if text(source, &[field]).is_empty() {
            errors.push(FieldError::required(format!("{at}.{field}"), ""));
        }
    }
    let (group, kind, namespace) = (text(source, &["apiGroup"]), text(source, &["kind"]), text(source, &["namespace"]));
    if group.is_empty() && kind != "PersistentVolumeClaim" {
        let why = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
        errors.push(FieldError::invalid(at, &kind.into(), why));
    }
    if !group.is_empty() {
        refuse(group, &format!("{at}.apiGroup"), names::subdomain(group), errors);
    }
    if !namespace.is_empty() {
        refuse(namespace, &format!("{at}.namespace"), names::label(namespace), errors);
    }
}

/// Checks that both data sources are the same, or that there is only one if it is in another namespace.
fn same_source(spec: &Value, at: &str, errors: &mut Vec<FieldError>) {
    let (source, reference) = (&spec["dataSource"], &spec["dataSourceRef"]);
    if source.is_null() || reference.is_null() {
        return;
    }
    // Upstream shows the path of the field as its value, and Go prints a path as an empty struct.
    let mut say = |why| errors.push(FieldError::invalid_text(at, "{}", why));
    if !text(reference, &["namespace"]).is_empty() {
        say("may not be specified when dataSourceRef.namespace is specified");
    } else if ["apiGroup", "kind", "name"].iter().any(|field| source.get(*field) != reference.get(*field)) {
        say("must match dataSourceRef");
    }
}
