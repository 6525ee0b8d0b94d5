//! Pods without a node that wait for room on one (`backend/queue/nominator.go`). Filters count them as if they were there.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use super::node_info::PodKey;
use crate::kube::Kind;

/// Change of a pod's nominated node after an attempt to schedule it (`NominatingInfo`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Nomination {
    /// The pod keeps its nominated node, if it has one.
    #[default]
    Keep,
    /// The pod has no nominated node any more.
    Clear,
    /// The pod waits for this node.
    Node(String),
}

/// Nominated pods by node.
#[derive(Clone, Debug, Default)]
pub struct Nominations {
    pods: BTreeMap<String, BTreeMap<PodKey, Arc<Pod>>>,
    nodes: BTreeMap<PodKey, String>,
}

/// Returns the nominated node of a pod's status.
pub fn nominated_node(pod: &Pod) -> Option<&str> {
    pod.status.as_ref().and_then(|s| s.nominated_node_name.as_deref()).filter(|node| !node.is_empty())
}

impl Nominations {
    /// Stores the nomination of a pod after an attempt (`AddNominatedPod`).
    pub fn add(&mut self, pod: Arc<Pod>, nomination: &Nomination) {
        let key = PodKey::of(&pod);
        self.remove(&key);
        let node = match nomination {
            Nomination::Keep => nominated_node(&pod).map(str::to_owned),
            Nomination::Clear => None,
            Nomination::Node(node) => Some(node.clone()),
        };
        let Some(node) = node else { return };
        self.pods.entry(node.clone()).or_default().insert(key.clone(), pod);
        self.nodes.insert(key, node);
    }

    /// Stores a pod that was changed (`UpdateNominatedPod`). A nomination that is not yet in the pod's status stays.
    pub fn update(&mut self, old: Option<&Pod>, pod: Arc<Pod>) {
        let known = self.nodes.get(&PodKey::of(&pod)).cloned();
        let unwritten = nominated_node(&pod).is_none()
            && old.is_some_and(|old| nominated_node(old).is_none() && old.uid() == pod.uid());
        let nomination = match known {
            Some(node) if unwritten => Nomination::Node(node),
            _ => Nomination::Keep,
        };
        self.add(pod, &nomination);
    }

    /// Forgets a pod: it has a node, or was deleted.
    pub fn remove(&mut self, key: &PodKey) {
        let Some(node) = self.nodes.remove(key) else { return };
        if let Some(pods) = self.pods.get_mut(&node) {
            pods.remove(key);
            if pods.is_empty() {
                self.pods.remove(&node);
            }
        }
    }

    /// Returns the pods that wait for a node, by name.
    pub fn on(&self, node: &str) -> impl Iterator<Item = &Arc<Pod>> {
        self.pods.get(node).into_iter().flat_map(BTreeMap::values)
    }

    /// Returns the node for which a pod waits.
    pub fn node_of(&self, key: &PodKey) -> Option<&str> {
        self.nodes.get(key).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use substrate::json::{from_value, json};

    use super::*;

    fn pod(node: Option<&str>) -> Arc<Pod> {
        let metadata = json!({ "namespace": "default", "name": "p", "uid": "1" });
        Arc::new(from_value(json!({ "metadata": metadata, "status": { "nominatedNodeName": node } })).expect("a pod"))
    }

    #[test]
    fn a_nomination_stays_until_the_status_says_otherwise() {
        let mut nominations = Nominations::default();
        let key = PodKey::of(&pod(None));
        nominations.add(pod(None), &Nomination::Node("a".to_owned()));
        // A change of the pod that comes before the answer of our own write.
        nominations.update(Some(&pod(None)), pod(None));
        assert_eq!((nominations.node_of(&key), nominations.on("a").count()), (Some("a"), 1));
        nominations.update(Some(&pod(None)), pod(Some("a")));
        nominations.update(Some(&pod(Some("a"))), pod(Some("b")));
        assert_eq!((nominations.node_of(&key), nominations.on("a").count()), (Some("b"), 0));
        nominations.update(Some(&pod(Some("b"))), pod(None));
        assert_eq!((nominations.node_of(&key), nominations.on("b").count()), (None, 0));
    }

    #[test]
    fn an_attempt_keeps_or_clears_the_nominated_node() {
        let mut nominations = Nominations::default();
        let key = PodKey::of(&pod(None));
        nominations.add(pod(Some("a")), &Nomination::Keep);
        assert_eq!(nominations.node_of(&key), Some("a"));
        nominations.add(pod(Some("a")), &Nomination::Clear);
        assert_eq!(nominations.node_of(&key), None);
    }
}
