//! Pods on this node. Each admitted pod has a worker until its last unmount (upstream `pod_workers.go`).

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use substrate::latest;

use super::context::PodContext;
use super::deadline;
use super::housekeeping::{forget, housekeeping};
use super::pod_worker::worker;
use crate::kube::Delta;
use crate::mirror_pod::is_stand_in;
use crate::node_agent::admission::predicates::{admit, synced};
use crate::node_agent::containers::of_pod::grace_of;
use crate::node_agent::pod_table::orders::Orders;
use crate::node_agent::pod_table::pods::{Entry, grace};
use crate::node_agent::refusal::Refusal;
use crate::node_agent::rules::ephemeral;
use crate::node_agent::status::pod_report::{Report, reporter};
use crate::node_agent::status::status_reporter::StatusReporter;
use crate::node_agent::volumes::pod_dirs::remove_orphaned_dirs;
use crate::node_agent::volumes::populate::first_pass;

/// Follows the pod source; never returns.
pub(crate) async fn run(room: Arc<PodContext>) {
    room.pod_source.synced().await;
    // Only the runtime knows which containers run.
    room.runtime.synced().await;
    // Admission needs the node's labels and taints.
    synced(&room.admission_room).await;
    let mut changes = room.pod_source.subscribe();
    let mut first: Vec<Delta<Pod>> = std::iter::from_fn(|| changes.try_recv()).collect();
    // The oldest pods are admitted first. The sort is stable: changes of one pod keep their order.
    first.sort_by_key(|change| match change {
        Delta::Applied { new: pod, .. } | Delta::Deleted(pod) => pod.metadata.creation_timestamp.clone(),
    });
    for change in first {
        take(&room, change).await;
    }
    let first = {
        let mut pods = room.pods.lock();
        pods.listed = true;
        if substrate::mutant!(room.ctx, "populated-too-early") { Vec::new() } else { pods.wanted().1 }
    };
    housekeeping(&room);
    room.ctx.spawn(remove_orphaned_dirs(room.volume_room.clone()));
    room.ctx.spawn(first_pass(room.volume_room.clone(), first));
    while let Some(change) = changes.recv().await {
        take(&room, change).await;
    }
}

async fn take(room: &Arc<PodContext>, change: Delta<Pod>) {
    match change {
        // The process that a stand-in pod represents runs without this agent.
        Delta::Applied { new: pod, .. } | Delta::Deleted(pod) if is_stand_in(&pod) => {}
        Delta::Applied { old, new } => {
            if let Some(old) = old.filter(|old| old.metadata.uid != new.metadata.uid) {
                gone(room, &old);
            }
            applied(room, new).await;
        }
        Delta::Deleted(pod) => gone(room, &pod),
    }
}

fn uid(pod: &Pod) -> String {
    pod.metadata.uid.clone().unwrap_or_default()
}

fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|s| s.phase.as_deref()).unwrap_or_default()
}

async fn applied(room: &Arc<PodContext>, pod: Arc<Pod>) {
    let uid = uid(&pod);
    room.config.logs.seen(&pod);
    let over = matches!(phase(&pod), "Succeeded" | "Failed");
    let alive = room.runtime.alive(&uid).is_some();
    // Containers of a finished pod are stopped like those of a deleted one.
    let terminate = (pod.metadata.deletion_timestamp.is_some() || over && alive).then(|| {
        match substrate::mutant!(room.ctx, "delete-grace-ignored") {
            true => grace_of(&pod),
            false => grace(&pod),
        }
    });
    if renewed(room, &uid, &pod, terminate) || over && terminate.is_none() {
        return;
    }
    // A pod that is finished, or deleted before it began, is only cleaned up. It keeps its volumes while its containers
    // may run.
    let run = !over && terminate.is_none();
    if run {
        if room.pods.lock().over.contains(&uid) {
            return;
        }
        if let Err(refusal) = admit(&room.admission_room, &pod).await {
            return refuse(room, uid, pod, refusal);
        }
    }
    let orders = latest::Sender::new(Orders { terminate, ..Orders::default() });
    let receiver = orders.subscribe();
    let wants_volumes = run || alive;
    let entry = Entry { pod: pod.clone(), wants_volumes, unprocessed: wants_volumes, orders };
    room.pods.lock().entries.insert(uid.clone(), entry);
    if run {
        deadline::watch(room, &uid, &pod);
    }
    room.ctx.spawn(worker(room.clone(), uid, pod, run, receiver));
    room.changes.signal();
}

/// Gives a pod's worker its new object. Returns false if there is no worker.
fn renewed(room: &Arc<PodContext>, uid: &str, pod: &Arc<Pod>, terminate: Option<Duration>) -> bool {
    let mut pods = room.pods.lock();
    let Some(entry) = pods.entries.get_mut(uid) else { return false };
    let has_other_limit = deadline::limit(&entry.pod) != deadline::limit(pod);
    let has_other_containers = ephemeral::count(&entry.pod) != ephemeral::count(pod);
    let is_deleted = pod.metadata.deletion_timestamp.is_some();
    let has_other_spec = !is_deleted && entry.pod.metadata.generation != pod.metadata.generation;
    entry.pod = pod.clone();
    if is_deleted {
        let is_deaf = substrate::mutant!(room.ctx, "shorter-grace-ignored");
        entry.orders.send_if_modified(|orders| {
            let changed = orders.terminate != terminate && !(is_deaf && orders.terminate.is_some());
            if changed {
                orders.terminate = terminate;
            }
            changed
        });
    }
    drop(pods);
    if has_other_limit && !substrate::mutant!(room.ctx, "changed-deadline-ignored") {
        deadline::watch(room, uid, pod);
    }
    if has_other_containers || has_other_spec {
        room.runtime.wake();
    }
    true
}

/// Reports that a pod is refused (`rejectPod`). It gets no worker.
fn refuse(room: &Arc<PodContext>, uid: String, pod: Arc<Pod>, refusal: Refusal) {
    room.pods.lock().over.insert(uid);
    let reports = latest::Sender::new(Report::Nothing);
    room.ctx.spawn(reporter(room.status_room.clone(), pod.clone(), reports.subscribe()));
    StatusReporter::new(&room.status_room, &pod, reports).refused(refusal);
}

fn gone(room: &Arc<PodContext>, pod: &Pod) {
    let mut pods = room.pods.lock();
    pods.over.remove(&uid(pod));
    match pods.entries.get_mut(&uid(pod)) {
        Some(entry) => entry.orders.send_modify(|orders| {
            orders.deleted = true;
            orders.terminate.get_or_insert_with(|| grace(pod));
        }),
        None => {
            drop(pods);
            forget(room, pod);
        }
    }
}
