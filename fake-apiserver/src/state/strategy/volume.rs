//! PersistentVolumes (`pkg/registry/core/persistentvolume/strategy.go`).

use substrate::Now;
use substrate::json::{Map, Value, json};

use super::storage::{access_modes, driver_name, positive, volume_mode};
use super::{PLAIN, Strategy, keep_the_rest};
use crate::state::command::Part;
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

/// Sources that upstream validates after all others.
const LATE_SOURCES: &[&str] = &["scaleIO", "local", "storageos", "csi", "flexVolume"];

/// Fields of a volume's spec that are not its source.
const NOT_SOURCES: &[&str] = &[
    "accessModes",
    "capacity",
    "claimRef",
    "mountOptions",
    "nodeAffinity",
    "persistentVolumeReclaimPolicy",
    "storageClassName",
    "volumeAttributesClassName",
    "volumeMode",
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
    access_modes(volume, "", errors);
    volume_mode(volume, errors);
    capacity(volume, errors);
    let sources = sources(volume);
    match sources.as_slice() {
        [] => errors.push(FieldError::required("spec", "must specify a volume type")),
        [_] => {}
        [_, more @ ..] => {
            for source in more {
                let why = "may not specify more than 1 volume type";
                errors.push(FieldError::forbidden(format!("spec.{source}"), why));
            }
        }
    }
    if sources.contains(&"csi") {
        driver_name(text(volume, &["spec", "csi", "driver"]), "spec.csi.driver", errors);
        if text(volume, &["spec", "csi", "volumeHandle"]).is_empty() {
            errors.push(FieldError::required("spec.csi.volumeHandle", ""));
        }
    }
    if has(volume, &["spec", "nodeAffinity"]) && !has(volume, &["spec", "nodeAffinity", "required"]) {
        let why = "must specify required node constraints";
        errors.push(FieldError::required("spec.nodeAffinity.required", why));
    }
    let policy = text(volume, &["spec", "persistentVolumeReclaimPolicy"]);
    if !matches!(policy, "Delete" | "Retain" | "Recycle") {
        let field = "spec.persistentVolumeReclaimPolicy";
        errors.push(FieldError::not_supported(field, &policy.into(), &["Delete", "Recycle", "Retain"]));
    }
}

/// Validates the capacity: it has storage, more than zero, and no other resource.
fn capacity(volume: &Value, errors: &mut Vec<FieldError>) {
    let field = "spec.capacity";
    let empty = substrate::json::json!({});
    let capacity = at(volume, &["spec", "capacity"]).filter(|c| !c.is_null()).unwrap_or(&empty);
    let resources = capacity.as_object().map_or(0, substrate::json::Map::len);
    if resources == 0 {
        errors.push(FieldError::required(field, ""));
    }
    if capacity.get("storage").is_none() || resources > 1 {
        errors.push(FieldError::not_supported(field, capacity, &["storage"]));
    }
    if capacity.get("storage").is_some() {
        positive(volume, &["spec", "capacity", "storage"], "spec.capacity[storage]", errors);
    }
}

/// Returns the sources in upstream's order. If there are several, the first one is the valid one.
fn sources(volume: &Value) -> Vec<&str> {
    let fields = volume["spec"].as_object().into_iter().flatten();
    let mut found: Vec<&str> = fields.map(|(key, _)| key.as_str()).filter(|key| !NOT_SOURCES.contains(key)).collect();
    found.sort_by_key(|source| LATE_SOURCES.iter().position(|late| late == source).map_or(0, |at| at + 1));
    found
}

fn validate_update(volume: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    validate(volume, errors);
    let source = |of: &Value| -> Value {
        let mut fields = Map::new();
        for source in sources(of) {
            fields.insert(source, of["spec"][source].clone());
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
    if has(old, &["spec", "nodeAffinity"]) && new["nodeAffinity"] != was["nodeAffinity"] {
        let shown = internal::shown(&new["nodeAffinity"], internal::NODE_AFFINITY);
        errors.push(FieldError::invalid_text("nodeAffinity", shown, "field is immutable"));
    }
    if has(old, &["spec", "volumeAttributesClassName"]) && !has(volume, &["spec", "volumeAttributesClassName"]) {
        let why = "update from non-nil value to nil is forbidden";
        errors.push(FieldError::forbidden("spec.volumeAttributesClassName", why));
    }
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
