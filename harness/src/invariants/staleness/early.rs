//! Pods that were placed on a node before the scheduler knew the node's volume limit.
//!
//! The scheduler knows no limit for a driver that a CSINode does not list, so such a node gets any number of volumes.
//! When the driver has registered and refuses the last of them, the pod stays there and waits.

use std::collections::{BTreeMap, BTreeSet};

use csi_mock::events::CsiDone;
use fake_apiserver::events::Commit;
use fake_apiserver::state::EventType;
use substrate::Event;

/// The node of a pod with claims.
#[derive(Debug)]
struct PlacedPod {
    node: String,
    /// True if the scheduler did not know a limit of the node at that time.
    early: bool,
}

/// Nodes with a limit, pods that were placed on them before the scheduler knew it, and full nodes.
#[derive(Debug, Default)]
pub(super) struct Early {
    /// Nodes whose CSINode has a limit for a driver, and the revision since which it has.
    limited: BTreeMap<String, u64>,
    /// By namespace and name.
    pods: BTreeMap<String, PlacedPod>,
    /// Nodes whose driver has refused further volumes.
    full: BTreeSet<String>,
}

impl Early {
    /// Records an event that is not a commit; `node_of` gives the node of an instance.
    pub fn observe(&mut self, event: &Event, node_of: impl Fn(&str) -> String) {
        if let Some(done) = event.get::<CsiDone>()
            && (&*done.rpc, &*done.code) == ("ControllerPublishVolume", "RESOURCE_EXHAUSTED")
            && let Some(node) = &done.node
        {
            self.full.insert(node_of(node));
        }
    }

    /// Records a commit; `known` gives the revision of a CSINode that the scheduler knows.
    pub fn on_commit(&mut self, commit: &Commit, known: impl Fn(&str) -> u64) {
        let object = &*commit.object;
        match (&*commit.resource, commit.r#type) {
            ("csinodes", EventType::Deleted) => drop(self.limited.remove(object)),
            ("csinodes", _) => {
                let mut drivers = commit.csinode.iter().flat_map(|is| &is.drivers);
                if drivers.all(|driver| driver.limit.is_none()) {
                    self.limited.remove(object);
                } else {
                    self.limited.entry(object.to_owned()).or_insert(commit.rv);
                }
            }
            ("pods", EventType::Deleted) => drop(self.pods.remove(object)),
            ("pods", _) => {
                let Some(pod) = commit.pod.as_ref().filter(|pod| !pod.claims.is_empty()) else { return };
                let Some(node) = pod.node.as_deref().filter(|_| !self.pods.contains_key(object)) else { return };
                let early = self.limited.get(node).is_none_or(|since| known(node) < *since);
                self.pods.insert(object.to_owned(), PlacedPod { node: node.to_owned(), early });
            }
            _ => {}
        }
    }

    /// Returns true if the pod waits on a full node on which an uncounted pod was placed.
    pub fn is_one_too_many(&self, pod: &str) -> bool {
        let Some(PlacedPod { node, .. }) = self.pods.get(pod).filter(|place| self.full.contains(&place.node)) else {
            return false;
        };
        self.pods.values().any(|place| place.early && place.node == *node)
    }
}
