//! Scores of the nodes that fit a pod (`prioritizeNodes`), with the weights of upstream's default plugins.

use std::cmp::Reverse;

use k8s_openapi::api::core::v1::{Node, NodeSelector, Pod};

use super::cache::SchedulerCache;
use super::incoming::Incoming;
use super::node_filters::intolerable;
use super::node_info::NodeInfo;
use super::resources::Resources;
use super::{image_locality, pod_affinity_scores, spread};
use crate::binder::selectors::{node_labels, node_selector_matches};
use crate::kube::Kind;

/// Highest score that a plugin gives a node (`MaxNodeScore`).
pub const MAX: i64 = 100;
/// Resources that scores weigh, each alike.
const WEIGHED: [&str; 2] = ["cpu", "memory"];

/// Returns the position of the best node. Upstream chooses randomly among those with the highest score; here the fewest
/// pods decide, and then the order of the nodes.
pub fn best<'a>(
    cache: &SchedulerCache,
    incoming: &Incoming<'_>,
    nodes: impl IntoIterator<Item = &'a NodeInfo>,
) -> Option<usize> {
    let nodes: Vec<&NodeInfo> = nodes.into_iter().collect();
    if nodes.len() < 2 {
        return nodes.len().checked_sub(1);
    }
    let totals = totals(cache, incoming, &nodes);
    let rank = |at: &usize| (totals[*at], Reverse(nodes[*at].pods.len()), Reverse(*at));
    (0..nodes.len()).max_by_key(rank)
}

/// Returns the total score of each node.
fn totals(cache: &SchedulerCache, incoming: &Incoming<'_>, nodes: &[&NodeInfo]) -> Vec<i64> {
    let mut totals = vec![0; nodes.len()];
    let mut add = |weight: i64, scores: Vec<i64>| {
        totals.iter_mut().zip(scores).for_each(|(total, score)| *total += weight * score);
    };
    let of_nodes = |score: &dyn Fn(&Node) -> i64| {
        nodes.iter().map(|info| info.node.as_ref().map_or(0, |node| score(node))).collect::<Vec<_>>()
    };
    let pod = incoming.pod;
    add(3, normalized(of_nodes(&|node| intolerable(pod, node, "PreferNoSchedule")), true));
    add(2, normalized(of_nodes(&|node| preferred(pod, node)), false));
    let weight = Resources::weighed(pod);
    add(1, nodes.iter().map(|info| least_allocated(&weight, info)).collect());
    // Otherwise all pods without requests would be placed on one node (kubernetes#129138).
    if WEIGHED.iter().any(|name| incoming.request.get(name) > 0) {
        add(1, nodes.iter().map(|info| balanced(&incoming.request, info)).collect());
    }
    if let Some(scores) = spread::scores(cache, pod, nodes) {
        add(2, scores);
    }
    add(2, pod_affinity_scores::scores(cache, pod, nodes));
    add(1, image_locality::scores(cache, pod, nodes));
    totals
}

/// Scales counts to scores (`DefaultNormalizeScore`); with `reverse` the highest count gets no score.
fn normalized(counts: Vec<i64>, reverse: bool) -> Vec<i64> {
    let most = counts.iter().copied().max().unwrap_or(0);
    let score = |count: i64| match (most, reverse) {
        (0, false) => count,
        (0, true) => MAX,
        (_, false) => MAX * count / most,
        (_, true) => MAX - MAX * count / most,
    };
    counts.into_iter().map(score).collect()
}

/// Returns the sum of the weights of the pod's preferred terms that select the node (NodeAffinity).
fn preferred(pod: &Pod, node: &Node) -> i64 {
    let affinity = pod.spec.as_ref().and_then(|s| s.affinity.as_ref()).and_then(|a| a.node_affinity.as_ref());
    let terms = affinity.and_then(|a| a.preferred_during_scheduling_ignored_during_execution.as_deref());
    let selects = |term: &k8s_openapi::api::core::v1::NodeSelectorTerm| {
        let selector = NodeSelector { node_selector_terms: vec![term.clone()] };
        node_selector_matches(&selector, node.name(), node_labels(node))
    };
    let terms = terms.unwrap_or_default().iter().filter(|term| selects(&term.preference));
    terms.map(|term| i64::from(term.weight)).sum()
}

/// Returns the mean of the free shares of cpu and memory with the pod on the node (`leastResourceScorer`).
fn least_allocated(weight: &Resources, info: &NodeInfo) -> i64 {
    let free = |name: &&str| {
        let (capacity, used) = (info.allocatable.get(name), info.weight.get(name).saturating_add(weight.get(name)));
        (capacity > 0).then(|| if used > capacity { 0 } else { share(capacity - used, capacity) })
    };
    let scores: Vec<i64> = WEIGHED.iter().filter_map(free).collect();
    scores.iter().sum::<i64>().checked_div(i64::try_from(scores.len()).unwrap_or(i64::MAX)).unwrap_or(0)
}

/// Returns `part` of `whole` in hundredths, rounded down.
fn share(part: i64, whole: i64) -> i64 {
    i64::try_from(i128::from(part) * i128::from(MAX) / i128::from(whole)).unwrap_or(MAX)
}

/// Returns a score that is higher the closer the used shares of cpu and memory are (`balancedResourceScorer`).
#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "upstream computes with float64")]
fn balanced(request: &Resources, info: &NodeInfo) -> i64 {
    let used = |name: &&str| {
        let (capacity, used) = (info.allocatable.get(name), info.used.get(name).saturating_add(request.get(name)));
        (capacity > 0).then(|| (used as f64 / capacity as f64).min(1.0))
    };
    let shares: Vec<f64> = WEIGHED.iter().filter_map(used).collect();
    let deviation = match shares[..] {
        [cpu, memory] => ((cpu - memory) / 2.0).abs(),
        _ => 0.0,
    };
    ((1.0 - deviation) * MAX as f64) as i64
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rstest::rstest;
    use substrate::json::{Value, from_value, json};

    use super::*;
    use crate::scheduler::node_info::Placed;

    fn pod(name: &str, requests: Value) -> Pod {
        let containers = json!([{ "name": "c", "resources": { "requests": requests } }]);
        let metadata = json!({ "namespace": "default", "name": name });
        from_value(json!({ "metadata": metadata, "spec": { "containers": containers } })).expect("a pod")
    }

    fn node(cpu: &str, memory: &str, there: &[Value]) -> NodeInfo {
        let allocatable = json!({ "cpu": cpu, "memory": memory });
        let node: Node = from_value(json!({ "metadata": { "name": "n" }, "status": { "allocatable": allocatable } }))
            .expect("a node");
        let mut info =
            NodeInfo { allocatable: Resources::allocatable(&node), node: Some(Arc::new(node)), ..NodeInfo::default() };
        for (at, requests) in there.iter().enumerate() {
            info.add(Placed::of(Arc::new(pod(&format!("p{at}"), requests.clone()))));
        }
        info
    }

    // Cases of upstream's TestLeastAllocatedScoringStrategy.
    #[rstest]
    #[case::requested(json!({ "cpu": "3000m", "memory": "5000" }), node("4000m", "10000", &[]), 37)]
    #[case::requested_of_a_larger_node(json!({ "cpu": "3000m", "memory": "5000" }), node("6000m", "10000", &[]), 50)]
    #[case::others_count(json!({ "cpu": "0", "memory": "0" }), node("10000m", "20000", &[json!({ "cpu": "6000m", "memory": "0" })]), 70)]
    #[case::more_than_there_is(json!({ "cpu": "0", "memory": "0" }), node("4000m", "10000", &[json!({ "cpu": "6000m", "memory": "0" })]), 50)]
    #[case::no_resources(json!({ "cpu": "3000m", "memory": "5000" }), node("0", "0", &[]), 0)]
    #[case::small_defaults(json!({}), node("1000m", "1000Mi", &[json!({})]), 70)]
    fn free_shares_are_the_score(#[case] requests: Value, #[case] info: NodeInfo, #[case] expected: i64) {
        let pod = pod("p", requests);
        assert_eq!(least_allocated(&Resources::weighed(&pod), &info), expected);
    }

    // Cases of upstream's TestNodeResourcesBalancedAllocation.
    #[rstest]
    #[case::balanced(json!({ "cpu": "3000m", "memory": "5000" }), node("6000m", "10000", &[]), 100)]
    #[case::unbalanced(json!({ "cpu": "3000m", "memory": "5000" }), node("4000m", "10000", &[]), 87)]
    #[case::with_others(json!({ "cpu": "3000m", "memory": "5000" }), node("10000m", "20000", &[json!({ "cpu": "3000m" })]), 82)]
    #[case::more_than_there_is(json!({ "cpu": "5000m", "memory": "0" }), node("4000m", "10000", &[]), 50)]
    fn even_shares_are_the_score(#[case] requests: Value, #[case] info: NodeInfo, #[case] expected: i64) {
        let pod = pod("p", requests);
        assert_eq!(balanced(&Resources::requested(&pod), &info), expected);
    }

    #[test]
    fn counts_are_scaled_to_the_highest() {
        assert_eq!(normalized(vec![0, 5, 10], false), [0, 50, 100]);
        assert_eq!(normalized(vec![0, 1, 3], true), [100, 67, 0]);
        assert_eq!(normalized(vec![0, 0], true), [100, 100]);
        assert_eq!(normalized(vec![0, 0], false), [0, 0]);
    }
}
