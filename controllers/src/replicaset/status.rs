//! Status of a set (`calculateStatus`).

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetCondition, ReplicaSetSpec, ReplicaSetStatus};
use k8s_openapi::api::core::v1::Pod;

use crate::kube::{Kind, time};
use crate::workload::availability::{is_available, is_ready};
use crate::workload::counter;

/// Condition of a set that cannot create or delete pods.
pub(crate) const REPLICA_FAILURE: &str = "ReplicaFailure";

/// Observed pods of a set.
#[derive(Clone, Copy, Debug)]
pub(super) struct Observed<'a, P> {
    /// Active pods.
    pub(super) active: &'a [P],
    /// Number of pods that are being deleted.
    pub(super) terminating: usize,
    /// Error of the creations or deletions of this round.
    pub(super) failure: Option<&'a str>,
}

fn count(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

fn has_template_labels(spec: &ReplicaSetSpec, pod: &Pod) -> bool {
    let metadata = spec.template.as_ref().and_then(|template| template.metadata.as_ref());
    let wanted = metadata.and_then(|metadata| metadata.labels.as_ref());
    wanted.into_iter().flatten().all(|(name, value)| pod.label(name) == Some(value))
}

/// Computes the status.
pub(super) fn calculate<P: std::ops::Deref<Target = Pod>>(
    set: &ReplicaSet,
    spec: &ReplicaSetSpec,
    observed: Observed<'_, P>,
    now: Timestamp,
) -> ReplicaSetStatus {
    let min_ready = spec.min_ready_seconds.unwrap_or(0);
    let of = |holds: &dyn Fn(&Pod) -> bool| count(observed.active.iter().filter(|pod| holds(pod)).count());
    let mut conditions = set.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
    let has_failed = conditions.iter().any(|condition| condition.type_ == REPLICA_FAILURE);
    match observed.failure {
        Some(why) if !has_failed => {
            let wanted = spec.replicas.unwrap_or(1);
            let reason = match count(observed.active.len()).cmp(&wanted) {
                std::cmp::Ordering::Less => Some("FailedCreate"),
                std::cmp::Ordering::Greater => Some("FailedDelete"),
                std::cmp::Ordering::Equal => None,
            };
            conditions.push(ReplicaSetCondition {
                type_: REPLICA_FAILURE.to_owned(),
                status: "True".to_owned(),
                reason: reason.map(str::to_owned),
                message: Some(why.to_owned()),
                last_transition_time: Some(time(now)),
            });
        }
        None if has_failed => conditions.retain(|condition| condition.type_ != REPLICA_FAILURE),
        _ => {}
    }
    ReplicaSetStatus {
        available_replicas: counter(of(&|pod| is_available(pod, min_ready, now))),
        conditions: (!conditions.is_empty()).then_some(conditions),
        fully_labeled_replicas: counter(of(&|pod| has_template_labels(spec, pod))),
        observed_generation: set.metadata.generation.filter(|generation| *generation != 0),
        ready_replicas: counter(of(&is_ready)),
        replicas: count(observed.active.len()),
        terminating_replicas: Some(count(observed.terminating)),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use substrate::json::{from_value, json};

    use super::*;

    #[test]
    fn a_failure_is_a_condition_until_it_ends() {
        let template = json!({ "metadata": { "labels": { "app": "web" } }, "spec": { "containers": [] } });
        let mut set: ReplicaSet = from_value(json!({
            "metadata": { "name": "web", "generation": 2 },
            "spec": { "replicas": 2, "selector": { "matchLabels": { "app": "web" } }, "template": template },
        }))
        .unwrap();
        let pod: Arc<Pod> = Arc::new(from_value(json!({ "metadata": { "labels": { "app": "web" } } })).unwrap());
        let active = [pod];
        let calculated = |set: &ReplicaSet, failure: Option<&str>| {
            let observed = Observed { active: &active, terminating: 1, failure };
            calculate(set, set.spec.as_ref().unwrap(), observed, Timestamp::UNIX_EPOCH)
        };
        let status = calculated(&set, Some("no room"));
        let condition = &status.conditions.as_ref().unwrap()[0];
        assert_eq!(
            (condition.reason.as_deref(), condition.message.as_deref()),
            (Some("FailedCreate"), Some("no room"))
        );
        assert_eq!((status.replicas, status.fully_labeled_replicas, status.ready_replicas), (1, Some(1), None));
        assert_eq!((status.terminating_replicas, status.observed_generation), (Some(1), Some(2)));
        set.status = Some(status);
        assert_eq!(calculated(&set, None).conditions, None);
    }
}
