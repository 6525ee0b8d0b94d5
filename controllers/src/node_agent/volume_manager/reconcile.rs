//! One pass of the reconciler: compares the two states and starts operations (upstream `reconciler.go`).

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;

use super::actual::MountState;
use super::{FailedMount, Operation, Reconciled, Reconstruction, Task, VolumeManager, VolumeName, VolumeSpec};
use crate::pending::{NotStarted, OperationKeyRef};

impl VolumeManager {
    /// Runs one pass: unmount, then attach and mount, then unmount devices (upstream `reconciler.reconcile`).
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
            self.clean_orphans(now, &mut done);
        }
        done
    }

    fn unmount_volumes(&mut self, now: Duration, done: &mut Reconciled) {
        let unwanted: Vec<_> = self
            .actual
            .volumes()
            .flat_map(|(name, volume)| volume.pods.keys().map(move |uid| (name, uid, volume)))
            .filter(|(name, uid, _)| !self.desired.pod_wants(name, uid) && !self.orphans.contains(*uid))
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
                    let is_attached =
                        self.attached_in_status.contains(name.as_str()) || self.seeded_bugs.ignores_attached;
                    let is_reported = volume.reported_in_use || self.once_reported.contains(name.as_str());
                    let seen = is_attached && (is_reported || self.seeded_bugs.ignores_in_use);
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
            .filter(|(name, volume)| {
                let is_published = !volume.pods.is_empty() && !self.seeded_bugs.unstages_published;
                !is_published && self.desired.get(name).is_none()
            })
            .map(|(name, volume)| {
                let is_left = self.seeded_bugs.leaves_uncertain
                    && volume.device == MountState::Uncertain
                    && !volume.device_reconstructed;
                let device = if is_left { MountState::NotMounted } else { volume.device };
                (name.clone(), device, volume.spec.clone())
            })
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

    /// Takes down volumes that could not be reconstructed, except those that a pod wants: a mount writes their metadata
    /// again (`cleanOrphanVolumes`).
    fn clean_orphans(&mut self, now: Duration, done: &mut Reconciled) {
        for FailedMount { uid, pv } in std::mem::take(&mut self.failed) {
            if self.orphans.contains(&uid) {
                self.failed.push(FailedMount { uid, pv });
                continue;
            }
            if self.desired.has_spec(&uid, &pv) {
                continue;
            }
            let task = Task::of(Arc::new(VolumeSpec::reconstructed("", "", &pv, false)));
            self.start(now, Operation::CleanUp { volume: VolumeName::of_directory(&pv), uid }, task, done);
        }
    }

    fn start(&mut self, now: Duration, operation: Operation, task: Task, done: &mut Reconciled) {
        match self.pending.start(now, &operation.key(), operation.name(task.spec.block)) {
            Ok(()) => {
                self.running.insert(operation.clone(), task);
                done.started.push(operation);
            }
            // The end of the pending operation wakes the reconciler.
            Err(NotStarted::Pending) => {}
            Err(NotStarted::Backoff { until, .. }) => {
                self.retry_at = Some(self.retry_at.map_or(until, |at| at.min(until)));
            }
        }
    }
}

fn pod_name(pod: &Pod) -> String {
    let part = |name: &Option<String>| name.clone().unwrap_or_default();
    format!("{}/{}", part(&pod.metadata.namespace), part(&pod.metadata.name))
}
