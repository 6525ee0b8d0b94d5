//! Required affinity and anti-affinity between pods (plugin InterPodAffinity, `plugins/interpodaffinity/filtering.go`).
//! [`pod_affinity_scores`](super::pod_affinity_scores) has preferred terms.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod, PodAffinityTerm};

use super::cache::SchedulerCache;
use super::fit_error::{Plugin, Rejection};
use crate::binder::selectors::{Labels, is_everything, label_selector_matches, node_labels};
use crate::kube::Kind;

/// Reasons of InterPodAffinity (`ErrReasonAffinityRulesNotMatch` and the others).
const NO_AFFINITY: &str = "node(s) didn't match pod affinity rules";
const ANTI_AFFINITY: &str = "node(s) didn't match pod anti-affinity rules";
const ANTI_AFFINITY_OF_OTHERS: &str = "node(s) didn't satisfy existing pods anti-affinity rules";

/// Labels of namespaces by name.
pub type Namespaces = BTreeMap<String, Labels>;

/// Number of matching pods by key and value of a node's label.
type Domains = BTreeMap<(String, String), i64>;

/// Numbers of pods that the terms of a pod match, and that have terms which match it.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    affinity: Domains,
    anti_affinity: Domains,
    of_others: Domains,
    namespaces: Arc<Namespaces>,
}

/// Returns the required affinity terms of a pod.
pub fn affinity_terms(pod: &Pod) -> &[PodAffinityTerm] {
    let affinity = pod.spec.as_ref().and_then(|s| s.affinity.as_ref()).and_then(|a| a.pod_affinity.as_ref());
    affinity.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_deref()).unwrap_or_default()
}

fn anti_affinity_terms(pod: &Pod) -> &[PodAffinityTerm] {
    let affinity = pod.spec.as_ref().and_then(|s| s.affinity.as_ref()).and_then(|a| a.pod_anti_affinity.as_ref());
    affinity.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_deref()).unwrap_or_default()
}

/// Returns true if a term of `owner` selects `other` (`AffinityTerm.Matches`).
pub fn selects(term: &PodAffinityTerm, owner: &Pod, other: &Pod, namespaces: &Namespaces) -> bool {
    let listed = term.namespaces.as_deref().unwrap_or_default();
    let named = if listed.is_empty() && term.namespace_selector.is_none() {
        other.namespace() == owner.namespace()
    } else {
        listed.iter().any(|namespace| namespace == other.namespace())
    };
    let labels = namespaces.get(other.namespace());
    let selected = |s| is_everything(s) || label_selector_matches(s, labels);
    (named || term.namespace_selector.as_ref().is_some_and(selected))
        && term.label_selector.as_ref().is_some_and(|s| label_selector_matches(s, other.metadata.labels.as_ref()))
}

fn selects_all(terms: &[PodAffinityTerm], owner: &Pod, other: &Pod, namespaces: &Namespaces) -> bool {
    !terms.is_empty() && terms.iter().all(|term| selects(term, owner, other, namespaces))
}

fn count(domains: &mut Domains, term: &PodAffinityTerm, node: &Node, by: i64) {
    let Some(value) = node_labels(node).get(&term.topology_key) else { return };
    let domain = (term.topology_key.clone(), value.clone());
    let left = domains.get(&domain).copied().unwrap_or(0) + by;
    // Upstream tests whether any pod matches by the size of the map.
    if left == 0 {
        domains.remove(&domain);
    } else {
        domains.insert(domain, left);
    }
}

impl Counts {
    /// Counts the pods of all nodes (`PreFilter`).
    pub fn of(cache: &SchedulerCache, pod: &Pod) -> Self {
        let mut counts = Self { namespaces: cache.namespaces.clone(), ..Self::default() };
        for info in cache.nodes.values() {
            let Some(node) = &info.node else { continue };
            for placed in info.pods.values() {
                match cache.seeded_bugs.mixes_namespaces {
                    true => counts.change(pod, &moved(&placed.pod, pod.namespace()), node, 1),
                    false => counts.change(pod, &placed.pod, node, 1),
                }
            }
        }
        if cache.seeded_bugs.ignores_terms_of_others {
            counts.of_others.clear();
        }
        counts
    }

    /// Counts a pod that is added to a node, or removed from it (`updateWithPod`).
    pub fn change(&mut self, pod: &Pod, other: &Pod, node: &Node, by: i64) {
        let namespaces = &*self.namespaces;
        for term in anti_affinity_terms(other).iter().filter(|term| selects(term, other, pod, namespaces)) {
            count(&mut self.of_others, term, node, by);
        }
        let terms = affinity_terms(pod);
        if selects_all(terms, pod, other, namespaces) {
            terms.iter().for_each(|term| count(&mut self.affinity, term, node, by));
        }
        for term in anti_affinity_terms(pod).iter().filter(|term| selects(term, pod, other, namespaces)) {
            count(&mut self.anti_affinity, term, node, by);
        }
    }
}

/// Returns a pod as if it were in another namespace: a seeded bug.
fn moved(pod: &Pod, namespace: &str) -> Pod {
    let mut pod = pod.clone();
    pod.metadata.namespace = Some(namespace.to_owned());
    pod
}

/// Applies InterPodAffinity.
///
/// # Errors
/// The rejection.
pub fn check(counts: &Counts, pod: &Pod, node: &Node) -> Result<(), Rejection> {
    let labels = node_labels(node);
    let has = |domains: &Domains, key: &String| {
        let value = labels.get(key)?;
        Some(domains.get(&(key.clone(), value.clone())).is_some_and(|count| *count > 0))
    };
    let terms = affinity_terms(pod);
    let lacks_label = terms.iter().any(|term| !labels.contains_key(&term.topology_key));
    let lacks_pods = terms.iter().any(|term| has(&counts.affinity, &term.topology_key) == Some(false));
    // The first pod of a group whose pods must run together.
    let is_first = counts.affinity.is_empty() && selects_all(terms, pod, pod, &counts.namespaces);
    if lacks_label || lacks_pods && !is_first {
        return Err(Rejection::hopeless(Plugin::InterPodAffinity, NO_AFFINITY));
    }
    if anti_affinity_terms(pod).iter().any(|term| has(&counts.anti_affinity, &term.topology_key) == Some(true)) {
        return Err(Rejection::resolvable(Plugin::InterPodAffinity, ANTI_AFFINITY));
    }
    if !counts.of_others.is_empty() && labels.keys().any(|key| has(&counts.of_others, key) == Some(true)) {
        return Err(Rejection::resolvable(Plugin::InterPodAffinity, ANTI_AFFINITY_OF_OTHERS));
    }
    Ok(())
}

/// Labels of namespaces for the functions below: upstream knows none there.
static UNKNOWN: Namespaces = Namespaces::new();

/// Returns true if a pod that got a node, or another pod than `old` by its labels, may let `pod` satisfy its terms
/// (`isSchedulableAfterPodChange`).
pub fn helped_by(pod: &Pod, old: Option<&Pod>, new: &Pod) -> bool {
    let wants = |other: &Pod| selects_all(affinity_terms(pod), pod, other, &UNKNOWN);
    let avoids = |other: &Pod| selects_all(anti_affinity_terms(pod), pod, other, &UNKNOWN);
    let attracts = wants(new) && !old.is_some_and(wants);
    let left = |old: &Pod| avoids(old) && !avoids(new);
    attracts || old.is_some_and(left)
}

/// Returns true if `pod` may satisfy its terms, and those of the others, without a pod that is gone.
pub fn helped_without(pod: &Pod, gone: &Pod) -> bool {
    selects_all(anti_affinity_terms(pod), pod, gone, &UNKNOWN)
        || selects_all(anti_affinity_terms(gone), gone, pod, &UNKNOWN)
}

/// Returns true if a node that is new, or has other labels than `old`, may let `pod` satisfy its terms
/// (`isSchedulableAfterNodeChange`).
pub fn helped_by_node(pod: &Pod, old: Option<&Node>, new: &Node) -> bool {
    fn domain<'a>(node: &'a Node, term: &PodAffinityTerm) -> Option<&'a String> {
        node_labels(node).get(&term.topology_key)
    }
    let joins = |term: &PodAffinityTerm| {
        domain(new, term).is_some() && old.is_none_or(|old| domain(old, term) != domain(new, term))
    };
    let leaves = |term: &PodAffinityTerm| {
        old.is_none_or(|old| domain(old, term).is_some() && domain(old, term) != domain(new, term))
    };
    affinity_terms(pod).iter().any(joins) || anti_affinity_terms(pod).iter().any(leaves)
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

    fn term(kind: &str, app: &str, key: &str) -> Value {
        let term = json!({ "topologyKey": key, "labelSelector": { "matchLabels": { "app": app } } });
        json!({ kind: { "requiredDuringSchedulingIgnoredDuringExecution": [term] } })
    }

    #[rstest]
    #[case::all(json!({}), true)]
    #[case::by_label(json!({ "matchLabels": { "team": "a" } }), true)]
    #[case::by_name(json!({ "matchLabels": { "kubernetes.io/metadata.name": "other" } }), true)]
    #[case::another_label(json!({ "matchLabels": { "team": "b" } }), false)]
    fn a_selector_sees_the_labels_of_namespaces(#[case] selector: Value, #[case] expected: bool) {
        let mut term =
            term("podAntiAffinity", "db", "zone")["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
                [0]
            .clone();
        term["namespaceSelector"] = selector;
        let term: PodAffinityTerm = from_value(term).expect("a term");
        let mut other = pod("db", "db", json!({}));
        other.metadata.namespace = Some("other".to_owned());
        let labels = [("team", "a"), ("kubernetes.io/metadata.name", "other")];
        let labels = labels.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let namespaces = Namespaces::from([("other".to_owned(), labels)]);
        assert_eq!(selects(&term, &pod("p", "web", json!({})), &other, &namespaces), expected);
    }

    #[rstest]
    #[case::together("web", term("podAffinity", "db", "zone"), [None, Some(NO_AFFINITY), Some(NO_AFFINITY)])]
    #[case::first_of_its_group("web", term("podAffinity", "web", "zone"), [None, None, Some(NO_AFFINITY)])]
    #[case::apart("web", term("podAntiAffinity", "db", "zone"), [Some(ANTI_AFFINITY), None, None])]
    #[case::kept_away("noisy", json!({}), [Some(ANTI_AFFINITY_OF_OTHERS), None, None])]
    #[case::unconcerned("web", json!({}), [None, None, None])]
    fn terms_allow_nodes(#[case] app: &str, #[case] affinity: Value, #[case] expected: [Option<&str>; 3]) {
        let mut cache = SchedulerCache::default();
        let nodes = [("a", json!({ "zone": "1" })), ("b", json!({ "zone": "2" })), ("c", json!({}))];
        for (name, labels) in &nodes {
            let node = json!({ "metadata": { "name": name, "labels": labels } });
            cache.store_node(Arc::new(from_value(node).expect("a node")));
        }
        cache.place(Arc::new(pod("db", "db", term("podAntiAffinity", "noisy", "zone"))), "a");
        let pod = pod("p", app, affinity);
        let counts = Counts::of(&cache, &pod);
        let reasons = nodes.each_ref().map(|(name, _)| {
            let node = cache.nodes[*name].node.clone().expect("is there");
            check(&counts, &pod, &node).err().map(|rejection| rejection.reason.into_owned())
        });
        assert_eq!(reasons.each_ref().map(Option::as_deref), expected);
    }
}
