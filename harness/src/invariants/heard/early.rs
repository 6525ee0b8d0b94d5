//! Pods that were put on a node before the scheduler had heard how many volumes it takes.
//!
//! It knows no limit for a driver that a CSINode does not list, so such a node gets any number of volumes. When its driver has
//! registered and refuses the last of them, the pod stays there and waits.

use std::collections::{BTreeMap, BTreeSet};

use csi_mock::events::CsiDone;
use fake_apiserver::events::Commit;
use fake_apiserver::state::EventType;
use substrate::Event;

/// Where a pod with claims was put.
#[derive(Debug)]
struct Place {
    node: String,
    /// The scheduler knew no limit of the node then.
    early: bool,
}

/// Which nodes have a limit, what was put on them before the scheduler knew it, and which are full.
#[derive(Debug, Default)]
pub(super) struct Early {
    /// Nodes whose CSINode says how many volumes a driver takes, and the revision since which it does.
    limited: BTreeMap<String, u64>,
    /// By namespace and name.
    pods: BTreeMap<String, Place>,
    /// Nodes of which the driver said that they take no more volumes.
    full: BTreeSet<String>,
}

impl Early {
    /// Takes in what is no commit; `node_of` gives the node of an instance.
    pub fn observe(&mut self, event: &Event, node_of: impl Fn(&str) -> String) {
        if let Some(done) = event.get::<CsiDone>()
            && (&*done.rpc, &*done.code) == ("ControllerPublishVolume", "RESOURCE_EXHAUSTED")
            && let Some(node) = &done.node
        {
            self.full.insert(node_of(node));
        }
    }

    /// Takes in a commit; `known` gives the revision of a CSINode that the scheduler knows.
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
                self.pods.insert(object.to_owned(), Place { node: node.to_owned(), early });
            }
            _ => {}
        }
    }

    /// Whether the pod waits on a node that takes no more volumes, and on which one was put that nobody counted.
    pub fn is_one_too_many(&self, pod: &str) -> bool {
        let Some(Place { node, .. }) = self.pods.get(pod).filter(|place| self.full.contains(&place.node)) else {
            return false;
        };
        self.pods.values().any(|place| place.early && place.node == *node)
    }
}
