//! I3: a kubelet stages a volume only if its node's status lists the volume in volumesInUse. Otherwise attach-detach
//! may detach it meanwhile.
//!
//! A node that was deleted and created again is not checked, because its kubelet does not check the list again. A node
//! whose kubelet has crashed is not checked either, because its status may be older than its volumes.

use std::collections::{BTreeMap, BTreeSet};

use csi_mock::events::CsiCall;
use fake_apiserver::events::Commit;
use fake_apiserver::state::EventType;
use substrate::Event;
use substrate::clock::TimeScale;
use substrate::events::ProcessCrashed;

use super::Found;
use super::staleness::{STATUS_ROUND, handle};
use crate::model::{NodeName, RunModel, VolumeOnNode};
use crate::spec::names;

/// Volumes that were staged unreported, and nodes that are not checked.
#[derive(Debug, Default)]
pub(super) struct InUse {
    deleted: BTreeSet<NodeName>,
    /// Time in milliseconds at which a volume was staged on a node, unreported because of the node in the kubelet's
    /// cache. The entry ends when the stored Node lists the volume.
    unreported: BTreeMap<VolumeOnNode, u64>,
}

impl InUse {
    /// Checks an event; `may_list` returns true if the kubelet of a node may have a node in its cache that lists a volume.
    pub fn check(&mut self, model: &RunModel, event: &Event, may_list: impl Fn(&str, &str) -> bool) -> Option<Found> {
        if let Some(commit) = event.get::<Commit>() {
            if commit.resource == "nodes" && commit.r#type == EventType::Deleted {
                self.deleted.insert((&commit.object).into());
            }
            if let Some(node) = commit.node.as_ref().filter(|_| commit.resource == "nodes") {
                let lists = |volume: &str| node.volumes_in_use.iter().any(|listed| handle(listed) == Some(volume));
                self.unreported.retain(|of, _| of.node != *commit.object || !lists(&of.volume));
            }
            return None;
        }
        if event.is::<ProcessCrashed>() {
            let of_process = model.objects.nodes.keys().filter(|node| *names::kubelet(node) == *event.process);
            self.deleted.extend(of_process.cloned());
            return None;
        }
        let call = event.get::<CsiCall>().filter(|call| call.rpc == "NodeStageVolume" && call.caller.is_none())?;
        let (volume, name) = (call.volume.as_deref()?, model.name(call.node.as_deref()?));
        let node = model.objects.nodes.get(name).filter(|_| !self.deleted.contains(name))?;
        if !model.wants_attached(volume, name)
            || node.state.volumes_in_use.iter().any(|listed| handle(listed) == Some(volume))
        {
            return None;
        }
        let message =
            format!("NodeStageVolume was called for {volume} on {name}, whose status.volumesInUse does not list it");
        let is_listed_in_cache = may_list(name, volume);
        if is_listed_in_cache {
            self.unreported.insert(VolumeOnNode::new(volume, name), event.ms);
        }
        let details = [("nodeInCacheListsVolume", is_listed_in_cache.into())].into();
        let (volume, node) = (Some(volume.to_owned()), Some(name.to_owned()));
        Some(Found { message, operation: "NodeStageVolume".to_owned(), volume, node, details })
    }

    /// Returns true if a volume was staged on a node unreported, because of the node in the kubelet's cache, and the
    /// kubelet has had no time for another update of its status since.
    pub fn is_unreported(&self, scale: TimeScale, volume: &str, node: &str, ms: u64) -> bool {
        let round = u64::try_from(scale.apply(STATUS_ROUND).as_millis()).unwrap_or(u64::MAX);
        self.unreported.get(&VolumeOnNode::new(volume, node)).is_some_and(|staged| ms <= staged + round)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use fake_apiserver::events::{Attachment, Node, Volume};
    use substrate::World;
    use substrate::world::{Options, simulate};

    use super::*;

    const VOLUME: &str = "vol-1";

    fn commit(world: &World, resource: &str, object: &str, r#type: EventType, say: impl FnOnce(&mut Commit)) {
        let mut commit = Commit::new(resource, object, 1, r#type);
        say(&mut commit);
        world.trace().info(&"fake-apiserver".into(), commit);
    }

    fn node(world: &World, r#type: EventType, in_use: &[&str]) {
        let volumes_in_use = in_use.iter().map(|name| (*name).into()).collect();
        commit(world, "nodes", "node-a", r#type, |commit| {
            commit.node = Some(Box::new(Node { volumes_in_use, ..Node::default() }));
        });
    }

    /// Returns the events of a run in which a volume is attached, this happens, the volume is staged, and that happens.
    fn events(happens: impl FnOnce(&World), then: impl FnOnce(&World)) -> Vec<Arc<Event>> {
        simulate(Options::default(), async |world| {
            commit(&world, "persistentvolumes", "pv-1", EventType::Added, |commit| {
                commit.pv = Some(Box::new(Volume { handle: Some(VOLUME.into()), ..Volume::default() }));
            });
            commit(&world, "volumeattachments", "csi-1", EventType::Added, |commit| {
                let (node, pv) = (Some("node-a".into()), Some("pv-1".into()));
                commit.volumeattachment =
                    Some(Box::new(Attachment { attached: true, device: None, deleting: false, node, pv }));
            });
            happens(&world);
            let call = CsiCall {
                volume: Some(VOLUME.into()),
                node: Some("node-a".into()),
                ..CsiCall::new("NodeStageVolume", 1)
            };
            world.trace().info(&"node-a/csi-node".into(), call);
            then(&world);
            world.trace().events()
        })
    }

    /// Returns the findings of a run in which a volume is attached, this happens, and the volume is staged.
    fn found(happens: impl FnOnce(&World)) -> Vec<String> {
        let events = events(happens, |_| ());
        let (mut model, mut rule, mut all) = (RunModel::default(), InUse::default(), Vec::new());
        for event in &events {
            model.observe(event);
            all.extend(rule.check(&model, event, |_, _| false).map(|found| found.message));
        }
        all
    }

    #[test]
    fn a_volume_is_staged_only_when_the_node_says_that_it_is_in_use() {
        let early = found(|world| node(world, EventType::Added, &["kubernetes.io/csi/ebs^vol-2"]));
        let message = "NodeStageVolume was called for vol-1 on node-a, whose status.volumesInUse does not list it";
        assert_eq!(early, [message]);
        assert!(found(|world| node(world, EventType::Added, &["kubernetes.io/csi/ebs^vol-1"])).is_empty());
    }

    #[test]
    fn a_volume_is_unreported_because_of_the_cache_for_one_round_or_until_the_node_lists_it() {
        /// Returns whether the volume is unreported this time after it was staged, if the Node then lists `lists`.
        fn after(ms: u64, in_cache: bool, lists: &[&str]) -> bool {
            let nothing = |world: &World| node(world, EventType::Added, &[]);
            let events = events(nothing, |world| node(world, EventType::Modified, lists));
            let (mut model, mut rule) = (RunModel::default(), InUse::default());
            for event in &events {
                model.observe(event);
                rule.check(&model, event, |_, _| in_cache);
            }
            rule.is_unreported(TimeScale::default(), VOLUME, "node-a", ms)
        }
        assert!(after(10_000, true, &[]) && after(10_000, true, &["kubernetes.io/csi/ebs^vol-2"]));
        assert!(!after(12_000, true, &[]), "the kubelet has had time for another update");
        assert!(!after(10_000, true, &["kubernetes.io/csi/ebs^vol-1"]), "the Node has listed it");
        assert!(!after(10_000, false, &[]), "the node in the cache did not list it");
    }

    #[test]
    fn a_kubelet_of_a_new_node_object_is_not_judged() {
        let made_again = found(|world| {
            node(world, EventType::Added, &["kubernetes.io/csi/ebs^vol-1"]);
            node(world, EventType::Deleted, &[]);
            node(world, EventType::Added, &[]);
        });
        assert!(made_again.is_empty());
        let restarted = found(|world| {
            node(world, EventType::Added, &[]);
            world.trace().info(&names::kubelet("node-a").as_str().into(), ProcessCrashed {});
        });
        assert!(restarted.is_empty());
    }
}
