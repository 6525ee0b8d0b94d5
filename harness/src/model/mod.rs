//! State of a run, folded once from its trace: the calls of drivers (`calls`), the stored objects of Kubernetes
//! (`objects`), the holders of each volume, and the forced detaches. The invariants read it.
//!
//! It shows the state after the last event. For a commit, [`Objects::before`] has the object as it was.

mod calls;
mod commits;
mod detaches;
mod mounts;
mod node_volume;
mod objects;
mod queries;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
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
pub(crate) use calls::{CallKey, Calls, described, target};
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
    instances: BTreeMap<String, String>,
    pub holds: BTreeMap<(String, String), NodeVolume>,
    /// Handles whose PersistentVolume, in its last version, keeps them after their claim is gone.
    kept: BTreeSet<String>,
    /// By node: the volumes in its status.volumesInUse, each with the time in milliseconds since which it is there.
    in_use_since: BTreeMap<Arc<str>, BTreeMap<Text, u64>>,
    /// Time in milliseconds at which the deletion of each pod that is being deleted began.
    deleting_since: BTreeMap<Arc<str>, u64>,
    /// Attachments in the cloud, with their state.
    pub cloud: BTreeMap<(String, String), AttachmentPhase>,
    /// Device names of attachments in the cloud.
    devices: BTreeMap<(String, String), String>,
    multi_attach: BTreeSet<String>,
    /// Volumes that the cloud has reported.
    in_our_cloud: BTreeSet<String>,
    /// Volumes that were staged or published on a node since they were last attached to it.
    pub held_since_attached: BTreeSet<(String, String)>,
    /// Time in milliseconds since which no pod wants a volume on a node.
    unwanted_since: BTreeMap<(String, String), u64>,
    /// Volumes and nodes whose driver was asked to stage; true if the kubelet that asked has ended since.
    asked_to_stage: BTreeMap<(String, String), bool>,
    made: BTreeSet<String>,
    /// Volumes and nodes for which attach-detach, at its last detach, may have had a cached Node that did not list the
    /// volume.
    unlisted: BTreeSet<(String, String)>,
    /// The node whose status.volumesAttached the last event has changed.
    reported: Option<String>,
    /// Volumes that were on no node: the ordinal of the last event that showed it.
    left: BTreeMap<String, u64>,
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
        Self { scale: self.scale, instances: self.instances.clone(), ..Self::default() }
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
            self.in_our_cloud.insert(changed.volume.to_string());
            if changed.multi_attach {
                self.multi_attach.insert(changed.volume.to_string());
            }
            if changed.state == VolumePhase::Creating {
                self.made.insert(changed.volume.to_string());
            }
        } else if let Some(staged) = event.get::<DiskStaged>() {
            self.on_staged(staged);
        } else if let Some(DiskPublished { volume, node, path, readonly }) = event.get() {
            self.on_published(volume, node, path, *readonly);
        } else if let Some(DiskUnpublished { volume, node, path }) = event.get() {
            self.on_unpublished(volume, node, path);
        } else if let Some(DiskUnstaged { volume, node, .. }) = event.get() {
            self.of(volume, node).staged = None;
            self.forget_if_empty(volume, node);
        } else if let Some(DiskCrashed { node }) = event.get() {
            let node = self.name(node).to_owned();
            self.holds.retain(|(_, n), _| *n != node);
        } else if let Some(InstanceChanged { instance, state: InstancePhase::ShuttingDown }) = event.get() {
            // The cloud removes the machine with everything that it had, so this is not a detach under a running node.
            let node = self.name(instance.as_str()).to_owned();
            self.holds.retain(|(_, n), _| *n != node);
        } else if let Some(detach) = event.get::<Detach>() {
            self.on_detach(detach, event.ms);
        } else if let Some(ClusterNode { node, instance, .. }) = event.get() {
            self.instances.insert(instance.to_string(), node.to_string());
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

    fn of(&mut self, volume: &str, node: &str) -> &mut NodeVolume {
        let node = self.name(node).to_owned();
        self.holds.entry((volume.to_owned(), node)).or_default()
    }

    fn forget_if_empty(&mut self, volume: &str, node: &str) {
        let key = (volume.to_owned(), self.name(node).to_owned());
        if self.holds.get(&key).is_some_and(|hold| hold.staged.is_none() && hold.published.is_empty()) {
            self.holds.remove(&key);
        }
    }
}

/// Returns true if an RPC only reads.
pub(crate) fn only_looks(rpc: &str) -> bool {
    ["Get", "List", "Probe", "Validate", "NodeGet", "ControllerGet"].iter().any(|start| rpc.starts_with(start))
}
