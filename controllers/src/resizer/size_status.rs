//! The resizer's writes to a claim about its size (upstream `resize_status.go`).

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, PersistentVolumeClaimCondition, PersistentVolumeClaimStatus};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::binder::object::{annotate, remove_annotation};
use crate::kube::time;

/// Annotation for kubelet: the node has no expansion to do.
const NODE_EXPANSION_NOT_REQUIRED: &str = "volume.kubernetes.io/node-expansion-not-required";
/// Conditions about a size.
const OF_SIZE: [&str; 4] = ["Resizing", "FileSystemResizePending", "ControllerResizeError", "NodeResizeError"];

/// Returns the claim before the call to the driver for `size`. `begins` if this is the first call for that size: the
/// status of an earlier size is removed.
pub fn in_progress(
    claim: &PersistentVolumeClaim,
    size: &Quantity,
    begins: bool,
    now: Timestamp,
) -> PersistentVolumeClaim {
    let mut claim = claim.clone();
    remove_annotation(&mut claim.metadata, NODE_EXPANSION_NOT_REQUIRED);
    let status = status(&mut claim);
    merge(status, Some(condition("Resizing", "", now)), !begins);
    if begins {
        set_stage(status, "ControllerResizeInProgress");
    }
    status.allocated_resources.get_or_insert_default().insert("storage".to_owned(), size.clone());
    claim
}

/// Returns the claim whose expansion a node has to finish.
pub fn node_pending(claim: &PersistentVolumeClaim, now: Timestamp) -> PersistentVolumeClaim {
    let mut claim = claim.clone();
    remove_annotation(&mut claim.metadata, NODE_EXPANSION_NOT_REQUIRED);
    let status = status(&mut claim);
    let message = "Waiting for user to (re-)start a pod to finish file system resize of volume on node.";
    merge(status, Some(condition("FileSystemResizePending", message, now)), true);
    set_stage(status, "NodeResizePending");
    claim
}

/// Returns the claim after the expansion to `size`.
pub fn finished(claim: &PersistentVolumeClaim, size: &Quantity) -> PersistentVolumeClaim {
    let mut claim = claim.clone();
    annotate(&mut claim.metadata, NODE_EXPANSION_NOT_REQUIRED, "true");
    let status = status(&mut claim);
    status.capacity.get_or_insert_default().insert("storage".to_owned(), size.clone());
    merge(status, None, false);
    if let Some(stages) = &mut status.allocated_resource_statuses {
        stages.remove("storage");
    }
    status.allocated_resource_statuses = status.allocated_resource_statuses.take().filter(|s| !s.is_empty());
    claim
}

/// Returns the claim after a refusal of the driver; `infeasible` if a retry cannot help.
pub fn failed(claim: &PersistentVolumeClaim, error: &str, infeasible: bool, now: Timestamp) -> PersistentVolumeClaim {
    let mut claim = claim.clone();
    let status = status(&mut claim);
    if infeasible {
        set_stage(status, "ControllerResizeInfeasible");
    }
    let message = format!("failed to expand pvc with {error}");
    merge(status, Some(condition("ControllerResizeError", &message, now)), true);
    claim
}

fn status(claim: &mut PersistentVolumeClaim) -> &mut PersistentVolumeClaimStatus {
    claim.status.get_or_insert_default()
}

fn set_stage(status: &mut PersistentVolumeClaimStatus, stage: &str) {
    status.allocated_resource_statuses.get_or_insert_default().insert("storage".to_owned(), stage.to_owned());
}

fn condition(kind: &str, message: &str, now: Timestamp) -> PersistentVolumeClaimCondition {
    PersistentVolumeClaimCondition {
        type_: kind.to_owned(),
        status: "True".to_owned(),
        last_transition_time: Some(time(now)),
        message: (!message.is_empty()).then(|| message.to_owned()),
        ..PersistentVolumeClaimCondition::default()
    }
}

/// Replaces the condition of the same type, or appends it. The other size conditions stay only if `keep`
/// (`MergeResizeConditionsOfPVC`).
fn merge(status: &mut PersistentVolumeClaimStatus, new: Option<PersistentVolumeClaimCondition>, keep: bool) {
    let mut conditions = status.conditions.take().unwrap_or_default();
    let kind = new.as_ref().map(|c| c.type_.clone());
    conditions.retain(|c| keep || !OF_SIZE.contains(&c.type_.as_str()) || Some(&c.type_) == kind.as_ref());
    if let Some(new) = new {
        match conditions.iter_mut().find(|c| c.type_ == new.type_) {
            Some(slot) => *slot = new,
            None => conditions.push(new),
        }
    }
    status.conditions = (!conditions.is_empty()).then_some(conditions);
}

#[cfg(test)]
mod tests {
    use substrate::json::{Value, json, to_value};

    use super::*;
    use crate::kube::{Guard, Patch};

    fn claim(status: Value) -> PersistentVolumeClaim {
        let metadata = json!({ "name": "data", "namespace": "shop", "resourceVersion": "7" });
        substrate::json::from_value(json!({ "metadata": metadata, "status": status })).expect("a claim")
    }

    fn patch(old: &PersistentVolumeClaim, new: &PersistentVolumeClaim) -> Value {
        Patch::strategic(old, new).expect("a patch").guarded(old, Guard::ResourceVersion).value().clone()
    }

    fn size(text: &str) -> Quantity {
        Quantity(text.to_owned())
    }

    #[test]
    fn a_size_that_begins_takes_earlier_conditions_about_sizes_away_and_no_others() {
        let error = json!({ "type": "NodeResizeError", "status": "True" });
        let other = json!({ "type": "ModifyingVolume", "status": "True" });
        let old = claim(json!({ "phase": "Bound", "conditions": [other, error] }));
        let new = in_progress(&old, &size("2Gi"), true, Timestamp::UNIX_EPOCH);
        let kinds: Vec<_> = new.status.iter().flat_map(|s| s.conditions.iter().flatten()).map(|c| &c.type_).collect();
        assert_eq!(kinds, ["ModifyingVolume", "Resizing"]);
        let patch = patch(&old, &new);
        assert_eq!(patch["metadata"]["resourceVersion"], "7");
        assert_eq!(patch["status"]["allocatedResources"], json!({ "storage": "2Gi" }));
        assert_eq!(patch["status"]["allocatedResourceStatuses"], json!({ "storage": "ControllerResizeInProgress" }));
        let again = in_progress(&new, &size("2Gi"), false, Timestamp::UNIX_EPOCH);
        assert_eq!(again, new, "the same size again changes nothing within a second");
    }

    #[test]
    fn a_pending_node_resize_is_added_to_the_status() {
        let old = in_progress(&claim(json!({ "phase": "Bound" })), &size("2Gi"), true, Timestamp::UNIX_EPOCH);
        let new = node_pending(&old, Timestamp::UNIX_EPOCH);
        let status = to_value(&new.status).unwrap();
        assert_eq!(status["allocatedResourceStatuses"], json!({ "storage": "NodeResizePending" }));
        assert_eq!(status["conditions"][0]["type"], "Resizing");
        assert_eq!(status["conditions"][1]["type"], "FileSystemResizePending");
    }

    #[test]
    fn a_finished_resize_leaves_the_size_and_tells_kubelet_to_do_nothing() {
        let old = in_progress(&claim(json!({ "phase": "Bound" })), &size("2Gi"), true, Timestamp::UNIX_EPOCH);
        let new = finished(&old, &size("2Gi"));
        let expected = json!({
            "phase": "Bound",
            "capacity": { "storage": "2Gi" },
            "allocatedResources": { "storage": "2Gi" },
        });
        assert_eq!(to_value(&new.status).unwrap(), expected);
        assert_eq!(patch(&old, &new)["metadata"]["annotations"], json!({ NODE_EXPANSION_NOT_REQUIRED: "true" }));
        let next = in_progress(&new, &size("3Gi"), true, Timestamp::UNIX_EPOCH);
        assert_eq!(patch(&new, &next)["metadata"]["annotations"], Value::Null);
    }

    #[test]
    fn a_failure_is_recorded_beside_the_rest_and_only_an_infeasible_one_changes_the_stage() {
        let old = in_progress(&claim(json!({ "phase": "Bound" })), &size("2Gi"), true, Timestamp::UNIX_EPOCH);
        let failed_once = failed(&old, "rpc error: code = Internal desc = no", false, Timestamp::UNIX_EPOCH);
        let status = to_value(&failed_once.status).unwrap();
        assert_eq!(status["allocatedResourceStatuses"]["storage"], "ControllerResizeInProgress");
        assert_eq!(
            status["conditions"][1]["message"],
            "failed to expand pvc with rpc error: code = Internal desc = no"
        );
        let never = failed(&old, "no", true, Timestamp::UNIX_EPOCH);
        let stages = never.status.unwrap().allocated_resource_statuses.unwrap();
        assert_eq!(stages["storage"], "ControllerResizeInfeasible");
    }
}
