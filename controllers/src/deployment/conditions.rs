//! Conditions of a deployment (`deployment/util`).

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentCondition, DeploymentStatus};

use crate::kube::time;
use crate::workload::availability;

pub(super) const PROGRESSING: &str = "Progressing";
pub(super) const AVAILABLE: &str = "Available";
pub(super) const REPLICA_FAILURE: &str = "ReplicaFailure";

pub(super) const UPDATED: &str = "ReplicaSetUpdated";
pub(super) const NEW_CREATED: &str = "NewReplicaSetCreated";
pub(super) const NEW_FOUND: &str = "FoundNewReplicaSet";
pub(super) const NEW_AVAILABLE: &str = "NewReplicaSetAvailable";
pub(super) const CREATE_ERROR: &str = "ReplicaSetCreateError";
pub(super) const TIMED_OUT: &str = "ProgressDeadlineExceeded";
pub(super) const PAUSED: &str = "DeploymentPaused";
pub(super) const RESUMED: &str = "DeploymentResumed";

/// Creates a condition (`NewDeploymentCondition`).
pub(super) fn condition(
    type_: &str,
    status: &str,
    reason: &str,
    message: impl Into<String>,
    now: Timestamp,
) -> DeploymentCondition {
    DeploymentCondition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.into()),
        last_update_time: Some(time(now)),
        last_transition_time: Some(time(now)),
    }
}

/// Returns a condition of a status.
pub(super) fn get<'a>(status: &'a DeploymentStatus, type_: &str) -> Option<&'a DeploymentCondition> {
    status.conditions.iter().flatten().find(|condition| condition.type_ == type_)
}

/// Returns the reason of a condition; empty if there is none.
pub(super) fn reason<'a>(status: &'a DeploymentStatus, type_: &str) -> &'a str {
    get(status, type_).and_then(|condition| condition.reason.as_deref()).unwrap_or_default()
}

/// Sets a condition; keeps one with the same status and reason (`SetDeploymentCondition`).
pub(super) fn set(status: &mut DeploymentStatus, mut condition: DeploymentCondition) {
    if let Some(present) = get(status, &condition.type_)
        && present.status == condition.status
    {
        if present.reason == condition.reason {
            return;
        }
        condition.last_transition_time.clone_from(&present.last_transition_time);
    }
    remove(status, &condition.type_);
    status.conditions.get_or_insert_default().push(condition);
}

/// Removes a condition.
pub(super) fn remove(status: &mut DeploymentStatus, type_: &str) {
    if let Some(all) = &mut status.conditions {
        all.retain(|condition| condition.type_ != type_);
        if all.is_empty() {
            status.conditions = None;
        }
    }
}

/// Returns the deadline for progress; none if the deployment has none (`HasProgressDeadline`).
pub(super) fn deadline(deployment: &Deployment) -> Option<Duration> {
    let seconds = deployment.spec.as_ref()?.progress_deadline_seconds.filter(|seconds| *seconds != i32::MAX)?;
    Some(availability::seconds(seconds))
}

/// Returns the time that is left until the deadline; zero or negative nanoseconds if it has passed.
pub(super) fn left(deployment: &Deployment, status: &DeploymentStatus, now: Timestamp) -> Option<i128> {
    let deadline = i128::try_from(deadline(deployment)?.as_nanos()).unwrap_or(i128::MAX);
    let updated = get(status, PROGRESSING)?.last_update_time.as_ref()?.0;
    Some(updated.as_nanosecond() + deadline - now.as_nanosecond())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_changes_with_its_status_or_reason() {
        let (first, later) = (Timestamp::UNIX_EPOCH, Timestamp::from_second(9).unwrap());
        let mut status = DeploymentStatus::default();
        set(&mut status, condition(PROGRESSING, "True", NEW_CREATED, "a", first));
        set(&mut status, condition(PROGRESSING, "True", NEW_CREATED, "b", later));
        assert_eq!(get(&status, PROGRESSING).unwrap().message.as_deref(), Some("a"));
        set(&mut status, condition(PROGRESSING, "True", UPDATED, "c", later));
        let present = get(&status, PROGRESSING).unwrap();
        assert_eq!(present.last_transition_time, Some(time(first)));
        assert_eq!(present.last_update_time, Some(time(later)));
        remove(&mut status, PROGRESSING);
        assert_eq!(status.conditions, None);
    }
}
