//! The scheduler's writes to a pod's status: the reason why it has no node, and its nominated node (`updatePod`,
//! `schedutil.PatchPodStatus`).

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodCondition, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::nominations::Nomination;
use crate::kube::{ApiError, Client, Guard, Kind};
use crate::pod_status::update_condition;

/// Returns the status of a pod without a node, with the condition of the reason and its nominated node.
pub fn unscheduled(pod: &Pod, reason: &str, message: &str, nomination: &Nomination, now: Timestamp) -> PodStatus {
    let mut status = pod.status.clone().unwrap_or_default();
    let condition = PodCondition {
        type_: "PodScheduled".to_owned(),
        status: "False".to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        observed_generation: pod.metadata.generation,
        ..PodCondition::default()
    };
    update_condition(&mut status, condition, now);
    match nomination {
        Nomination::Keep => {}
        Nomination::Clear => status.nominated_node_name = None,
        Nomination::Node(node) => status.nominated_node_name = Some(node.clone()),
    }
    status
}

/// Returns the status of a pod that waits for its volumes before it is bound to `node`
/// (`NominatedNodeNameForExpectation`): it informs autoscalers that this node is needed.
pub fn nominated(pod: &Pod, node: &str) -> PodStatus {
    PodStatus { nominated_node_name: Some(node.to_owned()), ..pod.status.clone().unwrap_or_default() }
}

/// Returns the status of a pod that waits for its node no more (`clearNominatedNodeName`).
pub fn without_node(pod: &Pod) -> PodStatus {
    PodStatus { nominated_node_name: None, ..pod.status.clone().unwrap_or_default() }
}

/// Patches the pod's status. The patch contains only the status, not even the uid. An empty patch is not sent.
///
/// # Errors
/// The API server's refusal, or no answer.
pub async fn patch(client: &Client, pod: &Pod, status: PodStatus) -> Result<(), ApiError> {
    let metadata = ObjectMeta {
        name: pod.metadata.name.clone(),
        namespace: pod.metadata.namespace.clone(),
        ..ObjectMeta::default()
    };
    let old = Pod { metadata: metadata.clone(), spec: None, status: Some(pod.status.clone().unwrap_or_default()) };
    let new = Pod { metadata, spec: None, status: Some(status) };
    client.namespaced::<Pod>(pod.namespace()).strategic_patch_status(&old, &new, Guard::None).await.map(drop)
}

#[cfg(test)]
mod tests {
    use substrate::json::{Value, json};

    use super::*;
    use crate::kube::Patch;

    fn pod(status: Value) -> Pod {
        substrate::json::from_value(json!({ "metadata": { "name": "p", "generation": 2 }, "status": status })).unwrap()
    }

    fn written(pod: &Pod, status: PodStatus) -> Value {
        Patch::strategic(pod, &Pod { status: Some(status), ..pod.clone() }).unwrap().value().clone()
    }

    #[test]
    fn the_condition_is_written_once_and_keeps_the_time_of_its_status() {
        let now = Timestamp::from_second(1_767_225_700).unwrap();
        let new = pod(json!({ "phase": "Pending" }));
        let why = unscheduled(&new, "Unschedulable", "why", &Nomination::Clear, now);
        assert_eq!(
            written(&new, why.clone()),
            json!({ "status": {
                "conditions": [{
                    "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "why",
                    "observedGeneration": 2, "lastProbeTime": null, "lastTransitionTime": "2026-01-01T00:01:40Z",
                }],
            } })
        );
        let has = Pod { status: Some(why), ..new };
        assert_eq!(written(&has, unscheduled(&has, "Unschedulable", "why", &Nomination::Clear, now)), json!({}));
        let later = Timestamp::from_second(1_767_229_300).unwrap();
        let patch = written(&has, unscheduled(&has, "Unschedulable", "another why", &Nomination::Clear, later));
        assert_eq!(patch["status"]["conditions"], json!([{ "type": "PodScheduled", "message": "another why" }]));
    }

    #[test]
    fn a_nominated_node_is_taken_back_with_the_next_failure() {
        let new = pod(json!({ "phase": "Pending" }));
        let status = nominated(&new, "node-a");
        assert_eq!(written(&new, status.clone()), json!({ "status": { "nominatedNodeName": "node-a" } }));
        let has = Pod { status: Some(status), ..new };
        let patch =
            written(&has, unscheduled(&has, "SchedulerError", "why", &Nomination::Clear, Timestamp::UNIX_EPOCH));
        assert_eq!(patch["status"]["nominatedNodeName"], Value::Null);
        assert!(patch["status"].get("nominatedNodeName").is_some(), "{patch}");
    }
}
