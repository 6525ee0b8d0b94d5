//! Pods that were placed on a node before the scheduler knew the node's volume limit.
//!
//! The scheduler knows no limit for a driver that a CSINode does not list, so such a node gets any number of volumes.
//! When the driver has registered and refuses the last of them, the pod stays there and waits. Pods that were created
//! later do not come to a full node, so this is the cause only if the earlier pods alone exceed the limit. They may be
//! bound later: the scheduler may wait for their volumes first.

use std::collections::{BTreeMap, BTreeSet};

use csi_mock::events::CsiDone;
use fake_apiserver::events::Commit;
use fake_apiserver::state::EventType;
use substrate::Event;

use crate::model::{ClaimKey, NodeName, PodKey, claims_of};

/// A pod with claims.
#[derive(Debug)]
struct PodWithClaims {
    node: Option<NodeName>,
    claims: Vec<ClaimKey>,
    /// The revision at which it was created.
    created: u64,
}

/// The limit in a CSINode.
#[derive(Debug)]
struct Limit {
    /// The revision since which it has one.
    since: u64,
    /// The smallest one of its drivers.
    least: u64,
    /// The revision of the first pod that was created when the scheduler knew the limit.
    counts_from: Option<u64>,
}

/// Nodes with a limit, pods that were placed on them before the scheduler knew it, and full nodes.
#[derive(Debug, Default)]
pub(super) struct Early {
    /// Nodes whose CSINode has a limit for a driver.
    limited: BTreeMap<NodeName, Limit>,
    pods: BTreeMap<PodKey, PodWithClaims>,
    /// Nodes whose driver has refused further volumes.
    full: BTreeSet<NodeName>,
}

impl Early {
    /// Records an event that is not a commit; `node_of` gives the node of an instance.
    pub fn observe(&mut self, event: &Event, node_of: impl Fn(&str) -> String) {
        if let Some(done) = event.get::<CsiDone>()
            && (&*done.rpc, &*done.code) == ("ControllerPublishVolume", "RESOURCE_EXHAUSTED")
            && let Some(node) = &done.node
        {
            self.full.insert((&*node_of(node)).into());
        }
    }

    /// Records a commit; `known` gives the revision of a CSINode that the scheduler knows.
    pub fn on_commit(&mut self, commit: &Commit, known: impl Fn(&str) -> u64) {
        let object = &*commit.object;
        match (&*commit.resource, commit.r#type) {
            ("csinodes", EventType::Deleted) => drop(self.limited.remove(object)),
            ("csinodes", _) => {
                let drivers = commit.csinode.iter().flat_map(|is| &is.drivers);
                if let Some(least) = drivers.filter_map(|driver| driver.limit).min() {
                    let new = || Limit { since: commit.rv, least, counts_from: None };
                    self.limited.entry(object.into()).or_insert_with(new).least = least;
                } else {
                    self.limited.remove(object);
                }
            }
            ("pods", EventType::Deleted) => drop(self.pods.remove(object)),
            ("pods", _) => {
                let Some(pod) = commit.pod.as_ref().filter(|pod| !pod.claims.is_empty()) else { return };
                if !self.pods.contains_key(object) {
                    for (node, limit) in self.limited.iter_mut().filter(|(_, limit)| limit.counts_from.is_none()) {
                        limit.counts_from = (known(node) >= limit.since).then_some(commit.rv);
                    }
                }
                let new = || PodWithClaims { node: None, claims: claims_of(object, pod).collect(), created: commit.rv };
                let one = self.pods.entry(object.into()).or_insert_with(new);
                let node = pod.node.as_deref().filter(|node| !node.is_empty());
                one.node = one.node.take().or_else(|| node.map(NodeName::from));
            }
            _ => {}
        }
    }

    /// Returns true if the pod waits on a full node, and the claims of the pods that were created before the scheduler
    /// knew the limit of that node exceed this limit.
    pub fn is_one_too_many(&self, pod: &str) -> bool {
        let node = self.pods.get(pod).and_then(|pod| pod.node.as_ref());
        let Some(node) = node.filter(|node| self.full.contains(*node)) else { return false };
        let Some(limit) = self.limited.get(node) else { return false };
        let is_early = |pod: &&PodWithClaims| limit.counts_from.is_none_or(|from| pod.created < from);
        let early = self.pods.values().filter(|pod| pod.node.as_ref() == Some(node)).filter(is_early);
        let claims: BTreeSet<&ClaimKey> = early.flat_map(|pod| &pod.claims).collect();
        claims.len() as u64 > limit.least
    }
}
