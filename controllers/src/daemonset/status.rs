//! Status of a set (`updateDaemonSetStatus`).

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{DaemonSet, DaemonSetStatus};
use k8s_openapi::api::core::v1::Node;

use super::nodes::{fit, is_updated};
use super::pods::{ByNode, by_age};
use crate::kube::Kind;
use crate::workload::availability::{is_available, is_ready};
use crate::workload::counter;

/// Returns true if the status must be written (`storeDaemonSetStatus`): also if its generation is behind, though this round
/// may not raise it.
pub(super) fn differs(set: &DaemonSet, next: &DaemonSetStatus) -> bool {
    let present = set.status.as_ref();
    let observed = present.and_then(|status| status.observed_generation).unwrap_or(0);
    present != Some(next) || observed < set.metadata.generation.unwrap_or(0)
}

/// Computes the status. `observes` raises the observed generation: the round has worked on this one.
pub(super) fn calculate(
    set: &DaemonSet,
    nodes: &[Arc<Node>],
    pods: &ByNode,
    hash: &str,
    observes: bool,
    now: Timestamp,
) -> DaemonSetStatus {
    let mut status = set.status.clone().unwrap_or_default();
    let min_ready = set.spec.as_ref().and_then(|spec| spec.min_ready_seconds).unwrap_or(0);
    let (mut desired, mut current, mut misscheduled, mut ready, mut available, mut updated) = (0, 0, 0, 0, 0, 0);
    for node in nodes {
        let oldest = pods.get(node.name()).and_then(|pods| pods.iter().min_by(|a, b| by_age(a, b)));
        if fit(set, node).should_run {
            desired += 1;
            let Some(pod) = oldest else { continue };
            current += 1;
            ready += i32::from(is_ready(pod));
            available += i32::from(is_available(pod, min_ready, now));
            updated += i32::from(is_updated(set, pod, hash));
        } else if oldest.is_some() {
            misscheduled += 1;
        }
    }
    if observes {
        status.observed_generation = set.metadata.generation.filter(|generation| *generation != 0);
    }
    status.desired_number_scheduled = desired;
    status.current_number_scheduled = current;
    status.number_misscheduled = misscheduled;
    status.number_ready = ready;
    status.updated_number_scheduled = counter(updated);
    status.number_available = counter(available);
    status.number_unavailable = counter(desired - available);
    status
}

#[cfg(test)]
mod tests {
    use substrate::json::{from_value, json};

    use super::*;

    #[test]
    fn an_old_generation_is_written_again() {
        let set = |generation: i64| -> DaemonSet {
            let status = json!({ "observedGeneration": 1, "currentNumberScheduled": 1, "desiredNumberScheduled": 1,
                "numberMisscheduled": 0, "numberReady": 0 });
            from_value(json!({ "metadata": { "generation": generation }, "status": status })).unwrap()
        };
        let next = set(1).status.unwrap();
        assert!(!differs(&set(1), &next));
        assert!(differs(&set(2), &next));
        assert!(differs(&set(1), &DaemonSetStatus { number_ready: 1, ..next }));
    }
}
