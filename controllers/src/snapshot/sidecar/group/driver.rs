//! Calls of the driver's group controller (`pkg/group_snapshotter`, `csi_handler.go`).

use std::collections::BTreeMap;

use csi_proto::csi::group_controller_service_capability::{Type, rpc::Type as Rpc};
use csi_proto::csi::{
    CreateVolumeGroupSnapshotRequest, DeleteVolumeGroupSnapshotRequest, GetPluginInfoRequest,
    GetVolumeGroupSnapshotRequest, GroupControllerGetCapabilitiesRequest, Snapshot, VolumeGroupSnapshot,
};
use jiff::Timestamp;

use super::super::super::group::objects::{GroupHandles, VolumeGroupSnapshotContent, VolumeSnapshotInfo};
use super::super::driver::nanos;
use super::decide::snapshot_ids;
use super::status::TakenGroup;
use crate::csi::{Connection, RpcError};
use crate::kube::Kind;

/// Prefix of names of groups (`--groupsnapshot-name-prefix`).
const PREFIX: &str = "groupsnapshot";

type Secrets = BTreeMap<String, String>;

/// Returns true if the driver takes snapshots of groups, by its own answer
/// (`supportsGroupControllerCreateVolumeGroupSnapshot`).
pub(in super::super) async fn takes_groups(connection: &Connection) -> bool {
    let request = GroupControllerGetCapabilitiesRequest {};
    let Ok(answer) = connection.call(connection.group().group_controller_get_capabilities(request)).await else {
        return false;
    };
    answer.capabilities.iter().any(|one| match &one.r#type {
        Some(Type::Rpc(offered)) => offered.r#type == i32::from(Rpc::CreateDeleteGetVolumeGroupSnapshot),
        None => false,
    })
}

/// Converts a snapshot of the driver. A size of 0 is unknown.
fn info(snapshot: Snapshot) -> VolumeSnapshotInfo {
    let created = snapshot.creation_time.and_then(|at| Timestamp::new(at.seconds, at.nanos).ok());
    VolumeSnapshotInfo {
        volume_handle: snapshot.source_volume_id,
        snapshot_handle: snapshot.snapshot_id,
        creation_time: created.map(nanos),
        ready_to_use: Some(snapshot.ready_to_use),
        restore_size: Some(snapshot.size_bytes).filter(|size| *size != 0),
    }
}

/// Converts a group of the driver. A group without a time gets that of 1970 (`AsTime`).
fn taken(group: VolumeGroupSnapshot) -> TakenGroup {
    let created = group.creation_time.and_then(|at| Timestamp::new(at.seconds, at.nanos).ok());
    TakenGroup {
        handle: group.group_snapshot_id,
        ready: group.ready_to_use,
        created: created.unwrap_or(Timestamp::UNIX_EPOCH),
        snapshots: group.snapshots.into_iter().map(info).collect(),
    }
}

/// Calls CreateVolumeGroupSnapshot, which also describes an existing group of the name.
pub(super) async fn create_group(
    driver: &Connection,
    content: &VolumeGroupSnapshotContent,
    parameters: BTreeMap<String, String>,
    secrets: Secrets,
) -> Result<TakenGroup, RpcError> {
    let (name, uid) = (content.name(), content.group_uid());
    if uid.is_empty() {
        let why = format!("cannot create group snapshot. Group snapshot content {name} not bound to a group snapshot");
        return Err(RpcError::Other(why));
    }
    // Upstream requests the driver's name each time.
    let info = driver.call(driver.identity().get_plugin_info(GetPluginInfoRequest {})).await?;
    if info.name.is_empty() {
        return Err(RpcError::Other("driver name is empty".to_owned()));
    }
    let request = CreateVolumeGroupSnapshotRequest {
        name: format!("{PREFIX}-{uid}"),
        source_volume_ids: content.spec.source.volume_handles.clone(),
        secrets,
        parameters,
    };
    let answer = driver.call(driver.group().create_volume_group_snapshot(request)).await?;
    answer.group_snapshot.map(taken).ok_or_else(|| RpcError::Other("the driver's answer has no group".to_owned()))
}

/// Returns the driver's id of a group: that of the status, or that of a pre-provisioned content.
fn handle(content: &VolumeGroupSnapshotContent) -> Option<&str> {
    let existing = content.spec.source.group_snapshot_handles.as_ref();
    content.handle().or_else(|| existing.map(|group| group.volume_group_snapshot_handle.as_str()))
}

/// Calls GetVolumeGroupSnapshot for a pre-provisioned group. Upstream does not read the snapshots of the answer.
pub(super) async fn get_group(
    driver: &Connection,
    content: &VolumeGroupSnapshotContent,
    existing: &GroupHandles,
    secrets: Secrets,
) -> Result<TakenGroup, String> {
    let name = content.name();
    if existing.volume_snapshot_handles.is_empty() {
        return Err(format!("cannot list group snapshot {name}. No snapshots found in the group snapshot content"));
    }
    let fail = |why: &str| format!("failed to list group snapshot for group snapshot content {name}: {why:?}");
    let id = content.handle().unwrap_or(&existing.volume_group_snapshot_handle);
    let snapshot_ids = existing.volume_snapshot_handles.clone();
    let request = GetVolumeGroupSnapshotRequest { group_snapshot_id: id.to_owned(), snapshot_ids, secrets };
    let answer = driver.call(driver.group().get_volume_group_snapshot(request)).await;
    let answer = answer.map_err(|e| fail(&e.to_string()))?;
    let found = answer.group_snapshot.ok_or_else(|| fail("the driver's answer has no group"))?;
    let found = taken(found);
    Ok(TakenGroup { handle: existing.volume_group_snapshot_handle.clone(), snapshots: Vec::new(), ..found })
}

/// Calls DeleteVolumeGroupSnapshot.
pub(super) async fn delete_group(
    driver: &Connection,
    content: &VolumeGroupSnapshotContent,
    secrets: Secrets,
) -> Result<(), String> {
    let (name, snapshot_ids) = (content.name(), snapshot_ids(content));
    if snapshot_ids.is_empty() {
        return Err(format!("cannot delete group snapshot content {name}. No snapshots found in the group snapshot"));
    }
    let Some(handle) = handle(content) else {
        return Err(format!("failed to delete group snapshot content {name}: groupsnapshotHandle is missing"));
    };
    let request = DeleteVolumeGroupSnapshotRequest { group_snapshot_id: handle.to_owned(), snapshot_ids, secrets };
    driver.call(driver.group().delete_volume_group_snapshot(request)).await.map(drop).map_err(|e| e.to_string())
}
