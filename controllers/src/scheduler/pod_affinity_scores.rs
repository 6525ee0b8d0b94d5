//! Scores of preferred affinity and anti-affinity between pods (plugin InterPodAffinity,
//! `plugins/interpodaffinity/scoring.go`).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, Pod, PodAffinityTerm};

use super::cache::SchedulerCache;
use super::node_info::NodeInfo;
use super::pod_affinity::{Namespaces, affinity_terms, selects};
use super::scores::MAX;
use crate::binder::selectors::node_labels;

/// Weight of the required terms of pods on nodes (`hardPodAffinityWeight`).
const REQUIRED: i64 = 1;

/// Sums of weights by key and value of a node's label.
type Domains = BTreeMap<(String, String), i64>;

/// Returns the preferred terms of a pod with their weights; those of anti-affinity are negative.
fn preferred(pod: &Pod) -> impl Iterator<Item = (&PodAffinityTerm, i64)> {
    let affinity = pod.spec.as_ref().and_then(|spec| spec.affinity.as_ref());
    let together = affinity
        .and_then(|affinity| affinity.pod_affinity.as_ref())
        .and_then(|all| all.preferred_during_scheduling_ignored_during_execution.as_deref());
    let apart = affinity
        .and_then(|affinity| affinity.pod_anti_affinity.as_ref())
        .and_then(|all| all.preferred_during_scheduling_ignored_during_execution.as_deref());
    let together = together.unwrap_or_default().iter().map(|term| (term, 1));
    let apart = apart.unwrap_or_default().iter().map(|term| (term, -1));
    together.chain(apart).map(|(term, sign)| (&term.pod_affinity_term, sign * i64::from(term.weight)))
}

fn add(domains: &mut Domains, term: &PodAffinityTerm, node: &Node, weight: i64) {
    if let Some(value) = node_labels(node).get(&term.topology_key) {
        *domains.entry((term.topology_key.clone(), value.clone())).or_default() += weight;
    }
}

/// Adds the weights of the terms between the incoming pod and one on a node (`processExistingPod`).
fn process(domains: &mut Domains, pod: &Pod, other: &Pod, node: &Node, namespaces: &Namespaces) {
    for (term, weight) in preferred(pod).filter(|(term, _)| selects(term, pod, other, namespaces)) {
        add(domains, term, node, weight);
    }
    for term in affinity_terms(other).iter().filter(|term| selects(term, other, pod, namespaces)) {
        add(domains, term, node, REQUIRED);
    }
    for (term, weight) in preferred(other).filter(|(term, _)| selects(term, other, pod, namespaces)) {
        add(domains, term, node, weight);
    }
}

/// Returns the score of each of `nodes`, which passed the filters: those with the greatest sum of weights get the highest
/// score, those with the least sum none.
pub fn scores(cache: &SchedulerCache, pod: &Pod, nodes: &[&NodeInfo]) -> Vec<i64> {
    let mut domains = Domains::new();
    for info in cache.nodes.values() {
        let Some(node) = &info.node else { continue };
        info.pods.values().for_each(|placed| process(&mut domains, pod, &placed.pod, node, &cache.namespaces));
    }
    let sum = |info: &&NodeInfo| -> i64 {
        let labels = info.node.as_ref().map(|node| node_labels(node));
        let of = |((key, value), sum): (&(String, String), &i64)| {
            labels.filter(|labels| labels.get(key) == Some(value)).map_or(0, |_| *sum)
        };
        domains.iter().map(of).sum()
    };
    normalized(&nodes.iter().map(sum).collect::<Vec<_>>())
}

/// Scales sums to scores (`NormalizeScore`).
#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "upstream computes with float64")]
fn normalized(sums: &[i64]) -> Vec<i64> {
    let (least, most) = (sums.iter().min().copied().unwrap_or(0), sums.iter().max().copied().unwrap_or(0));
    let scale = |sum: &i64| {
        if most == least { 0 } else { (MAX as f64 * ((sum - least) as f64 / (most - least) as f64)) as i64 }
    };
    sums.iter().map(scale).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rstest::rstest;
    use substrate::json::{Value, from_value, json};

    use super::*;

    fn pod(name: &str, app: &str, affinity: Value) -> Pod {
        let metadata = json!({ "namespace": "default", "name": name, "labels": { "app": app } });
        from_value(json!({ "metadata": metadata, "spec": { "affinity": affinity, "containers": [] } })).expect("a pod")
    }

    fn term(app: &str) -> Value {
        json!({ "topologyKey": "zone", "labelSelector": { "matchLabels": { "app": app } } })
    }

    fn preferring(kind: &str, weight: i32, app: &str) -> Value {
        let weighted = json!([{ "weight": weight, "podAffinityTerm": term(app) }]);
        json!({ kind: { "preferredDuringSchedulingIgnoredDuringExecution": weighted } })
    }

    fn required(app: &str) -> Value {
        json!({ "podAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [term(app)] } })
    }

    // Nodes a and b are in zone 1, c is in zone 2, and d has no zone. A pod of the app db runs on a.
    #[rstest]
    #[case::together(preferring("podAffinity", 5, "db"), json!({}), [100, 100, 0, 0])]
    #[case::apart(preferring("podAntiAffinity", 5, "db"), json!({}), [0, 0, 100, 100])]
    #[case::unconcerned(preferring("podAffinity", 5, "cache"), json!({}), [0, 0, 0, 0])]
    #[case::the_other_wants_it(json!({}), preferring("podAffinity", 1, "web"), [100, 100, 0, 0])]
    #[case::the_other_needs_it(json!({}), required("web"), [100, 100, 0, 0])]
    #[case::the_other_avoids_it(preferring("podAffinity", 5, "db"), preferring("podAntiAffinity", 9, "web"), [0, 0, 100, 100])]
    fn preferred_terms_are_the_score(#[case] own: Value, #[case] of_other: Value, #[case] expected: [i64; 4]) {
        let mut cache = SchedulerCache::default();
        let nodes = [
            ("a", json!({ "zone": "1" })),
            ("b", json!({ "zone": "1" })),
            ("c", json!({ "zone": "2" })),
            ("d", json!({})),
        ];
        for (name, labels) in &nodes {
            let node = json!({ "metadata": { "name": name, "labels": labels } });
            cache.store_node(Arc::new(from_value(node).expect("a node")));
        }
        cache.place(Arc::new(pod("db", "db", of_other)), "a");
        let infos: Vec<&NodeInfo> = cache.nodes.values().collect();
        assert_eq!(scores(&cache, &pod("p", "web", own), &infos), expected);
    }

    #[test]
    fn sums_are_scaled_from_the_least_to_the_greatest() {
        assert_eq!(normalized(&[-5, 1, 4]), [0, 66, 100]);
    }
}
