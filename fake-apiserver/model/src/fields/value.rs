//! Access to fields of objects that are kept as JSON values.

use jiff::Timestamp;
use substrate::json::{Map, Value};

/// Fields of the metadata that identify the object or that the server sets: they have no manager, and policies cannot
/// change them.
pub const SERVERS_OWN: &[&str] = &[
    "name",
    "generateName",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
    "managedFields",
];

/// Returns the value at `path`; `None` if it is missing or null.
pub fn at<'a>(value: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(value, |v, key| v.get(key)).filter(|v| !v.is_null())
}

/// Returns the string at `path`; empty if there is none.
pub fn text<'a>(value: &'a Value, path: &[&str]) -> &'a str {
    at(value, path).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the list at `path`; empty if there is none.
pub fn list<'a>(value: &'a Value, path: &[&str]) -> &'a [Value] {
    at(value, path).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Returns the integer at `path`.
pub fn int(value: &Value, path: &[&str]) -> Option<i64> {
    at(value, path).and_then(Value::as_i64)
}

/// Returns true if there is a value other than null at `path`.
pub fn has(value: &Value, path: &[&str]) -> bool {
    at(value, path).is_some_and(|v| !v.is_null())
}

/// Returns the map at `key`, and creates it if it is missing or null; `None` if there is another value.
pub fn map_mut<'a>(value: &'a mut Value, key: &str) -> Option<&'a mut Map> {
    let slot = value.as_object_mut()?.entry(key).or_insert_with(|| Value::Object(Map::new()));
    if slot.is_null() {
        *slot = Value::Object(Map::new());
    }
    slot.as_object_mut()
}

/// Returns the metadata of an object whose shape was checked before, and creates it if it is missing.
pub fn metadata(value: &mut Value) -> &mut Map {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(object) => {
            let slot = object.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
            if !slot.is_object() {
                *slot = Value::Object(Map::new());
            }
            match slot {
                Value::Object(metadata) => metadata,
                // The value was made an object above.
                _ => unreachable!("metadata was just made an object"),
            }
        }
        _ => unreachable!("the value was just made an object"),
    }
}

/// Copies `field` from `from` to `to`; removes it if `from` has none.
pub fn copy(from: &Value, to: &mut Value, field: &str) {
    if let Some(target) = to.as_object_mut() {
        put(target, field, from.get(field));
    }
}

/// Copies a field of the metadata.
pub fn copy_meta(from: &Value, to: &mut Value, field: &str) {
    put(metadata(to), field, from.get("metadata").and_then(|m| m.get(field)));
}

/// Sets or removes a field at the top of an object.
pub fn set(object: &mut Value, field: &str, value: Option<Value>) {
    let Some(map) = object.as_object_mut() else { return };
    match value {
        Some(value) => map.insert(field, value),
        None => map.remove(field),
    };
}

/// Sets or removes `field` of `target`. Most values are equal already, and comparing is cheaper than cloning.
pub fn put(target: &mut Map, field: &str, value: Option<&Value>) {
    match (value, target.get_mut(field)) {
        (Some(value), Some(slot)) => {
            if slot != value {
                slot.clone_from(value);
            }
        }
        (Some(value), None) => {
            target.insert(field, value.clone());
        }
        (None, Some(_)) => {
            target.remove(field);
        }
        (None, None) => {}
    }
}

/// Sets `key` to `default` if it is missing or null.
pub fn default(map: &mut Map, key: &str, default: impl Into<Value>) {
    if map.get(key).is_none_or(Value::is_null) {
        map.insert(key, default.into());
    }
}

/// Sets `key` to `default` if it is missing or Go's zero value. Not for pointers, whose zeros are values.
pub fn default_zero(map: &mut Map, key: &str, default: impl Into<Value>) {
    if map.get(key).is_none_or(|value| value.is_null() || *value == "" || *value == 0) {
        map.insert(key, default.into());
    }
}

/// Returns the path of the pod template of a kind; empty for pods, `None` for kinds without one.
pub fn template_of(group: &str, kind: &str) -> Option<&'static [&'static str]> {
    Some(match (group, kind) {
        ("", "Pod") => &[],
        ("", "PodTemplate") => &["template"],
        ("", "ReplicationController")
        | ("apps", "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet")
        | ("batch", "Job") => &["spec", "template"],
        ("batch", "CronJob") => &["spec", "jobTemplate", "spec", "template"],
        _ => return None,
    })
}

/// Returns `metadata.name`.
pub fn name(value: &Value) -> &str {
    text(value, &["metadata", "name"])
}

/// Returns `metadata.namespace`.
pub fn namespace(value: &Value) -> &str {
    text(value, &["metadata", "namespace"])
}

/// Returns `metadata.uid`.
pub fn uid(value: &Value) -> &str {
    text(value, &["metadata", "uid"])
}

/// Returns `metadata.resourceVersion`.
pub fn resource_version(value: &Value) -> &str {
    text(value, &["metadata", "resourceVersion"])
}

/// Returns `metadata.finalizers`.
pub fn finalizers(value: &Value) -> &[Value] {
    list(value, &["metadata", "finalizers"])
}

/// Returns true if `metadata.deletionTimestamp` is set.
pub fn is_terminating(value: &Value) -> bool {
    has(value, &["metadata", "deletionTimestamp"])
}

/// Formats a metav1.Time: RFC 3339 in whole seconds.
pub fn time(t: Timestamp) -> String {
    Timestamp::from_second(t.as_second()).unwrap_or(t).to_string()
}
