//! Decision about the number of pods (`manageReplicas`, `getPodsToDelete`).

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

use crate::workload::availability::is_active;
use crate::workload::controller_ref::controller_of;
use crate::workload::ranking;
use crate::workload::related::Selecting;

/// Largest number of creations or deletions in one round (`BurstReplicas`).
const BURST: usize = 500;

/// Writes for the pods of a set.
#[derive(Debug)]
pub(super) enum Manage {
    /// Nothing.
    Keep,
    /// Create so many pods.
    Create(usize),
    /// Delete these pods.
    Delete(Vec<Arc<Pod>>),
}

/// Decides about the active pods of a set. `related` are the pods of all sets of the same owner.
pub(super) fn manage(active: &[Arc<Pod>], replicas: i32, related: &[Arc<Pod>], now: Timestamp) -> Manage {
    // The API server refuses negative numbers.
    let wanted = usize::try_from(replicas).unwrap_or(0);
    if active.len() < wanted {
        Manage::Create((wanted - active.len()).min(BURST))
    } else if active.len() > wanted {
        Manage::Delete(to_delete(active, related, (active.len() - wanted).min(BURST), now))
    } else {
        Manage::Keep
    }
}

/// Returns the pods that the sets of the same controller select (`getIndirectlyRelatedPods`). A set without a controller
/// has no related pods, not even its own.
pub(super) fn related<S: Selecting>(set: &S, sets: &[Arc<S>], mut pods: Vec<Arc<Pod>>) -> Vec<Arc<Pod>> {
    let Some(owner) = controller_of(set.metadata()) else { return Vec::new() };
    let is_sibling = |other: &S| controller_of(other.metadata()).is_some_and(|of| of.uid == owner.uid);
    let siblings: Vec<&Arc<S>> = sets.iter().filter(|other| is_sibling(other)).collect();
    pods.retain(|pod| siblings.iter().any(|set| set.selects(&**pod)));
    pods
}

fn node(pod: &Pod) -> &str {
    pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default()
}

/// Returns the pods to delete; the rank of a pod is the number of active related pods on its node.
fn to_delete(active: &[Arc<Pod>], related: &[Arc<Pod>], count: usize, now: Timestamp) -> Vec<Arc<Pod>> {
    if count >= active.len() {
        return active.to_vec();
    }
    let mut on_node: BTreeMap<&str, usize> = BTreeMap::new();
    for pod in related.iter().filter(|pod| is_active(pod)) {
        *on_node.entry(node(pod)).or_default() += 1;
    }
    let rank = |pod: &Arc<Pod>| on_node.get(node(pod)).copied().unwrap_or(0);
    let mut ranked: Vec<(Arc<Pod>, usize)> = active.iter().map(|pod| (pod.clone(), rank(pod))).collect();
    ranking::sort(&mut ranked, now);
    ranked.into_iter().take(count).map(|(pod, _)| pod).collect()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::ReplicaSet;
    use substrate::json::{from_value, json};

    use super::*;
    use crate::kube::Kind;

    fn pod(name: &str, node: &str) -> Arc<Pod> {
        let spec = json!({ "nodeName": node, "containers": [] });
        let metadata = json!({ "name": name, "uid": name });
        Arc::new(from_value(json!({ "metadata": metadata, "spec": spec, "status": { "phase": "Running" } })).unwrap())
    }

    #[test]
    fn related_are_the_pods_that_sets_of_the_same_controller_select() {
        let set = |name: &str, owner: Option<&str>| -> Arc<ReplicaSet> {
            let owners = owner.map(|uid| {
                json!([{ "apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": uid, "controller": true }])
            });
            let metadata = json!({ "name": name, "uid": name, "namespace": "default", "ownerReferences": owners });
            let selector = json!({ "matchLabels": { "set": name } });
            Arc::new(from_value(json!({ "metadata": metadata, "spec": { "selector": selector } })).unwrap())
        };
        let pod = |name: &str, of: &str| -> Arc<Pod> {
            let metadata = json!({ "name": name, "namespace": "default", "labels": { "set": of } });
            Arc::new(from_value(json!({ "metadata": metadata })).unwrap())
        };
        let sets = [set("old", Some("d")), set("new", Some("d")), set("other", Some("e")), set("bare", None)];
        let pods = || vec![pod("a", "old"), pod("b", "new"), pod("c", "other"), pod("d", "bare")];
        let names =
            |of: &ReplicaSet| related(of, &sets, pods()).iter().map(|pod| pod.name().to_owned()).collect::<Vec<_>>();
        assert_eq!(names(&sets[1]), ["a", "b"]);
        assert!(names(&sets[3]).is_empty(), "a set without a controller ranks no pods");
    }

    #[test]
    fn the_number_of_pods_follows_the_set() {
        let pods = [pod("a", "m"), pod("b", "n"), pod("c", "n")];
        let now = Timestamp::UNIX_EPOCH;
        assert!(matches!(manage(&pods, 3, &[], now), Manage::Keep));
        assert!(matches!(manage(&pods, 5, &[], now), Manage::Create(2)));
        assert!(matches!(manage(&pods, 1000, &[], now), Manage::Create(500)));
        let Manage::Delete(gone) = manage(&pods, 2, &pods, now) else { panic!("a deletion") };
        assert_eq!(gone.iter().map(|pod| pod.name()).collect::<Vec<_>>(), ["b"], "the fuller node loses one");
        assert!(matches!(manage(&pods, 0, &[], now), Manage::Delete(all) if all.len() == 3));
    }
}
