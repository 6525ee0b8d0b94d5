//! LimitRanges: what pods and claims of a namespace get when they ask for nothing, and the bounds of what they may ask
//! for (admission `LimitRanger`).

use serde_json::{Map, Value, json};

use super::list::{prefix, within};
use super::status::Status;
use super::value::{self, at, list, name, text};
use super::{KNOWN, Store, quantity};
use crate::kinds::Kind;

impl Store {
    /// Applies the limits of the object's namespace to a new pod or claim.
    pub(super) fn limit_ranges(&self, kind: &Kind, object: &mut Value) -> Result<(), Status> {
        let prefix = prefix(Some(value::namespace(object)));
        let mut errors = Vec::new();
        for (_, range) in within(self.shelf(KNOWN.limit_ranges).objects(), &prefix, &prefix) {
            for limit in list(&range.value, &["spec", "limits"]) {
                match (text(limit, &["type"]), kind.kind) {
                    ("Container", "Pod") => {
                        for field in ["containers", "initContainers"] {
                            let containers = object["spec"].get_mut(field).and_then(Value::as_array_mut);
                            for container in containers.into_iter().flatten() {
                                fill(container, limit);
                                check("Container", &container["resources"], limit, &mut errors);
                            }
                        }
                    }
                    ("PersistentVolumeClaim", "PersistentVolumeClaim") => {
                        check("PersistentVolumeClaim", &object["spec"]["resources"], limit, &mut errors);
                    }
                    _ => {}
                }
            }
        }
        match errors.as_slice() {
            [] => Ok(()),
            [one] => Err(Status::forbidden(kind, name(object), one)),
            many => Err(Status::forbidden(kind, name(object), &format!("[{}]", many.join(", ")))),
        }
    }
}

/// Limits and requests that a container does not name.
fn fill(container: &mut Value, limit: &Value) {
    let Some(resources) = value::map_mut(container, "resources") else { return };
    for (to, from) in [("limits", "default"), ("requests", "defaultRequest")] {
        let Some(values) = limit[from].as_object() else { continue };
        let slot = resources.entry(to).or_insert_with(|| json!({}));
        if let Some(map) = slot.as_object_mut() {
            for (resource, amount) in values {
                value::default(map, resource, amount.clone());
            }
        }
    }
}

fn check(of: &str, resources: &Value, limit: &Value, errors: &mut Vec<String>) {
    let bound = |field: &str| limit[field].as_object().cloned().unwrap_or_default();
    let amount =
        |part: &str, resource: &str| at(resources, &[part, resource]).and_then(Value::as_str).unwrap_or_default();
    let over = |a: &str, b: &Value| matches!((quantity::nanos(a), quantity::nanos(b.as_str().unwrap_or_default())), (Some(a), Some(b)) if a > b);
    for (resource, most) in bound("max") {
        for part in ["limits", "requests"] {
            let asked = amount(part, &resource);
            if !asked.is_empty() && over(asked, &most) {
                let word = if part == "limits" { "limit" } else { "request" };
                let most = most.as_str().unwrap_or_default();
                errors.push(format!("maximum {resource} usage per {of} is {most}, but {word} is {asked}"));
            }
        }
    }
    let least: Map<String, Value> = bound("min");
    for (resource, least) in least {
        let asked = amount("requests", &resource);
        let least = least.as_str().unwrap_or_default();
        if asked.is_empty() {
            errors.push(format!("minimum {resource} usage per {of} is {least}.  No request is specified"));
        } else if over(least, &asked.into()) {
            errors.push(format!("minimum {resource} usage per {of} is {least}, but request is {asked}"));
        }
    }
}
