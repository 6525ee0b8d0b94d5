//! Rolling update (`rollingUpdate`).

use std::collections::BTreeSet;
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
    // The API server sets both, and refuses values that are not numbers.
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

/// Decides about the pods of an update; `wanted` are the nodes that shall have a pod.
pub(super) fn rolling(set: &DaemonSet, pods: &ByNode, hash: &str, wanted: &BTreeSet<String>, now: Timestamp) -> Update {
    let (surge, unavailable) = limits(set, i32::try_from(wanted.len()).unwrap_or(i32::MAX));
    let number = |count: i32| usize::try_from(count).unwrap_or(0);
    let min_ready = set.spec.as_ref().and_then(|spec| spec.min_ready_seconds).unwrap_or(0);
    let is_up = |pod: &Pod| is_available(pod, min_ready, now);
    // A node that lacks its pod counts, too.
    let lacking = wanted.iter().filter(|node| !pods.contains_key(*node)).count();
    if surge == 0 {
        let deletes = replaced(set, pods, hash, number(unavailable), lacking, &is_up);
        return Update { deletes, creates: Vec::new() };
    }
    surged(set, pods, hash, number(surge), wanted, &is_up)
}

/// Returns the old pods to delete, at most `most` of those that are available.
fn replaced(
    set: &DaemonSet,
    pods: &ByNode,
    hash: &str,
    most: usize,
    lacking: usize,
    is_up: &dyn Fn(&Pod) -> bool,
) -> Vec<String> {
    // Places that are used up, the deletions that cost none, and those that do.
    let (mut used, mut free, mut candidates) = (lacking, Vec::new(), Vec::new());
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
    free
}

/// Returns the writes of an update that creates the new pod of a node before it deletes the old one.
fn surged(
    set: &DaemonSet,
    pods: &ByNode,
    hash: &str,
    most: usize,
    wanted: &BTreeSet<String>,
    is_up: &dyn Fn(&Pod) -> bool,
) -> Update {
    let (mut used, mut available, mut free, mut candidates) = (0, 0_usize, Vec::new(), Vec::new());
    let mut leaving = Vec::new();
    let mut update = Update::default();
    for (node, pods) in pods {
        let found = find(set, pods, hash);
        if let Some((new, old)) = found
            && old.or(new).is_some_and(is_up)
        {
            available += 1;
        }
        match found {
            None => used += 1,
            Some((_, None)) => {}
            // The node shall have no pod any more.
            Some((None, Some(old))) if !wanted.contains(node) => {
                let list = if is_up(old) { &mut leaving } else { &mut update.deletes };
                list.push(old.name().to_owned());
            }
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
    // A pod leaves its node once there are enough without it.
    leaving.truncate(available.saturating_sub(wanted.len()));
    update.deletes.append(&mut leaving);
    candidates.truncate(most.saturating_sub(used));
    free.append(&mut candidates);
    update.creates = free;
    update
}
