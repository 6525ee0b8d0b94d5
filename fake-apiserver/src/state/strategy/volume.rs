//! PersistentVolumes (`pkg/registry/core/persistentvolume/strategy.go`).

use substrate::Now;
use substrate::json::{Map, Value, json};

use super::{PLAIN, Strategy, keep_the_rest};
use crate::state::command::Part;
use crate::state::quantity::Quantity;
use crate::state::validate::claim::{access_modes, positive, volume_mode};
use crate::state::validate::node_selector::node_selector;
use crate::state::validate::sources::{Holder, source};
use crate::state::validate::{names, refuse};
use crate::state::value::{self, at, has, list, map_mut, text};
use crate::state::warnings::{OLD_CLASS, OLD_CLASS_TEXT, of_node_term, of_volume_source};
use crate::state::{FieldError, default, internal};

pub(super) static VOLUME: Strategy = Strategy {
    default: self::default,
    finalizer: Some("kubernetes.io/pv-protection"),
    begin: |_, now| Some(json!({"phase": "Pending", "lastPhaseTransitionTime": value::time(now.wall)})),
    prepare: |kind, part, volume, old, now| {
        keep_the_rest(kind, part, volume, old, now);
        if part == Part::Status {
            stamp_phase(volume, old, now);
        }
    },
    validate,
    validate_update: |part, volume, old, errors| {
        if part == Part::Main {
            validate_update(volume, old, errors);
        }
    },
    warn,
    ..PLAIN
};

/// Beta names of node labels, and their present names.
const RENAMED: [(&str, &str); 5] = [
    ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"),
    ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"),
    ("beta.kubernetes.io/instance-type", "node.kubernetes.io/instance-type"),
    ("beta.kubernetes.io/os", "kubernetes.io/os"),
    ("beta.kubernetes.io/arch", "kubernetes.io/arch"),
];

/// Sources of a volume, in the order in which upstream counts them.
const SOURCES: &[&str] = &[
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "flocker",
    "nfs",
    "rbd",
    "quobyte",
    "cephfs",
    "iscsi",
    "cinder",
    "fc",
    "flexVolume",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "scaleIO",
    "local",
    "storageos",
    "csi",
];

fn default(volume: &mut Value) {
    if let Some(spec) = map_mut(volume, "spec") {
        value::default(spec, "persistentVolumeReclaimPolicy", "Retain");
        value::default(spec, "volumeMode", "Filesystem");
        default::pod::source(spec);
    }
    if let Some(status) = map_mut(volume, "status") {
        value::default(status, "phase", "Pending");
    }
}

/// Sets lastPhaseTransitionTime when the phase changes, unless the client sets it (`PrepareForCreate` and
/// `PrepareForUpdate` of the persistentvolume strategies).
fn stamp_phase(object: &mut Value, old: &Value, now: Now) {
    let path = ["status", "lastPhaseTransitionTime"];
    let (sent, was) = (text(object, &path).to_owned(), text(old, &path).to_owned());
    let moved = text(object, &["status", "phase"]) != text(old, &["status", "phase"]);
    let stamp = if moved && (sent.is_empty() || sent == was) {
        value::time(now.wall)
    } else if sent.is_empty() {
        was
    } else {
        sent
    };
    if let (Some(status), false) = (value::map_mut(object, "status"), stamp.is_empty()) {
        status.insert("lastPhaseTransitionTime", stamp.into());
    }
}

fn validate(volume: &Value, errors: &mut Vec<FieldError>) {
    let spec = &volume["spec"];
    if list(spec, &["accessModes"]).is_empty() {
        errors.push(FieldError::required("spec.accessModes", ""));
    }
    access_modes(spec, "spec", errors);
    capacity(volume, errors);
    let policy = &spec["persistentVolumeReclaimPolicy"];
    let policies = ["Delete", "Recycle", "Retain"];
    if policy.as_str().is_some_and(|policy| !policy.is_empty() && !policies.contains(&policy)) {
        errors.push(FieldError::not_supported("spec.persistentVolumeReclaimPolicy", policy, &policies));
    }
    let affinity = &spec["nodeAffinity"];
    if !affinity.is_null() {
        let at = "spec.nodeAffinity.required";
        if affinity["required"].is_null() {
            errors.push(FieldError::required(at, "must specify required node constraints"));
        } else {
            node_selector(&affinity["required"], at, errors);
        }
    }
    sources(spec, "spec", errors);
    if is_root(text(spec, &["hostPath", "path"])) && *policy == "Recycle" {
        let why = "may not be 'recycle' for a hostPath mount of '/'";
        errors.push(FieldError::forbidden("spec.persistentVolumeReclaimPolicy", why));
    }
    let class = text(spec, &["storageClassName"]);
    if !class.is_empty() {
        refuse(class, "spec.storageClassName", names::subdomain(class), errors);
    }
    volume_mode(spec, "spec", errors);
    attributes_class(spec, "spec", errors);
}

/// Validates the volume of an attachment that has no PersistentVolume.
pub(super) fn inline(spec: &Value, at: &str, errors: &mut Vec<FieldError>) {
    const WHERE: &str = "in the context of inline volumes";
    let forbids = |errors: &mut Vec<FieldError>, field: &str| {
        errors.push(FieldError::forbidden(format!("{at}.{field}"), format!("may not be specified {WHERE}")));
    };
    for field in ["claimRef", "capacity"] {
        if !spec[field].is_null() {
            forbids(errors, field);
        }
    }
    if spec["csi"].is_null() {
        errors.push(FieldError::required(format!("{at}.csi"), format!("has to be specified {WHERE}")));
    }
    if list(spec, &["accessModes"]).is_empty() {
        errors.push(FieldError::required(format!("{at}.accessModes"), ""));
    }
    access_modes(spec, at, errors);
    if !matches!(text(spec, &["persistentVolumeReclaimPolicy"]), "" | "Retain") {
        let why = format!("may only be Retain {WHERE}");
        errors.push(FieldError::forbidden(format!("{at}.persistentVolumeReclaimPolicy"), why));
    }
    if !spec["nodeAffinity"].is_null() {
        forbids(errors, "nodeAffinity");
    }
    sources(spec, at, errors);
    if !text(spec, &["storageClassName"]).is_empty() {
        forbids(errors, "storageClassName");
    }
    if !matches!(text(spec, &["volumeMode"]), "" | "Filesystem") {
        let why = format!("may not specify volumeMode other than Filesystem {WHERE}");
        errors.push(FieldError::forbidden(format!("{at}.volumeMode"), why));
    }
    attributes_class(spec, at, errors);
}

/// Returns true for the root directory, and for other paths to it.
fn is_root(path: &str) -> bool {
    let mut depth = 0;
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => depth = usize::saturating_sub(depth, 1),
            _ => depth += 1,
        }
    }
    path.starts_with('/') && depth == 0
}

/// Validates the only source of a volume.
fn sources(spec: &Value, at: &str, errors: &mut Vec<FieldError>) {
    let mut found = SOURCES.iter().filter(|source| !spec[**source].is_null());
    let first = found.next();
    if let Some(first) = first {
        source(first, &spec[*first], at, Holder::Volume, errors);
    }
    if first == Some(&"local") && spec["nodeAffinity"].is_null() {
        errors.push(FieldError::required(format!("{at}.nodeAffinity"), "Local volume requires node affinity"));
    }
    for other in found {
        // Upstream gives this source another name here.
        let field = format!("{at}.{}", if *other == "cephfs" { "cephFS" } else { *other });
        errors.push(FieldError::forbidden(field, "may not specify more than 1 volume type"));
    }
    if first.is_none() {
        errors.push(FieldError::required(at, "must specify a volume type"));
    }
}

/// Validates the attributes class, which only CSI volumes have.
fn attributes_class(spec: &Value, at: &str, errors: &mut Vec<FieldError>) {
    let Some(class) = spec["volumeAttributesClassName"].as_str() else { return };
    let field = format!("{at}.volumeAttributesClassName");
    if class.is_empty() {
        errors.push(FieldError::required(field, "an empty string is disallowed"));
    } else {
        refuse(class, &field, names::subdomain(class), errors);
    }
    if spec["csi"].is_null() {
        let why = "has to be specified when using volumeAttributesClassName";
        errors.push(FieldError::required(format!("{at}.csi"), why));
    }
}

/// Validates the capacity: it has storage, more than zero, and no other resource.
fn capacity(volume: &Value, errors: &mut Vec<FieldError>) {
    let field = "spec.capacity";
    let empty = json!({});
    let capacity = at(volume, &["spec", "capacity"]).unwrap_or(&empty);
    let count = capacity.as_object().map_or(0, Map::len);
    if count == 0 {
        errors.push(FieldError::required(field, ""));
    }
    if capacity.get("storage").is_none() || count > 1 {
        errors.push(FieldError::not_supported(field, capacity, &["storage"]));
    }
    for (resource, amount) in capacity.as_object().into_iter().flatten() {
        let field = format!("{field}[{resource}]");
        if let Some(units) = amount.as_str().and_then(Quantity::parse).map(Quantity::whole).filter(|units| *units < 0) {
            let why = "must be a valid resource quantity";
            errors.push(FieldError::invalid_text(&field, units.to_string(), why));
        }
        positive(amount, &field, errors);
    }
}

fn validate_update(volume: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    validate(volume, errors);
    let source = |of: &Value| -> Value {
        let mut fields = Map::new();
        for source in SOURCES.iter().filter(|source| !of["spec"][**source].is_null()) {
            fields.insert(*source, of["spec"][*source].clone());
        }
        Value::Object(fields)
    };
    let (mut new, was) = (source(volume), source(old));
    // The only part of a source that may be added later.
    if has(&was, &["csi"])
        && !has(&was, &["csi", "controllerExpandSecretRef"])
        && let Some(new) = new.get_mut("csi").and_then(Value::as_object_mut)
    {
        new.remove("controllerExpandSecretRef");
    }
    if new != was {
        let difference = internal::diff(&was, &new, internal::VOLUME_SOURCE);
        let why = format!("spec.persistentvolumesource is immutable after creation\n{difference}");
        errors.push(FieldError::forbidden("spec.persistentvolumesource", why));
    }
    // Upstream names these two fields without their path.
    let (new, was) = (&volume["spec"], &old["spec"]);
    if new["volumeMode"] != was["volumeMode"] {
        errors.push(FieldError::immutable("volumeMode", &new["volumeMode"]));
    }
    if has(old, &["spec", "nodeAffinity"]) && new["nodeAffinity"] != renamed(&was["nodeAffinity"], &new["nodeAffinity"])
    {
        let shown = internal::shown(&new["nodeAffinity"], internal::NODE_AFFINITY);
        let why = "field is immutable, except for updating from beta label to GA";
        errors.push(FieldError::invalid_text("nodeAffinity", shown, why));
    }
    if has(old, &["spec", "volumeAttributesClassName"]) && !has(volume, &["spec", "volumeAttributesClassName"]) {
        let why = "update from non-nil value to nil is forbidden";
        errors.push(FieldError::forbidden("spec.volumeAttributesClassName", why));
    }
}

/// Returns the former node affinity with the present names of its labels, as far as the new one has them.
fn renamed(was: &Value, new: &Value) -> Value {
    let mut was = was.clone();
    let terms = was.pointer_mut("/required/nodeSelectorTerms").and_then(Value::as_array_mut);
    for (term, new) in terms.into_iter().flatten().zip(list(new, &["required", "nodeSelectorTerms"])) {
        let expressions = term.get_mut("matchExpressions").and_then(Value::as_array_mut);
        for (expression, new) in expressions.into_iter().flatten().zip(list(new, &["matchExpressions"])) {
            let key = text(expression, &["key"]);
            if RENAMED.iter().any(|(old, name)| *old == key && new["key"] == *name) {
                value::set(expression, "key", new.get("key").cloned());
            }
        }
    }
    was
}

/// Returns warnings about a volume (`GetWarningsForPersistentVolume`).
fn warn(volume: &Value, _: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let annotations = [
        (OLD_CLASS, OLD_CLASS_TEXT),
        ("volume.beta.kubernetes.io/mount-options", "deprecated since v1.31; use \"mountOptions\" attribute instead"),
    ];
    for (key, text) in annotations {
        if has(volume, &["metadata", "annotations", key]) {
            found.push(format!("metadata.annotations[{key}]: {text}"));
        }
    }
    if text(volume, &["spec", "persistentVolumeReclaimPolicy"]) == "Recycle" {
        let text = "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning.";
        found.push(text.to_owned());
    }
    for (i, term) in list(volume, &["spec", "nodeAffinity", "required", "nodeSelectorTerms"]).iter().enumerate() {
        of_node_term(&format!("spec.nodeAffinity.required.nodeSelectorTerms[{i}]"), term, &mut found);
    }
    of_volume_source("spec", &volume["spec"], &mut found);
    found
}
