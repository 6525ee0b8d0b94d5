//! The node object that each kubelet has in its cache.
//!
//! A kubelet compares its status with the node of its informer. If they are equal, it writes nothing, and assumes that
//! the volumes in `status.volumesInUse` of the cached node are reported (`pkg/kubelet/kubelet_node_status.go`,
//! `tryUpdateNodeStatus` and `markVolumesFromNode`).

use std::collections::BTreeMap;
use std::time::Duration;

use fake_apiserver::events::{Commit, WatchOpened, WatchSent};
use fake_apiserver::state::EventType;
use substrate::Event;
use substrate::clock::TimeScale;
use substrate::events::{FaultFired, ProcessStarted};
use substrate::json::Text;

use super::cache::{Cache, client};
use super::handle;
use crate::spec::names;

/// The start of a kubelet's User-Agent.
const KUBELET: &str = "kubelet";
/// Maximum time between two updates of a node's status: 10 s with 4 % jitter, and the time of a request.
pub(in crate::invariants) const ROUND: Duration = Duration::from_secs(11);
/// Minimum time between two updates.
const NEXT: Duration = Duration::from_millis(9_900);
/// Time in milliseconds for which removals are kept, longer than any round.
const KEPT: u64 = 10 * 60 * 1_000;

/// The caches of all kubelets, by node.
#[derive(Debug)]
pub(super) struct Kubelets {
    scale: TimeScale,
    nodes: BTreeMap<String, Cache<Vec<Text>>>,
    /// The volumes that each stored node lists in use.
    listed: BTreeMap<String, Vec<Text>>,
    /// Time in milliseconds of the last removal of a volume from the list of a node.
    removed: BTreeMap<(String, Text), u64>,
}

impl Kubelets {
    /// Creates the state before the first event.
    pub fn new(scale: TimeScale) -> Self {
        Self { scale, nodes: BTreeMap::new(), listed: BTreeMap::new(), removed: BTreeMap::new() }
    }

    pub fn observe(&mut self, event: &Event) {
        if let Some(opened) = event.get::<WatchOpened>() {
            let Some(node) = opened.object.as_ref().filter(|_| opened.resource == "nodes") else { return };
            if client(&opened.caller) == KUBELET {
                let new = || Cache::of_object(self.scale, KUBELET, names::kubelet(node), "nodes", node.clone());
                self.nodes.entry(node.to_string()).or_insert_with(new).observe(event, in_use);
            }
        } else if let Some(sent) = event.get::<WatchSent>() {
            self.update(sent.object.as_deref(), event);
        } else if let Some(commit) = event.get::<Commit>() {
            if commit.resource == "nodes" {
                self.note_removed(&commit.object, in_use(commit), event.ms);
            }
            self.update(Some(&*commit.object).filter(|_| commit.resource == "nodes"), event);
        } else if event.is::<FaultFired>() || event.is::<ProcessStarted>() {
            self.nodes.values_mut().for_each(|cache| cache.observe(event, in_use));
        }
    }

    /// Records which volumes a node, which now lists `now`, lists no longer.
    fn note_removed(&mut self, node: &str, now: Vec<Text>, ms: u64) {
        let before = self.listed.insert(node.to_owned(), now.clone()).unwrap_or_default();
        let gone: Vec<Text> = before.into_iter().filter(|name| !now.contains(name)).collect();
        if !gone.is_empty() {
            self.removed.retain(|_, at| *at + KEPT > ms);
        }
        self.removed.extend(gone.into_iter().map(|name| ((node.to_owned(), name), ms)));
    }

    fn update(&mut self, node: Option<&str>, event: &Event) {
        if let Some(cache) = node.and_then(|node| self.nodes.get_mut(node)) {
            cache.observe(event, in_use);
        }
    }

    /// Returns true if a kubelet may have read a node from its cache in the status update before `ms` that lists a
    /// volume in use. The update that removed the volume from the list is not such an update.
    pub fn may_list(&self, node: &str, volume: &str, ms: u64) -> bool {
        let scaled = |time: Duration| u64::try_from(self.scale.apply(time).as_millis()).unwrap_or(u64::MAX);
        let is = |((of, name), _): &(&(String, Text), &u64)| of == node && handle(name) == Some(volume);
        let removed = self.removed.iter().find(is).map_or(0, |(_, at)| *at + scaled(NEXT));
        let update = ms.saturating_sub(scaled(ROUND)).max(removed);
        let lists = |_, listed: &Vec<Text>| listed.iter().any(|name| handle(name) == Some(volume));
        update <= ms && self.nodes.get(node).is_some_and(|cache| cache.may_have(node, update, lists))
    }
}

fn in_use(commit: &Commit) -> Vec<Text> {
    let node = commit.node.as_ref().filter(|_| commit.r#type != EventType::Deleted);
    node.map(|node| node.volumes_in_use.clone()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use fake_apiserver::events::{Node, WatchEventType};
    use substrate::World;
    use substrate::world::{Options, simulate};

    use super::*;

    const NODE: &str = "node-a";

    fn stored(world: &World, revision: u64, lists: bool) {
        let listed = if lists { vec!["kubernetes.io/csi/ebs.csi.aws.com^vol-1".into()] } else { Vec::new() };
        let mut commit = Commit::new("nodes", NODE, revision, EventType::Modified);
        commit.node = Some(Box::new(Node { volumes_in_use: listed, ..Node::default() }));
        world.trace().info(&"fake-apiserver".into(), commit);
    }

    /// Returns whether the kubelet may list the volume at the end. Its node listed the volume in revision 2, and lists
    /// it no longer in revision 3, which was sent if `sent`.
    fn may_list(sent: bool, then: Duration) -> bool {
        let (events, ms) = simulate(Options::default(), async |world| {
            stored(&world, 1, false);
            let opened = WatchOpened {
                bookmarks: true,
                caller: "kubelet/v1.36.2 (linux/amd64)".into(),
                filtered: false,
                from_rv: 1,
                group: "".into(),
                initial: false,
                namespace: None,
                node: None,
                object: Some(NODE.into()),
                resource: "nodes".into(),
                stream: 1,
            };
            world.trace().info(&"fake-apiserver".into(), opened);
            let send = |rv: u64| {
                let (object, r#type) = (Some(NODE.into()), WatchEventType::Modified);
                world
                    .trace()
                    .info(&"fake-apiserver".into(), WatchSent { initial: false, object, rv, stream: 1, r#type });
            };
            stored(&world, 2, true);
            send(2);
            tokio::time::sleep(Duration::from_secs(60)).await;
            stored(&world, 3, false);
            if sent {
                send(3);
            }
            tokio::time::sleep(then).await;
            stored(&world, 4, false);
            let events = world.trace().events();
            let ms = events.last().unwrap().ms;
            (events, ms)
        });
        let mut kubelets = Kubelets::new(TimeScale::default());
        events.iter().for_each(|event| kubelets.observe(event));
        assert!(!kubelets.may_list(NODE, "vol-2", ms));
        assert!(!kubelets.may_list("node-b", "vol-1", ms));
        kubelets.may_list(NODE, "vol-1", ms)
    }

    #[test]
    fn a_kubelet_goes_by_an_old_node_if_the_news_is_not_there_at_the_next_update() {
        let (soon, later) = (Duration::from_secs(5), Duration::from_secs(20));
        assert!(!may_list(true, soon), "its last update removed the volume");
        assert!(!may_list(false, soon), "its last update removed the volume");
        assert!(!may_list(true, later));
        assert!(may_list(false, later), "the news has not come");
    }
}
