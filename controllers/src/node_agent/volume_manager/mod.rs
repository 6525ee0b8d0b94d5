//! Kubelet's volume manager as a pure machine (storage-controllers §9; upstream `pkg/kubelet/volumemanager`).
//!
//! The populator fills the desired state, the machine compares it with the actual state and says which operations
//! to start; each operation is a short list of steps that the shell performs one by one and reports back. Nothing
//! in here waits, calls, or reads a clock.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;

use super::names::VolumeName;
use crate::pending::{NotStarted, OperationKeyRef, PendingOperations};

pub mod actual;
pub mod desired;
pub mod operation;
pub mod spec;
#[cfg(test)]
mod tests;

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
            retry_at: None,
        }
    }

    // --- what the shell learns ---------------------------------------------------------------------------------

    /// Takes what was found on disk at the start: each becomes attach-, device- and mount-uncertain.
    pub fn reconstruct(&mut self, found: &[FoundMount]) {
        let mut names = BTreeSet::new();
        for mount in found {
            let spec = Arc::new(VolumeSpec::reconstructed(&mount.driver, &mount.handle, &mount.pv, mount.block));
            names.insert(spec.name.clone());
            let volume = self.actual.mark_attached(spec, Attachability::Uncertain);
            volume.device = MountState::Uncertain;
            volume.device_reconstructed = true;
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

    // --- the reconciler ----------------------------------------------------------------------------------------

    /// One pass: unmount, then attach and mount, then unmount devices (upstream `reconciler.reconcile`).
    pub fn reconcile(&mut self, now: Duration) -> Reconciled {
        self.retry_at = None;
        let mut done = Reconciled::default();
        let ready_to_unmount = self.populated && self.reconstruction == Reconstruction::Done;
        if ready_to_unmount {
            self.unmount_volumes(now, &mut done);
        }
        self.mount_or_attach_volumes(now, &mut done);
        if ready_to_unmount {
            self.unmount_devices(now, &mut done);
        }
        done
    }

    fn unmount_volumes(&mut self, now: Duration, done: &mut Reconciled) {
        let unwanted: Vec<_> = self
            .actual
            .volumes()
            .flat_map(|(name, volume)| volume.pods.keys().map(move |uid| (name, uid, volume)))
            .filter(|(name, uid, _)| !self.desired.pod_wants(name, uid) && !self.strays.contains(*uid))
            .map(|(name, uid, volume)| {
                let pod = volume.pods.get(uid).map(|p| p.pod.clone()).unwrap_or_default();
                let task = Task { pod_name: pod, ..Task::of(volume.spec.clone()) };
                (Operation::Unmount { volume: name.clone(), uid: uid.clone() }, task)
            })
            .collect();
        for (operation, task) in unwanted {
            self.start(now, operation, task, done);
        }
    }

    fn mount_or_attach_volumes(&mut self, now: Duration, done: &mut Reconciled) {
        let mut todo = Vec::new();
        for (name, volume) in self.desired.volumes() {
            let attached = self.actual.get(name).is_some();
            for (uid, mount) in &volume.pods {
                let operation = if !attached {
                    // Two silent preconditions, so that no backoff builds up while the controller works.
                    let seen = self.attached_in_status.contains(name.as_str()) && volume.reported_in_use;
                    if volume.attachable && !seen {
                        continue;
                    }
                    Operation::VerifyControllerAttached { volume: name.clone() }
                } else if self.actual.must_mount(name, uid) {
                    Operation::Mount { volume: name.clone(), uid: uid.clone() }
                } else if !mount.readonly && self.actual.may_grow(name, mount.sizes.volume) {
                    Operation::Expand { volume: name.clone() }
                } else {
                    continue;
                };
                let task = Task {
                    spec: volume.spec.clone(),
                    attachable: volume.attachable,
                    pod: Some(mount.pod.clone()),
                    pod_name: pod_name(&mount.pod),
                    volume_in_pod: mount.volume_in_pod.clone(),
                    readonly: mount.readonly,
                    sizes: mount.sizes,
                };
                todo.push((operation, task));
            }
        }
        for (operation, task) in todo {
            self.start(now, operation, task, done);
        }
    }

    fn unmount_devices(&mut self, now: Duration, done: &mut Reconciled) {
        let unused: Vec<_> = self
            .actual
            .volumes()
            .filter(|(name, volume)| volume.pods.is_empty() && self.desired.get(name).is_none())
            .map(|(name, volume)| (name.clone(), volume.device, volume.spec.clone()))
            .collect();
        for (name, device, spec) in unused {
            if self.pending.is_pending(OperationKeyRef::volume(name.as_str())) {
                continue;
            }
            if device == MountState::NotMounted {
                self.actual.mark_detached(&name);
                done.detached.push(name);
            } else {
                self.start(now, Operation::UnmountDevice { volume: name }, Task::of(spec), done);
            }
        }
    }

    fn start(&mut self, now: Duration, operation: Operation, task: Task, done: &mut Reconciled) {
        match self.pending.start(now, &operation.key(), operation.name(task.spec.block)) {
            Ok(()) => {
                self.running.insert(operation.clone(), task);
                done.started.push(operation);
            }
            // Its end wakes the reconciler.
            Err(NotStarted::Pending) => {}
            Err(NotStarted::Backoff { until, .. }) => {
                self.retry_at = Some(self.retry_at.map_or(until, |at| at.min(until)));
            }
        }
    }

    // --- operations --------------------------------------------------------------------------------------------

    /// The first step of an operation that [`VolumeManager::reconcile`] started. `node` is what the node affinity of
    /// the volume is checked against.
    pub fn begin(&mut self, now: Duration, operation: &Operation, node: operation::NodeFacts<'_>) -> Next {
        let Some(task) = self.running.get(operation).cloned() else { return Next::Done };
        let block = task.spec.block;
        match operation {
            Operation::VerifyControllerAttached { .. } => {
                if !task.attachable {
                    self.actual.mark_attached(task.spec, Attachability::False);
                    return self.finish(now, operation, None);
                }
                Next::Do(Step::VerifyControllerAttached)
            }
            Operation::Mount { volume, uid } => {
                if let Some(pv) = &task.spec.object
                    && let Err(error) = super::affinity::check(pv, node.name, node.labels)
                {
                    let mode = if block { "MapVolume" } else { "MountVolume" };
                    let what = format!("{mode}.NodeAffinity check failed");
                    // Upstream has this one reason for both kinds of volumes.
                    return self.fail(now, operation, &what, &error, Some("FailedMount"));
                }
                if task.spec.is_read_write_once_pod() && self.actual.is_mounted_elsewhere(volume, uid) {
                    let error = "volume uses the ReadWriteOncePod access mode and is already in use by another pod";
                    let step = if block { Step::Stage } else { Step::Publish };
                    return self.failed(now, operation, &task, step, error);
                }
                if task.attachable { Next::Do(Step::WaitForAttach) } else { self.after_attach(volume) }
            }
            Operation::Expand { .. } => Next::Do(Step::Expand),
            Operation::Unmount { .. } => Next::Do(if block { Step::Unmap } else { Step::Unpublish }),
            Operation::UnmountDevice { .. } => Next::Do(Step::Unstage),
        }
    }

    /// Takes the result of a step and says what follows.
    pub fn advance(&mut self, now: Duration, operation: &Operation, step: Step, result: Result<(), StepError>) -> Next {
        let Some(task) = self.running.get(operation).cloned() else { return Next::Done };
        match result {
            Ok(()) => self.done(now, operation, task, step),
            Err(error) => self.not_done(now, operation, &task, step, &error),
        }
    }

    fn done(&mut self, now: Duration, operation: &Operation, task: Task, step: Step) -> Next {
        let volume = operation.volume();
        let block = task.spec.block;
        let grows = task.sizes.claim != 0 && task.sizes.volume > task.sizes.claim && !task.readonly;
        match step {
            Step::VerifyControllerAttached => {
                self.actual.mark_attached(task.spec, Attachability::True);
            }
            Step::WaitForAttach => return self.after_attach(volume),
            Step::Stage => {
                if let Some(attached) = self.actual.get_mut(volume) {
                    attached.device = MountState::Mounted;
                    attached.device_reconstructed = false;
                    attached.size = task.sizes.claim;
                    attached.expansion_refused = false;
                    attached.spec = task.spec;
                }
                return Next::Do(if grows && !block { Step::Expand } else { Step::Publish });
            }
            Step::Expand => {
                if let Some(attached) = self.actual.get_mut(volume) {
                    attached.size = task.sizes.volume;
                }
                if matches!(operation, Operation::Mount { .. }) {
                    if !block {
                        return Next::Do(Step::Publish);
                    }
                    self.mark_mounted(operation, &task, MountState::Mounted);
                }
            }
            Step::Publish if block => return Next::Do(Step::Map),
            Step::Map if grows => return Next::Do(Step::Expand),
            Step::Publish | Step::Map => self.mark_mounted(operation, &task, MountState::Mounted),
            Step::Unmap => {
                if let Some(pod) = self.actual.pod_mut(volume, operation.uid()) {
                    pod.mapped = false;
                }
                return Next::Do(Step::Unpublish);
            }
            Step::Unpublish => {
                if let (Some(attached), Some(uid)) = (self.actual.get_mut(volume), operation.uid()) {
                    attached.pods.remove(uid);
                }
            }
            Step::Unstage => {
                if let Some(attached) = self.actual.get_mut(volume) {
                    attached.device = MountState::NotMounted;
                    attached.device_reconstructed = false;
                }
            }
        }
        self.finish(now, operation, None)
    }

    fn not_done(&mut self, now: Duration, operation: &Operation, task: &Task, step: Step, error: &StepError) -> Next {
        let volume = operation.volume();
        let block = task.spec.block;
        let mounts = matches!(operation, Operation::Mount { .. });
        match step {
            Step::VerifyControllerAttached | Step::WaitForAttach => {}
            Step::Stage => self.device_failed(volume, error),
            Step::Expand if !mounts => {
                return self.fail(now, operation, "NodeExpandVolume failed", error.message(), None);
            }
            // A raw device is mapped by now: it must be taken down with its pod, which must not use it yet.
            Step::Expand | Step::Map if block => self.mark_mounted(operation, task, MountState::Uncertain),
            // The next mount must stage, and so expand, again.
            Step::Expand | Step::Map => {
                if let Some(attached) = self.actual.get_mut(volume) {
                    attached.device = MountState::Uncertain;
                }
            }
            Step::Publish => self.mount_failed(operation, task, error),
            // Tear-down may be half done: the next use must publish again.
            Step::Unmap | Step::Unpublish => {
                if let Some(pod) = self.actual.pod_mut(volume, operation.uid()) {
                    pod.state = MountState::Uncertain;
                }
            }
            // The same for the device: the next use must stage again (k#86360, k#106729).
            Step::Unstage => {
                if let Some(attached) = self.actual.get_mut(volume) {
                    attached.device = MountState::Uncertain;
                }
            }
        }
        self.failed(now, operation, task, step, error.message())
    }

    fn after_attach(&self, volume: &VolumeName) -> Next {
        match self.actual.get(volume).map(|v| v.device) {
            Some(MountState::Mounted) => Next::Do(Step::Publish),
            _ => Next::Do(Step::Stage),
        }
    }

    /// The pod has the volume, or may have it; a raw device is mapped by then, or may be.
    fn mark_mounted(&mut self, operation: &Operation, task: &Task, state: MountState) {
        self.mark_pod(operation, task, state, task.spec.block);
    }

    fn mark_pod(&mut self, operation: &Operation, task: &Task, state: MountState, mapped: bool) {
        let Some(uid) = operation.uid() else { return };
        if let Some(attached) = self.actual.get_mut(operation.volume()) {
            let (volume_in_pod, pod) = (task.volume_in_pod.clone(), task.pod_name.clone());
            let pod = MountedPod { state, reconstructed: false, remount: false, mapped, volume_in_pod, pod };
            attached.pods.insert(uid.to_owned(), pod);
        }
    }

    /// `markDeviceErrorState` upstream: final errors clear an uncertain device, uncertain ones make a clean one so.
    fn device_failed(&mut self, volume: &VolumeName, error: &StepError) {
        let Some(attached) = self.actual.get_mut(volume) else { return };
        match (error, attached.device) {
            (StepError::Final(_), MountState::Uncertain) if !attached.device_reconstructed => {
                attached.device = MountState::NotMounted;
            }
            (StepError::Uncertain(_), MountState::NotMounted) => attached.device = MountState::Uncertain,
            _ => {}
        }
    }

    /// `markVolumeErrorState` upstream: the same for a pod's mount. Upstream also forgets a pod whose raw device was
    /// mapped by an earlier try, and with it the mapping; here the pod stays until it was unmapped.
    fn mount_failed(&mut self, operation: &Operation, task: &Task, error: &StepError) {
        let Some(uid) = operation.uid() else { return };
        let known = self.actual.get(operation.volume()).and_then(|v| v.pods.get(uid)).cloned();
        match (error, known) {
            (StepError::Final(_), Some(pod))
                if pod.state == MountState::Uncertain && !pod.reconstructed && !pod.mapped =>
            {
                if let Some(attached) = self.actual.get_mut(operation.volume()) {
                    attached.pods.remove(uid);
                }
            }
            (StepError::Uncertain(_), None) => self.mark_pod(operation, task, MountState::Uncertain, false),
            _ => {}
        }
    }

    /// Ends an operation that failed in `step`. Mounts tell the pod, everything else is only logged upstream.
    fn failed(&mut self, now: Duration, operation: &Operation, task: &Task, step: Step, error: &str) -> Next {
        let block = task.spec.block;
        let reason = if block { "FailedMapVolume" } else { "FailedMount" };
        let told = matches!(operation, Operation::Mount { .. }).then_some(reason);
        self.fail(now, operation, step.what(block), error, told)
    }

    fn fail(
        &mut self,
        now: Duration,
        operation: &Operation,
        what: &str,
        error: &str,
        told: Option<&'static str>,
    ) -> Next {
        let task = self.running.get(operation);
        let message = task.map(|task| format!("{what} for volume \"{}\" : {error}", task.spec.pv)).unwrap_or_default();
        let pod = task.and_then(|task| task.pod.clone()).filter(|_| told.is_some());
        self.finish(now, operation, Some(Failure { message, pod, reason: told.unwrap_or_default() }))
    }

    fn finish(&mut self, now: Duration, operation: &Operation, failure: Option<Failure>) -> Next {
        self.running.remove(operation);
        let key = operation.key();
        match failure {
            None => {
                self.pending.finish::<String>(now, &key, Ok(()));
                Next::Done
            }
            Some(failure) => {
                self.pending.finish(now, &key, Err(&failure.message));
                Next::Failed(failure)
            }
        }
    }
}

fn pod_name(pod: &Pod) -> String {
    let part = |name: &Option<String>| name.clone().unwrap_or_default();
    format!("{}/{}", part(&pod.metadata.namespace), part(&pod.metadata.name))
}
