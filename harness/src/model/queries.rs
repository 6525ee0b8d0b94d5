//! Answers about volumes, nodes, claims and pods.

use std::time::Duration;

use mock_ec2::events::AttachmentPhase;

use super::node_volume::NodeVolume;
use super::{Attachment, FORCE_AFTER, Pod, RunModel};

impl RunModel {
    /// Returns the node's name; `node` is a name or an instance id.
    pub fn name<'a>(&'a self, node: &'a str) -> &'a str {
        self.instances.get(node).map_or(node, String::as_str)
    }

    /// Returns the state of a volume on a node.
    pub fn hold(&self, volume: &str, node: &str) -> Option<&NodeVolume> {
        self.holds.get(&(volume.to_owned(), self.name(node).to_owned()))
    }

    /// Returns every node that holds a volume.
    pub fn holders<'a>(&'a self, volume: &'a str) -> impl Iterator<Item = (&'a str, &'a NodeVolume)> {
        let from = (volume.to_owned(), String::new());
        self.holds
            .range(from..)
            .take_while(move |((v, _), _)| v == volume)
            .map(|((_, node), hold)| (node.as_str(), hold))
    }

    /// Returns true if several nodes may write to the volume: by its access modes if Kubernetes knows it, else by the
    /// cloud.
    pub fn is_shared(&self, volume: &str) -> bool {
        match self.by_handle.get(volume).and_then(|pv| self.volumes.get(pv)) {
            Some(pv) => pv.shared,
            None => self.multi_attach.contains(volume),
        }
    }

    /// Returns true if the volume is attached to the node: in the cloud if the cloud is ours, and by a VolumeAttachment
    /// if Kubernetes knows the volume.
    pub fn is_attached(&self, volume: &str, node: &str) -> bool {
        let node = self.name(node);
        let in_cloud = self.cloud.get(&(volume.to_owned(), node.to_owned())) == Some(&AttachmentPhase::Attached);
        if self.in_our_cloud.contains(volume) && !in_cloud {
            return false;
        }
        if self.known.contains(volume) {
            let of_volume = |a: &Attachment| self.volumes.get(&a.pv).is_some_and(|pv| pv.handle == volume);
            // The node is cheaper to compare, and few attachments are of one node.
            return self.attachments.values().any(|a| a.attached && a.node == node && of_volume(a));
        }
        in_cloud
    }

    /// Returns the VolumeAttachments of a volume, each with its name.
    pub fn attachments_of<'a>(&'a self, volume: &'a str) -> impl Iterator<Item = (&'a str, &'a Attachment)> {
        let of_volume = move |a: &Attachment| self.volumes.get(&a.pv).is_some_and(|pv| pv.handle == volume);
        self.attachments.iter().filter(move |(_, a)| of_volume(a)).map(|(name, a)| (name.as_str(), a))
    }

    /// Returns true if a VolumeAttachment that is not being deleted wants the volume on the node.
    pub fn wants_attached(&self, volume: &str, node: &str) -> bool {
        let of_volume = |a: &Attachment| self.volumes.get(&a.pv).is_some_and(|pv| pv.handle == volume);
        self.attachments.values().any(|a| !a.deleting && a.node == node && of_volume(a))
    }

    /// Returns true if all pods that want the volume on the node have been terminating for as long as attach-detach
    /// waits before it forces a detach, and none was ever reported as running.
    pub fn are_unseen(&self, volume: &str, node: &str, ms: u64) -> bool {
        let claims = self.volumes.values().filter(|pv| pv.handle == volume).filter_map(|pv| pv.claim.as_deref());
        let mut pods = claims.flat_map(|claim| self.users_of(claim)).filter(|pod| pod.node.as_deref() == Some(node));
        let waited = |since: u64| Duration::from_millis(ms.saturating_sub(since)) >= self.scale.apply(FORCE_AFTER);
        let is_unseen = |pod: &Pod| pod.deleting_since.is_some_and(waited) && pod.phase == "Pending";
        pods.next().is_some_and(|first| is_unseen(first) && pods.all(is_unseen))
    }

    /// Returns the volumes that Kubernetes knows or has known, each with the name of its PersistentVolume.
    pub fn handles(&self) -> impl Iterator<Item = (&str, &str)> {
        self.by_handle.iter().map(|(handle, pv)| (handle.as_str(), pv.as_str()))
    }

    /// Returns the name of the PersistentVolume of a volume.
    pub fn pv_of(&self, volume: &str) -> Option<&str> {
        self.by_handle.get(volume).map(String::as_str)
    }

    /// Returns the volume that the cloud attached to a node as a device.
    pub fn volume_of_device(&self, node: &str, device: &str) -> Option<&str> {
        let mut all = self.devices.iter();
        all.find(|((_, n), name)| n == node && *name == device).map(|((volume, _), _)| volume.as_str())
    }

    /// Returns true if the volume outlives its claim, according to the last version of its PersistentVolume.
    pub fn is_kept(&self, volume: &str) -> bool {
        self.kept.contains(volume)
    }

    /// Returns the pod that runs with a volume, by the claim of the volume.
    pub fn running_with(&self, volume: &str) -> Option<&str> {
        let pv = self.volumes.get(self.by_handle.get(volume)?).filter(|pv| pv.bound)?;
        let claim = pv.claim.as_deref()?;
        let runs = |pod: &&String| self.pods.get(*pod).is_some_and(|pod| pod.phase == "Running");
        self.users.get(claim)?.iter().find(runs).map(String::as_str)
    }

    /// Returns the device name of a volume on a node in the cloud.
    pub fn device(&self, volume: &str, node: &str) -> Option<&str> {
        self.devices.get(&(volume.to_owned(), self.name(node).to_owned())).map(String::as_str)
    }

    /// Returns true if a PersistentVolume was ever saved for a volume.
    pub fn was_saved(&self, volume: &str) -> bool {
        self.known.contains(volume)
    }

    /// Returns the handle of a claim's volume.
    pub fn handle_of_claim(&self, claim: &str) -> Option<&str> {
        self.volumes.get(self.pv_of_claim.get(claim)?).map(|pv| pv.handle.as_str())
    }

    /// Returns the pods that use a claim and have not finished.
    pub fn users_of(&self, claim: &str) -> impl Iterator<Item = &Pod> {
        let pods = self.users.get(claim).into_iter().flatten();
        pods.filter_map(|pod| self.pods.get(pod)).filter(|pod| !pod.is_over())
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
