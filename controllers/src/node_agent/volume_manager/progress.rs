//! Progress of operations: the first step, the next step after a success or failure, and the effect on the actual state
//! (upstream `operation_generator.go`).

use std::time::Duration;

use super::actual::{Attachability, MountState, MountedPod};
use super::operation::NodeFacts;
use super::{Failure, Next, Operation, Step, StepError, Task, VolumeManager, VolumeName};

impl VolumeManager {
    /// Returns the first step of an operation that [`VolumeManager::reconcile`] started. The volume's node affinity is
    /// checked against `node`.
    pub fn begin(&mut self, now: Duration, operation: &Operation, node: NodeFacts<'_>) -> Next {
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
                    // Upstream uses this reason for both kinds of volumes.
                    return self.fail(now, operation, &what, &error, Some("FailedMount"));
                }
                if task.spec.is_read_write_once_pod()
                    && self.actual.is_mounted_elsewhere(volume, uid)
                    && !self.seeded_bugs.shares_once_pod
                {
                    let error = "volume uses the ReadWriteOncePod access mode and is already in use by another pod";
                    let step = if block { Step::Stage } else { Step::Publish };
                    return self.failed(now, operation, &task, step, error);
                }
                if task.attachable { Next::Do(Step::WaitForAttach) } else { self.after_attach(volume) }
            }
            Operation::Expand { .. } => Next::Do(Step::Expand),
            Operation::Unmount { .. } => Next::Do(if block { Step::Unmap } else { Step::Unpublish }),
            Operation::CleanUp { .. } => Next::Do(Step::CleanUp),
            Operation::UnmountDevice { .. } => Next::Do(Step::Unstage),
        }
    }

    /// Takes the result of a step and returns the next action.
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
        let is_smaller = task.sizes.claim != 0 && task.sizes.volume > task.sizes.claim;
        let grows = is_smaller && !task.readonly && !self.seeded_bugs.mounts_without_growth;
        match step {
            Step::VerifyControllerAttached => {
                self.actual.mark_attached(task.spec, Attachability::True);
            }
            Step::WaitForAttach => return self.after_attach(volume),
            Step::Stage => {
                if let Some(attached) = self.actual.get_mut(volume) {
                    attached.device = MountState::Mounted;
                    attached.device_reconstructed = false;
                    attached.size =
                        if self.seeded_bugs.mounts_without_growth { task.sizes.volume } else { task.sizes.claim };
                    attached.expansion_refused = false;
                    attached.spec = task.spec;
                }
                return Next::Do(Step::Publish);
            }
            Step::Expand => {
                if let Some(attached) = self.actual.get_mut(volume) {
                    attached.size = task.sizes.volume;
                }
                if matches!(operation, Operation::Mount { .. }) {
                    self.mark_mounted(operation, &task, MountState::Mounted);
                }
            }
            Step::Publish if block => return Next::Do(Step::Map),
            // Drivers without STAGE_UNSTAGE_VOLUME can only expand a published volume (upstream
            // `expandVolumeDuringMount`).
            Step::Publish | Step::Map if grows => return Next::Do(Step::Expand),
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
            Step::CleanUp => {}
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
        let mounts = matches!(operation, Operation::Mount { .. });
        if let StepError::NoRecord(why) = error {
            return self.fail(now, operation, step.what_without_record(), why, None);
        }
        match step {
            Step::VerifyControllerAttached | Step::WaitForAttach | Step::CleanUp => {}
            Step::Stage => self.device_failed(volume, error),
            Step::Expand if !mounts => {
                return self.fail(now, operation, "NodeExpandVolume failed", error.message(), None);
            }
            // It is published or mapped by now. It must be unmounted with its pod, which must not use it yet.
            Step::Expand | Step::Map => self.mark_mounted(operation, task, MountState::Uncertain),
            Step::Publish => self.mount_failed(operation, task, error),
            // The tear-down may be half done: the next use must publish again.
            Step::Unmap | Step::Unpublish => {
                if let Some(pod) = self.actual.pod_mut(volume, operation.uid()) {
                    pod.state = MountState::Uncertain;
                }
            }
            // Likewise for the device: the next use must stage again (kubernetes#86360, kubernetes#106729).
            Step::Unstage => {
                if let Some(attached) = self.actual.get_mut(volume) {
                    attached.device = MountState::Uncertain;
                }
            }
        }
        self.failed(now, operation, task, step, error.message())
    }

    fn after_attach(&self, volume: &VolumeName) -> Next {
        match self.actual.get(volume).map(|v| (v.spec.is_inline(), v.device)) {
            Some((true, _) | (_, MountState::Mounted)) => Next::Do(Step::Publish),
            _ => Next::Do(Step::Stage),
        }
    }

    /// Marks a volume as mounted, or maybe mounted, for a pod. A raw device counts as mapped, or maybe mapped.
    fn mark_mounted(&mut self, operation: &Operation, task: &Task, state: MountState) {
        self.mark_pod(operation, task, state, task.spec.block);
    }

    fn mark_pod(&mut self, operation: &Operation, task: &Task, state: MountState, mapped: bool) {
        let Some(uid) = operation.uid() else { return };
        if let Some(attached) = self.actual.get_mut(operation.volume()) {
            let pod = task.pod_name.clone();
            let pod = MountedPod { state, reconstructed: false, remount: false, mapped, pod };
            attached.pods.insert(uid.to_owned(), pod);
        }
    }

    /// Applies an error to the device, like upstream's `markDeviceErrorState`: a final error clears an uncertain
    /// device, an uncertain error makes an unmounted one uncertain.
    fn device_failed(&mut self, volume: &VolumeName, error: &StepError) {
        let Some(attached) = self.actual.get_mut(volume) else { return };
        match (error, attached.device) {
            (StepError::Final(_), MountState::Uncertain)
                if !attached.device_reconstructed || self.seeded_bugs.forgets_reconstructed =>
            {
                attached.device = MountState::NotMounted;
            }
            (StepError::Uncertain(_), MountState::NotMounted) => attached.device = MountState::Uncertain,
            _ => {}
        }
    }

    /// Applies an error to a pod's mount, like upstream's `markVolumeErrorState`. Upstream also forgets a pod whose raw
    /// device an earlier attempt mapped, and loses the mapping. Here the pod stays until the unmap.
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

    /// Ends an operation that failed in `step`. Only a mount emits an event of the pod; upstream logs other failures.
    fn failed(&mut self, now: Duration, operation: &Operation, task: &Task, step: Step, error: &str) -> Next {
        let block = task.spec.block;
        let reason = if block { "FailedMapVolume" } else { "FailedMount" };
        let reported = matches!(operation, Operation::Mount { .. }).then_some(reason);
        self.fail(now, operation, step.what(block), error, reported)
    }

    fn fail(
        &mut self,
        now: Duration,
        operation: &Operation,
        what: &str,
        error: &str,
        reported: Option<&'static str>,
    ) -> Next {
        let task = self.running.get(operation);
        let message = task.map(|task| format!("{what} for volume \"{}\" : {error}", task.spec.pv)).unwrap_or_default();
        let pod = task.and_then(|task| task.pod.clone()).filter(|_| reported.is_some());
        self.finish(now, operation, Some(Failure { message, pod, reason: reported.unwrap_or_default() }))
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
