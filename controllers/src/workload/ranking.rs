//! Order in which a controller deletes surplus pods (`ActivePodsWithRanks`, `ActivePods`).

use std::cmp::Ordering;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

use super::availability::{is_ready, ready_since};
use crate::kube::Kind;
use crate::pod_status::phase;

/// Annotation with the cost of a pod's deletion; lower costs go first.
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// Compares two pods: `Less` if `a` is deleted before `b`. A rank is the number of related pods on the pod's node.
pub(crate) fn compare((a, rank_a): (&Pod, usize), (b, rank_b): (&Pod, usize), now: Timestamp) -> Ordering {
    let ready = (is_ready(a), is_ready(b));
    is_assigned(a)
        .cmp(&is_assigned(b))
        .then(phase_rank(a).cmp(&phase_rank(b)))
        .then(ready.0.cmp(&ready.1))
        .then(deletion_cost(a).cmp(&deletion_cost(b)))
        // The node with more related pods loses one first.
        .then(rank_b.cmp(&rank_a))
        .then_with(|| {
            if ready == (true, true) { younger((a, ready_since(a)), (b, ready_since(b)), now) } else { Ordering::Equal }
        })
        .then(restarts(b).cmp(&restarts(a)))
        .then_with(|| younger((a, created(a)), (b, created(b)), now))
}

fn is_assigned(pod: &Pod) -> bool {
    pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).is_some_and(|node| !node.is_empty())
}

fn phase_rank(pod: &Pod) -> u8 {
    match phase(pod) {
        "Unknown" => 1,
        "Running" => 2,
        _ => 0,
    }
}

fn deletion_cost(pod: &Pod) -> i32 {
    // The API server refuses a value that is not a number.
    pod.annotation(DELETION_COST).and_then(|cost| cost.parse().ok()).unwrap_or(0)
}

fn created(pod: &Pod) -> Option<Timestamp> {
    pod.metadata.creation_timestamp.as_ref().map(|time| time.0)
}

/// Returns the largest restart counts of the pod's containers and of its sidecars (`MaxContainerRestarts`).
fn restarts(pod: &Pod) -> (i32, i32) {
    let Some(status) = &pod.status else { return (0, 0) };
    let most = |statuses: Option<&Vec<k8s_openapi::api::core::v1::ContainerStatus>>| {
        statuses.into_iter().flatten().map(|status| status.restart_count).max().unwrap_or(0)
    };
    let sidecars = pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
    let sidecars: Vec<&str> = sidecars
        .filter(|container| container.restart_policy.as_deref() == Some("Always"))
        .map(|container| container.name.as_str())
        .collect();
    let init = status.init_container_statuses.iter().flatten();
    let of_sidecars = init.filter(|status| sidecars.contains(&status.name.as_str()));
    (most(status.container_statuses.as_ref()), of_sidecars.map(|status| status.restart_count).max().unwrap_or(0))
}

/// Compares by age on a logarithmic scale, so that pods of about the same age are picked at random: by uid.
fn younger((a, at_a): (&Pod, Option<Timestamp>), (b, at_b): (&Pod, Option<Timestamp>), now: Timestamp) -> Ordering {
    if at_a == at_b {
        return Ordering::Equal;
    }
    let (Some(at_a), Some(at_b)) = (at_a, at_b) else {
        // A pod without a time counts as the youngest (`afterOrZero`).
        return at_a.is_some().cmp(&at_b.is_some());
    };
    match log_age(at_a, now).cmp(&log_age(at_b, now)) {
        Ordering::Equal => a.uid().cmp(b.uid()),
        order => order,
    }
}

fn log_age(at: Timestamp, now: Timestamp) -> i64 {
    let age = now.as_nanosecond() - at.as_nanosecond();
    if age > 0 { i64::from(age.ilog2()) } else { -1 }
}

/// Compares two pods of a Job, without costs, ranks and rounded ages (`ActivePods`).
pub(crate) fn compare_plain(a: &Pod, b: &Pod) -> Ordering {
    // A pod without a time counts as the youngest (`afterOrZero`).
    let younger = |a: Option<Timestamp>, b: Option<Timestamp>| a.is_some().cmp(&b.is_some()).then(b.cmp(&a));
    let ready = (is_ready(a), is_ready(b));
    is_assigned(a)
        .cmp(&is_assigned(b))
        .then(phase_rank(a).cmp(&phase_rank(b)))
        .then(ready.0.cmp(&ready.1))
        .then(if ready == (true, true) { younger(ready_since(a), ready_since(b)) } else { Ordering::Equal })
        .then(restarts(b).cmp(&restarts(a)))
        .then(younger(created(a), created(b)))
}

/// Sorts pods with their ranks: the first is deleted first.
pub(crate) fn sort<P: std::ops::Deref<Target = Pod>>(pods: &mut [(P, usize)], now: Timestamp) {
    pods.sort_by(|(a, rank_a), (b, rank_b)| compare((a, *rank_a), (b, *rank_b), now));
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use substrate::json::{Value, from_value, json};

    use super::*;

    fn pod(name: &str, node: &str, phase: &str, ready: Option<&str>, cost: &str) -> Arc<Pod> {
        let ready: Vec<Value> = ready
            .map(|at| json!({ "type": "Ready", "status": "True", "lastTransitionTime": at }))
            .into_iter()
            .collect();
        let annotations = if cost.is_empty() { json!({}) } else { json!({ DELETION_COST: cost }) };
        let spec = json!({ "nodeName": node, "containers": [] });
        let metadata = json!({ "name": name, "uid": name, "annotations": annotations });
        let status = json!({ "phase": phase, "conditions": ready });
        Arc::new(from_value(json!({ "metadata": metadata, "spec": spec, "status": status })).unwrap())
    }

    #[test]
    fn surplus_pods_go_in_upstreams_order() {
        let old = Some("1970-01-01T00:00:00Z");
        let young = Some("1970-01-01T01:00:00Z");
        let mut pods = vec![
            (pod("old", "n", "Running", old, ""), 1),
            (pod("young", "n", "Running", young, ""), 1),
            (pod("crowded", "m", "Running", old, ""), 3),
            (pod("cheap", "n", "Running", old, "-5"), 1),
            (pod("unready", "n", "Running", None, "-9"), 1),
            (pod("pending", "n", "Pending", None, ""), 1),
            (pod("unassigned", "", "Pending", None, ""), 1),
        ];
        sort(&mut pods, Timestamp::from_second(7200).unwrap());
        let names: Vec<&str> = pods.iter().map(|(pod, _)| pod.name()).collect();
        assert_eq!(names, ["unassigned", "pending", "unready", "cheap", "crowded", "young", "old"]);
    }
}
