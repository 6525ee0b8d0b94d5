//! Writes of kube-controller-manager's loops to a pod's status (`pkg/util/pod`, `pkg/api/v1/pod`).

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodCondition, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::kube::{ApiError, Client, Guard, Kind, time};

/// Returns the pod's phase.
pub fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|s| s.phase.as_deref()).unwrap_or_default()
}

/// Returns the pod's conditions.
pub fn conditions(pod: &Pod) -> &[PodCondition] {
    pod.status.as_ref().and_then(|s| s.conditions.as_deref()).unwrap_or_default()
}

/// Returns the condition with the reason of a pod's disruption.
pub fn disruption_target(pod: &Pod, reason: &str, message: &str) -> PodCondition {
    PodCondition {
        type_: "DisruptionTarget".to_owned(),
        status: "True".to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        observed_generation: pod.metadata.generation,
        ..PodCondition::default()
    }
}

/// Sets a condition (`UpdatePodCondition`): a new status sets the transition time. Returns false if nothing changes.
pub fn update_condition(status: &mut PodStatus, mut condition: PodCondition, now: Timestamp) -> bool {
    let conditions = status.conditions.get_or_insert_default();
    condition.last_transition_time = Some(time(now));
    let Some(present) = conditions.iter_mut().find(|c| c.type_ == condition.type_) else {
        conditions.push(condition);
        return true;
    };
    if present.status == condition.status {
        condition.last_transition_time.clone_from(&present.last_transition_time);
    }
    let same = present.status == condition.status
        && present.reason.as_deref().unwrap_or_default() == condition.reason.as_deref().unwrap_or_default()
        && present.message.as_deref().unwrap_or_default() == condition.message.as_deref().unwrap_or_default()
        && present.last_probe_time == condition.last_probe_time
        && present.last_transition_time == condition.last_transition_time;
    *present = condition;
    !same
}

/// Patches the status of `pod` to `status` (`PatchPodStatus`). The patch holds only the status and the pod's uid, so it
/// cannot change another pod of the same name. An empty patch is not sent.
///
/// # Errors
/// The API server's refusal, or no answer.
pub async fn patch(client: &Client, pod: &Pod, status: PodStatus) -> Result<(), ApiError> {
    let metadata = ObjectMeta {
        name: pod.metadata.name.clone(),
        namespace: pod.metadata.namespace.clone(),
        uid: pod.metadata.uid.clone(),
        ..ObjectMeta::default()
    };
    let old = Pod { metadata: metadata.clone(), spec: None, status: pod.status.clone() };
    let new = Pod { metadata, spec: None, status: Some(status) };
    client.namespaced::<Pod>(pod.namespace()).strategic_patch_status(&old, &new, Guard::Uid).await.map(drop)
}

#[cfg(test)]
mod tests {
    use substrate::json::json;

    use super::*;

    #[test]
    fn a_condition_that_holds_is_not_written_again() {
        let metadata = json!({ "name": "p", "generation": 3 });
        let ready =
            json!({ "type": "Ready", "status": "True", "reason": "r", "lastTransitionTime": "2026-01-01T00:00:00Z" });
        let pod: Pod =
            substrate::json::from_value(json!({ "metadata": metadata, "status": { "conditions": [ready] } }))
                .expect("a pod");
        let mut status = pod.status.clone().expect("a status");
        let mut ready = conditions(&pod)[0].clone();
        assert!(!update_condition(&mut status, ready.clone(), Timestamp::UNIX_EPOCH));
        assert_eq!(Some(&status), pod.status.as_ref());

        ready.status = "False".to_owned();
        assert!(update_condition(&mut status, ready, Timestamp::UNIX_EPOCH));
        let written = &status.conditions.as_ref().expect("conditions")[0];
        assert_eq!(written.last_transition_time, Some(time(Timestamp::UNIX_EPOCH)));
        assert_eq!(written.reason.as_deref(), Some("r"));

        let target = disruption_target(&pod, "DeletionByPodGC", "m");
        assert!(update_condition(&mut status, target.clone(), Timestamp::UNIX_EPOCH));
        assert!(!update_condition(&mut status, target, Timestamp::MAX));
        let written = &status.conditions.as_ref().expect("conditions")[1];
        assert_eq!((written.observed_generation, written.status.as_str()), (Some(3), "True"));
    }
}
