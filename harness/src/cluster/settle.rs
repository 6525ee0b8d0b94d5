//! Ends all failures and waits until the cluster converges. Then the cloud, Kubernetes and the nodes must agree
//! (invariant I4), and the cluster must match the manifests (I12). Invariant I8 requires convergence.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::cloud::{self, CloudVolume};
use crate::cluster::Cluster;
use crate::events::ClusterRested;
use crate::invariants::{AppliedObjects, Disagreement, Invariants, Machines, StoredObjects};
use crate::spec::custom::Customs;
use crate::spec::object::{Kind, ObjectRef};
use csi_disk::MountKind;
use csi_mock::efs::of_access_point;
use substrate::fault::Span;

/// Time limit for a cluster without faults to converge: a forced detach after six minutes, twice the longest backoff of
/// a loop, and a reserve.
const TIMEOUT: Duration = Duration::from_secs(20 * 60);
/// Interval between two checks.
const LOOK: Duration = Duration::from_secs(1);
/// Time without changes before the cluster is checked.
pub(crate) const PAUSE: Duration = Duration::from_secs(5);
/// Time without changes after everything was deleted: longer than any loop's period, so that a loop that writes in
/// every pass forever is detected.
const REST: Duration = Duration::from_secs(90);
/// Time in which a control loop that starts handles all objects.
const FRESH: Duration = Duration::from_secs(10);

/// Kinds that are compared at rest, and of which only few clusters have objects.
const RARE: [(&str, &str); 6] = [
    ("v1", "ResourceQuota"),
    ("v1", "ReplicationController"),
    ("v1", "Service"),
    ("apps/v1", "DaemonSet"),
    ("batch/v1", "CronJob"),
    ("discovery.k8s.io/v1", "EndpointSlice"),
];

/// Ends faults, starts everything that is down, and removes the out-of-service taint, as an operator does after a node
/// is back. The machine of a terminated instance cannot start again: its Node is deleted, as cloud-controller-manager
/// does (`cloud-provider/controllers/nodelifecycle`).
pub(crate) async fn heal(cluster: &Cluster) {
    cluster.clear_faults().await;
    let down = cluster.down_nodes();
    let terminated = if down.is_empty() { BTreeSet::new() } else { terminated(cluster).await };
    for name in down {
        if cluster.instance(&name).is_some_and(|instance| terminated.contains(instance)) {
            // A Node that stays shows up as a disagreement.
            let _ = cluster.objects().delete(&ObjectRef::new(Kind::node(), None, &name), None).await;
        } else {
            // All names in the list exist.
            let _ = cluster.restart(&name).await;
        }
    }
    for node in &cluster.spec().nodes {
        untaint(cluster, &node.name).await;
    }
}

/// Ids of the instances that are terminated or shut down for it.
async fn terminated(cluster: &Cluster) -> BTreeSet<String> {
    // A cloud that does not answer is reported when its state is compared.
    let Ok(state) = cloud::state(cluster).await else { return BTreeSet::new() };
    let instances = state["instances"].as_array().into_iter().flatten();
    let ends =
        |instance: &&serde_json::Value| matches!(instance["state"].as_str(), Some("shutting-down" | "terminated"));
    instances.filter(ends).filter_map(|instance| Some(instance["id"].as_str()?.to_owned())).collect()
}

async fn untaint(cluster: &Cluster, node: &str) {
    let object = ObjectRef::new(Kind::node(), None, node);
    let Ok(Some(value)) = cluster.objects().get(&object).await else { return };
    let mut taints = value["spec"]["taints"].as_array().cloned().unwrap_or_default();
    let before = taints.len();
    taints.retain(|t| t["key"] != "node.kubernetes.io/out-of-service");
    if taints.len() != before {
        // If the taint stays, it keeps pods away, and their resources show up as leftovers.
        let _ = cluster.objects().patch(&object, &serde_json::json!({ "spec": { "taints": taints } })).await;
    }
}

/// Waits until the cluster converges, and reports the result to `invariants`.
pub(crate) async fn converge(cluster: &Cluster, invariants: &Invariants, applied_objects: &AppliedObjects) {
    converge_within(cluster, invariants, applied_objects, cluster.scaled(TIMEOUT)).await;
}

/// Waits until the cluster converges, with a limit in the world's time.
pub(crate) async fn converge_within(
    cluster: &Cluster,
    invariants: &Invariants,
    applied_objects: &AppliedObjects,
    timeout: Duration,
) {
    let now = || cluster.world().clock().mono();
    let look = cluster.scaled(LOOK).max(Duration::from_millis(20));
    let rest = cluster.scaled(PAUSE);
    let deadline = now() + timeout;
    // Time of the last change, if after it the sources agreed but the cluster did not match its manifests: only a
    // further change can help.
    let mut judged = None;
    loop {
        let pending = invariants.pending();
        let (last_ms, last) = invariants.unrest();
        if pending.is_empty() && judged == Some(last_ms) && now() < deadline {
            tokio::time::sleep(look).await;
            continue;
        }
        let rests = now().saturating_sub(Duration::from_millis(last_ms)) >= rest;
        if pending.is_empty() && rests {
            let machines = machines(cluster, invariants).await;
            let (disagreements, compared) = match &machines {
                Ok(machines) => invariants.disagreements(machines),
                Err(why) => (vec![Disagreement::unread(why.clone())], 0),
            };
            // Disagreeing sources can cause such a difference, so only the disagreement is reported.
            let (differences, occasions) = match &machines {
                Ok(machines) if disagreements.is_empty() => invariants.differences(applied_objects, machines),
                _ => (Vec::new(), 0),
            };
            if (disagreements.is_empty() && differences.is_empty()) || now() >= deadline {
                invariants.agreed(compared, disagreements);
                invariants.is_as_asked(occasions, differences);
                return invariants.converged(Vec::new());
            }
            judged = disagreements.is_empty().then_some(last_ms);
        } else if now() >= deadline {
            if pending.is_empty() {
                let within = Span(cluster.unscaled(timeout));
                invariants.never_rests(format!("it never came to rest within {within}: at the end, {last}"));
            }
            return invariants.converged(pending);
        }
        tokio::time::sleep(look).await;
    }
}

/// Waits until there are no more changes, and reports to `invariants` if that never happens. Only in simulation: in the
/// live world such a wait takes real time, and would not detect a state that flaps more slowly than [`PAUSE`].
pub(crate) async fn rest(cluster: &Cluster, invariants: &Invariants) {
    if !cluster.is_simulated() {
        return;
    }
    let now = || cluster.world().clock().mono();
    let (rest, deadline) = (cluster.scaled(REST), now() + cluster.scaled(TIMEOUT));
    loop {
        let (last_ms, last) = invariants.unrest();
        let over = Duration::from_millis(last_ms) + rest;
        if now() >= over {
            return;
        }
        if now() >= deadline {
            return invariants.never_rests(format!("it never came to rest within {TIMEOUT:?}: at the end, {last}"));
        }
        tokio::time::sleep(over.min(deadline).saturating_sub(now())).await;
    }
}

/// Starts each control loop once more beside the running one, and reports to `invariants` the objects that are changed
/// then. Only in simulation, where the time costs nothing. A cluster that does not come to rest is not checked.
pub(crate) async fn start_fresh_loops(cluster: &Cluster, invariants: &Invariants) {
    if !cluster.is_simulated() || invariants.has_violations() {
        return;
    }
    let now = || cluster.world().clock().mono();
    let (began, rest) = (now(), cluster.scaled(REST));
    let deadline = began + cluster.scaled(4 * REST);
    loop {
        let over = Duration::from_millis(invariants.unrest().0) + rest;
        if now() >= over {
            break;
        }
        if over > deadline {
            return;
        }
        tokio::time::sleep(over.saturating_sub(now())).await;
    }
    invariants.fresh_loops_start();
    let fresh = cluster.start_fresh_loops();
    tokio::time::sleep(cluster.scaled(FRESH)).await;
    invariants.fresh_loops_end();
    for process in &fresh {
        process.end().await;
    }
    let for_ms = u64::try_from((now() - began).as_millis()).unwrap_or(u64::MAX);
    cluster.world().trace().info(&Arc::from("cluster"), ClusterRested { for_ms });
}

/// True state of the cloud, of the API server and of the disks.
async fn machines(cluster: &Cluster, invariants: &Invariants) -> Result<Machines, String> {
    let (volumes, snapshots) =
        cloud::resources(cluster).await.map_err(|e| format!("the cloud does not tell its state: {e}"))?;
    let mut machines = Machines { stored: stored(cluster, invariants).await?, ..Machines::default() };
    machines.stored.cloud_snapshots = snapshots;
    for CloudVolume { id, attachments, made, stored } in volumes {
        machines.stored.cloud.push(stored);
        machines.cloud.extend(attachments.into_iter().map(|instance| (id.clone(), instance)));
        machines.volumes.insert(id, made);
    }
    let points = cluster.access_points().into_iter().map(|point| of_access_point(&point.file_system, &point.id));
    machines.access_points = points.collect();
    for node in &cluster.spec().nodes {
        let Some(disk) = cluster.disk(&node.name) else { continue };
        let unread = |e| format!("the disk of {} cannot be read: {e}", node.name);
        let devices = disk.devices().await.map_err(unread)?;
        let mounts = disk.mounts().await.map_err(unread)?;
        let staged = mounts.iter().filter(|m| m.kind == MountKind::Staging).map(|m| m.volume.clone());
        machines.devices.insert(node.name.clone(), devices.into_iter().map(|d| d.volume).collect());
        machines.staged.insert(node.name.clone(), staged.collect());
        machines.mounts.insert(node.name.clone(), mounts);
    }
    Ok(machines)
}

/// Objects of the API server.
async fn stored(cluster: &Cluster, invariants: &Invariants) -> Result<StoredObjects, String> {
    let list = async |kind: Kind| {
        let listed = cluster.objects().list(kind).await;
        listed.map_err(|e| format!("the API server does not list its {}: {e}", kind.resource()))
    };
    let mut workloads = Vec::new();
    for kind in Kind::workloads() {
        workloads.extend(list(kind).await?.into_iter().map(|object| (kind.resource(), object)));
    }
    let mut rare = BTreeMap::new();
    // Behind an origin, other loops work.
    let kinds = rare_kinds(cluster).into_iter().filter(|_| cluster.spec().origin.is_none());
    for kind in kinds.filter(|kind| invariants.has_any(kind.resource())) {
        rare.insert(kind.resource(), list(kind).await?);
    }
    Ok(StoredObjects {
        workloads,
        rare,
        nodes: list(Kind::node()).await?,
        csi_nodes: list(Kind::csi_node()).await?,
        volumes: list(Kind::volume()).await?,
        pods: list(Kind::pod()).await?,
        claims: list(Kind::claim()).await?,
        attachments: list(Kind::volume_attachment()).await?,
        cloud: Vec::new(),
        cloud_snapshots: Vec::new(),
    })
}

/// Kinds of which only few clusters have objects. Each list is a request, so only kinds with objects are listed.
fn rare_kinds(cluster: &Cluster) -> Vec<Kind> {
    let spec = cluster.spec();
    // A simulation leaves loops out if its scenario has no object of their kind. An initial object may be of such a kind.
    let has_loop = |kind: &str| {
        let is_rare = controllers::RARE_WORKLOADS.iter().any(|(rare, _)| *rare == kind);
        !cluster.is_simulated()
            || kind == "ResourceQuota"
            || spec.has_workloads && (!is_rare || spec.rare_workloads.contains(kind))
    };
    let built_in = RARE.iter().filter(|(_, kind)| has_loop(kind));
    let built_in = built_in.filter_map(|(api_version, kind)| Kind::of_manifest(api_version, kind));
    let mut kinds: Vec<Kind> = built_in.chain(Customs::of_cluster(&cluster.spec().without).all()).collect();
    // Of several versions of a kind, the first one is enough.
    let mut seen = BTreeSet::new();
    kinds.retain(|kind| seen.insert(kind.resource()));
    kinds
}
