//! Kubelet's volume manager as a pure state machine (upstream `pkg/kubelet/volumemanager`).
//!
//! The populator fills the desired state. The machine compares it with the actual state and returns the operations to
//! start. Each operation is a short list of steps: the async loop performs them one by one and reports back. This module
//! does not wait, call, or read a clock. It uses no other room.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::names::VolumeName;
use crate::metrics::plugin;
use crate::pending::PendingOperations;

pub mod actual;
pub mod affinity;
mod debug_state;
pub mod desired;
pub mod operation;
mod progress;
mod reconcile;
pub mod spec;
#[cfg(test)]
mod tests;

use actual::{ActualStateOfWorld, Attachability, AttachedVolume, MountState, MountedPod};
use desired::{DesiredMount, DesiredStateOfWorld};
pub use operation::{Failure, Next, Operation, Step, StepError, Task};
pub use spec::VolumeSpec;

/// Result of one pass of the reconciler.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reconciled {
    /// Operations now marked as running. The async loop must perform them.
    pub started: Vec<Operation>,
    /// Volumes that left the actual state, and so leave volumesInUse at the next status tick.
    pub detached: Vec<VolumeName>,
}

/// Mount that a restarted kubelet found on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundMount {
    /// Pod's uid. None for a raw device that is staged but no longer published.
    pub uid: Option<String>,
    /// The CSI driver.
    pub driver: String,
    /// The volume handle.
    pub handle: String,
    /// The PersistentVolume's name.
    pub pv: String,
    /// True for a raw device.
    pub block: bool,
    /// True for an inline volume.
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

/// Volume directory that a restarted kubelet found with missing or unreadable metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedMount {
    /// The pod's uid.
    pub uid: String,
    /// Name of the volume's directory.
    pub pv: String,
}

/// Progress of reconstruction after a start.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Reconstruction {
    /// The disk has not been read yet.
    Unread,
    /// Volumes found on disk. Node status must tell whether a controller attached them.
    NeedsNodeStatus(BTreeSet<VolumeName>),
    /// Finished.
    Done,
}

/// The volume manager.
#[derive(Clone, Debug)]
pub struct VolumeManager {
    desired: DesiredStateOfWorld,
    actual: ActualStateOfWorld,
    pending: PendingOperations,
    running: BTreeMap<Operation, Task>,
    /// `status.volumesAttached` of the cached Node.
    attached_in_status: BTreeSet<String>,
    /// True once each pod of the pod source has been populated (`hasAddedPods`).
    populated: bool,
    /// Pods that are gone from the pod source while their containers run.
    orphans: BTreeSet<String>,
    reconstruction: Reconstruction,
    /// Volumes that could not be reconstructed and have not been cleaned up yet (`volumesFailedReconstruction`).
    failed: Vec<FailedMount>,
    retry_at: Option<Duration>,
    /// Volumes that the node's status has ever listed as in use; empty without the seeded bug that reads it.
    once_reported: BTreeSet<String>,
    /// Seeded bugs.
    pub(super) seeded_bugs: SeededBugs,
}

/// Seeded bugs of the machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct SeededBugs {
    /// Mounts a volume before the node's status lists it as attached.
    pub ignores_attached: bool,
    /// Mounts a volume before the node's status lists it as in use.
    pub ignores_in_use: bool,
    /// Unstages a volume that no pod wants while it is published.
    pub unstages_published: bool,
    /// Reports only volumes that pods want as in use.
    pub reports_wanted_only: bool,
    /// Takes a volume for reported in use that was reported before.
    pub remembers_reports: bool,
    /// Does not report a volume as in use whose global mount was found on disk.
    pub hides_reconstructed: bool,
    /// Does not report a volume as in use whose mount is uncertain, as after an unmount that failed.
    pub hides_failed_unmounts: bool,
    /// Takes the filesystem of a volume that it mounts for grown.
    pub mounts_without_growth: bool,
    /// Takes a global mount that was found on disk for gone after a stage that failed.
    pub forgets_reconstructed: bool,
    /// Mounts a ReadWriteOncePod volume for several pods.
    pub shares_once_pod: bool,
    /// Knows a volume of a pod by one of its names only.
    pub takes_first_name: bool,
    /// Takes a stage without a final answer for one that did nothing, once no pod wants the volume.
    pub leaves_uncertain: bool,
}

impl SeededBugs {
    /// Returns true if a volume that is attached is not reported as in use.
    fn hide(self, volume: &AttachedVolume) -> bool {
        let is_uncertain = |pod: &MountedPod| pod.state == MountState::Uncertain && !pod.reconstructed;
        self.reports_wanted_only
            || self.hides_reconstructed && volume.device_reconstructed
            || self.hides_failed_unmounts && volume.pods.values().any(is_uncertain)
    }
}

impl VolumeManager {
    /// Creates an empty machine. The backoff of failed operations goes from `initial` to `max` (500 ms and 2 m 2 s
    /// upstream).
    pub fn new(initial: Duration, max: Duration) -> Self {
        Self {
            desired: DesiredStateOfWorld::default(),
            actual: ActualStateOfWorld::default(),
            pending: PendingOperations::new(initial, max),
            running: BTreeMap::new(),
            attached_in_status: BTreeSet::new(),
            populated: false,
            orphans: BTreeSet::new(),
            reconstruction: Reconstruction::Unread,
            failed: Vec::new(),
            retry_at: None,
            once_reported: BTreeSet::new(),
            seeded_bugs: SeededBugs::default(),
        }
    }

    // --- input from the async loop ------------------------------------------------------------------------------------

    /// Takes the volumes found on disk at the start: each becomes attach-, device- and mount-uncertain. Entries of
    /// `failed` wait until it is certain that no pod wants them.
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
                pod: String::new(),
            };
            if let Some(uid) = &mount.uid {
                volume.pods.insert(uid.clone(), pod);
            }
        }
        self.reconstruction =
            if names.is_empty() { Reconstruction::Done } else { Reconstruction::NeedsNodeStatus(names) };
    }

    /// Returns true if a live Node must be read before the first unmount.
    pub fn needs_node_status(&self) -> bool {
        matches!(self.reconstruction, Reconstruction::NeedsNodeStatus(_))
    }

    /// Ends reconstruction: volumes that the live Node lists as attached become attachable.
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

    /// Sets `status.volumesAttached` of the cached Node. Returns true if it changed.
    pub fn set_attached_in_status(&mut self, attached: BTreeSet<String>) -> bool {
        let changed = self.attached_in_status != attached;
        self.attached_in_status = attached;
        changed
    }

    /// Sets `status.volumesInUse` of the Node that the status loop wrote or found unchanged. Returns true if a wanted
    /// volume is affected.
    pub fn mark_reported_in_use(&mut self, listed: &BTreeSet<&str>) -> bool {
        if self.seeded_bugs.remembers_reports {
            self.once_reported.extend(listed.iter().map(|name| (*name).to_owned()));
        }
        self.desired.mark_reported_in_use(listed)
    }

    /// Marks the first populator pass as finished: from now on, mounts that no pod wants may be unmounted.
    pub fn set_populated(&mut self) {
        self.populated = true;
    }

    /// Treats a volume as staged, regardless of its driver's answer.
    pub(super) fn take_for_staged(&mut self, volume: &VolumeName) {
        if let Some(attached) = self.actual.get_mut(volume) {
            attached.device = MountState::Mounted;
        }
    }

    /// Sets the pods, by uid, that are gone while their containers run. They keep their volumes until the containers
    /// stop.
    pub fn set_orphans(&mut self, orphans: BTreeSet<String>) {
        self.orphans = orphans;
    }

    /// Adds a pod's use of a volume.
    pub fn want(&mut self, spec: Arc<VolumeSpec>, attachable: bool, uid: &str, mut mount: DesiredMount) {
        if self.seeded_bugs.takes_first_name && self.desired.pod_wants(&spec.name, uid) {
            mount.volumes_in_pod.clear();
        }
        self.desired.add(spec, attachable, uid, mount);
    }

    /// Records a failed volume lookup of a pod.
    pub fn lookup_failed(&mut self, uid: &str, error: String) {
        self.desired.add_error(uid, error);
    }

    /// Records that the driver cannot expand a volume in use: no expansion until the volume is staged again.
    pub fn refuse_expansion(&mut self, volume: &VolumeName) {
        if let Some(attached) = self.actual.get_mut(volume) {
            attached.expansion_refused = true;
        }
    }

    /// Drops the pods that are not in `wanted`. Returns true if a pod was dropped.
    pub fn retain_pods(&mut self, wanted: &BTreeSet<String>) -> bool {
        self.desired.retain_pods(wanted)
    }

    // --- questions of the async loop ----------------------------------------------------------------------------------

    /// Returns the numbers of pods' volumes, by driver and state of the world.
    pub fn counts(&self) -> BTreeMap<(String, &'static str), u64> {
        let mut counts = BTreeMap::new();
        let wanted =
            self.desired.volumes().map(|(_, volume)| (&volume.spec, volume.pods.len(), "desired_state_of_world"));
        let mounted =
            self.actual.volumes().map(|(_, volume)| (&volume.spec, volume.pods.len(), "actual_state_of_world"));
        for (spec, pods, state) in wanted.chain(mounted) {
            *counts.entry((plugin(&spec.driver), state)).or_default() += pods as u64;
        }
        counts
    }

    /// Returns `status.volumesInUse`: the sorted union of attachable desired and attachable actual volumes. None until
    /// reconstruction is done: the old list must stay until then (kubernetes#101791).
    pub fn volumes_in_use(&self) -> Option<Vec<String>> {
        if self.reconstruction != Reconstruction::Done {
            return None;
        }
        let desired = self.desired.volumes().filter(|(_, v)| v.attachable).map(|(name, _)| name);
        let is_reported =
            |volume: &AttachedVolume| volume.attachable == Attachability::True && !self.seeded_bugs.hide(volume);
        let actual = self.actual.volumes().filter(|(_, v)| is_reported(v)).map(|(name, _)| name);
        let names: BTreeSet<_> = desired.chain(actual).collect();
        Some(names.into_iter().map(ToString::to_string).collect())
    }

    /// Returns the names of `expected` (names in the pod's spec) that are not mounted for `uid`.
    pub fn unmounted<'a>(&self, uid: &str, expected: &'a [String]) -> Vec<&'a str> {
        let mounted = self.desired.of_pod(uid).filter(|(_, volume)| self.is_mounted(uid, volume));
        let mounted: BTreeSet<&str> = mounted.map(|(name, _)| name).collect();
        expected.iter().map(String::as_str).filter(|name| !mounted.contains(name)).collect()
    }

    /// Returns the reason, in kubelet's words, why volumes of `uid` are missing. Takes the lookup errors.
    pub fn explain(&mut self, uid: &str, expected: &[String], cause: &str) -> String {
        let wanted: BTreeMap<&str, &VolumeName> = self.desired.of_pod(uid).collect();
        let unattached: Vec<&str> = expected
            .iter()
            .map(String::as_str)
            .filter(|name| wanted.get(name).is_some_and(|volume| self.actual.get(volume).is_none()))
            .collect();
        let unprocessed: Vec<&str> =
            expected.iter().map(String::as_str).filter(|name| !wanted.contains_key(name)).collect();
        format!(
            "unmounted volumes=[{}], unattached volumes=[{}], failed to process volumes=[{}]: {cause}",
            self.unmounted(uid, expected).join(" "),
            unattached.join(" "),
            unprocessed.join(" "),
        )
    }

    /// Returns the volumes of `uid` that a controller must attach and that are not attached.
    pub fn unattached(&self, uid: &str) -> Vec<Arc<VolumeSpec>> {
        let volumes = self.desired.volumes().filter(|(_, v)| v.attachable && v.pods.contains_key(uid));
        volumes.filter(|(name, _)| self.actual.get(name).is_none()).map(|(_, v)| v.spec.clone()).collect()
    }

    /// Takes the lookup errors of a pod.
    pub fn take_errors(&mut self, uid: &str) -> Vec<String> {
        self.desired.take_errors(uid)
    }

    /// Returns true if a pod has lookup errors.
    pub fn has_errors(&self, uid: &str) -> bool {
        self.desired.has_errors(uid)
    }

    /// Returns true if no volume of the pod is, or may be, mounted. False until the disk has been read.
    pub fn is_unmounted(&self, uid: &str) -> bool {
        self.reconstruction != Reconstruction::Unread && !self.actual.volumes().any(|(_, v)| v.pods.contains_key(uid))
    }

    /// Returns the volumes mounted for a pod: the name in the pod's spec and the volume.
    pub fn mounted(&self, uid: &str) -> Vec<(String, Arc<VolumeSpec>)> {
        let mounted = self.desired.of_pod(uid).filter(|(_, volume)| self.is_mounted(uid, volume));
        mounted.filter_map(|(name, volume)| Some((name.to_owned(), self.actual.get(volume)?.spec.clone()))).collect()
    }

    /// Returns true if a volume is mounted for a pod.
    pub fn is_mounted(&self, uid: &str, volume: &VolumeName) -> bool {
        self.actual.mount_state(volume, uid) == MountState::Mounted
    }

    /// Requests another publish for a pod that has the volume (`MarkRemountRequired`).
    pub fn require_remount(&mut self, uid: &str, volume: &VolumeName) {
        if let Some(pod) = self.actual.pod_mut(volume, Some(uid)) {
            pod.remount = true;
        }
    }

    /// Returns the actual state.
    pub fn actual(&self) -> &ActualStateOfWorld {
        &self.actual
    }

    /// Returns the desired state.
    pub fn desired(&self) -> &DesiredStateOfWorld {
        &self.desired
    }

    /// Returns the task of a running operation.
    pub fn task(&self, operation: &Operation) -> Option<&Task> {
        self.running.get(operation)
    }

    /// Returns the next end of a backoff that the last pass met.
    pub fn retry_at(&self) -> Option<Duration> {
        self.retry_at
    }
}
