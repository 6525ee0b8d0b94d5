//! Pods of a Job: finalizer, failure and time of their end.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::{Job, JobSpec};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};

use crate::kube::Kind;
use crate::pod_status::{conditions, phase};

/// Finalizer of a pod that the status has not counted.
pub(super) const TRACKING: &str = "batch.kubernetes.io/job-tracking";

/// Returns true if the status has not counted the pod.
pub(super) fn is_tracked(pod: &Pod) -> bool {
    pod.has_finalizer(TRACKING)
}

/// Returns true if a pod is replaced only after it has failed, not when it is being deleted (`onlyReplaceFailedPods`): a
/// failure policy needs the final status of the pod.
pub(super) fn replaces_failed_only(spec: &JobSpec) -> bool {
    spec.pod_replacement_policy.as_deref() == Some("Failed") || spec.pod_failure_policy.is_some()
}

/// Returns true if the pod counts as failed (`isPodFailed`): also one that is deleted before it ends.
pub(super) fn is_failed(pod: &Pod, spec: &JobSpec) -> bool {
    match phase(pod) {
        "Failed" => true,
        "Succeeded" => false,
        _ => !replaces_failed_only(spec) && pod.is_deleting(),
    }
}

/// Returns true if the Job is suspended.
pub(super) fn is_suspended(job: &Job) -> bool {
    job.spec.as_ref().and_then(|spec| spec.suspend) == Some(true)
}

/// Returns the later of `first` and the ends of containers; none if one of them has not ended (`latestFinishTime`).
fn latest<'a>(first: Option<Timestamp>, statuses: impl IntoIterator<Item = &'a ContainerStatus>) -> Option<Timestamp> {
    let mut latest = first;
    for status in statuses {
        let end = status.state.as_ref()?.terminated.as_ref()?.finished_at.as_ref()?.0;
        latest = Some(latest.map_or(end, |latest| latest.max(end)));
    }
    latest
}

/// Returns the time at which a pod ended (`getFinishedTime`): that of its containers and sidecars, of its Ready
/// condition, of its deletion without the grace period, or of its creation.
pub(super) fn finished_at(pod: &Pod) -> Timestamp {
    let status = pod.status.as_ref();
    let of_containers = latest(None, status.iter().flat_map(|status| status.container_statuses.iter().flatten()));
    let is_sidecar = |status: &&ContainerStatus| {
        let mut all = pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
        all.any(|one| one.name == status.name && one.restart_policy.as_deref() == Some("Always"))
    };
    let sidecars = status.iter().flat_map(|status| status.init_container_statuses.iter().flatten()).filter(is_sidecar);
    if let Some(end) = latest(of_containers, sidecars) {
        return end;
    }
    let ready = conditions(pod).iter().find(|condition| condition.type_ == "Ready" && condition.status == "False");
    if let Some(at) = ready.and_then(|condition| condition.last_transition_time.as_ref()) {
        return at.0;
    }
    if let Some(at) = &pod.metadata.deletion_timestamp {
        let grace = pod.metadata.deletion_grace_period_seconds.unwrap_or(0);
        return at.0.saturating_sub(SignedDuration::from_secs(grace)).unwrap_or(at.0);
    }
    // The API server sets the time.
    pod.metadata.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |at| at.0)
}

/// Returns true if the restarts of running pods exceed the limit (`pastBackoffLimitOnFailure`).
pub(super) fn past_restart_limit<'a>(spec: &JobSpec, pods: impl IntoIterator<Item = &'a Pod>) -> bool {
    let policy = spec.template.spec.as_ref().and_then(|spec| spec.restart_policy.as_deref());
    if policy != Some("OnFailure") {
        return false;
    }
    let running = pods.into_iter().filter(|pod| matches!(phase(pod), "Running" | "Pending"));
    let restarts: i32 = running
        .filter_map(|pod| pod.status.as_ref())
        .flat_map(|status| {
            status.init_container_statuses.iter().flatten().chain(status.container_statuses.iter().flatten())
        })
        .map(|status| status.restart_count)
        .sum();
    match spec.backoff_limit.unwrap_or(6) {
        0 => restarts > 0,
        limit => restarts >= limit,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use substrate::json::{Value, from_value, json};

    use super::*;

    fn ended(name: &str, second: u8) -> Value {
        let terminated = json!({ "exitCode": 1, "finishedAt": format!("1970-01-01T00:00:{second}Z") });
        json!({ "name": name, "ready": false, "restartCount": 0, "image": "", "imageID": "", "state": { "terminated": terminated } })
    }

    #[rstest]
    #[case::containers(json!({ "containerStatuses": [ended("a", 20), ended("b", 30)] }), 30)]
    #[case::sidecars(json!({ "containerStatuses": [ended("a", 20)], "initContainerStatuses": [ended("side", 40), ended("init", 50)] }), 40)]
    #[case::condition(json!({ "conditions": [{ "type": "Ready", "status": "False", "lastTransitionTime": "1970-01-01T00:00:15Z" }] }), 15)]
    #[case::deletion(json!({}), 12)]
    fn the_end_of_a_pod_is_known_from_its_status(#[case] status: Value, #[case] expected: i64) {
        let sidecar = json!({ "name": "side", "restartPolicy": "Always" });
        let spec = json!({ "containers": [], "initContainers": [sidecar, { "name": "init" }] });
        // Deleted at 12 s with 30 s of grace.
        let metadata = json!({ "creationTimestamp": "1970-01-01T00:00:10Z", "deletionGracePeriodSeconds": 30,
            "deletionTimestamp": "1970-01-01T00:00:42Z" });
        let mut pod: Pod = from_value(json!({ "metadata": metadata, "spec": spec, "status": status })).unwrap();
        assert_eq!(finished_at(&pod).as_second(), expected);
        pod.metadata.deletion_timestamp = None;
        pod.status = None;
        assert_eq!(finished_at(&pod).as_second(), 10);
    }
}
