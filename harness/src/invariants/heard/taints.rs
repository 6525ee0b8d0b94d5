//! The out-of-service taint of nodes as attach-detach may have it in its cache.
//!
//! Attach-detach reads nodes from its informer. It may detach by force for a taint that has been removed, as long as the
//! removal can be on its way: upstream does the same (kubernetes#141888). The API server tells when it wrote an event to
//! the stream; an event counts as received a second later, or when the faults that held it have ended.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use fake_apiserver::events::{Commit, Told, WatchOpened, WatchSent};
use fake_apiserver::state::EventType;
use substrate::Event;
use substrate::clock::TimeScale;
use substrate::events::{FaultFired, ProcessStarted};
use substrate::fault::{Effect, Span};

use crate::invariants::MAKE_LATE;

/// The process of attach-detach, and the client that watches nodes for it.
const WATCHER: &str = "kube-controller-manager";
/// Milliseconds after which an event has been received, if nothing holds it. Latencies are far below.
const TRAVEL: u64 = 1_000;
/// Milliseconds for which a stream is at most silent before its reader opens another one.
const SILENCE: u64 = 20 * 60 * 1_000;

/// A revision that the watcher is told of.
#[derive(Clone, Copy, Debug)]
struct News {
    /// When it has been received, in milliseconds.
    arrives: u64,
    revision: u64,
}

/// A node, as far as its taint goes.
#[derive(Debug, Default)]
struct Node {
    /// Revisions at which the taint came or went.
    changes: Vec<(u64, bool)>,
    told: Vec<News>,
}

impl Node {
    /// True if the taint was there in a revision that the watcher may have at `ms`.
    fn may_be_tainted(&self, base: &[News], ms: u64) -> bool {
        let received = self.told.iter().chain(base).filter(|news| news.arrives <= ms).map(|news| news.revision);
        let known = received.max().unwrap_or(0);
        let at_known = self.changes.iter().rev().find(|(revision, _)| *revision <= known).is_some_and(|(_, is)| *is);
        at_known || self.changes.iter().any(|(revision, is)| *revision > known && *is)
    }
}

/// All nodes, and the stream of the watcher.
#[derive(Debug, Default)]
pub(super) struct Taints {
    scale: TimeScale,
    nodes: BTreeMap<Arc<str>, Node>,
    /// Revisions of lists, which tell of all nodes.
    base: Vec<News>,
    stream: Option<(Arc<str>, u64)>,
    /// Until when faults hold what is sent.
    held_until: u64,
}

impl Taints {
    /// No nodes; faults divide their delays by `scale`.
    pub fn new(scale: TimeScale) -> Self {
        Self { scale, ..Self::default() }
    }

    /// Takes in an event.
    pub fn observe(&mut self, event: &Event) {
        if let Some(opened) = event.get::<WatchOpened>() {
            self.on_opened(event, opened);
        } else if let Some(sent) = event.get::<WatchSent>() {
            self.on_sent(event, sent);
        } else if let Some(commit) = event.get::<Commit>() {
            self.on_commit(commit);
        } else if let Some(FaultFired { op, effect, .. }) = event.get() {
            match effect {
                Effect::Delay(Span(delay)) if MAKE_LATE.contains(&op.as_str()) => {
                    let delay = millis(self.scale.apply(*delay));
                    self.hold(event.ms, event.ms + delay + TRAVEL);
                }
                Effect::Partition(_)
                | Effect::PartitionOneWay(_)
                | Effect::StallStream(_)
                | Effect::Hang(_)
                | Effect::Watch(_) => self.hold(event.ms, event.ms + SILENCE),
                _ => {}
            }
        } else if event.is::<ProcessStarted>() && &*event.process == WATCHER {
            // A cache begins empty.
            self.base.clear();
            self.stream = None;
            self.nodes.values_mut().for_each(|node| node.told.clear());
        }
    }

    /// Holds what is on its way at `ms`, and what is sent before `until`.
    fn hold(&mut self, ms: u64, until: u64) {
        self.held_until = self.held_until.max(until);
        let told = self.nodes.values_mut().flat_map(|node| &mut node.told).chain(&mut self.base);
        for news in told.filter(|news| news.arrives > ms) {
            news.arrives = news.arrives.max(until);
        }
    }

    fn on_opened(&mut self, event: &Event, opened: &WatchOpened) {
        let caller = opened.caller.split('/').next().unwrap_or_default();
        if (opened.resource.as_str(), caller) != ("nodes", WATCHER) || opened.filtered || opened.object.is_some() {
            return;
        }
        self.stream = Some((event.process.clone(), opened.stream));
        // What was held belonged to the stream before.
        self.held_until = 0;
        if !opened.initial {
            // The reader has the list already.
            self.base = vec![News { arrives: event.ms, revision: opened.from_rv }];
        }
    }

    fn on_sent(&mut self, event: &Event, sent: &WatchSent) {
        let of =
            self.stream.as_ref().is_some_and(|(server, stream)| (server, *stream) == (&event.process, sent.stream));
        if let Some(node) = sent.object.as_ref().filter(|_| of && sent.r#type != Told::Error) {
            self.told(node, sent.rv, event.ms);
        }
    }

    /// The stream tells of a revision of a node at `ms`.
    fn told(&mut self, node: &Arc<str>, revision: u64, ms: u64) {
        let node = self.nodes.entry(node.clone()).or_default();
        let newest = node.told.iter().filter(|news| news.arrives <= ms).map(|news| news.revision).max();
        node.told.retain(|news| news.arrives > ms || Some(news.revision) == newest);
        node.told.push(News { arrives: (ms + TRAVEL).max(self.held_until), revision });
    }

    fn on_commit(&mut self, commit: &Commit) {
        if commit.resource != "nodes" {
            return;
        }
        let is = commit.r#type != EventType::Deleted
            && commit.node.as_ref().is_some_and(|node| {
                node.taints.iter().any(|taint| taint.starts_with("node.kubernetes.io/out-of-service:"))
            });
        self.stored(&commit.object, commit.rv, is);
    }

    /// A revision of a node has the taint, or not.
    fn stored(&mut self, node: &Arc<str>, revision: u64, is: bool) {
        let node = self.nodes.entry(node.clone()).or_default();
        if node.changes.last().is_some_and(|(_, was)| *was) != is {
            node.changes.push((revision, is));
        }
    }

    /// True if attach-detach may have the taint of a node in its cache at `ms`.
    pub fn may_be_cached(&self, node: &str, ms: u64) -> bool {
        self.nodes.get(node).is_some_and(|node| node.may_be_tainted(&self.base, ms))
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A node that was tainted in revision 2 and is no longer in revision 3; its watcher was told of both at once, at
    /// these milliseconds.
    fn told(tainted: u64, removed: Option<u64>) -> (Arc<str>, Taints) {
        let (node, mut taints) = (Arc::from("node-a"), Taints::default());
        for (revision, is) in [(1, false), (2, true), (3, false)] {
            taints.stored(&node, revision, is);
        }
        taints.told(&node, 2, tainted);
        removed.into_iter().for_each(|ms| taints.told(&node, 3, ms));
        (node, taints)
    }

    #[test]
    fn a_taint_is_cached_until_its_removal_has_been_received() {
        let (node, taints) = told(10_000, Some(20_000));
        assert!(taints.may_be_cached(&node, 20_500), "the removal can be on its way");
        assert!(!taints.may_be_cached(&node, 21_000));
        assert!(!taints.may_be_cached(&node, 600_000));
        let (node, taints) = told(10_000, None);
        assert!(taints.may_be_cached(&node, 600_000), "the stream has not told of the removal");
    }

    #[test]
    fn a_fault_holds_what_is_on_its_way_and_no_longer() {
        let (node, mut taints) = told(10_000, Some(20_000));
        taints.hold(20_100, 90_000);
        assert!(taints.may_be_cached(&node, 89_999));
        assert!(!taints.may_be_cached(&node, 90_000));
        // A fault that comes after the removal was received holds nothing of it.
        let (node, mut taints) = told(10_000, Some(20_000));
        taints.hold(30_000, 90_000);
        assert!(!taints.may_be_cached(&node, 31_000));
        // An event that is sent while a fault holds the stream arrives when it ends.
        let (node, mut taints) = told(10_000, None);
        taints.hold(15_000, 90_000);
        taints.told(&node, 3, 20_000);
        assert!(taints.may_be_cached(&node, 60_000));
        assert!(!taints.may_be_cached(&node, 90_000));
    }

    #[test]
    fn a_node_without_the_taint_never_has_it_in_a_cache() {
        let (node, mut taints): (Arc<str>, _) = (Arc::from("node-b"), Taints::default());
        taints.stored(&node, 1, false);
        taints.hold(0, 90_000);
        assert!(!taints.may_be_cached(&node, 5));
        assert!(!taints.may_be_cached("node-c", 5));
        // Nor does one that was tainted in a revision that the watcher has passed.
        let (node, taints) = told(10_000, Some(11_000));
        assert!(!taints.may_be_cached(&node, 12_000));
    }
}
