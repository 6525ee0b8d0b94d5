//! Pods on this node. Each admitted pod has a worker until its last unmount (upstream `pod_workers.go`).

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use substrate::latest;

use super::admission::admit;
use super::deadline;
use super::housekeeping::{forget, housekeeping};
use super::pod_worker::worker;
use crate::kube::Delta;
use crate::mirror_pod::is_stand_in;
use crate::node_agent::agent::Agent;
use crate::node_agent::containers::of_pod::grace_of;
use crate::node_agent::pod_table::orders::Orders;
use crate::node_agent::pod_table::pods::{Entry, grace};
use crate::node_agent::refusal::Refusal;
use crate::node_agent::rules::ephemeral;
use crate::node_agent::status::pod_report::{Report, reporter};
use crate::node_agent::status::status_reporter::StatusReporter;
use crate::node_agent::volumes::pod_dirs::{HOUSEKEEPING, mounted_below, remove_pod_dirs};
use crate::node_agent::volumes::populate::populate_pod;

/// Follows the pod source; never returns.
pub(crate) async fn run(agent: Arc<Agent>) {
    agent.pod_source.synced().await;
    // Only the runtime knows which containers run.
    agent.runtime.synced().await;
    // Admission needs the node's labels and taints.
    agent.node.synced().await;
    let mut changes = agent.pod_source.subscribe();
    let mut first: Vec<Delta<Pod>> = std::iter::from_fn(|| changes.try_recv()).collect();
    // The oldest pods are admitted first. The sort is stable: changes of one pod keep their order.
    first.sort_by_key(|change| match change {
        Delta::Applied { new: pod, .. } | Delta::Deleted(pod) => pod.metadata.creation_timestamp.clone(),
    });
    for change in first {
        take(&agent, change).await;
    }
    let first = {
        let mut pods = agent.pods.lock();
        pods.listed = true;
        if substrate::mutant!(agent.ctx, "populated-too-early") { Vec::new() } else { pods.wanted().1 }
    };
    housekeeping(&agent);
    agent.ctx.spawn(remove_orphaned_dirs(agent.clone()));
    agent.ctx.spawn(first_pass(agent.clone(), first));
    while let Some(change) = changes.recv().await {
        take(&agent, change).await;
    }
}

/// Removes empty directories that an earlier kubelet left of deleted pods (`cleanupOrphanedPodDirs`). Directories with
/// volumes are removed when the volumes are unmounted.
async fn remove_orphaned_dirs(agent: Arc<Agent>) {
    let uids = loop {
        match agent.config.disk.list_dir(&agent.paths.pods()).await {
            Ok(uids) => break uids.unwrap_or_default(),
            Err(_) => agent.ctx.sleep(HOUSEKEEPING).await,
        }
    };
    for uid in uids {
        if !agent.pods.lock().knows(&uid) && !mounted_below(&agent.volume_room, &uid).await {
            remove_pod_dirs(&agent.volume_room, &uid).await;
        }
    }
}

/// Runs the populator's first pass after all sources were ready. After it, mounts on disk that no pod wants may be
/// unmounted (`hasAddedPods`). A pod is included even if its volumes could not be looked up.
async fn first_pass(agent: Arc<Agent>, pods: Vec<Arc<Pod>>) {
    for pod in pods {
        populate_pod(&agent.volume_room, &pod).await;
    }
    agent.volumes.lock().set_populated();
    agent.changes.signal();
}

async fn take(agent: &Arc<Agent>, change: Delta<Pod>) {
    match change {
        // The process that a stand-in pod represents runs without this agent.
        Delta::Applied { new: pod, .. } | Delta::Deleted(pod) if is_stand_in(&pod) => {}
        Delta::Applied { old, new } => {
            if let Some(old) = old.filter(|old| old.metadata.uid != new.metadata.uid) {
                gone(agent, &old);
            }
            applied(agent, new).await;
        }
        Delta::Deleted(pod) => gone(agent, &pod),
    }
}

fn uid(pod: &Pod) -> String {
    pod.metadata.uid.clone().unwrap_or_default()
}

fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|s| s.phase.as_deref()).unwrap_or_default()
}

async fn applied(agent: &Arc<Agent>, pod: Arc<Pod>) {
    let uid = uid(&pod);
    agent.config.logs.seen(&pod);
    let over = matches!(phase(&pod), "Succeeded" | "Failed");
    let alive = agent.runtime.alive(&uid).is_some();
    // Containers of a finished pod are stopped like those of a deleted one.
    let terminate = (pod.metadata.deletion_timestamp.is_some() || over && alive).then(|| {
        match substrate::mutant!(agent.ctx, "delete-grace-ignored") {
            true => grace_of(&pod),
            false => grace(&pod),
        }
    });
    if renewed(agent, &uid, &pod, terminate) || over && terminate.is_none() {
        return;
    }
    // A pod that is finished, or deleted before it began, is only cleaned up. It keeps its volumes while its containers
    // may run.
    let run = !over && terminate.is_none();
    if run {
        if agent.pods.lock().over.contains(&uid) {
            return;
        }
        if let Err(refusal) = admit(agent, &pod).await {
            return refuse(agent, uid, pod, refusal);
        }
    }
    let orders = latest::Sender::new(Orders { terminate, ..Orders::default() });
    let receiver = orders.subscribe();
    let wants_volumes = run || alive;
    let entry = Entry { pod: pod.clone(), wants_volumes, unprocessed: wants_volumes, orders };
    agent.pods.lock().entries.insert(uid.clone(), entry);
    if run {
        deadline::watch(agent, &uid, &pod);
    }
    agent.ctx.spawn(worker(agent.clone(), uid, pod, run, receiver));
    agent.changes.signal();
}

/// Gives a pod's worker its new object. Returns false if there is no worker.
fn renewed(agent: &Arc<Agent>, uid: &str, pod: &Arc<Pod>, terminate: Option<Duration>) -> bool {
    let mut pods = agent.pods.lock();
    let Some(entry) = pods.entries.get_mut(uid) else { return false };
    let has_other_limit = deadline::limit(&entry.pod) != deadline::limit(pod);
    let has_other_containers = ephemeral::count(&entry.pod) != ephemeral::count(pod);
    let is_deleted = pod.metadata.deletion_timestamp.is_some();
    let has_other_spec = !is_deleted && entry.pod.metadata.generation != pod.metadata.generation;
    entry.pod = pod.clone();
    if is_deleted {
        let is_deaf = substrate::mutant!(agent.ctx, "shorter-grace-ignored");
        entry.orders.send_if_modified(|orders| {
            let changed = orders.terminate != terminate && !(is_deaf && orders.terminate.is_some());
            if changed {
                orders.terminate = terminate;
            }
            changed
        });
    }
    drop(pods);
    if has_other_limit && !substrate::mutant!(agent.ctx, "changed-deadline-ignored") {
        deadline::watch(agent, uid, pod);
    }
    if has_other_containers || has_other_spec {
        agent.runtime.wake();
    }
    true
}

/// Reports that a pod is refused (`rejectPod`). It gets no worker.
fn refuse(agent: &Arc<Agent>, uid: String, pod: Arc<Pod>, refusal: Refusal) {
    agent.pods.lock().over.insert(uid);
    let reports = latest::Sender::new(Report::Nothing);
    agent.ctx.spawn(reporter(agent.status_room.clone(), pod.clone(), reports.subscribe()));
    StatusReporter::new(&agent.status_room, &pod, reports).refused(refusal);
}

fn gone(agent: &Arc<Agent>, pod: &Pod) {
    let mut pods = agent.pods.lock();
    pods.over.remove(&uid(pod));
    match pods.entries.get_mut(&uid(pod)) {
        Some(entry) => entry.orders.send_modify(|orders| {
            orders.deleted = true;
            orders.terminate.get_or_insert_with(|| grace(pod));
        }),
        None => {
            drop(pods);
            forget(agent, pod);
        }
    }
}
