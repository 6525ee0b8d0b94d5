//! The sidecars with a driver that refuses calls, and their writes.

use std::sync::Arc;

use controllers::kube::{Client, DeleteParams, Kind};
use csi_proto::Channel;
use csi_proto::csi::CreateSnapshotRequest;
use csi_proto::csi::controller_client::ControllerClient;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::{StorageClass, VolumeAttachment, VolumeAttributesClass};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use substrate::World;
use substrate::fault::Fault;
use substrate::json::{Value, from_value, json, to_value};
use substrate::link::Link;

use crate::common::{DRIVER, Rig, S, in_simulation};

/// Starts a control plane without a scheduler, a class with expandable volumes, and two VolumeAttributesClasses.
async fn rig(world: &World) -> Rig {
    let rig = Rig::new(world, &["node-a"], &["kube-scheduler"]).await;
    let class = json!({
        "metadata": { "name": "gp3" },
        "provisioner": DRIVER,
        "volumeBindingMode": "Immediate",
        "allowVolumeExpansion": true,
    });
    create::<StorageClass>(&rig.client, class).await;
    for (name, iops) in [("silver", "4000"), ("gold", "5000")] {
        let class = json!({ "metadata": { "name": name }, "driverName": DRIVER, "parameters": { "iops": iops } });
        create::<VolumeAttributesClass>(&rig.client, class).await;
    }
    rig
}

async fn create<K: Kind>(client: &Client, object: Value) {
    client.all::<K>().create(&from_value(object).expect("an object")).await.expect("created");
}

fn asks(size: &str, more: Value) -> Value {
    let mut claim = json!({
        "metadata": { "namespace": "default", "name": "data" },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "gp3",
            "resources": { "requests": { "storage": size } },
        },
    });
    for (key, value) in more.as_object().expect("an object") {
        claim["spec"][key] = value.clone();
    }
    claim
}

async fn data(rig: &Rig) -> Arc<PersistentVolumeClaim> {
    rig.client.namespaced("default").get("data").await.expect("the claim")
}

async fn bound(rig: &Rig, claim: Value) {
    let name = claim["metadata"]["name"].as_str().expect("a name").to_owned();
    create::<PersistentVolumeClaim>(&rig.client, claim).await;
    rig.until(S(60), "the claim is bound", || async {
        let claim = rig.client.namespaced::<PersistentVolumeClaim>("default").get(&name).await.expect("the claim");
        claim.status.as_ref().and_then(|s| s.phase.as_deref()) == Some("Bound")
    })
    .await;
}

/// Changes the claim as a user.
async fn edit(rig: &Rig, change: impl Fn(&mut PersistentVolumeClaim)) {
    let mut claim = PersistentVolumeClaim::clone(&*data(rig).await);
    change(&mut claim);
    rig.client.namespaced("default").replace(&claim).await.expect("edited");
}

async fn ask_for(rig: &Rig, size: &str) {
    edit(rig, |claim| {
        let resources = claim.spec.as_mut().expect("a spec").resources.as_mut().expect("resources");
        resources.requests.as_mut().expect("requests").insert("storage".to_owned(), Quantity(size.to_owned()));
    })
    .await;
}

async fn name_class(rig: &Rig, class: &str) {
    edit(rig, |claim| {
        claim.spec.as_mut().expect("a spec").volume_attributes_class_name = Some(class.to_owned());
    })
    .await;
}

/// Changes the claim's status as its node.
async fn node_says(rig: &Rig, change: impl Fn(&mut k8s_openapi::api::core::v1::PersistentVolumeClaimStatus)) {
    let mut claim = PersistentVolumeClaim::clone(&*data(rig).await);
    change(claim.status.as_mut().expect("a status"));
    rig.client.namespaced("default").replace_status(&claim).await.expect("the status is written");
}

/// Returns a field of the claim's status.
async fn status(rig: &Rig, field: &str) -> Value {
    to_value(&data(rig).await.status).expect("JSON").get(field).cloned().unwrap_or(Value::Null)
}

async fn stage(rig: &Rig) -> Value {
    status(rig, "allocatedResourceStatuses").await.get("storage").cloned().unwrap_or(Value::Null)
}

async fn until_stage(rig: &Rig, stage_: &str) {
    rig.until(S(60), stage_, || async { stage(rig).await == stage_ }).await;
}

async fn volume(rig: &Rig) -> Arc<PersistentVolume> {
    let name = data(rig).await.spec.as_ref().and_then(|s| s.volume_name.clone()).expect("a volume");
    rig.client.all().get(&name).await.expect("the volume")
}

async fn volume_size(rig: &Rig) -> String {
    let volume = volume(rig).await;
    volume.spec.as_ref().and_then(|s| s.capacity.as_ref()).expect("a capacity")["storage"].0.clone()
}

/// Fails the first `first` calls of `op`; returns the fault's name.
fn refuse(rig: &Rig, op: &str, code: &str, first: u64) {
    let fault = json!({
        "name": "refusal", "match": { "plane": "csi", "op": op }, "when": { "first": first }, "effect": { "grpc": code },
    });
    let fault: Fault = from_value(fault).expect("a fault");
    rig.world.faults().add(rig.world.clock().mono(), fault).expect("a fault");
}

fn allow(rig: &Rig) {
    rig.world.faults().remove("refusal");
}

#[test]
fn after_a_final_error_the_lowered_request_is_taken() {
    in_simulation(1, |world| async move {
        let rig = rig(&world).await;
        bound(&rig, asks("1Gi", json!({}))).await;
        refuse(&rig, "ControllerExpandVolume", "INTERNAL", 100);
        ask_for(&rig, "9Gi").await;
        rig.until(S(60), "it failed", || async { !rig.messages("VolumeResizeFailed").is_empty() }).await;
        assert_eq!(stage(&rig).await, "ControllerResizeInProgress");
        ask_for(&rig, "3Gi").await;
        rig.until(S(60), "3 GiB are asked for", || async {
            status(&rig, "allocatedResources").await == json!({ "storage": "3Gi" })
        })
        .await;
        allow(&rig);
        until_stage(&rig, "NodeResizePending").await;
        assert_eq!(volume_size(&rig).await, "3Gi");
        let text = &rig.messages("VolumeResizeFailed")[0];
        assert!(text.contains("by resizer \"ebs.csi.aws.com\" failed: rpc error: code = Internal desc = "), "{text}");
    });
}

#[test]
fn after_an_uncertain_error_the_size_that_was_begun_is_finished() {
    in_simulation(1, |world| async move {
        let rig = rig(&world).await;
        bound(&rig, asks("1Gi", json!({}))).await;
        refuse(&rig, "ControllerExpandVolume", "UNAVAILABLE", 100);
        ask_for(&rig, "9Gi").await;
        rig.until(S(60), "it failed", || async { !rig.messages("VolumeResizeFailed").is_empty() }).await;
        let conditions = status(&rig, "conditions").await;
        assert_eq!(
            conditions.as_array().map(Vec::len),
            Some(1),
            "an uncertain error is not written down: {conditions:?}"
        );
        ask_for(&rig, "3Gi").await;
        rig.sleep(S(30)).await;
        allow(&rig);
        until_stage(&rig, "NodeResizePending").await;
        assert_eq!(status(&rig, "allocatedResources").await, json!({ "storage": "9Gi" }));
        assert_eq!(volume_size(&rig).await, "9Gi");
    });
}

#[test]
fn a_node_that_could_not_expand_is_asked_again() {
    in_simulation(1, |world| async move {
        let rig = rig(&world).await;
        bound(&rig, asks("1Gi", json!({}))).await;
        ask_for(&rig, "2Gi").await;
        until_stage(&rig, "NodeResizePending").await;
        assert_eq!(rig.messages("Resizing").len(), 1);
        node_says(&rig, |status| {
            let stages = status.allocated_resource_statuses.as_mut().expect("stages");
            stages.insert("storage".to_owned(), "NodeResizeInfeasible".to_owned());
        })
        .await;
        until_stage(&rig, "NodeResizePending").await;
        assert_eq!(rig.messages("Resizing").len(), 2);
        assert_eq!(volume_size(&rig).await, "2Gi");
    });
}

#[test]
fn a_raised_request_waits_until_the_node_has_finished() {
    in_simulation(1, |world| async move {
        let rig = rig(&world).await;
        bound(&rig, asks("1Gi", json!({}))).await;
        ask_for(&rig, "2Gi").await;
        until_stage(&rig, "NodeResizePending").await;
        ask_for(&rig, "3Gi").await;
        rig.sleep(S(120)).await;
        assert_eq!((stage(&rig).await, rig.messages("Resizing").len()), ("NodeResizePending".into(), 1));
        node_says(&rig, |status| {
            status.capacity.as_mut().expect("a capacity").insert("storage".to_owned(), Quantity("2Gi".to_owned()));
            status.allocated_resource_statuses = None;
            status.conditions = None;
        })
        .await;
        rig.until(S(60), "3 GiB are asked for", || async { rig.messages("Resizing").len() >= 2 }).await;
        assert_eq!(status(&rig, "allocatedResources").await, json!({ "storage": "3Gi" }));
        // AnnotateFsResize is off.
        assert_eq!(volume(&rig).await.annotation("volume.alpha.kubernetes.io/pre-resize-capacity"), None);
    });
}

#[test]
fn an_infeasible_size_is_tried_again_after_five_minutes() {
    in_simulation(1, |world| async move {
        let rig = rig(&world).await;
        bound(&rig, asks("1Gi", json!({}))).await;
        refuse(&rig, "ControllerExpandVolume", "OUT_OF_RANGE", 100);
        ask_for(&rig, "9Gi").await;
        until_stage(&rig, "ControllerResizeInfeasible").await;
        rig.sleep(S(10)).await;
        let tries = rig.messages("Resizing").len();
        rig.sleep(S(240)).await;
        assert_eq!(rig.messages("Resizing").len(), tries, "no try within the five minutes");
        ask_for(&rig, "3Gi").await;
        rig.until(S(5), "another size is tried at once", || async { rig.messages("Resizing").len() > tries }).await;
        allow(&rig);
        rig.until(S(400), "it is done", || async { stage(&rig).await == "NodeResizePending" }).await;
        assert_eq!(volume_size(&rig).await, "3Gi");
    });
}

#[test]
fn a_class_whose_modification_failed_for_good_is_not_pinned() {
    in_simulation(1, |world| async move {
        let rig = rig(&world).await;
        bound(&rig, asks("16Gi", json!({}))).await;
        refuse(&rig, "ControllerModifyVolume", "OUT_OF_RANGE", 100);
        name_class(&rig, "gold").await;
        rig.until(S(60), "it failed", || async { !rig.messages("VolumeModifyFailed").is_empty() }).await;
        rig.sleep(S(5)).await;
        let recorded = json!({ "status": "InProgress", "targetVolumeAttributesClassName": "gold" });
        assert_eq!(status(&rig, "modifyVolumeStatus").await, recorded, "only InvalidArgument is infeasible");
        name_class(&rig, "silver").await;
        rig.until(S(60), "the other class is tried", || async {
            status(&rig, "modifyVolumeStatus").await["targetVolumeAttributesClassName"] == "silver"
        })
        .await;
        allow(&rig);
        rig.until(S(120), "it has its class", || async {
            status(&rig, "currentVolumeAttributesClassName").await == "silver"
        })
        .await;
        assert_eq!(status(&rig, "conditions").await, Value::Null);
        let spec = volume(&rig).await.spec.clone().expect("a spec");
        assert_eq!(spec.volume_attributes_class_name.as_deref(), Some("silver"));
    });
}

#[test]
fn a_class_whose_modification_is_uncertain_is_pinned() {
    in_simulation(1, |world| async move {
        let rig = rig(&world).await;
        bound(&rig, asks("16Gi", json!({}))).await;
        refuse(&rig, "ControllerModifyVolume", "ABORTED", 100);
        name_class(&rig, "gold").await;
        rig.until(S(60), "it failed", || async { !rig.messages("VolumeModifyFailed").is_empty() }).await;
        let text = rig.messages("VolumeModifyFailed").remove(0);
        assert!(text.ends_with(". Still modifying to VAC gold"), "{text}");
        name_class(&rig, "silver").await;
        rig.sleep(S(30)).await;
        let recorded = json!({ "status": "InProgress", "targetVolumeAttributesClassName": "gold" });
        assert_eq!(status(&rig, "modifyVolumeStatus").await, recorded);
        allow(&rig);
        rig.until(S(120), "it has the class that was begun", || async {
            status(&rig, "currentVolumeAttributesClassName").await == "gold"
        })
        .await;
    });
}

#[test]
fn a_dead_driver_is_unavailable_to_the_attacher() {
    in_simulation(1, |world| async move {
        let rig = rig(&world).await;
        bound(&rig, asks("1Gi", json!({}))).await;
        rig.crash_server("csi-controller");
        let volume = data(&rig).await.spec.as_ref().and_then(|s| s.volume_name.clone());
        let source = json!({ "persistentVolumeName": volume });
        let spec = json!({ "attacher": DRIVER, "nodeName": "node-a", "source": source });
        create::<VolumeAttachment>(&rig.client, json!({ "metadata": { "name": "csi-1" }, "spec": spec })).await;
        let error = || async {
            let attachment = rig.client.all::<VolumeAttachment>().get("csi-1").await.ok()?;
            attachment.status.as_ref()?.attach_error.clone()
        };
        rig.until(S(10), "the error is reported", || async { error().await.is_some() }).await;
        let error = error().await.expect("an error");
        assert_eq!(error.error_code, Some(14));
        let text = error.message.expect("a text");
        let start = "rpc error: code = Unavailable desc = connection error: desc = \"transport: Error while dialing: ";
        assert!(text.starts_with(start), "{text}");
    });
}

#[test]
fn a_dead_driver_is_unavailable_to_the_resizer() {
    in_simulation(1, |world| async move {
        let rig = rig(&world).await;
        bound(&rig, asks("1Gi", json!({}))).await;
        rig.crash_server("csi-controller");
        ask_for(&rig, "2Gi").await;
        rig.until(S(10), "it failed", || async { !rig.messages("VolumeResizeFailed").is_empty() }).await;
        let text = rig.messages("VolumeResizeFailed").remove(0);
        assert!(text.contains("failed: rpc error: code = Unavailable desc = connection error: "), "{text}");
    });
}

#[test]
fn a_volume_has_its_attributes_class_from_birth() {
    in_simulation(1, |world| async move {
        let rig = rig(&world).await;
        bound(&rig, asks("16Gi", json!({ "volumeAttributesClassName": "gold" }))).await;
        assert_eq!(status(&rig, "currentVolumeAttributesClassName").await, "gold");
        let spec = volume(&rig).await.spec.clone().expect("a spec");
        assert_eq!(spec.volume_attributes_class_name.as_deref(), Some("gold"));
        rig.sleep(S(60)).await;
        assert!(rig.messages("VolumeModify").is_empty(), "there is nothing to modify");
    });
}

#[test]
fn the_parameters_of_an_attributes_class_reach_the_driver_at_birth() {
    in_simulation(1, |world| async move {
        let rig = rig(&world).await;
        let class = json!({ "metadata": { "name": "red" }, "driverName": DRIVER, "parameters": { "colour": "red" } });
        create::<VolumeAttributesClass>(&rig.client, class).await;
        create::<PersistentVolumeClaim>(&rig.client, asks("16Gi", json!({ "volumeAttributesClassName": "red" }))).await;
        rig.until(S(10), "it failed", || async { !rig.messages("ProvisioningFailed").is_empty() }).await;
        let wording = rig.messages("ProvisioningFailed").remove(0);
        assert!(wording.contains("code = InvalidArgument") && wording.contains("colour"), "{wording}");
    });
}

#[test]
fn a_missing_or_foreign_attributes_class_is_reported() {
    in_simulation(1, |world| async move {
        let rig = rig(&world).await;
        create::<PersistentVolumeClaim>(&rig.client, asks("16Gi", json!({ "volumeAttributesClassName": "iron" })))
            .await;
        rig.until(S(10), "it failed", || async { !rig.messages("ProvisioningFailed").is_empty() }).await;
        let wording = rig.messages("ProvisioningFailed").remove(0);
        assert_eq!(wording, "volumeattributesclasses.storage.k8s.io \"iron\" not found");
        let class = json!({ "metadata": { "name": "iron" }, "driverName": "efs", "parameters": { "iops": "1" } });
        create::<VolumeAttributesClass>(&rig.client, class).await;
        let wrong = "VAC iron referenced in PVC is for driver efs which does not match driver name ebs.csi.aws.com";
        rig.until(S(60), "it is reported", || async { rig.messages("ProvisioningFailed").iter().any(|m| m == wrong) })
            .await;
    });
}

#[test]
fn a_claim_is_cloned_and_held_while_it_is() {
    in_simulation(1, |world| async move {
        let rig = rig(&world).await;
        let source = json!({ "dataSource": { "kind": "PersistentVolumeClaim", "name": "data" } });
        let mut clone = asks("2Gi", source);
        clone["metadata"]["name"] = "copy".into();
        create::<PersistentVolumeClaim>(&rig.client, clone).await;
        rig.until(S(10), "it waits", || async { !rig.messages("ProvisioningFailed").is_empty() }).await;
        let wording = rig.messages("ProvisioningFailed").remove(0);
        let expected = "error getting handle for DataSource Type PersistentVolumeClaim by Name data: \
                        error getting PVC data (namespace \"default\") from api server: \
                        persistentvolumeclaim \"data\" not found";
        assert_eq!(wording, expected);
        bound(&rig, asks("1Gi", json!({}))).await;
        let held = "provisioner.storage.kubernetes.io/cloning-protection";
        let claims = rig.client.namespaced::<PersistentVolumeClaim>("default");
        rig.until(S(120), "the copy is bound", || async {
            let copy = claims.get("copy").await.expect("the copy");
            copy.status.as_ref().and_then(|s| s.phase.as_deref()) == Some("Bound")
        })
        .await;
        assert!(data(&rig).await.has_finalizer(held), "it stays until the source is deleted");
        claims.delete("data", &DeleteParams::default()).await.expect("deleted");
        rig.until(S(10), "the source goes", || async { claims.get("data").await.is_err_and(|e| e.is_not_found()) })
            .await;
    });
}

/// Creates the snapshot kinds, without a controller for them.
async fn define_snapshots(client: &Client) {
    for (kind, plural, scope) in [
        ("VolumeSnapshot", "volumesnapshots", "Namespaced"),
        ("VolumeSnapshotContent", "volumesnapshotcontents", "Cluster"),
    ] {
        let anything = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
        let version =
            json!({ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": anything } });
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {
                "name": format!("{plural}.snapshot.storage.k8s.io"),
                "annotations": { "api-approved.kubernetes.io": "https://example.com" },
            },
            "spec": {
                "group": "snapshot.storage.k8s.io",
                "scope": scope,
                "names": { "plural": plural, "kind": kind },
                "versions": [version],
            },
        });
        post(client, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition).await;
    }
}

async fn post(client: &Client, path: &str, object: Value) -> Value {
    let answer = client.post(path, object).await.expect("created");
    serde_json::from_slice(&answer).expect("JSON")
}

const SNAPSHOTS: &str = "/apis/snapshot.storage.k8s.io/v1/namespaces/default/volumesnapshots";
const CONTENTS: &str = "/apis/snapshot.storage.k8s.io/v1/volumesnapshotcontents";

/// Builds a claim with the snapshot `s` as source.
fn from_snapshot(name: &str) -> Value {
    let source =
        json!({ "dataSource": { "apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "s" } });
    let mut claim = asks("2Gi", source);
    claim["metadata"]["name"] = name.into();
    claim
}

/// Takes the snapshot `s` of the claim, like the snapshot controllers; returns its uid and the driver's handle.
async fn take_snapshot(rig: &Rig) -> (String, String) {
    let volume = volume(rig).await.spec.as_ref().and_then(|s| s.csi.clone()).expect("CSI").volume_handle;
    let user = rig.client.ctx().clone();
    let mut driver = ControllerClient::new(Channel(Link::connect(&user, "csi-controller")));
    let request =
        CreateSnapshotRequest { source_volume_id: volume, name: "snapshot-1".to_owned(), ..Default::default() };
    let taken = driver.create_snapshot(request).await.expect("a snapshot").into_inner().snapshot.expect("one");
    let snapshot = json!({
        "apiVersion": "snapshot.storage.k8s.io/v1",
        "kind": "VolumeSnapshot",
        "metadata": { "name": "s" },
        "spec": { "source": { "persistentVolumeClaimName": "data" } },
        "status": { "boundVolumeSnapshotContentName": "content", "readyToUse": true, "restoreSize": "1Gi" },
    });
    let snapshot = post(&rig.client, SNAPSHOTS, snapshot).await;
    (snapshot["metadata"]["uid"].as_str().expect("a uid").to_owned(), taken.snapshot_id)
}

/// Creates the content that the snapshot is bound to.
async fn post_content(rig: &Rig, uid: &str, handle: &str) {
    let reference = json!({ "uid": uid, "namespace": "default", "name": "s" });
    let content = json!({
        "apiVersion": "snapshot.storage.k8s.io/v1",
        "kind": "VolumeSnapshotContent",
        "metadata": { "name": "content" },
        "spec": { "driver": DRIVER, "volumeSnapshotRef": reference, "sourceVolumeMode": "Filesystem" },
        "status": { "snapshotHandle": handle, "readyToUse": true },
    });
    post(&rig.client, CONTENTS, content).await;
}

/// Reads the snapshot `s`.
async fn snapshot(rig: &Rig) -> Value {
    let path = format!("{SNAPSHOTS}/s");
    let answer = rig.client.get(&path).await.expect("the snapshot");
    serde_json::from_slice(&answer).expect("JSON")
}

#[test]
fn a_snapshot_is_restored_when_it_is_there_and_ready() {
    in_simulation(1, |world| async move {
        let rig = rig(&world).await;
        bound(&rig, asks("1Gi", json!({}))).await;
        create::<PersistentVolumeClaim>(&rig.client, from_snapshot("copy")).await;
        rig.until(S(10), "it waits", || async { !rig.messages("ProvisioningFailed").is_empty() }).await;
        let start = "error getting handle for DataSource Type VolumeSnapshot by Name s: error getting snapshot s from \
                     api server: ";
        let missing =
            "the server could not find the requested resource (get volumesnapshots.snapshot.storage.k8s.io s)";
        assert_eq!(rig.messages("ProvisioningFailed")[0], format!("{start}{missing}"));

        define_snapshots(&rig.client).await;
        let (uid, handle) = take_snapshot(&rig).await;
        let end = "error getting snapshotcontent content for snapshot s";
        rig.until(S(60), "there is no content", || async {
            rig.messages("ProvisioningFailed").iter().any(|m| m.ends_with(end))
        })
        .await;
        post_content(&rig, &uid, &handle).await;
        let claims = rig.client.namespaced::<PersistentVolumeClaim>("default");
        rig.until(S(600), "the copy is bound", || async {
            let copy = claims.get("copy").await.expect("the copy");
            copy.status.as_ref().and_then(|s| s.phase.as_deref()) == Some("Bound")
        })
        .await;
        let after = snapshot(&rig).await;
        assert_eq!(after["metadata"]["finalizers"], Value::Null, "it is let go");
        assert_eq!(after["spec"]["source"]["persistentVolumeClaimName"], "data", "and otherwise as it was");
    });
}

#[test]
fn a_snapshot_whose_restoring_came_to_nothing_is_let_go() {
    in_simulation(1, |world| async move {
        let rig = rig(&world).await;
        bound(&rig, asks("1Gi", json!({}))).await;
        define_snapshots(&rig.client).await;
        // The provisioner checks for snapshot kinds only at its start.
        rig.crash_controllers();
        rig.restart_controllers();
        let (uid, handle) = take_snapshot(&rig).await;
        post_content(&rig, &uid, &handle).await;
        refuse(&rig, "CreateVolume", "INTERNAL", 100);
        create::<PersistentVolumeClaim>(&rig.client, from_snapshot("copy")).await;
        rig.until(S(60), "it failed", || async { !rig.messages("ProvisioningFailed").is_empty() }).await;
        let held = json!(["provisioner.storage.kubernetes.io/volumesnapshot-as-source-protection"]);
        rig.sleep(S(400)).await;
        assert_eq!(snapshot(&rig).await["metadata"]["finalizers"], held, "the claim still asks for it");
        let claims = rig.client.namespaced::<PersistentVolumeClaim>("default");
        claims.delete("copy", &DeleteParams::default()).await.expect("deleted");
        rig.until(S(310), "it is let go", || async { snapshot(&rig).await["metadata"]["finalizers"] == Value::Null })
            .await;
    });
}
