//! State of a run, folded once from its trace: the calls of drivers (`calls`), the stored objects of Kubernetes
//! (`objects`), the holders of each volume, and the forced detaches. The invariants read it.
//!
//! It shows the state after the last event. For a commit, [`Objects::before`] has the object as it was.

mod calls;
mod commits;
mod detaches;
mod ids;
mod mounts;
mod node_volume;
mod objects;
mod queries;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use controllers::events::Detach;
use csi_disk::events::DiskCrashed;
use csi_mock::events::{CsiCall, CsiDone, DiskPublished, DiskStaged, DiskUnpublished, DiskUnstaged};
use fake_apiserver::events::Commit;
use mock_ec2::events::{
    AttachmentChanged, AttachmentPhase, InstanceChanged, InstancePhase, VolumeChanged, VolumePhase,
};
use substrate::Event;
use substrate::clock::TimeScale;
use substrate::events::{FaultFired, ProcessStarted};
use substrate::fault::{Effect, Span};
use substrate::json::Text;

use crate::events::ClusterNode;
pub(crate) use calls::{Calls, described, target};
pub(crate) use ids::{
    AttachmentName, CallKey, ClaimKey, ClassName, InstanceId, NodeName, PodKey, PvName, VolumeId, VolumeOnNode,
};
use node_volume::NodeVolume;
pub(crate) use objects::{Objects, Stored, claims_of, is_out_of_service, keeps_away};

/// Upstream's `maxWaitForUnmountDuration`.
const FORCE_AFTER: Duration = Duration::from_secs(6 * 60);
/// Maximum wait for a change that a fault holds back.
const HELD_AT_MOST: Duration = Duration::from_secs(10 * 60);

/// State of a run. Volumes are cloud volume ids, nodes are node names.
#[derive(Debug, Default)]
pub(crate) struct RunModel {
    pub scale: TimeScale,
    pub calls: Calls,
    pub objects: Objects,
    instances: BTreeMap<InstanceId, NodeName>,
    pub holds: BTreeMap<VolumeOnNode, NodeVolume>,
    /// Handles whose PersistentVolume, in its last version, keeps them after their claim is gone.
    kept: BTreeSet<VolumeId>,
    /// By node: the volumes in its status.volumesInUse, each with the time in milliseconds since which it is there.
    in_use_since: BTreeMap<NodeName, BTreeMap<Text, u64>>,
    /// Time in milliseconds at which the deletion of each pod that is being deleted began.
    deleting_since: BTreeMap<PodKey, u64>,
    /// Attachments in the cloud, with their state.
    pub cloud: BTreeMap<VolumeOnNode, AttachmentPhase>,
    /// Device names of attachments in the cloud.
    devices: BTreeMap<VolumeOnNode, Text>,
    multi_attach: BTreeSet<VolumeId>,
    /// Volumes that the cloud has ever reported, also before a reset.
    pub in_our_cloud: BTreeSet<VolumeId>,
    /// Volumes that were staged or published on a node since they were last attached to it.
    pub held_since_attached: BTreeSet<VolumeOnNode>,
    /// Time in milliseconds since which no pod wants a volume on a node.
    unwanted_since: BTreeMap<VolumeOnNode, u64>,
    /// Volumes and nodes whose driver was asked to stage; true if the kubelet that asked has ended since.
    asked_to_stage: BTreeMap<VolumeOnNode, bool>,
    made: BTreeSet<VolumeId>,
    /// Volumes and nodes for which attach-detach, at its last detach, may have had a cached Node that did not list the
    /// volume.
    unlisted: BTreeSet<VolumeOnNode>,
    /// The node whose status.volumesAttached the last event has changed.
    reported: Option<NodeName>,
    /// Volumes that were on no node: the ordinal of the last event that showed it.
    left: BTreeMap<VolumeId, u64>,
    /// True if there is a node lifecycle controller: it has written a node.
    pub has_node_controller: bool,
    pub last_unrest: (u64, String),
    /// Time in milliseconds until which a fault delays a change, and the fault.
    pub held_back: (u64, String),
}

impl RunModel {
    /// Returns the number of cloud volumes that were created.
    pub fn made(&self) -> u64 {
        self.made.len() as u64
    }

    /// Returns the state that stays after a reset.
    pub fn of_a_reset(&self) -> Self {
        let (instances, in_our_cloud) = (self.instances.clone(), self.in_our_cloud.clone());
        Self { scale: self.scale, instances, in_our_cloud, ..Self::default() }
    }

    /// Records an event.
    pub fn observe(&mut self, event: &Event) {
        self.calls.observe(event);
        self.objects.observe(event);
        if let Some(commit) = event.get::<Commit>() {
            return self.on_commit(commit, event.ms);
        }
        if let Some(call) = event.get::<CsiCall>() {
            if !only_looks(&call.rpc) {
                self.stir(event.ms, || described(call));
            }
            self.on_kubelet_asks(call);
        } else if let Some(done) = event.get::<CsiDone>() {
            self.on_staged_by_word(done);
            self.on_unstaged_by_word(done);
            self.on_published_by_word(done);
        } else if let Some(changed) = event.get::<AttachmentChanged>() {
            self.stir(event.ms, || format!("{} is {} in the cloud", changed.volume, changed.state.as_str()));
            self.on_cloud_attachment(changed);
        } else if let Some(changed) = event.get::<VolumeChanged>() {
            self.stir(event.ms, || format!("{} is {} in the cloud", changed.volume, changed.state.as_str()));
            let volume = VolumeId::from(changed.volume.as_str());
            if changed.multi_attach {
                self.multi_attach.insert(volume.clone());
            }
            if changed.state == VolumePhase::Creating {
                self.made.insert(volume.clone());
            }
            self.in_our_cloud.insert(volume);
        } else if let Some(staged) = event.get::<DiskStaged>() {
            self.on_staged(staged);
        } else if let Some(DiskPublished { volume, node, path, readonly, .. }) = event.get() {
            self.on_published(volume, node, path, *readonly);
        } else if let Some(DiskUnpublished { volume, node, path }) = event.get() {
            self.on_unpublished(&self.place(volume, node), path);
        } else if let Some(DiskUnstaged { volume, node, .. }) = event.get() {
            self.on_unstaged(&self.place(volume, node));
        } else if let Some(DiskCrashed { node }) = event.get() {
            self.clear(node);
        } else if let Some(InstanceChanged { instance, state: InstancePhase::ShuttingDown }) = event.get() {
            // The cloud removes the machine with everything that it had, so this is not a detach under a running node.
            self.clear(instance.as_str());
        } else if let Some(detach) = event.get::<Detach>() {
            self.on_detach(detach, event.ms);
        } else if let Some(ClusterNode { node, instance, .. }) = event.get() {
            self.instances.insert(instance.into(), node.into());
        } else if let Some(FaultFired { fault, effect: Effect::Delay(Span(delay)), .. }) = event.get() {
            // A fault that ends does not release what it already holds.
            let held = self.scale.apply((*delay).min(HELD_AT_MOST));
            let until = event.ms + u64::try_from(held.as_millis()).unwrap_or_default();
            if until > self.held_back.0 {
                self.held_back = (until, format!("the fault `{fault}` held something back"));
            }
        } else if event.is::<ProcessStarted>() {
            self.on_started(&event.process);
        }
    }

    /// Records a change that is not a heartbeat.
    fn stir(&mut self, ms: u64, what: impl FnOnce() -> String) {
        self.last_unrest = (ms, what());
    }

    /// Removes the volumes of a node, by its name or instance id.
    fn clear(&mut self, node: &str) {
        let node = NodeName::from(self.name(node));
        self.holds.retain(|place, _| place.node != node);
    }

    fn forget_if_empty(&mut self, place: &VolumeOnNode) {
        if self.holds.get(place).is_some_and(|hold| hold.staged.is_none() && hold.published.is_empty()) {
            self.holds.remove(place);
        }
    }
}

/// Returns true if an RPC only reads.
pub(crate) fn only_looks(rpc: &str) -> bool {
    ["Get", "List", "Probe", "Validate", "NodeGet", "ControllerGet"].iter().any(|start| rpc.starts_with(start))
}
