//! Ends what was broken and waits until the cluster has nothing left to do: what the cloud, Kubernetes and the nodes
//! must then agree on (I4), and that they get there (I8).

use std::time::Duration;

use super::cloud::{self, CloudVolume};
use crate::cluster::Cluster;
use crate::invariants::{Invariants, Machines};
use crate::scenario::object::{Kind, ObjectRef};
use csi_mock::disk::MountKind;
use substrate::fault::Span;

/// How long a cluster without faults may take to converge: a forced detach after six minutes, twice the longest backoff
/// of a loop, and room.
const PATIENCE: Duration = Duration::from_secs(20 * 60);
/// How often is looked.
const LOOK: Duration = Duration::from_secs(1);
/// How long nothing may change before the cluster is looked at.
pub(crate) const PAUSE: Duration = Duration::from_secs(5);
/// How long nothing may change once everything was deleted: longer than any loop's period, so that one that writes at
/// each pass for ever does not count as rest.
const REST: Duration = Duration::from_secs(90);

/// Ends faults, starts what is down, and takes the out-of-service taint off, as an operator does once a node is back.
pub(super) async fn heal(cluster: &Cluster) {
    cluster.clear_faults().await;
    for name in cluster.down_nodes() {
        // What is in the list exists.
        let _ = cluster.restart(&name).await;
    }
    for node in &cluster.spec().nodes {
        untaint(cluster, &node.name).await;
    }
}

async fn untaint(cluster: &Cluster, node: &str) {
    let object = ObjectRef::new(Kind::node(), None, node);
    let Ok(Some(value)) = cluster.objects().get(&object).await else { return };
    let mut taints = value["spec"]["taints"].as_array().cloned().unwrap_or_default();
    let before = taints.len();
    taints.retain(|t| t["key"] != "node.kubernetes.io/out-of-service");
    if taints.len() != before {
        // A taint that stays keeps pods away, and what they hold is found as a leftover.
        let _ = cluster.objects().patch(&object, &serde_json::json!({ "spec": { "taints": taints } })).await;
    }
}

/// Waits until the cluster rests and agrees, and tells `invariants` how that went.
pub(super) async fn converge(cluster: &Cluster, invariants: &Invariants) {
    converge_within(cluster, invariants, cluster.scaled(PATIENCE)).await;
}

/// The same in a time of the world.
pub(crate) async fn converge_within(cluster: &Cluster, invariants: &Invariants, patience: Duration) {
    let now = || cluster.world().clock().mono();
    let look = cluster.scaled(LOOK).max(Duration::from_millis(20));
    let rest = cluster.scaled(PAUSE);
    let deadline = now() + patience;
    loop {
        let pending = invariants.pending();
        let (last_ms, last) = invariants.unrest();
        let rests = now().saturating_sub(Duration::from_millis(last_ms)) >= rest;
        if pending.is_empty() && rests {
            let (disagreements, compared) = match machines(cluster).await {
                Ok(machines) => invariants.disagreements(&machines),
                Err(why) => (vec![why], 0),
            };
            if disagreements.is_empty() || now() >= deadline {
                invariants.agreed(compared, disagreements);
                return invariants.converged(Vec::new());
            }
        } else if now() >= deadline {
            let mut waiting: Vec<String> = pending.iter().map(ToString::to_string).collect();
            if waiting.is_empty() {
                let within = Span(cluster.unscaled(patience));
                waiting.push(format!("it never came to rest within {within}: at the end, {last}"));
            }
            return invariants.converged(waiting);
        }
        tokio::time::sleep(look).await;
    }
}

/// Waits until nothing changes any more, and tells `invariants` when that never comes. In simulation only: in the live
/// world such a wait takes its time, and what flaps more slowly than [`PAUSE`] goes unseen.
pub(super) async fn rest(cluster: &Cluster, invariants: &Invariants) {
    if !cluster.is_simulated() {
        return;
    }
    let now = || cluster.world().clock().mono();
    let (rest, deadline) = (cluster.scaled(REST), now() + cluster.scaled(PATIENCE));
    loop {
        let (last_ms, last) = invariants.unrest();
        let over = Duration::from_millis(last_ms) + rest;
        if now() >= over {
            return;
        }
        if now() >= deadline {
            return invariants.never_rests(format!("it never came to rest within {PATIENCE:?}: at the end, {last}"));
        }
        tokio::time::sleep(over.min(deadline).saturating_sub(now())).await;
    }
}

/// What is really there, in the cloud and on the disks.
async fn machines(cluster: &Cluster) -> Result<Machines, String> {
    let volumes = cloud::volumes(cluster).await.map_err(|e| format!("the cloud does not tell its state: {e}"))?;
    let attached = |v: CloudVolume| v.attachments.into_iter().map(move |instance| (v.id.clone(), instance));
    let mut machines = Machines { cloud: volumes.into_iter().flat_map(attached).collect(), ..Machines::default() };
    for node in &cluster.spec().nodes {
        let Some(disk) = cluster.disk(&node.name) else { continue };
        let unread = |e| format!("the disk of {} cannot be read: {e}", node.name);
        let devices = disk.devices().await.map_err(unread)?;
        let mounts = disk.mounts().await.map_err(unread)?;
        let staged = mounts.into_iter().filter(|m| m.kind == MountKind::Staging).map(|m| m.volume);
        machines.devices.insert(node.name.clone(), devices.into_iter().map(|d| d.volume).collect());
        machines.staged.insert(node.name.clone(), staged.collect());
    }
    Ok(machines)
}
