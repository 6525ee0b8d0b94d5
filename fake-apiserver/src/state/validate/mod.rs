//! What an object must look like to be stored, and what an update may not change (§3 of the API reference;
//! upstream `pkg/apis/*/validation`). The fields' types were checked when the body was decoded.

mod access;
mod container;
mod meta;
pub(super) mod names;
mod pod;
mod storage;
mod workload;

pub(super) use meta::STANDARD_FINALIZERS;
use substrate::json::Value;

use super::value::{at, text};
use super::{FieldError, Part};
use crate::kinds::Kind;

/// Everything that is wrong with a new object.
pub(super) fn create(kind: &Kind, object: &Value) -> Vec<FieldError> {
    let mut errors = meta::create(kind, object);
    if let Some(custom) = &kind.custom {
        crate::custom::validate(&custom.schema, object, None, "", &mut errors);
        return errors;
    }
    match (kind.group, kind.kind) {
        ("", "Pod") => pod::create(object, &mut errors),
        ("", "PersistentVolume") => storage::volume(object, &mut errors),
        ("", "PersistentVolumeClaim") => storage::claim(object, &mut errors),
        ("storage.k8s.io", "StorageClass") => storage::class(object, &mut errors),
        ("storage.k8s.io", "CSINode") => storage::csi_node(object, &mut errors),
        ("storage.k8s.io", "VolumeAttachment") => storage::attachment(object, &mut errors),
        ("storage.k8s.io", "VolumeAttributesClass") => storage::attributes_class(object, &mut errors),
        ("storage.k8s.io", "CSIDriver") => storage::driver(object, &mut errors),
        ("storage.k8s.io", "CSIStorageCapacity") => storage::storage_capacity(object, &mut errors),
        ("", "ConfigMap" | "Secret" | "Node" | "ResourceQuota")
        | ("rbac.authorization.k8s.io", _)
        | ("scheduling.k8s.io", "PriorityClass") => access::create(kind, object, &mut errors),
        ("coordination.k8s.io", "Lease") => lease(object, &mut errors),
        ("", "Event") => event(object, &mut errors),
        ("certificates.k8s.io", "CertificateSigningRequest") => super::certificate::check(object, &mut errors),
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy") => super::policies::check(object, &mut errors),
        ("admissionregistration.k8s.io", "MutatingAdmissionPolicy") => super::mutations::check(object, &mut errors),
        ("apiextensions.k8s.io", _) => errors.extend(crate::custom::definition::check(object)),
        _ => workload::create(kind, object, &mut errors),
    }
    errors
}

/// Everything that is wrong with an update of one part of an object.
pub(super) fn update(kind: &Kind, part: Part, object: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = meta::update(kind, object);
    if let Some(custom) = &kind.custom {
        crate::custom::validate(&custom.schema, object, Some(old), "", &mut errors);
        return errors;
    }
    match (kind.group, kind.kind, part) {
        ("", "Pod", Part::Main) => pod::update(object, old, &mut errors),
        ("", "PersistentVolume", Part::Main) => storage::volume_update(object, old, &mut errors),
        ("", "PersistentVolumeClaim", Part::Main) => storage::claim_update(object, old, &mut errors),
        ("", "Node", Part::Main) => node_update(object, old, &mut errors),
        ("storage.k8s.io", "StorageClass", _) => storage::class_update(object, old, &mut errors),
        ("storage.k8s.io", "CSINode", _) => storage::csi_node_update(object, old, &mut errors),
        ("storage.k8s.io", "CSIDriver", _) => storage::driver_update(object, old, &mut errors),
        ("storage.k8s.io", "VolumeAttachment", Part::Main) => storage::attachment_update(object, old, &mut errors),
        ("storage.k8s.io", "VolumeAttachment", Part::Status) => storage::attachment_status(object, &mut errors),
        ("storage.k8s.io", "VolumeAttributesClass", _) => storage::attributes_class_update(object, old, &mut errors),
        ("coordination.k8s.io", "Lease", _) => lease(object, &mut errors),
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy", Part::Main) => {
            super::policies::check(object, &mut errors);
        }
        ("admissionregistration.k8s.io", "MutatingAdmissionPolicy", Part::Main) => {
            super::mutations::check(object, &mut errors);
        }
        ("apiextensions.k8s.io", _, Part::Main) => {
            errors.extend(crate::custom::definition::check(object));
            for field in ["group", "scope"] {
                unchanged(object, old, &["spec", field], &mut errors);
            }
        }
        ("certificates.k8s.io", "CertificateSigningRequest", _) => {
            super::certificate::check_update(part, object, old, &mut errors);
        }
        ("", "ConfigMap" | "Secret", _) => frozen(kind, object, old, &mut errors),
        ("scheduling.k8s.io", "PriorityClass", _) => unchanged(object, old, &["value"], &mut errors),
        ("rbac.authorization.k8s.io", "ClusterRoleBinding" | "RoleBinding", _)
            if object["roleRef"] != old["roleRef"] =>
        {
            errors.push(FieldError::invalid("roleRef", &object["roleRef"], "cannot change roleRef"));
        }
        (_, _, Part::Main) => workload::update(kind, object, old, &mut errors),
        _ => {}
    }
    errors
}

/// What was marked immutable stays so, and so do its data.
fn frozen(kind: &Kind, object: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    if old["immutable"] == true {
        for field in ["immutable", "data", "binaryData"] {
            if object.get(field) != old.get(field) {
                errors.push(FieldError::forbidden(field, "field is immutable when `immutable` is set"));
            }
        }
    }
    if kind.kind == "Secret" {
        unchanged(object, old, &["type"], errors);
    }
}

/// An error unless `path` is equal in both.
fn unchanged(object: &Value, old: &Value, path: &[&str], errors: &mut Vec<FieldError>) {
    let (new, was) = (at(object, path), at(old, path));
    if new != was {
        errors.push(FieldError::immutable(path.join("."), new.unwrap_or(&Value::Null)));
    }
}

fn node_update(object: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let (provider, was) = (text(object, &["spec", "providerID"]), text(old, &["spec", "providerID"]));
    if !was.is_empty() && provider != was {
        errors.push(FieldError::forbidden(
            "spec.providerID",
            "node updates may not change providerID except from \"\" to valid",
        ));
    }
    let (cidrs, was) = (at(object, &["spec", "podCIDRs"]), at(old, &["spec", "podCIDRs"]));
    if was.is_some() && cidrs != was {
        let why = "node updates may not change podCIDR except from \"\" to valid";
        errors.push(FieldError::forbidden("spec.podCIDRs", why));
    }
}

fn lease(lease: &Value, errors: &mut Vec<FieldError>) {
    for field in ["leaseDurationSeconds", "leaseTransitions"] {
        let Some(value) = at(lease, &["spec", field]) else { continue };
        let (bad, why) = match (field, value.as_i64().unwrap_or_default()) {
            ("leaseDurationSeconds", n) => (n <= 0, "must be greater than 0"),
            (_, n) => (n < 0, "must be greater than or equal to 0"),
        };
        if bad {
            errors.push(FieldError::invalid(format!("spec.{field}"), value, why));
        }
    }
}

/// An event stands in the namespace of what it is about; about cluster-scoped things it stands in `default`.
fn event(event: &Value, errors: &mut Vec<FieldError>) {
    let (namespace, about) = (super::value::namespace(event), text(event, &["involvedObject", "namespace"]));
    let fits = if about.is_empty() { matches!(namespace, "default" | "kube-system") } else { namespace == about };
    if !fits {
        let value = about.into();
        errors.push(FieldError::invalid("involvedObject.namespace", &value, "does not match event.namespace"));
    }
}
