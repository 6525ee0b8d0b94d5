//! Kubernetes objects: imported kinds and fields.

use std::collections::BTreeMap;

use fake_apiserver::state::manifest;
use serde_json::{Map, Value};

use super::input::{Document, ImportError};
use super::note::Note;
use crate::spec::object::Kind;

/// Imported kinds, in the order in which they are written.
const TAKEN: [&str; 12] = [
    "Namespace",
    "Node",
    "CSINode",
    "CSIDriver",
    "StorageClass",
    "VolumeAttributesClass",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "VolumeAttachment",
    "Pod",
    "ResourceQuota",
    "PriorityClass",
];
/// Fields of a container that a run needs. All others are left out: commands and variables can hold secrets.
const OF_CONTAINER: [&str; 7] =
    ["name", "image", "volumeMounts", "volumeDevices", "resources", "restartPolicy", "imagePullPolicy"];
/// Annotation that repeats a whole manifest.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Imported objects, by kind, namespace and name.
#[derive(Debug, Default)]
pub(super) struct Objects(pub BTreeMap<(usize, String, String), Value>);

impl Objects {
    /// Imports an object, or adds a note with the reason why it is left out.
    pub fn take(&mut self, document: Document, notes: &mut Vec<Note>) -> Result<(), ImportError> {
        let Document { file, mut value } = document;
        let kind = value["kind"].as_str().unwrap_or_default().to_owned();
        let version = value["apiVersion"].as_str().unwrap_or_default().to_owned();
        if kind.is_empty() || version.is_empty() {
            let why = "it is neither a Kubernetes object, with apiVersion and kind, nor an answer of \
                       `aws ec2 describe-volumes` or `describe-instances`";
            return Err(ImportError::of_file(&file, why));
        }
        let name = value["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        if name.is_empty() {
            return Err(ImportError::of(&file, &kind, "metadata.name is missing"));
        }
        let namespace = value["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
        let called = if namespace.is_empty() { format!("{kind} {name}") } else { format!("{kind} {namespace}/{name}") };
        let mut note = |message: &str| notes.push(Note { object: called.clone(), message: message.to_owned() });
        if kind == "Secret" {
            note("left out: secrets are never imported");
            return Ok(());
        }
        let table = Kind::of_manifest(&version, &kind).filter(|_| TAKEN.contains(&kind.as_str()));
        let (Some(table), Some(order)) = (table, TAKEN.iter().position(|taken| *taken == kind)) else {
            note(&format!("left out: {version} {kind} is not imported; imported kinds are {}", TAKEN.join(", ")));
            return Ok(());
        };
        clean(&kind, &mut value);
        if kind == "Pod" && clean_pod(&mut value) {
            note("imported without commands, arguments, variables and probes of its containers");
        }
        let table = table.table();
        let namespace = match table.namespaced {
            true if namespace.is_empty() => "default".to_owned(),
            true => namespace,
            false => String::new(),
        };
        if table.namespaced {
            value["metadata"]["namespace"] = namespace.as_str().into();
        }
        check(&file, &called, table, &namespace, &mut value, notes)?;
        if self.0.insert((order, namespace, name), value).is_some() {
            notes.push(Note { object: called, message: "it is there several times; the last one is taken".to_owned() });
        }
        Ok(())
    }

    /// Returns the objects of a kind.
    pub fn of<'a>(&'a self, kind: &str) -> impl Iterator<Item = &'a Value> + 'a {
        let order = TAKEN.iter().position(|taken| *taken == kind);
        self.0.iter().filter(move |((of, ..), _)| Some(*of) == order).map(|(_, value)| value)
    }
}

/// Removes fields that the server sets again, and fields that repeat the object.
fn clean(kind: &str, value: &mut Value) {
    let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    for field in ["managedFields", "resourceVersion", "selfLink"] {
        metadata.remove(field);
    }
    if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
        annotations.remove(LAST_APPLIED);
        if annotations.is_empty() {
            metadata.remove("annotations");
        }
    }
    if kind == "Node"
        && let Some(status) = value.get_mut("status").and_then(Value::as_object_mut)
    {
        // A node can have hundreds of images.
        status.remove("images");
    }
    prune(value);
}

/// Removes fields without a value.
fn prune(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, value| !value.is_null());
            map.values_mut().for_each(prune);
        }
        Value::Array(list) => list.iter_mut().for_each(prune),
        _ => {}
    }
}

/// Keeps the fields of containers that a run needs; returns true if something was removed.
fn clean_pod(pod: &mut Value) -> bool {
    let mut changed = false;
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        let list = pod.get_mut("spec").and_then(|spec| spec.get_mut(list)).and_then(Value::as_array_mut);
        for container in list.into_iter().flatten().filter_map(Value::as_object_mut) {
            let before = container.len();
            container.retain(|field, _| OF_CONTAINER.contains(&field.as_str()));
            changed |= container.len() != before;
        }
    }
    if let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) {
        // Names of other objects, which are not imported.
        for field in ["imagePullSecrets", "ephemeralContainers"] {
            changed |= spec.remove(field).is_some();
        }
        let volumes = spec.get_mut("volumes").and_then(Value::as_array_mut);
        volumes.into_iter().flatten().for_each(make_optional);
    }
    changed
}

/// Marks the ConfigMaps and Secrets of a volume as optional: they are not imported, and the pod must not wait for them.
fn make_optional(volume: &mut Value) {
    for (kind, source) in volume.as_object_mut().into_iter().flatten() {
        match (kind.as_str(), source) {
            ("configMap" | "secret", Value::Object(source)) => {
                source.insert("optional".to_owned(), true.into());
            }
            ("projected", source) => {
                let sources = source.get_mut("sources").and_then(Value::as_array_mut);
                sources.into_iter().flatten().for_each(make_optional);
            }
            _ => {}
        }
    }
}

/// Checks an object by the server's own schemas. A field that the server does not know is left out and noted. An
/// unreadable value is an error.
fn check(
    file: &str,
    called: &str,
    table: &fake_apiserver::kinds::Kind,
    namespace: &str,
    value: &mut Value,
    notes: &mut Vec<Note>,
) -> Result<(), ImportError> {
    let namespace = Some(namespace).filter(|namespace| !namespace.is_empty());
    // A field may hide another field below it.
    for _ in 0..100 {
        // A node exists before its kubelet has reported all of its fields.
        let wrong = manifest::check(table, namespace, value.clone().into(), table.kind != "Node");
        let Some(first) = wrong.first() else { return Ok(()) };
        if first.message.contains("has no field") && remove(value, &first.field) {
            let message = format!("taken without {}, which this server does not know", first.field);
            notes.push(Note { object: called.to_owned(), message });
            continue;
        }
        let why = if first.message.contains(&first.field) {
            first.message.clone()
        } else {
            format!("{}: {}", first.field, first.message)
        };
        return Err(ImportError::of(file, called, why));
    }
    Err(ImportError::of(file, called, "it has more than 100 fields that this server does not know"))
}

/// Removes the field at `path`, for example `spec.containers[0].image`.
fn remove(value: &mut Value, path: &str) -> bool {
    let pointer = path.replace('[', ".").replace(']', "");
    let mut parts: Vec<&str> = pointer.split('.').filter(|part| !part.is_empty()).collect();
    let Some(last) = parts.pop() else { return false };
    let mut at = value;
    for part in parts {
        let next = match at {
            Value::Object(map) => map.get_mut(part),
            Value::Array(list) => part.parse::<usize>().ok().and_then(|index| list.get_mut(index)),
            _ => None,
        };
        let Some(next) = next else { return false };
        at = next;
    }
    at.as_object_mut().and_then(|map: &mut Map<String, Value>| map.remove(last)).is_some()
}
