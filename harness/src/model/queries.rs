//! Answers about volumes, nodes, claims and pods.

use std::time::Duration;

use fake_apiserver::events::{Attachment, Pod};
use mock_ec2::events::AttachmentPhase;
use substrate::json::Text;

use super::node_volume::NodeVolume;
use super::{FORCE_AFTER, NodeName, PodKey, RunModel, Stored, VolumeId, VolumeOnNode};

impl RunModel {
    /// Returns the node's name; `node` is a name or an instance id.
    pub fn name<'a>(&'a self, node: &'a str) -> &'a str {
        self.instances.get(node).map_or(node, |name| name)
    }

    /// Returns the nodes that have an instance.
    pub fn nodes(&self) -> impl Iterator<Item = &NodeName> {
        self.instances.values()
    }

    /// Returns the key of a volume on a node; `node` is a name or an instance id.
    pub fn place(&self, volume: impl Into<VolumeId>, node: &str) -> VolumeOnNode {
        VolumeOnNode::new(volume, self.name(node))
    }

    /// Returns the state of a volume on a node.
    pub fn hold(&self, volume: &str, node: &str) -> Option<&NodeVolume> {
        self.holds.get(&self.place(volume, node))
    }

    /// Returns every node that holds a volume.
    pub fn holders<'a>(&'a self, volume: &'a str) -> impl Iterator<Item = (&'a str, &'a NodeVolume)> {
        let from = VolumeOnNode { volume: volume.into(), node: NodeName::default() };
        let held = self.holds.range(from..).take_while(move |(place, _)| place.volume == *volume);
        held.map(|(place, hold)| (&*place.node, hold))
    }

    /// Returns true if several nodes may write to the volume: by its access modes if Kubernetes knows it, else by the
    /// cloud.
    pub fn is_shared(&self, volume: &str) -> bool {
        match self.objects.volume_of(volume) {
            Some(pv) => pv.is_shared(),
            None => self.multi_attach.contains(volume),
        }
    }

    /// Returns true if the volume is attached to the node: in the cloud if the cloud is ours, and by a VolumeAttachment
    /// if Kubernetes knows the volume.
    pub fn is_attached(&self, volume: &str, node: &str) -> bool {
        let place = self.place(volume, node);
        let in_cloud = self.cloud.get(&place) == Some(&AttachmentPhase::Attached);
        if self.in_our_cloud.contains(volume) && !in_cloud {
            return false;
        }
        if self.was_saved(volume) {
            // The node is cheaper to compare, and few attachments are of one node.
            let mut all = self.objects.attachments.values();
            return all.any(|a| a.state.attached && place.node == *a.node() && self.is_of(a, volume));
        }
        in_cloud
    }

    /// Returns the VolumeAttachments of a volume, each with its name.
    pub fn attachments_of<'a>(&'a self, volume: &'a str) -> impl Iterator<Item = (&'a str, &'a Stored<Attachment>)> {
        self.objects.attachments.iter().filter(move |(_, a)| self.is_of(a, volume)).map(|(name, a)| (&**name, a))
    }

    fn is_of(&self, attachment: &Stored<Attachment>, volume: &str) -> bool {
        self.objects.volume(attachment.pv()).is_some_and(|pv| pv.handle() == volume)
    }

    /// Returns true if a VolumeAttachment that is not being deleted wants the volume on the node.
    pub fn wants_attached(&self, volume: &str, node: &str) -> bool {
        self.objects.attachments.values().any(|a| !a.state.deleting && a.node() == node && self.is_of(a, volume))
    }

    /// Returns true if no VolumeAttachment is of the volume.
    pub fn is_unattached(&self, volume: &str) -> bool {
        self.attachments_of(volume).next().is_none()
    }

    /// Returns true if all pods that want the volume on the node have been terminating for as long as attach-detach
    /// waits before it forces a detach, and none was ever reported as running.
    pub fn are_unseen(&self, volume: &str, node: &str, ms: u64) -> bool {
        let volumes = self.objects.volumes().filter(|(_, pv)| pv.handle() == volume);
        let pods = volumes.filter_map(|(_, pv)| pv.state.claim.as_deref()).flat_map(|claim| self.objects.users(claim));
        let mut pods = pods.filter(|(_, pod)| pod.node() == Some(node));
        let waited = |since: u64| Duration::from_millis(ms.saturating_sub(since)) >= self.scale.apply(FORCE_AFTER);
        let is_unseen = |(key, pod): (&PodKey, &Stored<Pod>)| {
            self.deleting_since.get(key).is_some_and(|since| waited(*since)) && pod.is("Pending")
        };
        pods.next().is_some_and(|first| is_unseen(first) && pods.all(is_unseen))
    }

    /// Returns the volumes that the cloud attached to a node as a device. There are several only if the cloud errs.
    pub fn volumes_of_device<'a>(&'a self, node: &'a str, device: &'a str) -> impl Iterator<Item = &'a str> {
        let all = self.devices.iter();
        all.filter(move |(place, name)| place.node == *node && *name == device).map(|(place, _)| &*place.volume)
    }

    /// Returns true if the volume outlives its claim, according to the last version of its PersistentVolume.
    pub fn is_kept(&self, volume: &str) -> bool {
        self.kept.contains(volume)
    }

    /// Returns the pod that runs with a volume, by the claim of the volume.
    pub fn running_with(&self, volume: &str) -> Option<&str> {
        // A volume that is not Bound belongs to an earlier claim of that name.
        let pv = self.objects.volume_of(volume).filter(|pv| pv.state.phase.as_deref() == Some("Bound"))?;
        let mut pods = self.objects.pods_of(pv.state.claim.as_deref()?);
        pods.find(|(_, pod)| pod.is("Running")).map(|(key, _)| &**key)
    }

    /// Returns the device name of a volume on a node in the cloud.
    pub fn device(&self, volume: &str, node: &str) -> Option<&str> {
        self.devices.get(&self.place(volume, node)).map(Text::as_str)
    }

    /// Returns true if a PersistentVolume was ever saved for a volume.
    pub fn was_saved(&self, volume: &str) -> bool {
        self.objects.pv_of(volume).is_some()
    }
}

#[cfg(test)]
mod tests {
    use fake_apiserver::events::{self, Commit};
    use fake_apiserver::state::EventType;
    use substrate::world::{Options, simulate};

    use super::*;

    #[test]
    fn a_pod_is_unseen_when_it_is_deleted_for_as_long_as_attach_detach_waits() {
        let is_unseen = |phase: &str, ms: u64| {
            let (claim, handle) = (Some("default/data".into()), Some("vol-1".into()));
            let pv = Some(Box::new(events::Volume { claim, handle, ..Default::default() }));
            let pv = Commit { pv, ..Commit::new("persistentvolumes", "pvc-1", 1, EventType::Added) };
            let (claims, node, phase) = (vec!["data".into()], Some("node-a".into()), Some(phase.into()));
            let pod = Some(Box::new(events::Pod { claims, node, phase, deleting: true, ..Default::default() }));
            let pod = Commit { pod, ..Commit::new("pods", "default/web", 2, EventType::Modified) };
            let events = simulate(Options::default(), async |world| {
                for commit in [pv, pod] {
                    world.trace().info(&"fake-apiserver".into(), commit);
                }
                world.trace().events()
            });
            let mut model = RunModel::default();
            events.iter().for_each(|event| model.observe(event));
            model.are_unseen("vol-1", "node-a", ms)
        };
        assert!(is_unseen("Pending", 360_000));
        assert!(!is_unseen("Pending", 359_999), "the detach was forced early");
        assert!(!is_unseen("Running", 360_000), "kubelet has reported it");
    }
}
