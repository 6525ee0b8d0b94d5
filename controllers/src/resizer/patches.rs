//! The resizer's writes: strategic merge patches of a claim's status and of its volume.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use substrate::json::{Value, json};

use super::plan::PRE_RESIZE_CAPACITY;
use crate::kube::{Patch, time};

/// The conditions that are about a size.
const OF_SIZE: [&str; 4] = ["Resizing", "FileSystemResizePending", "ControllerResizeError", "NodeResizeError"];
/// The conditions that are about a class.
const OF_CLASS: [&str; 2] = ["ModifyingVolume", "ModifyVolumeError"];

fn gone(kinds: &[&str]) -> Vec<Value> {
    kinds.iter().map(|kind| json!({ "type": kind, "$patch": "delete" })).collect()
}

fn condition(kind: &str, reason: &str, message: &str, now: Timestamp) -> Value {
    let mut condition = json!({ "type": kind, "status": "True", "lastTransitionTime": time(now) });
    for (key, text) in [("reason", reason), ("message", message)] {
        if !text.is_empty() {
            condition[key] = text.into();
        }
    }
    condition
}

/// `gone` conditions and one new one.
fn conditions(all: &[&str], new: Value) -> Vec<Value> {
    let others: Vec<&str> = all.iter().copied().filter(|kind| new["type"] != *kind).collect();
    gone(&others).into_iter().chain([new]).collect()
}

/// The driver is going to be asked for `size`.
pub fn expanding(size: &Quantity, now: Timestamp) -> Patch {
    Patch::Strategic(json!({ "status": {
        "allocatedResources": { "storage": size },
        "allocatedResourceStatuses": { "storage": "ControllerResizeInProgress" },
        "conditions": conditions(&OF_SIZE, condition("Resizing", "", "", now)),
    } }))
}

/// The volume has `size`, and had `before`.
pub fn volume_size(size: &Quantity, before: Option<&Quantity>) -> Patch {
    Patch::Strategic(json!({
        "metadata": { "annotations": { PRE_RESIZE_CAPACITY: before } },
        "spec": { "capacity": { "storage": size } },
    }))
}

/// The claim has its size, so the volume's earlier one is of no interest.
pub fn forget_earlier_size() -> Patch {
    Patch::Strategic(json!({ "metadata": { "annotations": { PRE_RESIZE_CAPACITY: null } } }))
}

/// The rest is for a node to do.
pub fn node_pending(size: &Quantity, now: Timestamp) -> Patch {
    let message = "Waiting for user to (re-)start a pod to finish file system resize of volume on node.";
    Patch::Strategic(json!({ "status": {
        "allocatedResources": { "storage": size },
        "allocatedResourceStatuses": { "storage": "NodeResizePending" },
        // Resizing stays: it goes with the rest once the filesystem has grown.
        "conditions": [condition("FileSystemResizePending", "", message, now)],
    } }))
}

/// The volume has `size` and nothing is left to be done.
pub fn expanded(size: &Quantity) -> Patch {
    Patch::Strategic(json!({ "status": {
        "capacity": { "storage": size },
        "allocatedResources": { "storage": size },
        "allocatedResourceStatuses": null,
        "conditions": gone(&OF_SIZE),
    } }))
}

/// The driver refused; `infeasible` when no retry helps.
pub fn expansion_failed(message: &str, infeasible: bool, now: Timestamp) -> Patch {
    let error = condition("ControllerResizeError", "", message, now);
    let mut patch = json!({ "status": { "conditions": [error] } });
    if infeasible {
        patch["status"]["allocatedResourceStatuses"] = json!({ "storage": "ControllerResizeInfeasible" });
    }
    Patch::Strategic(patch)
}

/// The class `target` is `state`: Pending, InProgress or Infeasible.
pub fn modifying(target: &str, state: &str, error: Option<(&str, &str)>, now: Timestamp) -> Patch {
    let new = match error {
        Some((code, message)) => condition("ModifyVolumeError", code, message, now),
        None => condition("ModifyingVolume", "", "", now),
    };
    Patch::Strategic(json!({ "status": {
        "modifyVolumeStatus": { "targetVolumeAttributesClassName": target, "status": state },
        "conditions": conditions(&OF_CLASS, new),
    } }))
}

/// The volume is of this class.
pub fn volume_class(class: &str) -> Patch {
    Patch::Strategic(json!({ "spec": { "volumeAttributesClassName": class } }))
}

/// The claim has this class; without one, what was recorded of another goes.
pub fn modified(class: Option<&str>) -> Patch {
    let mut patch = json!({ "status": { "modifyVolumeStatus": null, "conditions": gone(&OF_CLASS) } });
    if let Some(class) = class {
        patch["status"]["currentVolumeAttributesClassName"] = class.into();
    }
    Patch::Strategic(patch)
}
