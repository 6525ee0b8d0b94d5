//! Decision about the pods of a node (`podsShouldBeOnNode`).

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::Pod;

use super::nodes::{Fit, HASH_LABEL, target};
use crate::kube::Kind;
use crate::pod_status::phase;
use crate::workload::availability::{is_available, is_ready, is_terminal};

/// Pods of a set by node.
pub(super) type ByNode = BTreeMap<String, Vec<Arc<Pod>>>;

/// Groups pods by node (`getNodesToDaemonPods`). Pods that have ended and are being deleted do not count.
pub(super) fn by_node(pods: &[Arc<Pod>]) -> ByNode {
    let mut all = ByNode::new();
    for pod in pods.iter().filter(|pod| !(pod.is_deleting() && is_terminal(pod))) {
        if let Some(node) = target(pod) {
            all.entry(node.to_owned()).or_default().push(pod.clone());
        }
    }
    all
}

/// Compares by age; a pod that is bound to its node comes first (`podByCreationTimestampAndPhase`).
pub(super) fn by_age(a: &Pod, b: &Pod) -> std::cmp::Ordering {
    let is_bound =
        |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).is_some_and(|n| !n.is_empty());
    let created = |pod: &Pod| pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
    is_bound(b).cmp(&is_bound(a)).then(created(a).cmp(&created(b))).then(a.name().cmp(b.name()))
}

/// Pods of one node that have ended.
#[derive(Debug, PartialEq)]
pub(super) enum Ended {
    /// The pod has failed; it is deleted unless it waits for its backoff.
    Failed(Arc<Pod>),
    /// The pod has succeeded; it is deleted.
    Succeeded(Arc<Pod>),
}

/// Writes for one node.
#[derive(Debug, Default, PartialEq)]
pub(super) struct OnNode {
    /// True if the node needs a pod.
    pub(super) creates: bool,
    /// Names of pods to delete.
    pub(super) deletes: Vec<String>,
    /// Pods that have ended.
    pub(super) ended: Vec<Ended>,
}

/// Returns true if an update may create the new pod of a node before it deletes the old one.
pub(super) fn allows_surge(set: &DaemonSet) -> bool {
    super::update::limits(set, 100).0 > 0
}

/// Decides about the pods of a node; `pods` is absent if the node has none.
pub(super) fn on_node(set: &DaemonSet, fit: Fit, pods: Option<&Vec<Arc<Pod>>>, hash: &str, now: Timestamp) -> OnNode {
    let mut next = OnNode::default();
    let Some(pods) = pods else {
        next.creates = fit.should_run;
        return next;
    };
    let alive = pods.iter().filter(|pod| !pod.is_deleting());
    if !fit.may_stay {
        next.deletes = alive.map(|pod| pod.name().to_owned()).collect();
        return next;
    }
    let mut running: Vec<&Arc<Pod>> = Vec::new();
    for pod in alive {
        match phase(pod) {
            "Failed" => next.ended.push(Ended::Failed(pod.clone())),
            "Succeeded" => next.ended.push(Ended::Succeeded(pod.clone())),
            _ => running.push(pod),
        }
    }
    running.sort_by(|a, b| by_age(a, b));
    if !allows_surge(set) {
        next.deletes = running.iter().skip(1).map(|pod| pod.name().to_owned()).collect();
        return next;
    }
    if running.is_empty() {
        // The pods of this node end or are being deleted; a surge does not wait for them.
        next.creates = fit.should_run;
        return next;
    }
    if running.len() == 1 {
        return next;
    }
    let (mut new, mut old): (Option<&Arc<Pod>>, Option<&Arc<Pod>>) = (None, None);
    for pod in running {
        let slot = if pod.label(HASH_LABEL) == Some(hash) { &mut new } else { &mut old };
        match slot {
            None => *slot = Some(pod),
            Some(_) => next.deletes.push(pod.name().to_owned()),
        }
    }
    if let (Some(new), Some(old)) = (new, old) {
        let min_ready = set.spec.as_ref().and_then(|spec| spec.min_ready_seconds).unwrap_or(0);
        if !is_ready(old) || is_available(new, min_ready, now) {
            next.deletes.push(old.name().to_owned());
        }
    }
    next
}
