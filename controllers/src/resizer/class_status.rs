//! The resizer's writes to a claim about its VolumeAttributesClass (upstream `modify_status.go`).

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, PersistentVolumeClaimCondition};

use super::class::wanted;
use crate::csi::RpcError;
use crate::kube::time;

/// Returns the claim with a pending modification: the class that it names does not exist.
pub fn pending(claim: &PersistentVolumeClaim) -> PersistentVolumeClaim {
    let mut claim = claim.clone();
    let status = claim.status.get_or_insert_default();
    status.modify_volume_status.get_or_insert_default().status = "Pending".to_owned();
    claim
}

/// Returns the claim before the call to the driver for the class that it names.
pub fn in_progress(claim: &PersistentVolumeClaim, now: Timestamp) -> PersistentVolumeClaim {
    let class = wanted(claim).to_owned();
    let mut claim = claim.clone();
    let status = claim.status.get_or_insert_default();
    let modifying = condition("ModifyingVolume", "", format!("Modifying volume to {class:?} is in progress."), now);
    let recorded = status.modify_volume_status.get_or_insert_default();
    recorded.status = "InProgress".to_owned();
    recorded.target_volume_attributes_class_name = Some(class);
    merge(&mut claim, [modifying]);
    claim
}

/// Returns the claim after a refusal of the driver; `infeasible` if a retry cannot help.
pub fn failed(
    claim: &PersistentVolumeClaim,
    error: &RpcError,
    infeasible: bool,
    now: Timestamp,
) -> PersistentVolumeClaim {
    let mut claim = claim.clone();
    let recorded = claim.status.get_or_insert_default().modify_volume_status.get_or_insert_default();
    recorded.status = if infeasible { "Infeasible" } else { "InProgress" }.to_owned();
    let class = recorded.target_volume_attributes_class_name.clone().unwrap_or_default();
    let state = if error.is_final() { "failed. Waiting for retry." } else { "is still in progress." };
    let modifying = condition("ModifyingVolume", "", format!("Modifying volume to {class:?} {state}"), now);
    let why = condition("ModifyVolumeError", error.code_name(), error.message().to_owned(), now);
    merge(&mut claim, [modifying, why]);
    claim
}

/// Returns the claim after a completed modification.
pub fn completed(claim: &PersistentVolumeClaim) -> PersistentVolumeClaim {
    let mut claim = without(claim, &["ModifyVolumeError", "ModifyingVolume"]);
    let status = claim.status.get_or_insert_default();
    let class = status.modify_volume_status.take().and_then(|s| s.target_volume_attributes_class_name);
    status.current_volume_attributes_class_name = Some(class.unwrap_or_default());
    claim
}

/// Returns the claim without a modification under way; the result of the last one stays.
pub fn rolled_back(claim: &PersistentVolumeClaim) -> PersistentVolumeClaim {
    without(claim, &["ModifyingVolume"])
}

/// Returns true if the claim has the condition of a modification.
pub fn is_modifying(claim: &PersistentVolumeClaim) -> bool {
    let conditions = claim.status.as_ref().and_then(|s| s.conditions.as_deref()).unwrap_or_default();
    conditions.iter().any(|c| c.type_ == "ModifyingVolume")
}

fn condition(kind: &str, reason: &str, message: String, now: Timestamp) -> PersistentVolumeClaimCondition {
    PersistentVolumeClaimCondition {
        type_: kind.to_owned(),
        status: "True".to_owned(),
        reason: (!reason.is_empty()).then(|| reason.to_owned()),
        message: (!message.is_empty()).then_some(message),
        last_probe_time: Some(time(now)),
        last_transition_time: Some(time(now)),
    }
}

/// Replaces each condition of the same type, or appends it; others stay (`MergePVCConditions`).
fn merge<const N: usize>(claim: &mut PersistentVolumeClaim, new: [PersistentVolumeClaimCondition; N]) {
    let conditions = claim.status.get_or_insert_default().conditions.get_or_insert_default();
    for mut condition in new {
        match conditions.iter_mut().find(|c| c.type_ == condition.type_) {
            Some(old) => {
                if old.reason == condition.reason && old.status == condition.status {
                    condition.last_transition_time.clone_from(&old.last_transition_time);
                }
                *old = condition;
            }
            None => conditions.push(condition),
        }
    }
}

fn without(claim: &PersistentVolumeClaim, kinds: &[&str]) -> PersistentVolumeClaim {
    let mut claim = claim.clone();
    if let Some(status) = &mut claim.status
        && let Some(conditions) = &mut status.conditions
    {
        conditions.retain(|c| !kinds.contains(&c.type_.as_str()));
        if conditions.is_empty() {
            status.conditions = None;
        }
    }
    claim
}

#[cfg(test)]
mod tests {
    use substrate::json::{Value, json, to_value};
    use tonic::Status;

    use super::*;

    fn claim(status: Value) -> PersistentVolumeClaim {
        let spec = json!({ "volumeAttributesClassName": "gold" });
        substrate::json::from_value(json!({ "metadata": { "name": "c" }, "spec": spec, "status": status })).unwrap()
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_class_that_is_missing_says_only_pending() {
        let new = pending(&claim(json!({ "phase": "Bound" })));
        let expected = json!({ "phase": "Bound", "modifyVolumeStatus": { "status": "Pending" } });
        assert_eq!(to_value(&new.status).unwrap(), expected);
    }

    #[test]
    fn a_failure_says_what_and_whether_the_driver_is_still_at_it() {
        let begun = in_progress(&claim(json!({ "phase": "Bound" })), at(0));
        let conditions = |claim: &PersistentVolumeClaim| to_value(&claim.status).unwrap()["conditions"].clone();
        assert_eq!(conditions(&begun)[0]["message"], "Modifying volume to \"gold\" is in progress.");
        let late = failed(&begun, &RpcError::deadline_exceeded(), false, at(9));
        assert_eq!(conditions(&late)[0]["message"], "Modifying volume to \"gold\" is still in progress.");
        assert_eq!(conditions(&late)[0]["lastTransitionTime"], "1970-01-01T00:00:00Z");
        assert_eq!(conditions(&late)[0]["lastProbeTime"], "1970-01-01T00:00:09Z");
        assert_eq!(conditions(&late)[1]["reason"], "DeadlineExceeded");
        let no = RpcError::from(Status::invalid_argument("no such type"));
        let refused = failed(&late, &no, true, at(10));
        assert_eq!(conditions(&refused)[0]["message"], "Modifying volume to \"gold\" failed. Waiting for retry.");
        assert_eq!(conditions(&refused)[1]["reason"], "InvalidArgument");
        assert_eq!(conditions(&refused)[1]["message"], "no such type");
        assert_eq!(conditions(&refused)[1]["lastTransitionTime"], "1970-01-01T00:00:10Z");
        let stage = refused.status.clone().unwrap().modify_volume_status.unwrap();
        assert_eq!(
            (stage.status.as_str(), stage.target_volume_attributes_class_name.as_deref()),
            ("Infeasible", Some("gold"))
        );
    }

    #[test]
    fn a_modification_that_is_done_leaves_only_its_class() {
        let done =
            completed(&failed(&in_progress(&claim(json!({})), at(0)), &RpcError::deadline_exceeded(), false, at(1)));
        assert_eq!(to_value(&done.status).unwrap(), json!({ "currentVolumeAttributesClassName": "gold" }));
    }

    #[test]
    fn a_modification_that_is_cancelled_leaves_how_it_ended() {
        let refused = RpcError::from(Status::invalid_argument("no"));
        let back = rolled_back(&failed(&in_progress(&claim(json!({})), at(0)), &refused, true, at(1)));
        let status = back.status.unwrap();
        assert_eq!(status.modify_volume_status.unwrap().status, "Infeasible");
        let kinds: Vec<_> = status.conditions.into_iter().flatten().map(|c| c.type_).collect();
        assert_eq!(kinds, ["ModifyVolumeError"]);
    }
}
