//! Status of a deployment (`calculateStatus`, `progress.go`).

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentStatus, ReplicaSet};

use super::conditions::{self, AVAILABLE, NEW_AVAILABLE, PROGRESSING, REPLICA_FAILURE, TIMED_OUT, UPDATED, condition};
use super::replica_sets::{Sets, actual, available, fenceposts, size, sum, wanted};
use crate::kube::Kind;
use crate::workload::counter;

/// Returns the status of a deployment.
pub(super) fn of(deployment: &Deployment) -> DeploymentStatus {
    deployment.status.clone().unwrap_or_default()
}

/// Computes the status from the sets (`calculateStatus`).
pub(super) fn calculate(deployment: &Deployment, sets: &Sets, now: Timestamp) -> DeploymentStatus {
    let present = of(deployment);
    let ready = |set: &ReplicaSet| set.status.as_ref().and_then(|status| status.ready_replicas).unwrap_or(0);
    let up = sum(sets.all(), available);
    let mut status = DeploymentStatus {
        available_replicas: counter(up),
        collision_count: present.collision_count,
        conditions: present.conditions,
        observed_generation: deployment.metadata.generation.filter(|generation| *generation != 0),
        ready_replicas: counter(sum(sets.all(), ready)),
        replicas: counter(sum(sets.all(), actual)),
        terminating_replicas: terminating(sets),
        unavailable_replicas: counter((sum(sets.all(), size) - up).max(0)),
        updated_replicas: counter(sum(&sets.new, actual)),
    };
    let has_enough = up >= wanted(deployment) - fenceposts(deployment).1;
    let available = if has_enough {
        condition(AVAILABLE, "True", "MinimumReplicasAvailable", "Deployment has minimum availability.", now)
    } else {
        let message = "Deployment does not have minimum availability.";
        condition(AVAILABLE, "False", "MinimumReplicasUnavailable", message, now)
    };
    conditions::set(&mut status, available);
    status
}

/// Adds up the pods that are being deleted (`GetTerminatingReplicaCountForReplicaSets`). A set without a status has none
/// yet; none if a set with a status does not report them.
fn terminating(sets: &Sets) -> Option<i32> {
    let of = |set: &Arc<ReplicaSet>| {
        let status = set.status.as_ref();
        let is_new = status.and_then(|status| status.observed_generation).unwrap_or(0) == 0;
        status.and_then(|status| status.terminating_replicas).or(is_new.then_some(0))
    };
    sets.all().map(of).sum()
}

fn numbers(status: &DeploymentStatus) -> [i32; 4] {
    [status.replicas, status.updated_replicas, status.ready_replicas, status.available_replicas].map(|n| n.unwrap_or(0))
}

/// Returns true if all pods are new and available, and no old pod is left (`DeploymentComplete`).
pub(super) fn is_complete(deployment: &Deployment, status: &DeploymentStatus) -> bool {
    let wanted = wanted(deployment);
    let [replicas, updated, _, available] = numbers(status);
    [replicas, updated, available] == [wanted; 3]
        && status.observed_generation.unwrap_or(0) >= deployment.metadata.generation.unwrap_or(0)
}

/// Returns true if the new status is closer to the end of the rollout (`DeploymentProgressing`).
fn is_progressing(before: &DeploymentStatus, after: &DeploymentStatus) -> bool {
    let ([r0, u0, ready0, a0], [r1, u1, ready1, a1]) = (numbers(before), numbers(after));
    u1 > u0 || r1 - u1 < r0 - u0 || ready1 > ready0 || a1 > a0
}

/// Returns true if the rollout made no progress until its deadline (`DeploymentTimedOut`).
fn is_timed_out(deployment: &Deployment, status: &DeploymentStatus, now: Timestamp) -> bool {
    match conditions::reason(status, PROGRESSING) {
        NEW_AVAILABLE => false,
        TIMED_OUT => true,
        _ => conditions::left(deployment, status, now).is_some_and(|left| left < 0),
    }
}

/// Computes the status of a rollout with its progress and failures (`syncRolloutStatus`).
pub(super) fn rollout(deployment: &Deployment, sets: &Sets, now: Timestamp) -> DeploymentStatus {
    let (before, mut next) = (of(deployment), calculate(deployment, sets, now));
    let subject = match &sets.new {
        Some(new) => format!("ReplicaSet \"{}\"", new.name()),
        None => format!("Deployment \"{}\"", deployment.name()),
    };
    let has_deadline = conditions::deadline(deployment).is_some();
    if !has_deadline {
        conditions::remove(&mut next, PROGRESSING);
    }
    let [replicas, updated, ..] = numbers(&next);
    let was_complete = replicas == updated && conditions::reason(&before, PROGRESSING) == NEW_AVAILABLE;
    if has_deadline && !was_complete {
        if is_complete(deployment, &next) {
            let message = format!("{subject} has successfully progressed.");
            conditions::set(&mut next, condition(PROGRESSING, "True", NEW_AVAILABLE, message, now));
        } else if is_progressing(&before, &next) {
            let mut progress = condition(PROGRESSING, "True", UPDATED, format!("{subject} is progressing."), now);
            // The condition is replaced even if only its time changes: the deadline counts from there.
            if let Some(present) = conditions::get(&before, PROGRESSING) {
                if present.status == "True" {
                    progress.last_transition_time.clone_from(&present.last_transition_time);
                }
                conditions::remove(&mut next, PROGRESSING);
            }
            conditions::set(&mut next, progress);
        } else if is_timed_out(deployment, &next, now) {
            let message = format!("{subject} has timed out progressing.");
            conditions::set(&mut next, condition(PROGRESSING, "False", TIMED_OUT, message, now));
        }
    }
    match failure(sets) {
        Some(failure) => conditions::set(&mut next, failure),
        None => conditions::remove(&mut next, REPLICA_FAILURE),
    }
    next
}

/// Returns the failure of a set, the new one's first, as a condition of the deployment (`getReplicaFailures`).
fn failure(sets: &Sets) -> Option<k8s_openapi::api::apps::v1::DeploymentCondition> {
    let of = |set: &Arc<ReplicaSet>| {
        let all = set.status.as_ref()?.conditions.as_ref()?;
        let found = all.iter().find(|condition| condition.type_ == REPLICA_FAILURE)?;
        Some(k8s_openapi::api::apps::v1::DeploymentCondition {
            type_: found.type_.clone(),
            status: found.status.clone(),
            reason: found.reason.clone(),
            message: found.message.clone(),
            last_update_time: found.last_transition_time.clone(),
            last_transition_time: found.last_transition_time.clone(),
        })
    };
    sets.new.iter().chain(sets.all()).find_map(of)
}

#[cfg(test)]
mod tests {
    use substrate::json::{Value, from_value, json};

    use super::*;

    fn deployment(status: Value) -> Deployment {
        let spec = json!({ "replicas": 2, "progressDeadlineSeconds": 60, "selector": {}, "template": {} });
        from_value(json!({ "metadata": { "name": "web", "generation": 1 }, "spec": spec, "status": status })).unwrap()
    }

    fn sets(ready: i32) -> Sets {
        let status =
            json!({ "replicas": 2, "readyReplicas": ready, "availableReplicas": ready, "terminatingReplicas": 0 });
        let set =
            json!({ "metadata": { "name": "web-1" }, "spec": { "replicas": 2, "selector": {} }, "status": status });
        Sets { new: Some(Arc::new(from_value(set).unwrap())), old: Vec::new() }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_rollout_progresses_until_it_is_complete() {
        let first = rollout(&deployment(json!({})), &sets(1), at(0));
        assert_eq!(conditions::reason(&first, PROGRESSING), UPDATED);
        assert_eq!(conditions::reason(&first, AVAILABLE), "MinimumReplicasUnavailable");
        let deployment = Deployment { status: Some(first), ..deployment(json!({})) };
        let last = rollout(&deployment, &sets(2), at(1));
        assert_eq!(conditions::reason(&last, PROGRESSING), NEW_AVAILABLE);
        let message = conditions::get(&last, PROGRESSING).unwrap().message.clone();
        assert_eq!(message.as_deref(), Some("ReplicaSet \"web-1\" has successfully progressed."));
        assert_eq!(
            (last.updated_replicas, last.unavailable_replicas, last.terminating_replicas),
            (Some(2), None, Some(0))
        );
    }

    #[test]
    fn a_set_without_a_status_has_no_terminating_pods_yet() {
        let set = |status: Value| -> Arc<ReplicaSet> { Arc::new(from_value(json!({ "status": status })).unwrap()) };
        let known = set(json!({ "replicas": 1, "observedGeneration": 1, "terminatingReplicas": 2 }));
        let new = set(json!({ "replicas": 0 }));
        let unknown = set(json!({ "replicas": 1, "observedGeneration": 1 }));
        let of = |old: &[&Arc<ReplicaSet>]| {
            terminating(&Sets { new: None, old: old.iter().map(|set| Arc::clone(set)).collect() })
        };
        assert_eq!([of(&[]), of(&[&known, &new]), of(&[&known, &unknown])], [Some(0), Some(2), None]);
    }

    #[test]
    fn a_rollout_without_progress_times_out() {
        let first = rollout(&deployment(json!({})), &sets(1), at(0));
        let stuck = Deployment { status: Some(first), ..deployment(json!({})) };
        assert_eq!(conditions::reason(&rollout(&stuck, &sets(1), at(60)), PROGRESSING), UPDATED);
        let late = rollout(&stuck, &sets(1), at(61));
        assert_eq!(conditions::reason(&late, PROGRESSING), TIMED_OUT);
        assert_eq!(conditions::get(&late, PROGRESSING).unwrap().status, "False");
    }
}
