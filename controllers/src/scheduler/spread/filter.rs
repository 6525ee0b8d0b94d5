//! Constraints that forbid a node (`DoNotSchedule`, `filtering.go`).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, Pod};

use super::{Constraint, has_all};
use crate::binder::selectors::node_labels;
use crate::kube::Kind;
use crate::scheduler::cache::SchedulerCache;
use crate::scheduler::fit_error::{Plugin, Rejection};

/// Reasons of PodTopologySpread (`ErrReasonConstraintsNotMatch`, `ErrReasonNodeLabelNotMatch`).
const TOO_MANY: &str = "node(s) didn't match pod topology spread constraints";
const NO_LABEL: &str = "node(s) didn't match pod topology spread constraints (missing required label)";

/// Constraints of a pod, with the numbers of matching pods by domain.
#[derive(Clone, Debug, Default)]
pub struct Counts(Vec<(Constraint, BTreeMap<String, i64>)>);

impl Counts {
    /// Counts the pods of all nodes (`calPreFilterState`).
    pub fn of(cache: &SchedulerCache, pod: &Pod) -> Self {
        let constraints = Constraint::declared(pod, "DoNotSchedule");
        let mut counts = Self(constraints.iter().map(|c| (c.clone(), BTreeMap::new())).collect());
        if constraints.is_empty() {
            return counts;
        }
        for info in cache.nodes.values() {
            let Some(node) = info.node.as_ref().filter(|node| has_all(&constraints, node)) else { continue };
            for (constraint, domains) in counts.0.iter_mut().filter(|(c, _)| c.includes(pod, node)) {
                let domain = node_labels(node).get(&constraint.key).cloned().unwrap_or_default();
                *domains.entry(domain).or_default() += constraint.count(pod, info);
            }
        }
        counts
    }

    /// Counts a pod that is added to a node, or removed from it (`updateWithPod`).
    pub fn change(&mut self, pod: &Pod, other: &Pod, node: &Node, by: i64) {
        let labels = node_labels(node);
        let has_all = self.0.iter().all(|(constraint, _)| labels.contains_key(&constraint.key));
        if !has_all || other.namespace() != pod.namespace() {
            return;
        }
        for (constraint, domains) in self.0.iter_mut().filter(|(c, _)| c.selects(other) && c.includes(pod, node)) {
            let domain = labels.get(&constraint.key).cloned().unwrap_or_default();
            *domains.entry(domain).or_default() += by;
        }
    }
}

/// Applies PodTopologySpread: with the pod, no domain may have more pods than allowed beyond the emptiest one.
///
/// # Errors
/// The rejection.
pub fn check(counts: &Counts, pod: &Pod, node: &Node) -> Result<(), Rejection> {
    for (constraint, domains) in &counts.0 {
        let Some(domain) = node_labels(node).get(&constraint.key) else {
            return Err(Rejection::hopeless(Plugin::PodTopologySpread, NO_LABEL));
        };
        let least = match domains.values().min() {
            Some(least) if domains.len() >= constraint.min_domains => *least,
            _ => 0,
        };
        let with = domains.get(domain).copied().unwrap_or(0) + i64::from(constraint.selects(pod));
        if with - least > constraint.max_skew {
            return Err(Rejection::resolvable(Plugin::PodTopologySpread, TOO_MANY));
        }
    }
    Ok(())
}
