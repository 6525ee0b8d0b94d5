//! Kubelet's volume manager as a pure machine (storage-controllers §9; upstream `pkg/kubelet/volumemanager`).
//!
//! The populator fills the desired state, the machine compares it with the actual state and says which operations
//! to start; each operation is a short list of steps that the shell performs one by one and reports back. Nothing
//! in here waits, calls, or reads a clock.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::names::VolumeName;
use crate::pending::PendingOperations;

pub mod actual;
pub mod desired;
pub mod operation;
mod progress;
mod reconcile;
pub mod spec;
#[cfg(test)]
mod tests;
mod told;

use actual::{ActualStateOfWorld, Attachability, MountState, MountedPod};
use desired::{DesiredMount, DesiredStateOfWorld};
pub use operation::{Failure, Next, Operation, Step, StepError, Task};
pub use spec::VolumeSpec;

/// What one pass of the reconciler did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reconciled {
    /// Operations that were marked as running; the shell must perform them.
    pub started: Vec<Operation>,
    /// Volumes that left the actual state and so leave volumesInUse at the next status tick.
    pub detached: Vec<VolumeName>,
}

/// A mount that a restarted kubelet found on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundMount {
    /// The pod's uid; none for a raw device that is staged and not published any more.
    pub uid: Option<String>,
    /// The CSI driver.
    pub driver: String,
    /// The volume handle.
    pub handle: String,
    /// The PersistentVolume's name.
    pub pv: String,
    /// It is a raw device.
    pub block: bool,
    /// The pod's own spec describes the volume.
    pub inline: bool,
}

impl FoundMount {
    fn spec(&self) -> VolumeSpec {
        match &self.uid {
            Some(uid) if self.inline => VolumeSpec::reconstructed_inline(&self.driver, &self.handle, uid, &self.pv),
            _ => VolumeSpec::reconstructed(&self.driver, &self.handle, &self.pv, self.block),
        }
    }
}

/// What a restarted kubelet found of a pod's volume and could not make sense of: its metadata is gone, or no good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedMount {
    /// The pod's uid.
    pub uid: String,
    /// The name of the volume's directory.
    pub pv: String,
}

/// How far reconstruction after a start has come.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Reconstruction {
    /// The disk was not read yet.
    Unread,
    /// These were found; node status must say whether a controller attached them.
    NeedsNodeStatus(BTreeSet<VolumeName>),
    /// Nothing is open.
    Done,
}

/// The machine.
#[derive(Clone, Debug)]
pub struct VolumeManager {
    desired: DesiredStateOfWorld,
    actual: ActualStateOfWorld,
    pending: PendingOperations,
    running: BTreeMap<Operation, Task>,
    /// `status.volumesAttached` of the cached Node.
    attached_in_status: BTreeSet<String>,
    /// Every pod that the pod source knows has been looked at once (`hasAddedPods`).
    populated: bool,
    /// Pods that nobody knows of and whose containers run.
    strays: BTreeSet<String>,
    reconstruction: Reconstruction,
    /// What could not be reconstructed and was not looked at again yet (`volumesFailedReconstruction`).
    failed: Vec<FailedMount>,
    retry_at: Option<Duration>,
}

impl VolumeManager {
    /// An empty machine. Backoff of failed operations goes from `initial` to `max` (500 ms and 2 m 2 s upstream).
    pub fn new(initial: Duration, max: Duration) -> Self {
        Self {
            desired: DesiredStateOfWorld::default(),
            actual: ActualStateOfWorld::default(),
            pending: PendingOperations::new(initial, max),
            running: BTreeMap::new(),
            attached_in_status: BTreeSet::new(),
            populated: false,
            strays: BTreeSet::new(),
            reconstruction: Reconstruction::Unread,
            failed: Vec::new(),
            retry_at: None,
        }
    }

    // --- what the shell learns ---------------------------------------------------------------------------------

    /// Takes what was found on disk at the start: each becomes attach-, device- and mount-uncertain. What `failed` waits
    /// until it is known that no pod wants it.
    pub fn reconstruct(&mut self, found: &[FoundMount], failed: Vec<FailedMount>) {
        self.failed = failed;
        let mut names = BTreeSet::new();
        for mount in found {
            let spec = Arc::new(mount.spec());
            names.insert(spec.name.clone());
            let volume = self.actual.mark_attached(spec, Attachability::Uncertain);
            if !mount.inline {
                volume.device = MountState::Uncertain;
                volume.device_reconstructed = true;
            }
            let pod = MountedPod {
                state: MountState::Uncertain,
                reconstructed: true,
                remount: false,
                mapped: mount.block,
                volume_in_pod: String::new(),
                pod: String::new(),
            };
            if let Some(uid) = &mount.uid {
                volume.pods.insert(uid.clone(), pod);
            }
        }
        self.reconstruction =
            if names.is_empty() { Reconstruction::Done } else { Reconstruction::NeedsNodeStatus(names) };
    }

    /// Whether a live Node must be read before anything is unmounted.
    pub fn needs_node_status(&self) -> bool {
        matches!(self.reconstruction, Reconstruction::NeedsNodeStatus(_))
    }

    /// Ends reconstruction: volumes that the live Node lists as attached are attachable.
    pub fn reconstructed_from_node_status(&mut self, attached: &BTreeSet<String>) {
        if let Reconstruction::NeedsNodeStatus(names) = &self.reconstruction {
            for name in names {
                if let Some(volume) = self.actual.get_mut(name) {
                    let listed = attached.contains(name.as_str());
                    volume.attachable = if listed { Attachability::True } else { Attachability::False };
                }
            }
            self.reconstruction = Reconstruction::Done;
        }
    }

    /// Takes `status.volumesAttached` of the cached Node; true when it changed.
    pub fn set_attached_in_status(&mut self, attached: BTreeSet<String>) -> bool {
        let changed = self.attached_in_status != attached;
        self.attached_in_status = attached;
        changed
    }

    /// Takes `status.volumesInUse` of the Node that the status loop wrote or found unchanged; true when it matters.
    pub fn mark_reported_in_use(&mut self, listed: &BTreeSet<&str>) -> bool {
        self.desired.mark_reported_in_use(listed)
    }

    /// The volumes of every pod were looked up once since the pod source has delivered everything: what nobody wants may
    /// be taken down from now on.
    pub fn set_populated(&mut self) {
        self.populated = true;
    }

    /// Takes a volume for staged, whatever its driver said.
    pub(super) fn take_for_staged(&mut self, volume: &VolumeName) {
        if let Some(attached) = self.actual.get_mut(volume) {
            attached.device = MountState::Mounted;
        }
    }

    /// Pods that are gone, by uid, whose containers still run: they keep what they have until those have stopped.
    pub fn set_strays(&mut self, strays: BTreeSet<String>) {
        self.strays = strays;
    }

    /// A pod wants a volume.
    pub fn want(&mut self, spec: Arc<VolumeSpec>, attachable: bool, uid: &str, mount: DesiredMount) {
        self.desired.add(spec, attachable, uid, mount);
    }

    /// Looking up a volume of a pod failed.
    pub fn lookup_failed(&mut self, uid: &str, error: String) {
        self.desired.add_error(uid, error);
    }

    /// The driver cannot expand a volume while it is in use: nobody asks again before it is staged anew.
    pub fn refuse_expansion(&mut self, volume: &VolumeName) {
        if let Some(attached) = self.actual.get_mut(volume) {
            attached.expansion_refused = true;
        }
    }

    /// Only these pods still want volumes; true when a pod was dropped.
    pub fn retain_pods(&mut self, wanted: &BTreeSet<String>) -> bool {
        self.desired.retain_pods(wanted)
    }

    // --- what the shell asks -----------------------------------------------------------------------------------

    /// `status.volumesInUse`: the sorted union of attachable desired and attachable actual volumes. Nothing before
    /// reconstruction is done: then the old list must stay (k#101791).
    pub fn volumes_in_use(&self) -> Option<Vec<String>> {
        if self.reconstruction != Reconstruction::Done {
            return None;
        }
        let desired = self.desired.volumes().filter(|(_, v)| v.attachable).map(|(name, _)| name);
        let actual = self.actual.volumes().filter(|(_, v)| v.attachable == Attachability::True).map(|(name, _)| name);
        let names: BTreeSet<_> = desired.chain(actual).collect();
        Some(names.into_iter().map(ToString::to_string).collect())
    }

    /// Which of `expected` (names in the pod's spec) are not mounted for `uid`.
    pub fn unmounted<'a>(&self, uid: &str, expected: &'a [String]) -> Vec<&'a str> {
        let mounted: BTreeSet<&str> = self
            .actual
            .volumes()
            .filter_map(|(_, v)| v.pods.get(uid))
            .filter(|p| p.state == MountState::Mounted)
            .map(|p| p.volume_in_pod.as_str())
            .collect();
        expected.iter().map(String::as_str).filter(|name| !mounted.contains(name)).collect()
    }

    /// Why the volumes of `uid` are not there, as kubelet words it; takes the lookup errors.
    pub fn explain(&mut self, uid: &str, expected: &[String], cause: &str) -> String {
        let wanted =
            |name: &str| self.desired.volumes().find(|(_, v)| v.pods.get(uid).is_some_and(|m| m.volume_in_pod == name));
        let unattached: Vec<&str> = expected
            .iter()
            .map(String::as_str)
            .filter(|name| wanted(name).is_some_and(|(volume, _)| self.actual.get(volume).is_none()))
            .collect();
        let unprocessed: Vec<&str> =
            expected.iter().map(String::as_str).filter(|name| wanted(name).is_none()).collect();
        format!(
            "unmounted volumes=[{}], unattached volumes=[{}], failed to process volumes=[{}]: {cause}",
            self.unmounted(uid, expected).join(" "),
            unattached.join(" "),
            unprocessed.join(" "),
        )
    }

    /// Takes the lookup errors of a pod.
    pub fn take_errors(&mut self, uid: &str) -> Vec<String> {
        self.desired.take_errors(uid)
    }

    /// Whether a pod has lookup errors.
    pub fn has_errors(&self, uid: &str) -> bool {
        self.desired.has_errors(uid)
    }

    /// Whether nothing of the pod is, or may be, mounted. Not before the disk was read.
    pub fn is_unmounted(&self, uid: &str) -> bool {
        self.reconstruction != Reconstruction::Unread && !self.actual.volumes().any(|(_, v)| v.pods.contains_key(uid))
    }

    /// The volumes that are mounted for a pod: the name in the pod's spec and the volume.
    pub fn mounted(&self, uid: &str) -> Vec<(String, Arc<VolumeSpec>)> {
        let of = |v: &actual::AttachedVolume| {
            let pod = v.pods.get(uid).filter(|p| p.state == MountState::Mounted)?;
            Some((pod.volume_in_pod.clone(), v.spec.clone()))
        };
        self.actual.volumes().filter_map(|(_, v)| of(v)).collect()
    }

    /// Whether a volume is mounted for a pod.
    pub fn is_mounted(&self, uid: &str, volume: &VolumeName) -> bool {
        self.actual.mount_state(volume, uid) == MountState::Mounted
    }

    /// The driver wants to be called again for a pod that has the volume (`MarkRemountRequired`).
    pub fn require_remount(&mut self, uid: &str, volume: &VolumeName) {
        if let Some(pod) = self.actual.pod_mut(volume, Some(uid)) {
            pod.remount = true;
        }
    }

    /// The actual state, to look at.
    pub fn actual(&self) -> &ActualStateOfWorld {
        &self.actual
    }

    /// The desired state, to look at.
    pub fn desired(&self) -> &DesiredStateOfWorld {
        &self.desired
    }

    /// What a running operation works on.
    pub fn task(&self, operation: &Operation) -> Option<&Task> {
        self.running.get(operation)
    }

    /// When the last pass found something that only waits for its backoff to end.
    pub fn retry_at(&self) -> Option<Duration> {
        self.retry_at
    }
}
