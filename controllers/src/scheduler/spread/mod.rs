//! Spreading of similar pods over nodes and zones (plugin PodTopologySpread, `plugins/podtopologyspread`).

mod defaults;
mod filter;
mod score;

use k8s_openapi::api::core::v1::{Node, Pod, TopologySpreadConstraint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

pub use defaults::Owners;
pub(super) use filter::{Counts, check};
pub(super) use score::scores;

use super::node_filters::{affinity_matches, taints, taints_tolerated};
use super::node_info::NodeInfo;
use crate::binder::selectors::{is_everything, label_selector_matches, node_labels};
use crate::kube::Kind;

/// Label of a node with its own name.
const HOSTNAME: &str = "kubernetes.io/hostname";

/// Constraint on the spreading of pods.
#[derive(Clone, Debug, PartialEq)]
pub struct Constraint {
    /// Label of nodes that names the domain.
    key: String,
    /// Allowed difference between the numbers of pods of two domains.
    max_skew: i64,
    /// Number of domains below which an empty one is assumed.
    min_domains: usize,
    /// Pods that count; None selects no pod.
    selector: Option<LabelSelector>,
    /// True if only nodes count that the pod's affinity selects.
    honors_affinity: bool,
    /// True if only nodes count whose taints the pod tolerates.
    honors_taints: bool,
}

impl Constraint {
    /// Reads a constraint of a pod (`filterTopologySpreadConstraints`). The keys of `matchLabelKeys` stand for the pod's own
    /// labels.
    fn of(pod: &Pod, declared: &TopologySpreadConstraint) -> Self {
        let mut selector = declared.label_selector.clone();
        let labels = pod.metadata.labels.as_ref();
        let own = declared.match_label_keys.iter().flatten().filter_map(|key| Some((key, labels?.get(key)?)));
        for (key, value) in own {
            let requirement = LabelSelectorRequirement {
                key: key.clone(),
                operator: "In".to_owned(),
                values: Some(vec![value.clone()]),
            };
            if let Some(selector) = &mut selector {
                selector.match_expressions.get_or_insert_default().push(requirement);
            }
        }
        Self {
            key: declared.topology_key.clone(),
            max_skew: declared.max_skew.into(),
            min_domains: usize::try_from(declared.min_domains.unwrap_or(1)).unwrap_or(1),
            selector,
            honors_affinity: declared.node_affinity_policy.as_deref() != Some("Ignore"),
            honors_taints: declared.node_taints_policy.as_deref() == Some("Honor"),
        }
    }

    /// Returns the pod's constraints with this consequence.
    fn declared(pod: &Pod, when_unsatisfiable: &str) -> Vec<Self> {
        let all = pod.spec.as_ref().and_then(|s| s.topology_spread_constraints.as_deref()).unwrap_or_default();
        all.iter().filter(|c| c.when_unsatisfiable == when_unsatisfiable).map(|c| Self::of(pod, c)).collect()
    }

    fn selects(&self, pod: &Pod) -> bool {
        self.selector.as_ref().is_some_and(|selector| label_selector_matches(selector, pod.metadata.labels.as_ref()))
    }

    /// Returns true if pods on the node count (`matchNodeInclusionPolicies`).
    fn includes(&self, pod: &Pod, node: &Node) -> bool {
        (!self.honors_affinity || affinity_matches(pod, node)) && (!self.honors_taints || taints_tolerated(pod, node))
    }

    /// Returns the number of pods of a node that count for `pod` (`countPodsMatchSelector`). Terminating pods do not.
    fn count(&self, pod: &Pod, info: &NodeInfo) -> i64 {
        if self.selector.as_ref().is_none_or(is_everything) {
            return 0;
        }
        let others = info.pods.values().map(|placed| &*placed.pod);
        let counts = |other: &&Pod| !other.is_deleting() && other.namespace() == pod.namespace() && self.selects(other);
        i64::try_from(others.filter(counts).count()).unwrap_or(i64::MAX)
    }
}

/// Returns true if a pod that is new or gone on a node, or has other labels than `old`, may let `pod` satisfy its
/// constraints (`isSchedulableAfterPodChange`).
pub fn helped_by(pod: &Pod, old: Option<&Pod>, other: &Pod) -> bool {
    let counts = |c: &Constraint| old.is_some_and(|old| c.selects(old)) != c.selects(other);
    other.namespace() == pod.namespace() && Constraint::declared(pod, "DoNotSchedule").iter().any(counts)
}

/// Returns true if a node that is new or gone may let `pod` satisfy its constraints (`isSchedulableAfterNodeChange`).
pub fn helped_by_node(pod: &Pod, node: &Node) -> bool {
    has_all(&Constraint::declared(pod, "DoNotSchedule"), node)
}

/// Returns true if a change of a node may let `pod` satisfy its constraints (`isSchedulableAfterNodeChange`).
pub fn helped_by_change(pod: &Pod, old: &Node, new: &Node) -> bool {
    let constraints = Constraint::declared(pod, "DoNotSchedule");
    let moved = |c: &Constraint| node_labels(old).get(&c.key) != node_labels(new).get(&c.key);
    let now = has_all(&constraints, new);
    has_all(&constraints, old) != now || now && (constraints.iter().any(moved) || taints(old) != taints(new))
}

/// Returns true if the node has the labels of all constraints.
fn has_all(constraints: &[Constraint], node: &Node) -> bool {
    constraints.iter().all(|constraint| node_labels(node).contains_key(&constraint.key))
}

#[cfg(test)]
mod tests;
