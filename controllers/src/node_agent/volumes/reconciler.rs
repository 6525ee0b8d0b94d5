//! The async loop of the volume manager: runs the reconciler at multiples of 100 ms, if there is a reason, and performs
//! the steps of its operations.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::attachment::{attachment, names_of_attached, verify_attached};
use super::block;
use super::context::VolumeContext;
use super::expand::expand;
use super::mount::{publish, stage};
use super::pod_dirs::{remove_late_dirs, remove_orphan, remove_pod_dirs};
use super::populate::populate;
use super::reconstruct::scan;
use super::unmount::{unpublish, unstage};
use crate::kube::{Delta, reference};
use crate::metrics::Metrics;
use crate::node_agent::events::{Mounted, OperationFailed, Remounted, ScanFailed, Unmounted};
use crate::node_agent::volume_manager::operation::NodeFacts;
use crate::node_agent::volume_manager::{Next, Operation, SeededBugs, Step, StepError, Task};
use crate::tick_schedule::TickSchedule;
use k8s_openapi::api::core::v1::{Node, Pod};

/// Wait after a failed live read that the reconciler needs.
const RETRY: Duration = Duration::from_secs(1);

/// Reconstructs, then reconciles forever.
pub(crate) async fn run(room: Arc<VolumeContext>) {
    loop {
        match scan(&room).await {
            Ok((found, failed)) => {
                let skipped = substrate::mutant!(room.ctx, "reconstruction-skipped");
                let (mut found, failed) = if skipped { Default::default() } else { (found, failed) };
                if substrate::mutant!(room.ctx, "one-volume-reconstructed") {
                    found.truncate(1);
                }
                if substrate::mutant!(room.ctx, "devices-not-reconstructed") {
                    found.retain(|mount| !mount.block);
                }
                if substrate::mutant!(room.ctx, "second-user-not-reconstructed") {
                    let mut seen = BTreeSet::new();
                    found.retain(|mount| seen.insert((mount.driver.clone(), mount.handle.clone())));
                }
                room.volumes.lock().reconstruct(&found, failed);
                break;
            }
            Err(error) => {
                room.ctx.emit(ScanFailed { error: error.to_string(), node: room.config.name() });
                room.ctx.sleep(RETRY).await;
            }
        }
    }
    room.volumes.lock().seeded_bugs = SeededBugs {
        ignores_attached: substrate::mutant!(room.ctx, "attachment-not-awaited"),
        ignores_in_use: substrate::mutant!(room.ctx, "in-use-not-awaited"),
        unstages_published: substrate::mutant!(room.ctx, "unstage-while-published"),
        reports_wanted_only: substrate::mutant!(room.ctx, "in-use-only-while-wanted"),
        remembers_reports: substrate::mutant!(room.ctx, "former-report-counts"),
        hides_reconstructed: substrate::mutant!(room.ctx, "reconstructed-volume-not-in-use"),
        hides_failed_unmounts: substrate::mutant!(room.ctx, "failed-unmount-ends-use"),
        mounts_without_growth: substrate::mutant!(room.ctx, "growth-missed-by-mount"),
        forgets_reconstructed: substrate::mutant!(room.ctx, "reconstructed-device-forgotten"),
        shares_once_pod: substrate::mutant!(room.ctx, "once-pod-mounted-twice"),
        takes_first_name: substrate::mutant!(room.ctx, "second-name-forgotten"),
        leaves_uncertain: substrate::mutant!(room.ctx, "uncertain-stage-not-undone"),
    };
    let ticks = TickSchedule::new(room.ctx.now().mono, room.ctx.scaled(room.config.timers.reconciler_loop));
    room.changes.signal();
    loop {
        room.publish_state();
        let retry = room.volumes.lock().retry_at();
        tokio::select! { biased;
            () = room.changes.reconcile_due() => {}
            () = room.ctx.sleep_until(retry.unwrap_or_default()), if retry.is_some() => {}
        }
        let now = room.ctx.now().mono;
        room.ctx.sleep_until(ticks.at_or_after(now, Some(now))).await;
        tick(&room).await;
    }
}

async fn tick(room: &Arc<VolumeContext>) {
    let (wanted, unprocessed) = room.pods.lock().wanted();
    room.volumes.lock().retain_pods(&wanted);
    let orphans = match substrate::mutant!(room.ctx, "orphaned-pod-unmounted") {
        true => BTreeSet::new(),
        false => orphans(room),
    };
    room.volumes.lock().set_orphans(orphans);
    for pod in unprocessed {
        room.ctx.spawn(populate(room.clone(), pod));
    }
    let needs_node_status = room.volumes.lock().needs_node_status();
    if needs_node_status {
        match room.client.all::<Node>().get(&room.config.node_name).await {
            Ok(node) => room.volumes.lock().reconstructed_from_node_status(&names_of_attached(&node)),
            Err(_) => {
                let room = room.clone();
                room.ctx.clone().spawn(async move {
                    room.ctx.sleep(RETRY).await;
                    room.changes.signal();
                });
            }
        }
    }
    let now = room.ctx.now().mono;
    let done = room.volumes.lock().reconcile(now);
    room.publish_state();
    for operation in done.started {
        if substrate::mutant!(room.ctx, "unmount-skipped") && matches!(operation, Operation::Unmount { .. }) {
            continue;
        }
        room.ctx.spawn(perform(room.clone(), operation));
    }
}

/// Returns the pods that are gone while their containers run. Their volumes stay until the containers stop.
fn orphans(room: &VolumeContext) -> BTreeSet<String> {
    let mut alive = room.runtime.all_alive();
    let pods = room.pods.lock();
    alive.retain(|uid| !pods.knows(uid));
    alive
}

/// Follows `status.volumesAttached` of the cached Node.
pub(crate) async fn follow_node(room: Arc<VolumeContext>) {
    let mut changes = room.node.subscribe();
    while let Some(change) = changes.recv().await {
        let attached = match &change {
            Delta::Applied { new, .. } => names_of_attached(new),
            Delta::Deleted(_) => BTreeSet::new(),
        };
        if room.volumes.lock().set_attached_in_status(attached) {
            room.changes.signal();
        }
    }
}

/// Performs one operation to its end.
async fn perform(room: Arc<VolumeContext>, operation: Operation) {
    let node = room.node.get("", &room.config.node_name);
    let labels = node.as_ref().and_then(|node| node.metadata.labels.as_ref());
    let facts = NodeFacts { name: &room.config.node_name, labels };
    let Some(task) = room.volumes.lock().task(&operation).cloned() else { return };
    let again = operation.uid().is_some_and(|uid| room.volumes.lock().is_mounted(uid, &task.spec.name));
    let measured = Metrics::of(&room.ctx).operation(&room.ctx, &task.spec.driver, operation.name(task.spec.block));
    let mut next = room.volumes.lock().begin(room.ctx.now().mono, &operation, facts);
    while let Next::Do(step) = next {
        let mut result = take(&room, &operation, &task, step).await;
        if let Err(StepError::Uncertain(why)) = &result
            && substrate::mutant!(room.ctx, "uncertain-call-is-final")
        {
            result = Err(StepError::Final(why.clone()));
        }
        if matches!(operation, Operation::Mount { .. })
            && matches!(result, Err(StepError::Final(_)))
            && substrate::mutant!(room.ctx, "failed-mount-not-retried")
        {
            // The operation stays pending.
            return;
        }
        let failed = result.is_err();
        next = room.volumes.lock().advance(room.ctx.now().mono, &operation, step, result);
        if failed && step == Step::Unstage && substrate::mutant!(room.ctx, "stage-not-repeated") {
            room.volumes.lock().take_for_staged(&task.spec.name);
        }
    }
    measured.ended(!matches!(next, Next::Failed(_)));
    if let Next::Failed(failure) = next {
        room.ctx.emit(OperationFailed {
            error: failure.message.clone(),
            node: room.config.name(),
            operation: operation.name(task.spec.block).into(),
            volume: task.spec.handle.as_str().into(),
        });
        if let Operation::CleanUp { uid, .. } = &operation {
            remove_orphan(&room, uid, &task.spec).await;
        }
        if let Operation::Mount { uid, .. } = &operation
            && !room.pods.lock().wants(uid)
        {
            room.ctx.spawn(remove_late_dirs(room.clone(), uid.clone()));
        }
        if let Some(pod) = failure.pod {
            room.recorder.event(reference::<Pod>(&pod), "Warning", failure.reason, failure.message);
        }
    } else {
        let pod = if task.pod_name.is_empty() { operation.uid().unwrap_or_default() } else { &task.pod_name };
        let (node, pod, volume) = (room.config.name(), pod.into(), task.spec.handle.as_str().into());
        match operation {
            Operation::Mount { .. } if again => room.ctx.emit(Remounted { node, pod, volume }),
            Operation::Mount { .. } => room.ctx.emit(Mounted { node, pod, volume }),
            Operation::Unmount { .. } => room.ctx.emit(Unmounted { node, pod, volume }),
            _ => {}
        }
        if let (Operation::Unmount { .. } | Operation::CleanUp { .. }, Some(uid)) = (&operation, operation.uid())
            && !room.pods.lock().knows(uid)
        {
            // The pod was gone before kubelet started: no worker clears its directory.
            remove_pod_dirs(&room, uid).await;
        }
    }
    room.changes.signal();
}

async fn take(room: &VolumeContext, operation: &Operation, task: &Task, step: Step) -> Result<(), StepError> {
    let spec = &task.spec;
    match step {
        Step::VerifyControllerAttached => verify_attached(room, spec).await,
        Step::WaitForAttach => {
            if substrate::mutant!(room.ctx, "staging-directory-made-early") {
                let _ = room.config.disk.make_dir(&room.paths.staging_of(spec)).await;
            }
            attachment(room, spec).await.map(drop)
        }
        Step::Stage => stage(room, task).await,
        Step::Expand => expand(room, task).await,
        Step::Publish => publish(room, operation.uid().unwrap_or_default(), task).await,
        Step::Map => block::map(room, operation.uid().unwrap_or_default(), task).await,
        Step::Unmap => block::unmap(room, operation.uid().unwrap_or_default(), spec).await,
        Step::Unpublish | Step::CleanUp => unpublish(room, operation.uid().unwrap_or_default(), spec).await,
        Step::Unstage => unstage(room, spec).await,
    }
}
