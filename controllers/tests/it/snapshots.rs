//! The snapshot-controller and csi-snapshotter, with the API server, the driver and the cloud.

#![expect(clippy::unwrap_used, reason = "a test ends where it goes wrong")]

use std::sync::Arc;

use controllers::kube::{Client, DeleteParams, Kind};
use controllers::snapshot::objects::VolumeSnapshotClass;
use controllers::snapshot::{VolumeSnapshot, VolumeSnapshotContent};
use csi_proto::Channel;
use csi_proto::csi::ListSnapshotsRequest;
use csi_proto::csi::controller_client::ControllerClient;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Secret};
use substrate::World;
use substrate::clock::TimeScale;
use substrate::fault::Fault;
use substrate::json::{Value, from_value, json, to_value};
use substrate::link::Link;
use substrate::world::{Options, simulate};

use crate::common::{DRIVER, Rig, S, Written, in_simulation};

const CONTENT_FINALIZER: &str = "snapshot.storage.kubernetes.io/volumesnapshotcontent-bound-protection";
const BOUND: &str = "snapshot.storage.kubernetes.io/volumesnapshot-bound-protection";
const AS_SOURCE: &str = "snapshot.storage.kubernetes.io/volumesnapshot-as-source-protection";
const OF_CLAIM: &str = "snapshot.storage.kubernetes.io/pvc-as-source-protection";
const BEING_CREATED: &str = "snapshot.storage.kubernetes.io/volumesnapshot-being-created";
const BEING_DELETED: &str = "snapshot.storage.kubernetes.io/volumesnapshot-being-deleted";

/// Starts a cluster with a bound claim, and the classes `snap` (the default) and `kept`.
async fn rig(world: &World) -> Rig {
    let rig = Rig::with_snapshots(world, &["node-a"], &[]).await;
    let yes = json!({ "snapshot.storage.kubernetes.io/is-default-class": "true" });
    for (name, policy, annotations) in [("snap", "Delete", yes), ("kept", "Retain", json!({}))] {
        let metadata = json!({ "name": name, "annotations": annotations });
        let class = json!({ "metadata": metadata, "driver": DRIVER, "deletionPolicy": policy });
        create::<VolumeSnapshotClass>(&rig.client, class).await;
    }
    rig.claim("data").await;
    rig
}

async fn create<K: Kind>(client: &Client, object: Value) -> Arc<K> {
    client.all::<K>().create(&from_value(object).expect("an object")).await.expect("created")
}

/// Creates the snapshot `s` of the claim.
async fn snapshot(rig: &Rig, class: Option<&str>) -> Arc<VolumeSnapshot> {
    let mut spec = json!({ "source": { "persistentVolumeClaimName": "data" } });
    if let Some(class) = class {
        spec["volumeSnapshotClassName"] = class.into();
    }
    create(&rig.client, json!({ "metadata": { "namespace": "default", "name": "s" }, "spec": spec })).await
}

async fn get(rig: &Rig) -> Option<Value> {
    let found = rig.client.namespaced::<VolumeSnapshot>("default").get("s").await.ok()?;
    to_value(&*found).ok()
}

async fn content(rig: &Rig, name: &str) -> Option<Arc<VolumeSnapshotContent>> {
    rig.client.all().get(name).await.ok()
}

async fn until_ready(rig: &Rig) -> Value {
    rig.until(S(120), "the snapshot is ready", || async {
        get(rig).await.is_some_and(|one| one["status"]["readyToUse"] == true)
    })
    .await;
    get(rig).await.expect("the snapshot")
}

async fn delete(rig: &Rig) {
    let snapshots = rig.client.namespaced::<VolumeSnapshot>("default");
    snapshots.delete("s", &DeleteParams::default()).await.expect("deleted");
}

async fn until_gone(rig: &Rig) {
    rig.until(S(600), "the snapshot is gone", || async { get(rig).await.is_none() }).await;
}

/// Returns the driver's snapshots: ids and names of volumes.
async fn taken(rig: &Rig) -> Vec<(String, String)> {
    let user = rig.client.ctx().clone();
    let mut driver = ControllerClient::new(Channel(Link::connect(&user, "csi-controller")));
    let answer = driver.list_snapshots(ListSnapshotsRequest::default()).await.expect("a list").into_inner();
    answer.entries.into_iter().filter_map(|e| e.snapshot).map(|s| (s.snapshot_id, s.source_volume_id)).collect()
}

async fn claim(rig: &Rig) -> Arc<PersistentVolumeClaim> {
    rig.client.namespaced("default").get("data").await.expect("the claim")
}

/// Fails the first `first` requests or calls of `op` on a plane.
fn refuse(rig: &Rig, plane: &str, op: &str, effect: Value, first: u64) {
    let fault = json!({
        "name": "refusal", "match": { "plane": plane, "op": op }, "when": { "first": first }, "effect": effect,
    });
    let fault: Fault = from_value(fault).expect("a fault");
    rig.world.faults().add(rig.world.clock().mono(), fault).expect("a fault");
}

/// Describes writes about snapshots: program, verb, part and patch.
fn described(writes: &[Written]) -> Vec<String> {
    let about = |w: &&Written| w.path.contains("volumesnapshot") || w.body.to_string().contains(OF_CLAIM);
    writes
        .iter()
        .filter(about)
        .map(|w| {
            let path = w.path.trim_start_matches("/apis/snapshot.storage.k8s.io/v1/");
            let kind = if path.contains("persistentvolumeclaims") {
                "claim"
            } else if path.contains("contents") {
                "content"
            } else {
                "snapshot"
            };
            let part = if path.ends_with("/status") { "/status" } else { "" };
            let operations = w.body.as_array().map(|all| {
                let one = |op: &Value| format!(" {} {}", op["op"].as_str().unwrap(), op["path"].as_str().unwrap());
                all.iter().map(one).collect::<String>()
            });
            format!("{} {} {kind}{part}{}", w.agent, w.method, operations.unwrap_or_default())
        })
        .collect()
}

#[test]
fn a_snapshot_of_a_claim_is_taken_with_upstreams_writes() {
    in_simulation(1, |world| async move {
        let rig = rig(&world).await;
        let from = rig.now_ms();
        let uid = snapshot(&rig, None).await.uid().to_owned();
        let ready = until_ready(&rig).await;
        rig.sleep(S(2)).await;
        let name = format!("snapcontent-{uid}");
        assert_eq!(ready["spec"]["volumeSnapshotClassName"], "snap", "the driver's default class");
        assert_eq!(ready["status"]["boundVolumeSnapshotContentName"], name.as_str());
        assert_eq!(ready["status"]["restoreSize"], "1Gi");
        let content = content(&rig, &name).await.expect("the content");
        let all = taken(&rig).await;
        assert_eq!(all.len(), 1);
        assert_eq!(content.handle(), Some(&*all[0].0));
        assert_eq!(content.spec.source.volume_handle.as_deref(), Some(&*all[0].1));
        assert_eq!(content.spec.source_volume_mode.as_deref(), Some("Filesystem"));
        assert!(content.has_finalizer(CONTENT_FINALIZER) && content.annotation(BEING_CREATED).is_none());
        assert_eq!(get(&rig).await.unwrap()["metadata"]["finalizers"], json!([AS_SOURCE, BOUND]));
        assert!(!claim(&rig).await.has_finalizer(OF_CLAIM), "the claim is released once the snapshot is ready");

        let writes = described(&rig.written(from, "/"));
        let of = |agent: &str, kind: &str| -> Vec<String> {
            let about = |w: &&String| w.split(' ').nth(1).is_some_and(|what| what.trim_end_matches("/status") == kind);
            writes
                .iter()
                .filter_map(|w| w.strip_prefix(agent))
                .map(|w| w.trim().to_owned())
                .filter(|w| about(&w))
                .collect()
        };
        // The second PUT, which removes the finalizer, does not name it.
        assert_eq!(of("snapshot-controller", "claim"), ["PUT claim"]);
        assert_eq!(of("snapshot-controller", "content"), ["POST content", "PATCH content add /metadata/finalizers"]);
        // Bound, taken and ready are three writes of the status.
        assert_eq!(
            of("snapshot-controller", "snapshot"),
            [
                "PATCH snapshot replace /spec/volumeSnapshotClassName",
                "PUT snapshot",
                "PUT snapshot/status",
                "PATCH snapshot add /metadata/finalizers/-",
                "PUT snapshot/status",
                "PUT snapshot/status",
            ]
        );
        // The driver describes the snapshot twice: as pending, and as ready.
        let removed = format!("PATCH content remove /metadata/annotations/{}", BEING_CREATED.replace('/', "~1"));
        let once =
            ["PATCH content replace /metadata/annotations", "PATCH content/status replace /status", removed.as_str()];
        assert_eq!(of("csi-snapshotter", "content"), [once, once].concat());
        for (reason, message) in [
            ("CreatingSnapshot", "Waiting for a snapshot default/s to be created by the CSI driver."),
            ("SnapshotCreated", "Snapshot default/s was successfully created by the CSI driver."),
            ("SnapshotReady", "Snapshot default/s is ready to use."),
        ] {
            assert_eq!(rig.messages(reason), [message]);
        }
    });
}

#[test]
fn a_deletion_takes_the_drivers_snapshot_with_it_unless_the_policy_retains_it() {
    for (class, kept) in [("snap", false), ("kept", true)] {
        in_simulation(1, |world| async move {
            let rig = rig(&world).await;
            let uid = snapshot(&rig, Some(class)).await.uid().to_owned();
            let ready = until_ready(&rig).await;
            rig.sleep(S(2)).await;
            let bound = get(&rig).await.unwrap()["metadata"]["finalizers"].clone();
            assert_eq!(bound, if kept { json!([AS_SOURCE]) } else { json!([AS_SOURCE, BOUND]) }, "{ready}");
            delete(&rig).await;
            until_gone(&rig).await;
            rig.sleep(S(5)).await;
            let name = format!("snapcontent-{uid}");
            let content = content(&rig, &name).await;
            assert_eq!((content.is_some(), taken(&rig).await.len()), (kept, usize::from(kept)), "{class}");
            if let Some(content) = content {
                assert_eq!(content.annotation(BEING_DELETED), Some("yes"), "an administrator may delete it");
                rig.client.all::<VolumeSnapshotContent>().delete(&name, &DeleteParams::default()).await.unwrap();
                rig.sleep(S(5)).await;
                assert!(self::content(&rig, &name).await.is_none());
                assert_eq!(taken(&rig).await.len(), 1, "without the driver's snapshot");
            }
        });
    }
}

#[test]
fn a_creation_that_timed_out_holds_the_content_until_it_is_settled() {
    in_simulation(1, |world| async move {
        let rig = rig(&world).await;
        refuse(&rig, "csi", "CreateSnapshot", json!({ "grpc": "DEADLINE_EXCEEDED" }), 6);
        let uid = snapshot(&rig, None).await.uid().to_owned();
        let name = format!("snapcontent-{uid}");
        rig.until(S(60), "it failed", || async { !rig.messages("SnapshotCreationFailed").is_empty() }).await;
        assert_eq!(content(&rig, &name).await.unwrap().annotation(BEING_CREATED), Some("yes"));
        let text = &rig.messages("SnapshotCreationFailed")[0];
        assert!(text.starts_with("Failed to create snapshot: failed to take snapshot of the volume vol-"), "{text}");
        delete(&rig).await;
        rig.sleep(S(1)).await;
        assert!(content(&rig, &name).await.is_some(), "the driver may be taking the snapshot");
        until_gone(&rig).await;
        rig.sleep(S(5)).await;
        assert!(content(&rig, &name).await.is_none());
        assert_eq!(taken(&rig).await, [], "nothing is left behind");
    });
}

#[test]
fn a_final_error_is_written_and_retried() {
    in_simulation(1, |world| async move {
        let rig = rig(&world).await;
        refuse(&rig, "csi", "CreateSnapshot", json!({ "grpc": "INVALID_ARGUMENT" }), 2);
        let uid = snapshot(&rig, None).await.uid().to_owned();
        rig.until(S(60), "the error is copied", || async {
            get(&rig).await.is_some_and(|one| one["status"]["error"]["message"].is_string())
        })
        .await;
        let held = content(&rig, &format!("snapcontent-{uid}")).await.unwrap();
        assert_eq!(held.annotation(BEING_CREATED), None);
        assert!(claim(&rig).await.has_finalizer(OF_CLAIM));
        let ready = until_ready(&rig).await;
        assert_eq!(ready["status"]["error"], Value::Null);
        assert_eq!(taken(&rig).await.len(), 1);
    });
}

#[test]
fn an_existing_snapshot_is_bound_by_its_content() {
    in_simulation(1, |world| async move {
        let rig = rig(&world).await;
        snapshot(&rig, Some("kept")).await;
        until_ready(&rig).await;
        delete(&rig).await;
        until_gone(&rig).await;
        let handle = taken(&rig).await.remove(0).0;
        let spec = json!({ "source": { "volumeSnapshotContentName": "imported" } });
        let metadata = json!({ "namespace": "default", "name": "s" });
        create::<VolumeSnapshot>(&rig.client, json!({ "metadata": metadata, "spec": spec })).await;
        rig.until(S(10), "the content is missed", || async { !rig.messages("SnapshotContentMissing").is_empty() })
            .await;
        let spec = json!({
            "volumeSnapshotRef": { "namespace": "default", "name": "s" }, "driver": DRIVER, "deletionPolicy": "Delete",
            "source": { "snapshotHandle": handle },
        });
        let imported = json!({ "metadata": { "name": "imported" }, "spec": spec });
        create::<VolumeSnapshotContent>(&rig.client, imported).await;
        let ready = until_ready(&rig).await;
        assert_eq!(ready["status"]["boundVolumeSnapshotContentName"], "imported");
        rig.sleep(S(2)).await;
        let content = content(&rig, "imported").await.unwrap();
        assert_eq!(content.snapshot_uid(), ready["metadata"]["uid"].as_str().unwrap());
        delete(&rig).await;
        until_gone(&rig).await;
        rig.sleep(S(5)).await;
        assert_eq!(taken(&rig).await, []);
    });
}

#[test]
fn a_crash_at_any_second_leaves_one_snapshot() {
    for pause in [20, 40, 60, 90, 150, 400, 900] {
        in_simulation(1, |world| async move {
            let rig = rig(&world).await;
            snapshot(&rig, None).await;
            rig.sleep(std::time::Duration::from_millis(pause)).await;
            rig.crash_controllers();
            rig.sleep(S(1)).await;
            rig.restart_controllers();
            until_ready(&rig).await;
            assert_eq!(taken(&rig).await.len(), 1, "after {pause} ms");
            delete(&rig).await;
            rig.sleep(std::time::Duration::from_millis(pause)).await;
            rig.crash_controllers();
            rig.sleep(S(1)).await;
            rig.restart_controllers();
            until_gone(&rig).await;
            rig.sleep(S(5)).await;
            assert_eq!(taken(&rig).await, [], "after {pause} ms");
            assert!(!claim(&rig).await.has_finalizer(OF_CLAIM), "after {pause} ms");
        });
    }
}

#[test]
fn a_class_that_is_missing_or_ambiguous_is_an_error_of_the_snapshot() {
    in_simulation(1, |world| async move {
        let rig = rig(&world).await;
        snapshot(&rig, Some("none")).await;
        let error = |one: &Value| one["status"]["error"]["message"].as_str().unwrap_or_default().to_owned();
        rig.until(S(10), "an error", || async { get(&rig).await.is_some_and(|one| !error(&one).is_empty()) }).await;
        let missing = "volumesnapshotclass.snapshot.storage.k8s.io \"none\" not found";
        let text = error(&get(&rig).await.unwrap());
        assert_eq!(text, format!("Failed to get snapshot class with error {missing}"));
        assert_eq!(rig.messages("GetSnapshotClassFailed"), [text]);
        delete(&rig).await;
        until_gone(&rig).await;
        let yes = json!({ "snapshot.storage.kubernetes.io/is-default-class": "true" });
        let class =
            json!({ "metadata": { "name": "too", "annotations": yes }, "driver": DRIVER, "deletionPolicy": "Delete" });
        create::<VolumeSnapshotClass>(&rig.client, class).await;
        rig.sleep(S(1)).await;
        snapshot(&rig, None).await;
        let found = "Failed to set default snapshot class with error 2 default snapshot classes were found";
        rig.until(S(10), "an error", || async { rig.messages("SetDefaultSnapshotClassFailed") == [found] }).await;
    });
}

#[test]
fn a_secret_of_the_class_goes_with_the_content() {
    in_simulation(1, |world| async move {
        let rig = rig(&world).await;
        let parameters = json!({
            "csi.storage.k8s.io/snapshotter-secret-name": "${volumesnapshot.name}-key",
            "csi.storage.k8s.io/snapshotter-secret-namespace": "${volumesnapshot.namespace}",
        });
        let class = json!({
            "metadata": { "name": "locked" }, "driver": DRIVER, "deletionPolicy": "Delete", "parameters": parameters,
        });
        create::<VolumeSnapshotClass>(&rig.client, class).await;
        rig.sleep(S(1)).await;
        let uid = snapshot(&rig, Some("locked")).await.uid().to_owned();
        let name = format!("snapcontent-{uid}");
        rig.until(S(60), "it failed", || async { !rig.messages("SnapshotCreationFailed").is_empty() }).await;
        let why = format!("cannot get credentials for snapshot content {name:?}");
        let start = format!(
            "Failed to create snapshot: failed to get input parameters to create snapshot for content {name}: "
        );
        assert_eq!(rig.messages("SnapshotCreationFailed")[0], format!("{start}{why:?}"));
        let annotation = "snapshot.storage.kubernetes.io/deletion-secret-name";
        assert_eq!(content(&rig, &name).await.unwrap().annotation(annotation), Some("s-key"));
        let secret = json!({ "metadata": { "namespace": "default", "name": "s-key" }, "stringData": { "k": "v" } });
        create::<Secret>(&rig.client, secret).await;
        until_ready(&rig).await;
    });
}

#[test]
fn a_snapshot_that_is_being_restored_is_not_deleted() {
    in_simulation(1, |world| async move {
        let rig = rig(&world).await;
        snapshot(&rig, None).await;
        until_ready(&rig).await;
        rig.sleep(S(2)).await;
        refuse(&rig, "csi", "CreateVolume", json!({ "grpc": "UNAVAILABLE" }), 4);
        let source = json!({ "apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "s" });
        let spec = json!({
            "accessModes": ["ReadWriteOnce"], "storageClassName": "ebs", "dataSource": source,
            "resources": { "requests": { "storage": "1Gi" } },
        });
        let copy = json!({ "metadata": { "namespace": "default", "name": "copy" }, "spec": spec });
        create::<PersistentVolumeClaim>(&rig.client, copy).await;
        rig.sleep(S(1)).await;
        delete(&rig).await;
        let pending = "Snapshot is being used to restore a PVC";
        rig.until(S(60), "the deletion waits", || async {
            rig.messages("SnapshotDeletePending").contains(&pending.to_owned())
        })
        .await;
        assert!(get(&rig).await.is_some());
        rig.until(S(300), "the copy is bound", || async {
            let copy = rig.client.namespaced::<PersistentVolumeClaim>("default").get("copy").await.expect("the copy");
            copy.status.as_ref().and_then(|s| s.phase.as_deref()) == Some("Bound")
        })
        .await;
        until_gone(&rig).await;
        rig.sleep(S(5)).await;
        assert_eq!(taken(&rig).await, []);
    });
}

#[test]
fn a_claim_stays_until_its_snapshot_is_taken() {
    in_simulation(1, |world| async move {
        let rig = rig(&world).await;
        refuse(&rig, "csi", "CreateSnapshot", json!({ "grpc": "UNAVAILABLE" }), 4);
        snapshot(&rig, None).await;
        rig.until(S(10), "the claim is held", || async { claim(&rig).await.has_finalizer(OF_CLAIM) }).await;
        let claims = rig.client.namespaced::<PersistentVolumeClaim>("default");
        claims.delete("data", &DeleteParams::default()).await.expect("deleted");
        rig.sleep(S(3)).await;
        assert!(claim(&rig).await.is_deleting());
        until_ready(&rig).await;
        rig.until(S(60), "the claim goes", || async { claims.get("data").await.is_err_and(|e| e.is_not_found()) })
            .await;
        assert_eq!(taken(&rig).await.len(), 1);
    });
}

#[test]
fn rules_of_the_kinds_refuse_a_change_of_the_source() {
    in_simulation(1, |world| async move {
        let rig = rig(&world).await;
        let refused = |object: Value| {
            let client = rig.client.clone();
            async move {
                let object: VolumeSnapshot = from_value(object).expect("a snapshot");
                client.namespaced::<VolumeSnapshot>("default").create(&object).await.unwrap_err().to_string()
            }
        };
        let both = json!({ "persistentVolumeClaimName": "data", "volumeSnapshotContentName": "c" });
        let error = refused(json!({ "metadata": { "name": "x" }, "spec": { "source": both } })).await;
        let rule = "exactly one of volumeSnapshotContentName and persistentVolumeClaimName must be set";
        assert!(error.contains(rule), "{error}");
        let source = json!({ "persistentVolumeClaimName": "data" });
        let spec = json!({ "source": source, "volumeSnapshotClassName": "" });
        let error = refused(json!({ "metadata": { "name": "x" }, "spec": spec })).await;
        assert!(error.contains("volumeSnapshotClassName must not be the empty string when set"), "{error}");
        snapshot(&rig, None).await;
        until_ready(&rig).await;
        let mut other = VolumeSnapshot::clone(&*rig.client.namespaced("default").get("s").await.unwrap());
        other.spec.source.persistent_volume_claim_name = Some("other".to_owned());
        let error = rig.client.namespaced("default").replace(&other).await.unwrap_err().to_string();
        assert!(error.contains("persistentVolumeClaimName is immutable"), "{error}");
    });
}

#[test]
fn a_lost_content_is_an_error_of_a_ready_snapshot() {
    in_simulation(1, |world| async move {
        let rig = rig(&world).await;
        let uid = snapshot(&rig, None).await.uid().to_owned();
        until_ready(&rig).await;
        rig.sleep(S(2)).await;
        // The snapshot is taken again, and stays unready until the driver answers.
        let fault =
            json!({"name": "slow", "match": {"plane": "csi", "op": "CreateSnapshot"}, "effect": {"delay": "20s"}});
        rig.world.faults().add(rig.world.clock().mono(), from_value(fault).unwrap()).expect("in force");
        let name = format!("snapcontent-{uid}");
        let contents = rig.client.all::<VolumeSnapshotContent>();
        contents.delete(&name, &DeleteParams::default()).await.unwrap();
        let mut free = VolumeSnapshotContent::clone(&*contents.get(&name).await.unwrap());
        free.metadata.finalizers = None;
        contents.replace(&free).await.expect("freed");
        rig.until(S(30), "it is missed", || async {
            rig.messages("SnapshotContentMissing") == ["VolumeSnapshotContent is missing"]
        })
        .await;
        assert_eq!(get(&rig).await.unwrap()["status"]["readyToUse"], false);
    });
}

/// The controller does not watch claims, so a finalizer that it has left goes with the next look at all snapshots. The
/// time scale divides the period of these looks once.
#[test]
fn a_time_scale_divides_the_resync_period_once() {
    let options = Options { scale: TimeScale::new(60.0), ..Options::default() };
    simulate(options, async |world: World| {
        let rig = rig(&world).await;
        snapshot(&rig, None).await;
        until_ready(&rig).await;
        let is_free = async || !claim(&rig).await.has_finalizer(OF_CLAIM);
        rig.until(S(5), "the claim is free", is_free).await;
        let mut held = PersistentVolumeClaim::clone(&*claim(&rig).await);
        held.metadata.finalizers.get_or_insert_default().push(OF_CLAIM.to_owned());
        rig.client.namespaced("default").replace(&held).await.expect("held");
        // The default is 15 minutes.
        let period = rig.world.scale().apply(S(15 * 60)).as_millis() as u64;
        let began = rig.now_ms();
        assert!(began < period / 2, "the first look is over");
        rig.until(S(60), "the claim is free again", is_free).await;
        let freed = rig.now_ms();
        assert!((period..period + 1000).contains(&freed), "freed after {freed} ms, and the period is {period} ms");
    });
}
