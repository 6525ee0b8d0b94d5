//! Decision about the number of pods (`manageReplicas`, `getPodsToDelete`).

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

use crate::workload::availability::is_active;
use crate::workload::ranking;

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
    use substrate::json::{from_value, json};

    use super::*;
    use crate::kube::Kind;

    fn pod(name: &str, node: &str) -> Arc<Pod> {
        let spec = json!({ "nodeName": node, "containers": [] });
        let metadata = json!({ "name": name, "uid": name });
        Arc::new(from_value(json!({ "metadata": metadata, "spec": spec, "status": { "phase": "Running" } })).unwrap())
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
