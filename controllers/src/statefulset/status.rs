//! Status of a set (`computeReplicaStatus`, `completeRollingUpdate`, `inconsistentStatus`).

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet, StatefulSetSpec, StatefulSetStatus};
use k8s_openapi::api::core::v1::Pod;

use super::identity::{is_created, is_running_and_ready, pod_revision};
use crate::kube::Kind;
use crate::workload::availability::is_available;
use crate::workload::counter;

/// Counts of a set's pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) replicas: i32,
    pub(super) ready: i32,
    pub(super) available: i32,
    pub(super) current: i32,
    pub(super) updated: i32,
}

/// Names of the two revisions of a set.
#[derive(Clone, Copy, Debug)]
pub(super) struct Revisions<'a> {
    pub(super) current: &'a ControllerRevision,
    pub(super) update: &'a ControllerRevision,
}

/// Counts pods (`computeReplicaStatus`).
pub(super) fn count<'a>(
    pods: impl IntoIterator<Item = &'a Pod>,
    min_ready_seconds: i32,
    revisions: Revisions<'_>,
    now: Timestamp,
) -> Counts {
    let mut counts = Counts::default();
    for pod in pods {
        if is_created(pod) {
            counts.replicas += 1;
        }
        if is_running_and_ready(pod) {
            counts.ready += 1;
            counts.available += i32::from(is_available(pod, min_ready_seconds, now));
        }
        if is_created(pod) && !pod.is_deleting() {
            counts.current += i32::from(pod_revision(pod) == revisions.current.name());
            counts.updated += i32::from(pod_revision(pod) == revisions.update.name());
        }
    }
    counts
}

/// Builds the status; a complete rolling update makes the new revision the current one (`completeRollingUpdate`).
pub(super) fn status(
    set: &StatefulSet,
    spec: &StatefulSetSpec,
    mut counts: Counts,
    revisions: Revisions<'_>,
    collision_count: i32,
) -> StatefulSetStatus {
    let replicas = spec.replicas.unwrap_or(1);
    let is_rolling = strategy(spec) == "RollingUpdate";
    let mut current_revision = revisions.current.name();
    if is_rolling && counts.updated == replicas && counts.ready == replicas && counts.replicas == replicas {
        counts.current = counts.updated;
        current_revision = revisions.update.name();
    }
    StatefulSetStatus {
        available_replicas: Some(counts.available),
        collision_count: Some(collision_count),
        conditions: None,
        current_replicas: counter(counts.current),
        current_revision: Some(current_revision.to_owned()),
        observed_generation: set.metadata.generation.filter(|generation| *generation != 0),
        ready_replicas: counter(counts.ready),
        replicas: counts.replicas,
        update_revision: Some(revisions.update.name().to_owned()),
        updated_replicas: counter(counts.updated),
    }
}

/// Returns true if the status must be written (`inconsistentStatus`).
pub(super) fn is_inconsistent(set: &StatefulSet, next: &StatefulSetStatus) -> bool {
    let none = StatefulSetStatus::default();
    let present = set.status.as_ref().unwrap_or(&none);
    let number = |count: Option<i32>| count.unwrap_or(0);
    let text = |name: &Option<String>| name.clone().unwrap_or_default();
    next.observed_generation.unwrap_or(0) > present.observed_generation.unwrap_or(0)
        || next.replicas != present.replicas
        || number(next.current_replicas) != number(present.current_replicas)
        || number(next.ready_replicas) != number(present.ready_replicas)
        || number(next.updated_replicas) != number(present.updated_replicas)
        || number(next.available_replicas) != number(present.available_replicas)
        || text(&next.current_revision) != text(&present.current_revision)
        || text(&next.update_revision) != text(&present.update_revision)
}

/// Returns the update strategy; the API server sets it.
pub(super) fn strategy(spec: &StatefulSetSpec) -> &str {
    spec.update_strategy.as_ref().and_then(|strategy| strategy.type_.as_deref()).unwrap_or("RollingUpdate")
}
