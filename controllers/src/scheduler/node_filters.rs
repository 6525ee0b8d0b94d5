//! Filters of the node and its pods: NodeUnschedulable, TaintToleration, NodeAffinity, NodePorts, NodeResourcesFit.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Node, NodeSelector, Pod, Taint, Toleration};

use super::cache::SeededBugs;
use super::fit_error::{Plugin, Rejection};
use super::node_info::NodeInfo;
use super::node_ports::{PORTS_TAKEN, ports_free};
use super::resources::{Lack, Resources, lacks};
use crate::binder::selectors::{node_labels, node_selector_matches};
use crate::kube::Kind;

fn tolerations(pod: &Pod) -> &[Toleration] {
    pod.spec.as_ref().and_then(|s| s.tolerations.as_deref()).unwrap_or_default()
}

/// Returns true if a toleration matches a taint (`Toleration.ToleratesTaint`).
pub fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    fn text(value: &Option<String>) -> &str {
        value.as_deref().unwrap_or_default()
    }
    let (key, effect) = (text(&toleration.key), text(&toleration.effect));
    if !effect.is_empty() && effect != taint.effect || !key.is_empty() && key != taint.key {
        return false;
    }
    match toleration.operator.as_deref() {
        Some("Exists") => true,
        None | Some("" | "Equal") => text(&toleration.value) == text(&taint.value),
        Some(_) => false,
    }
}

/// Effects of taints that forbid scheduling.
const FORBIDDING: [&str; 2] = ["NoSchedule", "NoExecute"];

/// Returns the node's taints.
pub fn taints(node: &Node) -> &[Taint] {
    node.spec.as_ref().and_then(|s| s.taints.as_deref()).unwrap_or_default()
}

/// Returns true if the node is cordoned.
pub fn is_cordoned(node: &Node) -> bool {
    node.spec.as_ref().is_some_and(|s| s.unschedulable == Some(true))
}

/// Returns true if the pod tolerates the node's taints that forbid scheduling.
pub fn taints_tolerated(pod: &Pod, node: &Node) -> bool {
    effects_tolerated(pod, node, &FORBIDDING)
}

/// Returns true if the pod tolerates the node's taints with these effects.
pub fn effects_tolerated(pod: &Pod, node: &Node, effects: &[&str]) -> bool {
    taints(node)
        .iter()
        .filter(|taint| effects.contains(&taint.effect.as_str()))
        .all(|taint| tolerations(pod).iter().any(|toleration| tolerates(toleration, taint)))
}

/// Returns the number of the node's taints with this effect that the pod does not tolerate.
pub fn intolerable(pod: &Pod, node: &Node, effect: &str) -> i64 {
    let tolerated = |taint: &&Taint| tolerations(pod).iter().any(|toleration| tolerates(toleration, taint));
    let count = taints(node).iter().filter(|taint| taint.effect == effect).filter(|taint| !tolerated(taint)).count();
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Returns true if the node is schedulable, or the pod tolerates that it is not (as daemons do).
pub fn schedulable(pod: &Pod, node: &Node) -> bool {
    if !is_cordoned(node) {
        return true;
    }
    let taint = Taint {
        key: "node.kubernetes.io/unschedulable".to_owned(),
        effect: "NoSchedule".to_owned(),
        ..Taint::default()
    };
    tolerations(pod).iter().any(|toleration| tolerates(toleration, &taint))
}

/// Returns true if the pod's node selector and required node affinity select the node.
pub fn affinity_matches(pod: &Pod, node: &Node) -> bool {
    let Some(spec) = &pod.spec else { return true };
    let labels = node_labels(node);
    let selected = spec.node_selector.iter().flatten().all(|(key, value)| labels.get(key) == Some(value));
    selected && required_affinity(pod).is_none_or(|selector| node_selector_matches(selector, node.name(), labels))
}

fn required_affinity(pod: &Pod) -> Option<&NodeSelector> {
    let affinity = pod.spec.as_ref()?.affinity.as_ref()?.node_affinity.as_ref()?;
    affinity.required_during_scheduling_ignored_during_execution.as_ref()
}

/// Returns the nodes that the pod's required node affinity names, if each of its terms names some
/// (`NodeAffinity.PreFilter`). Names of one term must all match, terms are alternatives.
pub fn named_nodes(pod: &Pod) -> Option<BTreeSet<&str>> {
    let terms = &required_affinity(pod)?.node_selector_terms;
    let mut named: Option<BTreeSet<&str>> = None;
    for term in terms {
        let fields = term.match_fields.iter().flatten();
        let names = fields.filter(|field| field.key == "metadata.name" && field.operator == "In");
        let names = names.map(|field| field.values.iter().flatten().map(String::as_str).collect::<BTreeSet<&str>>());
        let of_term = names.reduce(|one, other| one.intersection(&other).copied().collect())?;
        named.get_or_insert_default().extend(of_term);
    }
    named
}

/// Reason of TaintToleration, for the scheduler (`TaintToleration.Filter`).
const UNTOLERATED: &str = "node(s) had untolerated taint(s)";
/// Reason of NodeAffinity (`nodeaffinity.ErrReasonPod`).
pub const NOT_SELECTED: &str = "node(s) didn't match Pod's node affinity/selector";

/// Runs the filters in upstream's order; reports the first rejection.
///
/// # Errors
/// The rejection.
pub fn check(pod: &Pod, request: &Resources, node: &Node, info: &NodeInfo, bugs: &SeededBugs) -> Result<(), Rejection> {
    if !schedulable(pod, node) {
        return Err(Rejection::hopeless(Plugin::NodeUnschedulable, "node(s) were unschedulable"));
    }
    if !effects_tolerated(pod, node, &FORBIDDING[usize::from(bugs.ignores_no_schedule)..]) {
        return Err(Rejection::hopeless(Plugin::TaintToleration, UNTOLERATED));
    }
    if bugs.skips != Some(Plugin::NodeAffinity) && !affinity_matches(pod, node) {
        return Err(Rejection::hopeless(Plugin::NodeAffinity, NOT_SELECTED));
    }
    if !ports_free(pod, info.pods.values().map(|placed| &*placed.pod)) {
        return Err(Rejection::resolvable(Plugin::NodePorts, PORTS_TAKEN));
    }
    if bugs.skips == Some(Plugin::NodeResourcesFit) {
        return Ok(());
    }
    let lacks = lacks(request, &info.used, &info.allocatable);
    let hopeless = lacks.iter().any(Lack::is_hopeless);
    Rejection::of(Plugin::NodeResourcesFit, lacks.iter().map(Lack::reason), hopeless).map_or(Ok(()), Err)
}
