//! Calls of the driver (`pkg/snapshotter`, `csi_handler.go`).

use std::collections::BTreeMap;

use csi_proto::csi::controller_service_capability::{Type, rpc::Type as Rpc};
use csi_proto::csi::{
    ControllerGetCapabilitiesRequest, CreateSnapshotRequest, DeleteSnapshotRequest, GetPluginInfoRequest,
    ListSnapshotsRequest, Snapshot,
};
use jiff::Timestamp;

use super::super::objects::VolumeSnapshotContent;
use super::status::Taken;
use crate::csi::{Connection, RpcError};
use crate::kube::Kind;

/// Prefix of names of snapshots (`--snapshot-name-prefix`).
const PREFIX: &str = "snapshot";

type Secrets = BTreeMap<String, String>;

/// Converts a snapshot of the driver. A snapshot without a time gets that of 1970 (`AsTime`).
fn taken(snapshot: Snapshot) -> Taken {
    let created = snapshot.creation_time.and_then(|at| Timestamp::new(at.seconds, at.nanos).ok());
    Taken {
        handle: snapshot.snapshot_id,
        ready: snapshot.ready_to_use,
        created: created.map_or(0, nanos),
        size: snapshot.size_bytes,
        group: snapshot.group_snapshot_id,
    }
}

/// Returns nanoseconds since 1970; times that do not fit are those of 1970.
pub(super) fn nanos(at: Timestamp) -> i64 {
    i64::try_from(at.as_nanosecond()).unwrap_or_default()
}

/// Calls CreateSnapshot, which also describes an existing snapshot of the name.
pub(super) async fn create_snapshot(
    driver: &Connection,
    content: &VolumeSnapshotContent,
    parameters: BTreeMap<String, String>,
    secrets: Secrets,
) -> Result<Taken, RpcError> {
    let (name, uid) = (content.name(), content.snapshot_uid());
    if uid.is_empty() {
        let why = format!("cannot create snapshot. Snapshot content {name} not bound to a snapshot");
        return Err(RpcError::Other(why));
    }
    let Some(volume) = &content.spec.source.volume_handle else {
        let why = format!("cannot create snapshot. Volume handle not found in snapshot content {name}");
        return Err(RpcError::Other(why));
    };
    // Upstream requests the driver's name each time.
    let info = driver.call(driver.identity().get_plugin_info(GetPluginInfoRequest {})).await?;
    if info.name.is_empty() {
        return Err(RpcError::Other("driver name is empty".to_owned()));
    }
    let request = CreateSnapshotRequest {
        source_volume_id: volume.clone(),
        name: format!("{PREFIX}-{uid}"),
        secrets,
        parameters,
    };
    let answer = driver.call(driver.controller().create_snapshot(request)).await?;
    answer.snapshot.map(taken).ok_or_else(|| RpcError::Other("the driver's answer has no snapshot".to_owned()))
}

/// Returns the handle of a content's snapshot, for a deletion or a check.
fn handle(content: &VolumeSnapshotContent) -> Option<&str> {
    content.handle().or(content.spec.source.snapshot_handle.as_deref())
}

/// Calls DeleteSnapshot.
pub(super) async fn delete_snapshot(
    driver: &Connection,
    content: &VolumeSnapshotContent,
    secrets: Secrets,
) -> Result<(), String> {
    let name = content.name();
    let Some(handle) = handle(content) else {
        return Err(format!("failed to delete snapshot content {name}: snapshotHandle is missing"));
    };
    let request = DeleteSnapshotRequest { snapshot_id: handle.to_owned(), secrets };
    let deleted = driver.call(driver.controller().delete_snapshot(request)).await;
    deleted.map(drop).map_err(|e| format!("failed to delete snapshot content {name}: {:?}", e.to_string()))
}

/// Returns the state of an existing snapshot; if the driver lacks LIST_SNAPSHOTS, the snapshot counts as ready, created
/// at `now`.
pub(super) async fn snapshot_status(
    driver: &Connection,
    content: &VolumeSnapshotContent,
    secrets: Secrets,
    now: Timestamp,
) -> Result<Taken, String> {
    let name = content.name();
    let Some(handle) = handle(content) else {
        return Err(format!("failed to list snapshot for content {name}: snapshotHandle is missing"));
    };
    let found = list(driver, handle, secrets).await;
    let found = found.map_err(|e| format!("failed to list snapshot for content {name}: {:?}", e.to_string()))?;
    let assumed = Taken { handle: String::new(), ready: true, created: nanos(now), size: 0, group: String::new() };
    let found = found.map_or(assumed, taken);
    Ok(Taken { handle: content.spec.source.snapshot_handle.clone().unwrap_or_else(|| handle.to_owned()), ..found })
}

/// Looks for a snapshot; None if the driver cannot list.
async fn list(driver: &Connection, handle: &str, secrets: Secrets) -> Result<Option<Snapshot>, RpcError> {
    let request = ControllerGetCapabilitiesRequest {};
    let answer = driver.call(driver.controller().controller_get_capabilities(request)).await;
    let answer = answer.map_err(|e| format!("failed to check if ListSnapshots is supported: {e}"))?;
    let can = |wanted: Rpc| {
        answer.capabilities.iter().any(|one| match &one.r#type {
            Some(Type::Rpc(offered)) => offered.r#type == i32::from(wanted),
            None => false,
        })
    };
    if !can(Rpc::ListSnapshots) {
        return Ok(None);
    }
    let request = ListSnapshotsRequest { snapshot_id: handle.to_owned(), secrets, ..ListSnapshotsRequest::default() };
    let answer = driver.call(driver.controller().list_snapshots(request)).await?;
    let found = answer.entries.into_iter().next().and_then(|entry| entry.snapshot);
    found.map(Some).ok_or_else(|| RpcError::Other(format!("can not find snapshot for snapshotID {handle}")))
}
