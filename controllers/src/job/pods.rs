//! Pods of a Job: finalizer, failure and time of their end.

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{Job, JobSpec};
use k8s_openapi::api::core::v1::Pod;

use crate::kube::Kind;
use crate::pod_status::{conditions, phase};

/// Finalizer of a pod that the status has not counted.
pub(super) const TRACKING: &str = "batch.kubernetes.io/job-tracking";

/// Returns true if the status has not counted the pod.
pub(super) fn is_tracked(pod: &Pod) -> bool {
    pod.has_finalizer(TRACKING)
}

/// Returns true if a pod is replaced only after it has failed, not when it is being deleted (`onlyReplaceFailedPods`).
pub(super) fn replaces_failed_only(spec: &JobSpec) -> bool {
    spec.pod_replacement_policy.as_deref() == Some("Failed")
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

/// Returns the time at which a pod ended (`getFinishedTime`).
pub(super) fn finished_at(pod: &Pod, now: Timestamp) -> Timestamp {
    let statuses = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
    let ends: Vec<Option<Timestamp>> =
        statuses.map(|status| Some(status.state.as_ref()?.terminated.as_ref()?.finished_at.as_ref()?.0)).collect();
    if !ends.is_empty()
        && let Some(ends) = ends.into_iter().collect::<Option<Vec<_>>>()
        && let Some(last) = ends.into_iter().max()
    {
        return last;
    }
    let ready = conditions(pod).iter().find(|condition| condition.type_ == "Ready" && condition.status == "False");
    if let Some(at) = ready.and_then(|condition| condition.last_transition_time.as_ref()) {
        return at.0;
    }
    pod.metadata.deletion_timestamp.as_ref().map_or(now, |at| at.0)
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
