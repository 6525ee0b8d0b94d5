//! Members of a group that was taken: a VolumeSnapshot and a VolumeSnapshotContent of each of its volumes
//! (`createSnapshotsForGroupSnapshotContent`).
//!
//! Each sync of a group that is not ready repeats all steps, as upstream, and so sets the members' status back to the
//! driver's first description.

use k8s_openapi::api::core::v1::SecretReference;
use substrate::json::{Value, json};

use super::super::super::group::class_missing;
use super::super::super::group::objects::{VolumeGroupSnapshot, VolumeGroupSnapshotContent, VolumeSnapshotInfo};
use super::super::super::objects::{VolumeSnapshot, VolumeSnapshotContent};
use super::super::super::secret::{self, Purpose};
use super::super::async_loop::Controller;
use super::Groups;
use super::binding::{member_content, member_snapshot};
use super::decide::volume_by_handle;
use crate::kube::{Kind, Operation, Patch};

fn replace(path: &str, value: Value) -> Operation {
    Operation::Replace { path: path.to_owned(), value }
}

/// Returns the patch of the status of a member's content (`updateVolumeSnapshotContentStatus`). Unknown values are null.
fn content_status(info: &VolumeSnapshotInfo, group_handle: &str) -> Vec<Operation> {
    vec![
        replace("/status", json!({})),
        replace("/status/snapshotHandle", info.snapshot_handle.as_str().into()),
        replace("/status/volumeGroupSnapshotHandle", group_handle.into()),
        replace("/status/creationTime", json!(info.creation_time)),
        replace("/status/restoreSize", json!(info.restore_size)),
        replace("/status/readyToUse", json!(info.ready_to_use)),
    ]
}

impl Controller {
    /// Creates the members, if the driver has taken the group.
    pub(super) async fn create_members(
        &self,
        groups: &Groups,
        group: &VolumeGroupSnapshot,
        content: &VolumeGroupSnapshotContent,
    ) -> Result<(), String> {
        let taken = content.status.as_ref().filter(|status| !status.volume_snapshot_info_list.is_empty());
        let (Some(status), Some(handle)) = (taken, content.handle()) else { return Ok(()) };
        let secret = member_secret(groups, group, content)?;
        for info in &status.volume_snapshot_info_list {
            self.create_member(groups, group, content, info, secret.as_ref(), handle).await?;
        }
        Ok(())
    }

    /// Creates the objects of a member and binds them (`createIndividualSnapshotForGroupSnapshot`).
    async fn create_member(
        &self,
        groups: &Groups,
        group: &VolumeGroupSnapshot,
        content: &VolumeGroupSnapshotContent,
        info: &VolumeSnapshotInfo,
        secret: Option<&SecretReference>,
        group_handle: &str,
    ) -> Result<(), String> {
        let volume = volume_by_handle(groups.volumes.list(), &content.spec.driver, &info.volume_handle);
        let new_content = member_content(group, content, info, volume.as_deref(), secret);
        let new_snapshot = member_snapshot(group, content, info, volume.as_deref());
        let contents = self.client.all::<VolumeSnapshotContent>();
        let made = match contents.create(&new_content).await {
            Err(e) if e.is_already_exists() => contents.get(new_content.name()).await,
            result => result,
        };
        let made = made.map_err(|e| format!("cannot create the content of a member: {e}"))?;
        let snapshots = self.client.namespaced::<VolumeSnapshot>(new_snapshot.namespace());
        let snapshot = match snapshots.create(&new_snapshot).await {
            Err(e) if e.is_already_exists() => snapshots.get(new_snapshot.name()).await,
            result => result,
        };
        let snapshot = snapshot.map_err(|e| format!("cannot create the snapshot of a member: {e}"))?;
        let bind = replace("/spec/volumeSnapshotRef/uid", snapshot.uid().into());
        let bound = self.patch_content(&made, &[bind]).await;
        bound.map_err(|e| format!("cannot bind the content of a member: {e}"))?;
        let name = replace("/status/boundVolumeSnapshotContentName", made.name().into());
        let status = Patch::json(&[replace("/status", json!({})), name]);
        let bound = snapshots.patch_status(snapshot.name(), &status).await;
        bound.map_err(|e| format!("cannot bind the snapshot of a member: {e}"))?;
        let status = Patch::json(&content_status(info, group_handle));
        let written = contents.patch_status(made.name(), &status).await;
        written.map(drop).map_err(|e| format!("cannot write the status of the content of a member: {e}"))
    }
}

/// Returns the secret of the members' contents (`getGroupSnapshotSecret`).
fn member_secret(
    groups: &Groups,
    group: &VolumeGroupSnapshot,
    content: &VolumeGroupSnapshotContent,
) -> Result<Option<SecretReference>, String> {
    let Some(name) = &group.spec.volume_group_snapshot_class_name else {
        return Err("the group has no class".to_owned());
    };
    let class = groups.classes.get("", name).ok_or_else(|| class_missing(name))?;
    secret::group_reference(Purpose::GroupSnapshotter, &class.parameters, content.name(), None).map_err(|e| {
        let name = content.name();
        format!("failed to get secret reference for group snapshot content {name}: {e}")
    })
}
