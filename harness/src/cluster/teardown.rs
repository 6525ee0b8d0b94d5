//! Deletes everything that a scenario created, waits until it is gone, and finds leftovers (invariant I5).

use std::collections::BTreeSet;
use std::time::Duration;

use substrate::WorldKind;
use substrate::json::Value;

use controllers::mirror_pod::{MOORING, SOURCE};
use controllers::node_agent::names::Paths;
use csi_mock::efs::of_access_point;

use super::cloud;
use super::objects::ObjectError;
use crate::cluster::Cluster;
use crate::invariants::{Invariants, Leftovers};
use crate::spec::object::{Kind, ObjectRef};

/// Time limit for the cluster to release everything: a forced detach and a reserve.
const TIMEOUT: Duration = Duration::from_secs(600);
/// Annotation of volumes that a provisioner created.
const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
/// Interval between two checks.
const LOOK: Duration = Duration::from_secs(1);

/// Kinds whose control loops create pods again.
const OWNERS: [(&str, &str); 7] = [
    ("batch/v1", "CronJob"),
    ("v1", "ReplicationController"),
    ("apps/v1", "Deployment"),
    ("apps/v1", "ReplicaSet"),
    ("apps/v1", "StatefulSet"),
    ("apps/v1", "DaemonSet"),
    ("batch/v1", "Job"),
];

/// Deletes the owners of pods, pods and claims, and returns the leftovers.
pub(crate) async fn tear_down(cluster: &Cluster, invariants: &Invariants) -> Leftovers {
    if cluster.spec().has_workloads {
        for kind in owners(cluster) {
            delete_all(cluster, kind).await;
        }
    }
    delete_all(cluster, Kind::pod()).await;
    let timeout = cluster.scaled(TIMEOUT);
    let look = cluster.scaled(LOOK).max(Duration::from_millis(20));
    let now = || cluster.world().clock().mono();
    let began = now();
    let mut claims_deleted = false;
    loop {
        let waited = now().saturating_sub(began);
        if !claims_deleted && let Ok(pods) = cluster.objects().list(Kind::pod()).await {
            // After half of the time, a pod that cannot end keeps only its own claims.
            if pods.is_empty() || waited >= timeout / 2 {
                delete_claims(cluster, &pods).await;
                claims_deleted = pods.is_empty();
            }
        }
        let left = leftovers(cluster, invariants).await;
        if (claims_deleted && left.is_empty()) || waited >= timeout {
            return left;
        }
        tokio::time::sleep(look).await;
    }
}

/// Returns the kinds whose control loops create pods in this cluster. Each list is a request, so a simulation asks only for
/// kinds that it may have.
fn owners(cluster: &Cluster) -> Vec<Kind> {
    let is_live = cluster.world().kind() == WorldKind::Live;
    let runs = |kind: &str| {
        let is_rare = controllers::RARE_WORKLOADS.iter().any(|(rare, _)| *rare == kind);
        !is_rare || is_live || cluster.spec().rare_workloads.contains(kind)
    };
    let all = OWNERS.iter().filter(|(_, kind)| runs(kind));
    all.filter_map(|(api_version, kind)| Kind::of_manifest(api_version, kind)).collect()
}

/// Waits at most `timeout` until all objects that were already deleted are gone, and returns the leftovers.
pub(crate) async fn until_empty(cluster: &Cluster, invariants: &Invariants, timeout: Duration) -> Leftovers {
    let look = cluster.scaled(LOOK).max(Duration::from_millis(20));
    let now = || cluster.world().clock().mono();
    let began = now();
    loop {
        let left = leftovers(cluster, invariants).await;
        if left.is_empty() || now().saturating_sub(began) >= timeout {
            return left;
        }
        tokio::time::sleep(look).await;
    }
}

async fn delete_all(cluster: &Cluster, kind: Kind) {
    for object in cluster.objects().list(kind).await.unwrap_or_default() {
        delete(cluster, kind, &object).await;
    }
}

/// Deletes each claim that none of `pods` uses.
async fn delete_claims(cluster: &Cluster, pods: &[Value]) {
    let has = |pod: &Value, claim: &Value| {
        let mut volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
        pod["metadata"]["namespace"] == claim["metadata"]["namespace"]
            && volumes.any(|volume| volume["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"])
    };
    for claim in cluster.objects().list(Kind::claim()).await.unwrap_or_default() {
        let is_deleted = !claim["metadata"]["deletionTimestamp"].is_null();
        if !is_deleted && !pods.iter().any(|pod| has(pod, &claim)) {
            delete(cluster, Kind::claim(), &claim).await;
        }
    }
}

async fn delete(cluster: &Cluster, kind: Kind, object: &Value) {
    if let Some(name) = object["metadata"]["name"].as_str() {
        let reference = ObjectRef::new(kind, object["metadata"]["namespace"].as_str(), name);
        // If the deletion fails, the object shows up as a leftover.
        let _ = cluster.objects().delete(&reference, None).await;
    }
}

/// True if a PersistentVolume stays after its claim: its reclaim policy says so, or it was not provisioned, so that no
/// provisioner deletes it (`pkg/controller/volume/persistentvolume/pv_controller.go`, `findDeletablePlugin`).
fn stays(volume: &Value) -> bool {
    let is_provisioned = !volume["metadata"]["annotations"][PROVISIONED_BY].is_null();
    let is_deleted = !volume["metadata"]["deletionTimestamp"].is_null();
    !is_deleted && (volume["spec"]["persistentVolumeReclaimPolicy"] != "Delete" || !is_provisioned)
}

/// Objects and resources that should be gone once all pods and claims are. Volumes that Retain keeps, and those of
/// PersistentVolumes that a user created, stay.
async fn leftovers(cluster: &Cluster, invariants: &Invariants) -> Leftovers {
    let mut left = Leftovers::default();
    let names = |objects: Result<Vec<Value>, ObjectError>| -> Vec<String> {
        match objects {
            Ok(objects) => objects.iter().filter_map(|o| o["metadata"]["name"].as_str().map(str::to_owned)).collect(),
            Err(e) => vec![format!("(unknown: {e})")],
        }
    };
    left.volume_attachments = names(cluster.objects().list(Kind::volume_attachment()).await);
    let volumes = cluster.objects().list(Kind::volume()).await;
    let (staying, going) = match volumes {
        Ok(volumes) => {
            let (staying, going): (Vec<Value>, Vec<Value>) = volumes.into_iter().partition(stays);
            (staying, Ok(going))
        }
        Err(error) => (Vec::new(), Err(error)),
    };
    left.persistent_volumes = names(going);
    let handle = |volume: &Value| volume["spec"]["csi"]["volumeHandle"].as_str().map(str::to_owned);
    let kept: BTreeSet<String> = staying.iter().filter_map(handle).collect();
    for kind in [Kind::pod(), Kind::claim()] {
        let objects = cluster.objects().list(kind).await.unwrap_or_else(|e| {
            left.finalizers.push(format!("{}: (unknown: {e})", kind.short()));
            Vec::new()
        });
        for object in objects {
            // Stand-in pods of Mooring's components stay.
            if object["metadata"]["annotations"][SOURCE] == MOORING {
                continue;
            }
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            let finalizers = object["metadata"]["finalizers"].to_string();
            left.finalizers.push(format!("{}/{name}: {finalizers}", kind.short()));
        }
    }
    match cloud::volumes(cluster).await {
        Ok(volumes) => {
            for volume in volumes.into_iter().filter(|volume| !cluster.spec().begin.has_loose(&volume.id)) {
                let on = volume.attachments.iter().map(|instance| format!("{} on {instance}", volume.id));
                left.cloud_attachments.extend(on);
                if !kept.contains(&volume.id) && !invariants.keeps(&volume.id) {
                    left.cloud_volumes.push(volume.id);
                }
            }
        }
        Err(e) => left.cloud_volumes.push(format!("(unknown: {e})")),
    }
    let points = cluster.access_points().into_iter().map(|point| of_access_point(&point.file_system, &point.id));
    left.access_points = points.filter(|handle| !kept.contains(handle) && !invariants.keeps(handle)).collect();
    let down = cluster.down_nodes();
    for node in &cluster.spec().nodes {
        let Some(disk) = cluster.disk(&node.name) else { continue };
        match disk.mounts().await {
            Ok(mounts) => left.mounts.extend(mounts.iter().map(|m| format!("{}: {}", node.name, m.path.display()))),
            Err(e) => left.mounts.push(format!("{}: (unknown: {e})", node.name)),
        }
        match disk.devices().await {
            Ok(devices) => left.devices.extend(devices.iter().map(|d| format!("{}: {}", node.name, d.name))),
            Err(e) => left.devices.push(format!("{}: (unknown: {e})", node.name)),
        }
        // Only machines of terminated instances are still down. The disk with their directories went with the instance.
        let Some(root) = cluster.root(&node.name).filter(|_| !down.contains(&node.name)) else { continue };
        let paths = Paths::new(root);
        // The directories of pods and of staged volumes must be gone; the directory of a driver itself stays.
        let drivers = cluster.spec().driver_names().map(|driver| paths.drivers().join(driver));
        for parent in [paths.pods()].into_iter().chain(drivers) {
            match disk.list_dir(&parent).await {
                Ok(names) => left.directories.extend(
                    names
                        .unwrap_or_default()
                        .iter()
                        .map(|name| format!("{}: {}", node.name, parent.join(name).display())),
                ),
                Err(e) => left.directories.push(format!("{}: {}: (unknown: {e})", node.name, parent.display())),
            }
        }
    }
    left
}
