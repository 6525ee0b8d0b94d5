//! Each seeded bug of the snapshot loops has its described effect, and none when it is off.
#![cfg(any(debug_assertions, feature = "mutants"))]

use controllers::kube::{DeleteParams, Kind, ListParams};
use controllers::snapshot::objects::VolumeSnapshotClass;
use controllers::snapshot::{VolumeSnapshot, VolumeSnapshotContent};
use csi_proto::Channel;
use csi_proto::csi::ListSnapshotsRequest;
use csi_proto::csi::controller_client::ControllerClient;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use substrate::World;
use substrate::fault::Fault;
use substrate::json::{Value, from_value, json};
use substrate::link::Link;

use crate::common::{DRIVER, Rig, S, mutated};

/// Returns the results of `in_simulation` without and with the seeded bug.
fn both<F: Future<Output = T>, T>(mutant: &str, in_simulation: impl Fn(World) -> F) -> (T, T) {
    assert!(controllers::mutants::all().any(|known| known.name == mutant), "{mutant} is not listed");
    (mutated(&[], &in_simulation), mutated(&[mutant], &in_simulation))
}

async fn create<K: Kind>(rig: &Rig, object: Value) {
    rig.client.all::<K>().create(&from_value(object).expect("an object")).await.expect("created");
}

/// Starts a cluster with a bound claim, in which the first calls of `op` fail.
async fn rig(world: &World, policy: &str, op: &str, effect: Value, first: u64) -> Rig {
    let rig = Rig::with_snapshots(world, &["node-a"], &[]).await;
    let class = json!({ "metadata": { "name": "snap" }, "driver": DRIVER, "deletionPolicy": policy });
    create::<VolumeSnapshotClass>(&rig, class).await;
    rig.claim("data").await;
    let fault = json!({
        "name": "refusal", "match": { "plane": "csi", "op": op }, "when": { "first": first }, "effect": effect,
    });
    let fault: Fault = from_value(fault).expect("a fault");
    rig.world.faults().add(rig.world.clock().mono(), fault).expect("a fault");
    rig
}

/// Creates the snapshot `s` of the claim.
async fn snapshot(rig: &Rig) {
    let spec = json!({ "source": { "persistentVolumeClaimName": "data" }, "volumeSnapshotClassName": "snap" });
    let metadata = json!({ "namespace": "default", "name": "s" });
    create::<VolumeSnapshot>(rig, json!({ "metadata": metadata, "spec": spec })).await;
}

async fn until_ready(rig: &Rig) {
    let snapshots = rig.client.namespaced::<VolumeSnapshot>("default");
    rig.until(S(300), "the snapshot is ready", || async { snapshots.get("s").await.is_ok_and(|one| one.is_ready()) })
        .await;
}

async fn delete(rig: &Rig) {
    let snapshots = rig.client.namespaced::<VolumeSnapshot>("default");
    snapshots.delete("s", &DeleteParams::default()).await.expect("deleted");
    rig.until(S(600), "the snapshot is gone", || async { snapshots.get("s").await.is_err() }).await;
    rig.sleep(S(5)).await;
}

async fn contents(rig: &Rig) -> Vec<VolumeSnapshotContent> {
    rig.client.all().list(&ListParams::default()).await.expect("a list").items
}

/// Returns the volumes of the driver's snapshots.
async fn taken(rig: &Rig) -> Vec<String> {
    let user = rig.client.ctx().clone();
    let mut driver = ControllerClient::new(Channel(Link::connect(&user, "csi-controller")));
    let answer = driver.list_snapshots(ListSnapshotsRequest::default()).await.expect("a list").into_inner();
    answer.entries.into_iter().filter_map(|e| e.snapshot).map(|s| s.source_volume_id).collect()
}

fn nothing() -> Value {
    json!({ "delay": "1ms" })
}

#[test]
fn a_claim_goes_before_its_snapshot_is_taken() {
    let gone = both("snapshot-source-released-early", |world| async move {
        let rig = rig(&world, "Delete", "CreateSnapshot", json!({ "grpc": "UNAVAILABLE" }), 4).await;
        snapshot(&rig).await;
        rig.sleep(S(3)).await;
        let claims = rig.client.namespaced::<PersistentVolumeClaim>("default");
        claims.delete("data", &DeleteParams::default()).await.expect("deleted");
        rig.sleep(S(3)).await;
        claims.get("data").await.is_err()
    });
    assert_eq!(gone, (false, true));
}

#[test]
fn a_retained_content_is_deleted() {
    let left = both("snapshot-policy-ignored", |world| async move {
        let rig = rig(&world, "Retain", "CreateSnapshot", nothing(), 1).await;
        snapshot(&rig).await;
        until_ready(&rig).await;
        delete(&rig).await;
        contents(&rig).await.len()
    });
    assert_eq!(left, (1, 0));
}

#[test]
fn another_volume_is_snapshotted() {
    let right = both("snapshot-of-wrong-volume", |world| async move {
        let rig = rig(&world, "Delete", "CreateSnapshot", nothing(), 1).await;
        rig.claim("other").await;
        snapshot(&rig).await;
        until_ready(&rig).await;
        let claim = rig.client.namespaced::<PersistentVolumeClaim>("default").get("data").await.expect("the claim");
        let volume = claim.spec.as_ref().and_then(|spec| spec.volume_name.clone()).expect("a volume");
        let volume = rig.client.all::<k8s_openapi::api::core::v1::PersistentVolume>().get(&volume).await.expect("it");
        let handle = volume.spec.as_ref().and_then(|spec| spec.csi.as_ref()).expect("CSI").volume_handle.clone();
        taken(&rig).await == [handle]
    });
    assert_eq!(right, (true, false));
}

#[test]
fn a_snapshot_is_ready_before_the_driver_has_it() {
    let early = both("snapshot-ready-early", |world| async move {
        let rig = rig(&world, "Delete", "CreateSnapshot", json!({ "delay": "20s" }), 1).await;
        snapshot(&rig).await;
        rig.sleep(S(5)).await;
        rig.messages("SnapshotReady").len()
    });
    assert_eq!(early, (0, 1));
}

#[test]
fn a_retained_snapshot_is_deleted_with_its_content() {
    let left = both("snapshot-retain-ignored", |world| async move {
        let rig = rig(&world, "Retain", "CreateSnapshot", nothing(), 1).await;
        snapshot(&rig).await;
        until_ready(&rig).await;
        delete(&rig).await;
        let name = contents(&rig).await[0].name().to_owned();
        rig.client.all::<VolumeSnapshotContent>().delete(&name, &DeleteParams::default()).await.expect("deleted");
        rig.sleep(S(5)).await;
        (contents(&rig).await.len(), taken(&rig).await.len())
    });
    assert_eq!(left, ((0, 1), (0, 0)));
}

#[test]
fn a_snapshot_whose_creation_timed_out_is_left_behind() {
    let left = both("snapshot-timeout-is-final", |world| async move {
        // The driver takes it, and the answer is lost.
        let rig = rig(&world, "Delete", "CreateSnapshot", json!({ "drop_reply": true }), 6).await;
        snapshot(&rig).await;
        rig.until(S(120), "it failed", || async { !rig.messages("SnapshotCreationFailed").is_empty() }).await;
        delete(&rig).await;
        taken(&rig).await.len()
    });
    assert_eq!(left, (0, 1));
}
