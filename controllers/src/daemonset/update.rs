//! Rolling update (`rollingUpdate`).

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::nodes::is_updated;
use super::pods::ByNode;
use crate::kube::Kind;
use crate::workload::availability::is_available;
use crate::workload::scaled::scaled;

/// Writes of an update.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Update {
    /// Names of pods to delete.
    pub(super) deletes: Vec<String>,
    /// Nodes that get a second pod.
    pub(super) creates: Vec<String>,
}

/// Returns the numbers of surplus and of missing pods that an update may have, for so many nodes.
pub(super) fn limits(set: &DaemonSet, nodes: i32) -> (i32, i32) {
    let strategy = set.spec.as_ref().and_then(|spec| spec.update_strategy.as_ref());
    let is_rolling = strategy.and_then(|strategy| strategy.type_.as_deref()) == Some("RollingUpdate");
    let Some(rolling) = strategy.and_then(|strategy| strategy.rolling_update.as_ref()).filter(|_| is_rolling) else {
        return (0, 0);
    };
    // The API server sets both, and refuses values that are no numbers.
    let of = |value: Option<&IntOrString>| value.and_then(|value| scaled(value, nodes, true).ok()).unwrap_or(0);
    let (surge, unavailable) = (of(rolling.max_surge.as_ref()), of(rolling.max_unavailable.as_ref()));
    if nodes > 0 && surge == 0 && unavailable == 0 { (0, 1) } else { (surge, unavailable) }
}

/// Returns the new and the old pod of a node; none if there are several of one kind (`findUpdatedPodsOnNode`).
fn find<'a>(set: &DaemonSet, pods: &'a [Arc<Pod>], hash: &str) -> Option<(Option<&'a Pod>, Option<&'a Pod>)> {
    let (mut new, mut old) = (None, None);
    for pod in pods.iter().filter(|pod| !pod.is_deleting()) {
        let slot = if is_updated(set, pod, hash) { &mut new } else { &mut old };
        if slot.replace(&**pod).is_some() {
            return None;
        }
    }
    Some((new, old))
}

/// Decides about the pods of an update; `nodes` is the number of nodes that shall have a pod.
pub(super) fn rolling(set: &DaemonSet, pods: &ByNode, hash: &str, nodes: i32, now: Timestamp) -> Update {
    let (surge, unavailable) = limits(set, nodes);
    let min_ready = set.spec.as_ref().and_then(|spec| spec.min_ready_seconds).unwrap_or(0);
    let is_up = |pod: &Pod| is_available(pod, min_ready, now);
    let number = |count: i32| usize::try_from(count).unwrap_or(0);
    // Places that are used up, the writes that cost none, and those that do.
    let (mut used, mut free, mut candidates) = (0, Vec::new(), Vec::new());
    let mut update = Update::default();
    if surge == 0 {
        let most = number(unavailable);
        for pods in pods.values() {
            match find(set, pods, hash) {
                Some((None, Some(old))) if !is_up(old) => {
                    free.push(old.name().to_owned());
                    used += 1;
                }
                Some((None, Some(old))) => {
                    if used < most {
                        candidates.push(old.name().to_owned());
                    }
                }
                Some((Some(new), None)) => used += usize::from(!is_up(new)),
                // The other part of the loop creates or deletes the pod.
                _ => used += 1,
            }
        }
        candidates.truncate(most.saturating_sub(used));
        free.append(&mut candidates);
        update.deletes = free;
        return update;
    }
    let most = number(surge);
    for (node, pods) in pods {
        match find(set, pods, hash) {
            None => used += 1,
            Some((_, None)) => {}
            Some((None, Some(old))) if !is_up(old) => free.push(node.clone()),
            Some((None, Some(_))) => {
                if used < most {
                    candidates.push(node.clone());
                }
            }
            Some((Some(new), Some(_))) if !is_up(new) => used += 1,
            Some((Some(_), Some(old))) => update.deletes.push(old.name().to_owned()),
        }
    }
    candidates.truncate(most.saturating_sub(used));
    free.append(&mut candidates);
    update.creates = free;
    update
}
