//! The async loop of the volume manager: runs the reconciler at multiples of 100 ms, if there is a reason, and performs
//! the steps of its operations.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::attachment::{attachment, names_of_attached, verify_attached};
use super::block;
use super::expand::expand;
use super::mount::{publish, stage};
use super::pod_dirs::{remove_late_dirs, remove_orphan, remove_pod_dirs};
use super::populate::populate;
use super::reconstruct::scan;
use super::unmount::{clean_up, unpublish, unstage};
use crate::kube::{Delta, reference};
use crate::metrics::Metrics;
use crate::node_agent::agent::Agent;
use crate::node_agent::events::{Mounted, OperationFailed, Remounted, ScanFailed, Unmounted};
use crate::node_agent::volume_manager::operation::NodeFacts;
use crate::node_agent::volume_manager::{Next, Operation, SeededBugs, Step, StepError, Task};
use crate::tick_schedule::TickSchedule;
use k8s_openapi::api::core::v1::{Node, Pod};

/// Wait after a failed live read that the reconciler needs.
const RETRY: Duration = Duration::from_secs(1);

/// Reconstructs, then reconciles forever.
pub(crate) async fn run(agent: Arc<Agent>) {
    loop {
        match scan(&agent).await {
            Ok((found, failed)) => {
                let skipped = substrate::mutant!(agent.ctx, "reconstruction-skipped");
                let (mut found, failed) = if skipped { Default::default() } else { (found, failed) };
                if substrate::mutant!(agent.ctx, "one-volume-reconstructed") {
                    found.truncate(1);
                }
                if substrate::mutant!(agent.ctx, "devices-not-reconstructed") {
                    found.retain(|mount| !mount.block);
                }
                if substrate::mutant!(agent.ctx, "second-user-not-reconstructed") {
                    let mut seen = BTreeSet::new();
                    found.retain(|mount| seen.insert((mount.driver.clone(), mount.handle.clone())));
                }
                agent.volumes.lock().reconstruct(&found, failed);
                break;
            }
            Err(error) => {
                agent.ctx.emit(ScanFailed { error: error.to_string(), node: agent.config.name() });
                agent.ctx.sleep(RETRY).await;
            }
        }
    }
    agent.volumes.lock().seeded_bugs = SeededBugs {
        ignores_attached: substrate::mutant!(agent.ctx, "attachment-not-awaited"),
        ignores_in_use: substrate::mutant!(agent.ctx, "in-use-not-awaited"),
        unstages_published: substrate::mutant!(agent.ctx, "unstage-while-published"),
        reports_wanted_only: substrate::mutant!(agent.ctx, "in-use-only-while-wanted"),
        remembers_reports: substrate::mutant!(agent.ctx, "former-report-counts"),
        hides_reconstructed: substrate::mutant!(agent.ctx, "reconstructed-volume-not-in-use"),
        hides_failed_unmounts: substrate::mutant!(agent.ctx, "failed-unmount-ends-use"),
        mounts_without_growth: substrate::mutant!(agent.ctx, "growth-missed-by-mount"),
        forgets_reconstructed: substrate::mutant!(agent.ctx, "reconstructed-device-forgotten"),
        shares_once_pod: substrate::mutant!(agent.ctx, "once-pod-mounted-twice"),
        takes_first_name: substrate::mutant!(agent.ctx, "second-name-forgotten"),
        leaves_uncertain: substrate::mutant!(agent.ctx, "uncertain-stage-not-undone"),
    };
    let ticks = TickSchedule::new(agent.ctx.now().mono, agent.ctx.scaled(agent.config.timers.reconciler_loop));
    agent.changes.signal();
    loop {
        agent.publish_state();
        let retry = agent.volumes.lock().retry_at();
        tokio::select! { biased;
            () = agent.changes.reconcile_due() => {}
            () = agent.ctx.sleep_until(retry.unwrap_or_default()), if retry.is_some() => {}
        }
        let now = agent.ctx.now().mono;
        agent.ctx.sleep_until(ticks.at_or_after(now, Some(now))).await;
        tick(&agent).await;
    }
}

async fn tick(agent: &Arc<Agent>) {
    let (wanted, unprocessed) = agent.pods.lock().wanted();
    agent.volumes.lock().retain_pods(&wanted);
    let orphans = match substrate::mutant!(agent.ctx, "orphaned-pod-unmounted") {
        true => BTreeSet::new(),
        false => orphans(agent),
    };
    agent.volumes.lock().set_orphans(orphans);
    for pod in unprocessed {
        agent.ctx.spawn(populate(agent.clone(), pod));
    }
    let needs_node_status = agent.volumes.lock().needs_node_status();
    if needs_node_status {
        match agent.client.all::<Node>().get(&agent.config.node_name).await {
            Ok(node) => agent.volumes.lock().reconstructed_from_node_status(&names_of_attached(&node)),
            Err(_) => {
                let agent = agent.clone();
                agent.ctx.clone().spawn(async move {
                    agent.ctx.sleep(RETRY).await;
                    agent.changes.signal();
                });
            }
        }
    }
    let now = agent.ctx.now().mono;
    let done = agent.volumes.lock().reconcile(now);
    agent.publish_state();
    for operation in done.started {
        if substrate::mutant!(agent.ctx, "unmount-skipped") && matches!(operation, Operation::Unmount { .. }) {
            continue;
        }
        agent.ctx.spawn(perform(agent.clone(), operation));
    }
}

/// Returns the pods that are gone while their containers run. Their volumes stay until the containers stop.
fn orphans(agent: &Agent) -> BTreeSet<String> {
    let mut alive = agent.runtime.all_alive();
    let pods = agent.pods.lock();
    alive.retain(|uid| !pods.knows(uid));
    alive
}

/// Follows `status.volumesAttached` of the cached Node.
pub(crate) async fn follow_node(agent: Arc<Agent>) {
    let mut changes = agent.node.subscribe();
    while let Some(change) = changes.recv().await {
        let attached = match &change {
            Delta::Applied { new, .. } => names_of_attached(new),
            Delta::Deleted(_) => BTreeSet::new(),
        };
        if agent.volumes.lock().set_attached_in_status(attached) {
            agent.changes.signal();
        }
    }
}

/// Performs one operation to its end.
async fn perform(agent: Arc<Agent>, operation: Operation) {
    let node = agent.node.get("", &agent.config.node_name);
    let labels = node.as_ref().and_then(|node| node.metadata.labels.as_ref());
    let facts = NodeFacts { name: &agent.config.node_name, labels };
    let Some(task) = agent.volumes.lock().task(&operation).cloned() else { return };
    let again = operation.uid().is_some_and(|uid| agent.volumes.lock().is_mounted(uid, &task.spec.name));
    let measured = Metrics::of(&agent.ctx).operation(&agent.ctx, &task.spec.driver, operation.name(task.spec.block));
    let mut next = agent.volumes.lock().begin(agent.ctx.now().mono, &operation, facts);
    while let Next::Do(step) = next {
        let mut result = take(&agent, &operation, &task, step).await;
        if let Err(StepError::Uncertain(why)) = &result
            && substrate::mutant!(agent.ctx, "uncertain-call-is-final")
        {
            result = Err(StepError::Final(why.clone()));
        }
        if matches!(operation, Operation::Mount { .. })
            && matches!(result, Err(StepError::Final(_)))
            && substrate::mutant!(agent.ctx, "failed-mount-not-retried")
        {
            // The operation stays pending.
            return;
        }
        let failed = result.is_err();
        next = agent.volumes.lock().advance(agent.ctx.now().mono, &operation, step, result);
        if failed && step == Step::Unstage && substrate::mutant!(agent.ctx, "stage-not-repeated") {
            agent.volumes.lock().take_for_staged(&task.spec.name);
        }
    }
    measured.ended(!matches!(next, Next::Failed(_)));
    if let Next::Failed(failure) = next {
        agent.ctx.emit(OperationFailed {
            error: failure.message.clone(),
            node: agent.config.name(),
            operation: operation.name(task.spec.block).into(),
            volume: task.spec.handle.as_str().into(),
        });
        if let Operation::CleanUp { uid, .. } = &operation {
            remove_orphan(&agent, uid, &task.spec).await;
        }
        if let Operation::Mount { uid, .. } = &operation
            && !agent.pods.lock().wants(uid)
        {
            agent.ctx.spawn(remove_late_dirs(agent.clone(), uid.clone()));
        }
        if let Some(pod) = failure.pod {
            agent.recorder.event(reference::<Pod>(&pod), "Warning", failure.reason, failure.message);
        }
    } else {
        let pod = if task.pod_name.is_empty() { operation.uid().unwrap_or_default() } else { &task.pod_name };
        let (node, pod, volume) = (agent.config.name(), pod.into(), task.spec.handle.as_str().into());
        match operation {
            Operation::Mount { .. } if again => agent.ctx.emit(Remounted { node, pod, volume }),
            Operation::Mount { .. } => agent.ctx.emit(Mounted { node, pod, volume }),
            Operation::Unmount { .. } => agent.ctx.emit(Unmounted { node, pod, volume }),
            _ => {}
        }
        if let (Operation::Unmount { .. } | Operation::CleanUp { .. }, Some(uid)) = (&operation, operation.uid())
            && !agent.pods.lock().knows(uid)
        {
            // The pod was gone before kubelet started: no worker clears its directory.
            remove_pod_dirs(&agent, uid).await;
        }
    }
    agent.changes.signal();
}

async fn take(agent: &Agent, operation: &Operation, task: &Task, step: Step) -> Result<(), StepError> {
    let spec = &task.spec;
    match step {
        Step::VerifyControllerAttached => verify_attached(agent, spec).await,
        Step::WaitForAttach => {
            if substrate::mutant!(agent.ctx, "staging-directory-made-early") {
                let _ = agent.config.disk.make_dir(&agent.paths.staging_of(spec)).await;
            }
            attachment(agent, spec).await.map(drop)
        }
        Step::Stage => stage(agent, task).await,
        Step::Expand => expand(agent, task).await,
        Step::Publish => publish(agent, operation.uid().unwrap_or_default(), task).await,
        Step::Map => block::map(agent, operation.uid().unwrap_or_default(), task).await,
        Step::Unmap => block::unmap(agent, operation.uid().unwrap_or_default(), spec).await,
        Step::Unpublish => unpublish(agent, operation.uid().unwrap_or_default(), spec).await,
        Step::CleanUp => clean_up(agent, operation.uid().unwrap_or_default(), spec).await,
        Step::Unstage => unstage(agent, spec).await,
    }
}
