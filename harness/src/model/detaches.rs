//! Attachments in the cloud, and detaches by attach-detach.

use std::time::Duration;

use controllers::events::Detach;
use csi_mock::events::{DiskUnpublished, DiskUnstaged};
use fake_apiserver::events::Commit;
use fake_apiserver::state::EventType;
use mock_ec2::events::{AttachmentChanged, AttachmentPhase};
use substrate::Event;

use super::{FORCE_AFTER, NodeName, RunModel, VolumeId, VolumeOnNode, is_out_of_service};

/// Time after which attach-detach, which reads a node before it detaches a volume, has seen what the node lists.
const HAS_READ: Duration = Duration::from_secs(60);

impl RunModel {
    pub(super) fn on_cloud_attachment(&mut self, changed: &AttachmentChanged) {
        let place = self.place(changed.volume.as_str(), changed.instance.as_str());
        if changed.forced
            && let Some(hold) = self.holds.get_mut(&place)
        {
            // The operator did it directly in the cloud, whose events show it.
            hold.forced = true;
        }
        match changed.state {
            AttachmentPhase::Detached => {
                self.devices.remove(&place);
                self.asked_to_stage.remove(&place);
                self.cloud.remove(&place);
            }
            state => {
                self.devices.insert(place.clone(), changed.device.clone());
                if state == AttachmentPhase::Attaching {
                    self.held_since_attached.remove(&place);
                }
                self.cloud.insert(place, state);
            }
        }
    }

    /// Records whether an event, which was observed before, leaves its volume without any node: it is neither mounted
    /// nor attached, and has no VolumeAttachment.
    pub fn note_left(&mut self, event: &Event) {
        let Some(volume) = self.taken_away(event) else { return };
        let from = VolumeOnNode { volume: volume.clone(), node: NodeName::default() };
        let is_attached = self.cloud.range(from..).next().is_some_and(|(place, _)| place.volume == volume);
        let is_held = self.holders(&volume).next().is_some() || self.attachments_of(&volume).next().is_some();
        if !is_attached && !is_held {
            self.left.insert(volume, event.n);
        }
    }

    /// Returns the volume that an event takes away from a node, or the volume of a VolumeAttachment that it removes.
    fn taken_away(&self, event: &Event) -> Option<VolumeId> {
        if let Some(AttachmentChanged { volume, state: AttachmentPhase::Detached, .. }) = event.get() {
            return Some(volume.as_str().into());
        }
        if let Some(DiskUnstaged { volume, .. }) = event.get() {
            return Some(volume.into());
        }
        if let Some(DiskUnpublished { volume, .. }) = event.get() {
            return Some(volume.into());
        }
        let commit = event.get::<Commit>().filter(|commit| commit.r#type == EventType::Deleted)?;
        let pv = commit.volumeattachment.as_ref()?.pv.as_deref()?;
        Some(self.objects.volume(pv)?.handle().into())
    }

    /// Returns the ordinal of the last event that left a volume without any node.
    pub fn left_at(&self, volume: &str) -> Option<u64> {
        self.left.get(volume).copied()
    }

    /// Records whether attach-detach may have seen, in the node in its cache, the out-of-service taint or the condition
    /// that justifies a forced detach.
    pub fn note_cache(&mut self, detach: &Detach, taint: bool, unready: bool) {
        let place = VolumeOnNode::new(&detach.volume, &detach.node);
        if let Some(hold) = self.holds.get_mut(&place) {
            (hold.taint_in_cache, hold.unready_in_cache) = (taint, unready);
        }
    }

    /// Records whether attach-detach may have had a cached node that does not list the volume that it detaches.
    pub fn note_listed(&mut self, detach: &Detach, may_lack: bool) {
        let place = VolumeOnNode::new(&detach.volume, &detach.node);
        if may_lack {
            self.unlisted.insert(place);
        } else {
            self.unlisted.remove(&place);
        }
    }

    /// Records whether attach-detach, when it wrote a node's volumesAttached again, may still have had a cached node
    /// that does not list a volume that it has detached.
    pub fn note_report(&mut self, may_lack: impl Fn(&str, &str) -> bool) {
        if let Some(node) = self.reported.take() {
            self.unlisted.retain(|place| place.node != node || may_lack(&node, &place.volume));
        }
    }

    /// Returns true if attach-detach, at its last detach of the volume and at each later write of the node's
    /// volumesAttached, may have had a cached node that did not list it.
    pub fn was_unlisted(&self, volume: &str, node: &str) -> bool {
        self.unlisted.contains(&VolumeOnNode::new(volume, node))
    }

    pub(super) fn on_detach(&mut self, detach: &Detach, ms: u64) {
        let place = VolumeOnNode::new(&detach.volume, &detach.node);
        let is_in_use = self.is_long_in_use(&place, ms);
        if let Some(hold) = self.holds.get_mut(&place) {
            hold.in_use_at_detach = is_in_use;
        }
        if !detach.forced {
            return;
        }
        let legitimate = self.may_force(&place, ms);
        if let Some(hold) = self.holds.get_mut(&place) {
            hold.forced = legitimate;
            hold.wrongly_forced = detach.reason.filter(|_| !legitimate);
        }
    }

    /// Returns true if the stored Node has listed the volume in volumesInUse for so long that attach-detach knows it.
    fn is_long_in_use(&self, place: &VolumeOnNode, ms: u64) -> bool {
        let end = format!("^{}", place.volume);
        let mut listed = self.in_use_since.get(&place.node).into_iter().flatten();
        let since = listed.find(|(name, _)| name.ends_with(&end)).map(|(_, since)| *since);
        since.is_some_and(|since| Duration::from_millis(ms.saturating_sub(since)) >= self.scale.apply(HAS_READ))
    }

    /// Returns true if upstream would force a detach now, by stored objects instead of cached ones.
    fn may_force(&self, place: &VolumeOnNode, ms: u64) -> bool {
        let node = self.objects.nodes.get(&place.node).map(|node| &node.state);
        if node.is_some_and(is_out_of_service) {
            return true;
        }
        let healthy = node.is_some_and(|node| node.ready.as_deref() == Some("True"));
        let waited = self.unwanted_since.get(place).map(|since| Duration::from_millis(ms.saturating_sub(*since)));
        !healthy && waited.is_some_and(|waited| waited >= self.scale.apply(FORCE_AFTER))
    }
}
