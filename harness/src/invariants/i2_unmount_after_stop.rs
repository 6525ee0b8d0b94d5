//! I2, for containers: a pod's volume is unmounted only after its container has ended. Without its volume, a running
//! container writes to another filesystem, or fails.

use std::collections::BTreeSet;

use controllers::machine::events::{WorkloadKilled, WorkloadStarted, WorkloadStopped};
use controllers::node_agent::events::{LookupFailed, Mounted};
use csi_disk::events::DiskCrashed;
use csi_mock::events::DiskUnpublished;
use substrate::Event;
use substrate::events::{ProcessCrashed, ProcessStarted};

use super::Found;
use crate::model::{NodeName, PodKey, RunModel, VolumeOnNode};
use crate::spec::names;

/// Running writers.
#[derive(Debug, Default)]
pub(super) struct UnmountAfterStop {
    writers: BTreeSet<(VolumeOnNode, PodKey)>,
    /// Node and pod of volumes that the kubelet could not look up since its start.
    unread: BTreeSet<(NodeName, PodKey)>,
}

impl UnmountAfterStop {
    pub fn check(&mut self, model: &RunModel, event: &Event) -> Option<Found> {
        if let Some(WorkloadStarted { node, pod, volume, .. }) = event.get() {
            self.writers.insert((VolumeOnNode::new(volume, node), pod.into()));
        } else if let Some(WorkloadStopped { node, pod, volume }) = event.get() {
            self.writers.remove(&(VolumeOnNode::new(volume, node), pod.into()));
        } else if let Some(WorkloadKilled { node, pod, volume }) = event.get() {
            self.writers.remove(&(VolumeOnNode::new(volume, node), pod.into()));
        } else if let Some(DiskCrashed { node }) = event.get() {
            self.ended(model.name(node));
        } else if let Some(LookupFailed { node, pod, .. }) = event.get() {
            self.unread.insert((node.into(), pod.into()));
        } else if let Some(Mounted { node, pod, .. }) = event.get() {
            self.unread.remove(&(node.into(), pod.into()));
        } else if event.is::<ProcessStarted>() {
            self.unread.retain(|(node, _)| *event.process != names::kubelet(node));
        } else if event.is::<ProcessCrashed>() {
            // The process of a machine has the node's name; its writers end with it, without an event.
            self.ended(&event.process);
        } else if let Some(DiskUnpublished { volume, node, path }) = event.get() {
            return self.on_unpublished(model, volume, model.name(node), path);
        }
        None
    }

    fn ended(&mut self, node: &str) {
        self.writers.retain(|(at, _)| at.node != *node);
    }

    /// Each writer has a target path, so fewer paths than writers means that a writer lost its path.
    fn on_unpublished(&mut self, model: &RunModel, volume: &str, node: &str, path: &str) -> Option<Found> {
        let left = model.hold(volume, node).map_or(0, |hold| hold.published.len());
        let place = VolumeOnNode::new(volume, node);
        let (_, pod) = self.writers.iter().filter(|(at, _)| *at == place).nth(left)?;
        let message = format!("{volume} was taken away at {path} on {node} while the container of {pod} writes to it");
        let found = Found {
            message,
            operation: "NodeUnpublishVolume".to_owned(),
            volume: Some(volume.to_owned()),
            node: Some(node.to_owned()),
            details: [("kubeletCouldNotLookUp", self.unread.contains(&(place.node.clone(), pod.clone())).into())]
                .into(),
        };
        // One bug is reported once.
        self.writers.retain(|(at, _)| *at != place);
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use substrate::world::{Options, simulate};
    use substrate::{Event, World};

    use super::*;

    /// Returns the findings of a run in which this happens on a node.
    fn found(happens: impl FnOnce(&World)) -> Vec<String> {
        let events: Vec<Arc<Event>> = simulate(Options::default(), async |world| {
            happens(&world);
            world.trace().events()
        });
        let (mut model, mut rule) = (RunModel::default(), UnmountAfterStop::default());
        let mut all = Vec::new();
        for event in &events {
            model.observe(event);
            all.extend(rule.check(&model, event).map(|found| found.message));
        }
        all
    }

    fn published(world: &World, path: &str) {
        let (volume, node) = ("vol-1".into(), "node-a".into());
        let event = csi_mock::events::DiskPublished { volume, node, path: path.into(), readonly: false, options: None };
        world.trace().info(&"node-a/csi-node".into(), event);
    }

    fn unpublished(world: &World, path: &str) {
        let (volume, node) = ("vol-1".into(), "node-a".into());
        world.trace().info(&"node-a/csi-node".into(), DiskUnpublished { volume, node, path: path.into() });
    }

    fn started(world: &World, pod: &str) {
        let (node, volume) = ("node-a".into(), "vol-1".into());
        let event = WorkloadStarted { node, pod: pod.into(), records_found: 0, verified: true, volume };
        world.trace().info(&"node-a".into(), event);
    }

    fn stopped(world: &World, pod: &str) {
        let (node, volume) = ("node-a".into(), "vol-1".into());
        world.trace().info(&"node-a".into(), WorkloadStopped { node, pod: pod.into(), volume });
    }

    #[test]
    fn a_volume_that_goes_under_a_writer_is_found_once() {
        let found = found(|world| {
            published(world, "/one");
            started(world, "default/one");
            unpublished(world, "/one");
            unpublished(world, "/one");
        });
        assert_eq!(found, ["vol-1 was taken away at /one on node-a while the container of default/one writes to it"]);
    }

    #[test]
    fn a_stopped_or_crashed_pod_needs_no_volume_and_others_keep_theirs() {
        let found = found(|world| {
            published(world, "/one");
            published(world, "/two");
            started(world, "default/one");
            started(world, "default/two");
            stopped(world, "default/one");
            unpublished(world, "/one");
            world.trace().info(&"node-a".into(), ProcessCrashed {});
            unpublished(world, "/two");
        });
        assert_eq!(found, [] as [&str; 0]);
    }
}
