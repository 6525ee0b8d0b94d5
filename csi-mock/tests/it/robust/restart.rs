//! The driver crashes at each fault point of each call and restarts, and the caller repeats the call: the state equals
//! that of a run without the crash.

use std::time::Duration;

use csi_mock::capabilities::Capabilities;
use csi_proto::csi::volume_content_source::{Type as SourceType, VolumeSource};
use csi_proto::csi::*;
use serde_json::Value;
use substrate::fault::{Effect, Fault, Lease, Match, Moment, Plane, When};
use tonic::Status;

use crate::bench::*;

/// Calls of a volume's life, in order, by the name of their RPC. Results are kept for later calls.
pub const STEPS: [&str; 19] = [
    "CreateVolume",
    "ControllerPublishVolume",
    "NodeStageVolume",
    "NodePublishVolume",
    "NodeGetVolumeStats",
    "ControllerExpandVolume",
    "NodeExpandVolume",
    "ControllerModifyVolume",
    "CreateSnapshot",
    "CreateVolumeGroupSnapshot",
    "CloneVolume",
    "DeleteVolumeGroupSnapshot",
    "DeleteSnapshot",
    "NodeUnpublishVolume",
    "NodeUnstageVolume",
    "ControllerUnpublishVolume",
    "ListVolumes",
    "DeleteVolume",
    "DeleteClone",
];

/// Returns the RPC of a step.
pub fn rpc(step: &str) -> &str {
    match step {
        "CloneVolume" => "CreateVolume",
        "DeleteClone" => "DeleteVolume",
        step => step,
    }
}

#[derive(Clone, Debug, Default)]
pub struct Made {
    pub volume: String,
    pub clone: String,
    pub snapshot: String,
    pub group: String,
}

/// Makes the call of one step.
pub async fn step(b: &Bench, name: &str, made: &mut Made) -> Result<(), Status> {
    let volume = made.volume.clone();
    let range = Some(CapacityRange { required_bytes: 2 * GIB, limit_bytes: 0 });
    match name {
        "CreateVolume" => {
            let answer = b.controller().create_volume(b.create("v", 1)).await?.into_inner();
            made.volume = answer.volume.unwrap().volume_id;
        }
        "CloneVolume" => {
            let source = SourceType::Volume(VolumeSource { volume_id: volume });
            let volume_content_source = Some(VolumeContentSource { r#type: Some(source) });
            let request = CreateVolumeRequest { volume_content_source, ..b.create("clone", 2) };
            made.clone = b.controller().create_volume(request).await?.into_inner().volume.unwrap().volume_id;
        }
        "ControllerPublishVolume" => drop(b.controller().controller_publish_volume(b.publish_request(&volume)).await?),
        "NodeStageVolume" => drop(b.node().node_stage_volume(b.stage_request(&volume)).await?),
        "NodePublishVolume" => drop(b.node().node_publish_volume(b.target_request(&volume, TARGET)).await?),
        "NodeGetVolumeStats" => {
            let request =
                NodeGetVolumeStatsRequest { volume_id: volume, volume_path: TARGET.into(), ..Default::default() };
            b.node().node_get_volume_stats(request).await?;
        }
        "ControllerExpandVolume" => {
            let request =
                ControllerExpandVolumeRequest { volume_id: volume, capacity_range: range, ..Default::default() };
            b.controller().controller_expand_volume(request).await?;
        }
        "NodeExpandVolume" => {
            let (volume_path, capacity_range) = (TARGET.into(), range);
            let request =
                NodeExpandVolumeRequest { volume_id: volume, volume_path, capacity_range, ..Default::default() };
            b.node().node_expand_volume(request).await?;
        }
        "ControllerModifyVolume" => {
            // The previous modification is still under way: call again later, as callers do.
            b.ctx.sleep(Duration::from_secs(3600)).await;
            let mutable_parameters =
                [("throughput".to_owned(), "250".to_owned()), ("tagSpecification_1".to_owned(), "a=b".to_owned())];
            let mutable_parameters = mutable_parameters.into();
            let request = ControllerModifyVolumeRequest { volume_id: volume, mutable_parameters, ..Default::default() };
            b.controller().controller_modify_volume(request).await?;
        }
        "CreateSnapshot" => {
            let answer = b.controller().create_snapshot(snapshot_request("s", &volume)).await?.into_inner();
            made.snapshot = answer.snapshot.unwrap().snapshot_id;
            // The cloud allows one snapshot of a volume in fifteen seconds.
            b.ctx.sleep(Duration::from_secs(20)).await;
        }
        "CreateVolumeGroupSnapshot" => {
            let request = CreateVolumeGroupSnapshotRequest {
                name: "g".into(),
                source_volume_ids: vec![volume],
                ..Default::default()
            };
            let answer = b.group().create_volume_group_snapshot(request).await?.into_inner();
            made.group = answer.group_snapshot.unwrap().group_snapshot_id;
        }
        "DeleteVolumeGroupSnapshot" => {
            let group_snapshot_id = made.group.clone();
            let request = DeleteVolumeGroupSnapshotRequest { group_snapshot_id, ..Default::default() };
            b.group().delete_volume_group_snapshot(request).await?;
        }
        "DeleteSnapshot" => {
            let request = DeleteSnapshotRequest { snapshot_id: made.snapshot.clone(), ..Default::default() };
            b.controller().delete_snapshot(request).await?;
        }
        "NodeUnpublishVolume" => {
            let request = NodeUnpublishVolumeRequest { volume_id: volume, target_path: TARGET.into() };
            b.node().node_unpublish_volume(request).await?;
        }
        "NodeUnstageVolume" => {
            let request = NodeUnstageVolumeRequest { volume_id: volume, staging_target_path: STAGING.into() };
            b.node().node_unstage_volume(request).await?;
        }
        "ControllerUnpublishVolume" => {
            let request =
                ControllerUnpublishVolumeRequest { volume_id: volume, node_id: b.node_id(), ..Default::default() };
            b.controller().controller_unpublish_volume(request).await?;
        }
        "ListVolumes" => drop(b.controller().list_volumes(ListVolumesRequest::default()).await?),
        "DeleteVolume" | "DeleteClone" => {
            let volume_id = if name == "DeleteVolume" { volume } else { made.clone.clone() };
            b.controller().delete_volume(DeleteVolumeRequest { volume_id, ..Default::default() }).await?;
        }
        other => panic!("{other} is not a step"),
    }
    Ok(())
}

/// Returns the state, without names that the cloud chose.
pub async fn state(b: &Bench) -> Value {
    // The plug follows the cloud.
    b.ctx.sleep(Duration::from_secs(60)).await;
    let dump = b.ec2.dump();
    let list = |key: &str| dump[key].as_array().cloned().unwrap_or_default();
    let tagged = |v: &Value, tag: &str| v["tags"].get(tag).is_some();
    let volumes: Vec<Value> = list("volumes")
        .iter()
        .filter(|v| tagged(v, "CSIVolumeName"))
        .map(|v| {
            let attachments = v["attachments"].as_object().map_or(0, serde_json::Map::len);
            let shape = [&v["sizeGib"], &v["state"], &v["throughput"], &v["tags"]];
            serde_json::json!([shape, attachments])
        })
        .collect();
    let snapshots: Vec<Value> =
        list("snapshots").iter().map(|s| serde_json::json!([s["sizeGib"], s["state"], s["tags"]])).collect();
    let mounts: Vec<Value> =
        b.disk.mounts().await.unwrap().iter().map(|m| serde_json::json!([m.path, m.kind])).collect();
    let devices: Vec<u64> = b.disk.devices().await.unwrap().iter().map(|d| d.size_bytes).collect();
    serde_json::json!({ "volumes": volumes, "snapshots": snapshots, "mounts": mounts, "devices": devices })
}

fn crash(op: &str, at: Moment) -> Fault {
    Fault {
        name: format!("crash-{op}"),
        matches: Match { plane: Plane::Csi, op: Some(op.into()), attributes: Default::default() },
        when: When { first: Some(1), ..When::default() },
        effect: Effect::Crash("self".into()),
        at,
        lease: Lease::default(),
    }
}

/// Runs the steps up to and including `last`, with a crash of that step at `moment`.
fn run(block: bool, last: usize, moment: Option<Moment>) -> Value {
    let reported = std::cell::RefCell::new(Value::Null);
    once(block, Capabilities::all(), async |mut b| {
        let mut made = Made::default();
        for name in &STEPS[..last] {
            step(&b, name, &mut made).await.unwrap();
        }
        if let Some(moment) = moment {
            b.world.faults().add(b.world.clock().mono(), crash(rpc(STEPS[last]), moment)).unwrap();
            let mut lost = made.clone();
            // The supervisor sees the fault and removes it; the caller's connection breaks.
            let limit = Duration::from_secs(2 * 3600);
            let call = tokio::time::timeout(limit, step(&b, STEPS[last], &mut lost)).await;
            assert!(call.is_err(), "{} at {moment:?}: the fault fired", STEPS[last]);
            b.restart();
        }
        step(&b, STEPS[last], &mut made).await.unwrap();
        *reported.borrow_mut() = state(&b).await;
        if moment.is_none() {
            return;
        }
        // The remaining steps continue from there.
        for name in &STEPS[last + 1..] {
            step(&b, name, &mut made).await.unwrap_or_else(|e| panic!("{name} after {}: {e}", STEPS[last]));
        }
        b.clean().await;
    });
    reported.into_inner()
}

#[test]
fn a_crash_at_each_point_of_each_call_and_a_repeat_give_the_same_state() {
    for block in [false, true] {
        for (last, name) in STEPS.into_iter().enumerate() {
            let without = run(block, last, None);
            let mut moments = vec![Moment::Before, Moment::BeforeReply];
            // Calls that only read have no effect to crash after.
            if !matches!(name, "NodeGetVolumeStats" | "ListVolumes") {
                moments.push(Moment::AfterEffect);
            }
            for moment in moments {
                assert_eq!(run(block, last, Some(moment)), without, "{name} crashed at {moment:?}, block: {block}");
            }
        }
    }
}
