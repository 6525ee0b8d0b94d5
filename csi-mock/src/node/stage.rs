//! NodeStageVolume and NodeUnstageVolume.

use std::path::{Path, PathBuf};
use std::time::Duration;

use csi_proto::csi::{
    NodeStageVolumeRequest, NodeStageVolumeResponse, NodeUnstageVolumeRequest, NodeUnstageVolumeResponse,
};
use substrate::json::json;
use tonic::Status;

use super::service::{NodeService, status};
use super::table::{StageArguments, Verdict};
use crate::calls::Call;
use crate::check::{self, Capability};
use crate::disk::{DiskError, MountKind, Stage};

/// The key of the publish context under which the device name travels from the controller (EBS driver).
const DEVICE_PATH: &str = "devicePath";
/// The key of the publish context that says that the volume was published read-only.
const READONLY: &str = "readonly";

/// How often NodeStageVolume looks for a device that has not appeared, and how long it waits between two looks.
const LOOKS: usize = 20;
const LOOK: Duration = Duration::from_millis(50);

/// Whether the controller published the volume read-only.
pub(super) fn published_readonly(context: &std::collections::BTreeMap<String, String>) -> bool {
    context.get(READONLY).is_some_and(|v| v == "true")
}

impl NodeService {
    pub(super) async fn stage(
        &self,
        call: &Call,
        request: NodeStageVolumeRequest,
    ) -> Result<NodeStageVolumeResponse, Status> {
        let volume = check::required("volume_id", &request.volume_id)?;
        let path = check::path("staging_target_path", &request.staging_target_path)?;
        check::map("publish_context", &request.publish_context)?;
        check::map("volume_context", &request.volume_context)?;
        let capability = self.capability(request.volume_capability.as_ref())?;
        let _held = self.calls.lock(volume)?;
        let readonly = capability.reader_only() || published_readonly(&request.publish_context);
        let arguments = StageArguments { path: path.to_owned(), capability: capability.clone() };
        let mounts = self.mounts(volume).await?;
        let there = mounts.iter().find(|m| m.path == Path::new(path));
        // A path that is not mounted any more (power loss, an unmount behind our back) binds nobody; a raw device is
        // staged as long as it is plugged, and mounted nowhere.
        let known = there.is_some() || (capability.block && self.find(volume).await?.is_some());
        let incompatible = there.is_some_and(|m| capability.block || m.readonly != readonly)
            || (known && self.table().stage(volume, &arguments) == Verdict::Incompatible);
        if incompatible {
            return Err(Status::already_exists(format!(
                "volume `{volume}` is staged at `{path}` with another volume_capability"
            )));
        }
        // What this process has staged itself is staged whole; before its time a stage may have been cut off.
        let done = there.is_some_and(|m| m.kind == MountKind::Staging) && self.table().is_staged(volume);
        if !done {
            self.await_device(volume).await?;
            self.compare_device(volume, request.publish_context.get(DEVICE_PATH)).await?;
            if capability.block {
                self.stage_block(call, volume, path, readonly).await?;
            } else {
                self.stage_filesystem(call, volume, path, &capability, readonly).await?;
            }
        }
        call.after_effect().await?;
        self.table().staged(volume, arguments);
        self.calls.note_staged(volume, &self.config.node_id, true);
        Ok(NodeStageVolumeResponse {})
    }

    /// Gives the device time to appear: the cloud says `attached` when the machine begins to see it.
    async fn await_device(&self, volume: &str) -> Result<(), Status> {
        let ctx = self.calls.ctx();
        for _ in 0..LOOKS {
            if self.find(volume).await?.is_some() {
                break;
            }
            ctx.sleep(LOOK).await;
        }
        Ok(())
    }

    /// The device is found by the volume alone; that the controller named another one is put on record.
    async fn compare_device(&self, volume: &str, told: Option<&String>) -> Result<(), Status> {
        let Some(told) = told else { return Ok(()) };
        if let Some(found) = self.find(volume).await?.filter(|d| d.name != *told) {
            self.emit("csi.wrong_device", volume, json!({ "told": told, "found": found.name }));
        }
        Ok(())
    }

    async fn stage_block(&self, call: &Call, volume: &str, path: &str, readonly: bool) -> Result<(), Status> {
        if self.find(volume).await?.is_none() {
            return Err(self.refused(call, &DiskError::NotPlugged(volume.to_owned())));
        }
        if !self.table().is_staged(volume) {
            let done = json!({ "path": path, "readonly": readonly, "formatted": false, "raw": true });
            self.emit("disk.staged", volume, done);
        }
        Ok(())
    }

    pub(super) async fn stage_filesystem(
        &self,
        call: &Call,
        volume: &str,
        path: &str,
        capability: &Capability,
        readonly: bool,
    ) -> Result<(), Status> {
        let stage = Stage {
            volume: volume.to_owned(),
            path: PathBuf::from(path),
            fs_type: capability.fs_type.clone(),
            mount_flags: capability.mount_flags.clone(),
            readonly,
            group: capability.group,
        };
        let staged = self.disk().stage(&stage).await.map_err(|e| self.refused(call, &e))?;
        if !staged.already {
            let done = json!({ "path": path, "readonly": staged.readonly, "formatted": staged.formatted });
            self.emit("disk.staged", volume, done);
            if !staged.other_writers.is_empty() && !staged.readonly {
                self.emit("disk.double_mount", volume, json!({ "others": staged.other_writers }));
            }
        }
        Ok(())
    }

    pub(super) async fn unstage(
        &self,
        call: &Call,
        request: NodeUnstageVolumeRequest,
    ) -> Result<NodeUnstageVolumeResponse, Status> {
        let volume = check::required("volume_id", &request.volume_id)?;
        let path = check::path("staging_target_path", &request.staging_target_path)?;
        let _held = self.calls.lock(volume)?;
        if let Some(mount) = self.mounts(volume).await?.into_iter().find(|m| m.kind == MountKind::Block) {
            let by = format!("its device is published at {}", mount.path.display());
            return Err(self.refused(call, &DiskError::Busy { volume: volume.to_owned(), by }));
        }
        let unmounted = self.disk().unstage(volume, Path::new(path)).await;
        if unmounted.map_err(|e| self.refused(call, &e))? || self.table().has_block(volume) {
            self.emit("disk.unstaged", volume, json!({ "path": path }));
        }
        call.after_effect().await?;
        self.table().unstaged(volume);
        self.calls.note_staged(volume, &self.config.node_id, false);
        Ok(NodeUnstageVolumeResponse {})
    }

    /// The status of a disk error, and what it says about the caller on record.
    pub(super) fn refused(&self, call: &Call, error: &DiskError) -> Status {
        match error {
            DiskError::NotPlugged(_) => call.violates("stage-without-attach"),
            DiskError::NotStaged { .. } => call.violates("publish-before-stage"),
            DiskError::Busy { .. } => call.violates("unstage-while-published"),
            _ => {}
        }
        status(error)
    }
}
