//! NodeStageVolume and NodeUnstageVolume.

use std::path::{Path, PathBuf};
use std::time::Duration;

use csi_proto::csi::{
    NodeStageVolumeRequest, NodeStageVolumeResponse, NodeUnstageVolumeRequest, NodeUnstageVolumeResponse,
};
use substrate::json::Text;
use substrate::mutant;
use tonic::Status;

use super::service::{NodeService, status};
use super::table::{StageArguments, Verdict};
use crate::calls::Call;
use crate::check::{self, Capability};
use crate::events::{CsiWrongDevice, DiskDoubleMount, DiskStaged, DiskUnstaged, Rule};
use crate::format;
use csi_disk::{DiskError, MountKind, Stage, Staged};

/// Key of the device name in the publish context from the controller (EBS driver).
pub(super) const DEVICE_PATH: &str = "devicePath";
/// Key in the publish context of a read-only publish.
const READONLY: &str = "readonly";

/// File that a seeded bug leaves behind.
const LEFT: &str = ".csi-mock";

/// Number of times that NodeStageVolume looks for a missing device, and the wait between them.
const LOOKS: usize = 20;
const LOOK: Duration = Duration::from_millis(50);

/// Returns true if the controller published the volume read-only.
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
        let format = match capability.block {
            true => Vec::new(),
            false => format::options(&request.volume_context, &capability.fs_type)?,
        };
        let _held = self.calls.lock(volume)?;
        let readonly = capability.reader_only() || published_readonly(&request.publish_context);
        let arguments = StageArguments { path: path.to_owned(), capability: capability.clone() };
        let mounts = self.mounts(volume).await?;
        let there = mounts.iter().find(|m| m.path == Path::new(path));
        // A path without a mount (after a power loss or a foreign unmount) counts as not staged. A raw device has no
        // mount; it is staged while it is plugged.
        let known = there.is_some() || (capability.block && self.find(volume).await?.is_some());
        let incompatible = there.is_some_and(|m| capability.block || m.readonly != readonly)
            || (known && self.table().stage(volume, &arguments) == Verdict::Incompatible)
            || (there.is_some() && mutant!(self.calls.ctx(), "restaged-volume-refused"));
        if incompatible {
            return Err(Status::already_exists(format!(
                "volume `{volume}` is staged at `{path}` with another volume_capability"
            )));
        }
        // A stage by this process is complete; an earlier process's may have been interrupted.
        let done = there.is_some_and(|m| m.kind == MountKind::Staging) && self.table().is_staged(volume);
        if !done {
            self.await_device(volume).await?;
            self.compare_device(volume, request.publish_context.get(DEVICE_PATH)).await?;
            if capability.block {
                self.stage_block(call, volume, path, readonly).await?;
            } else {
                self.stage_filesystem(call, volume, path, &capability, (readonly, format)).await?;
                if let Err(failed) = self.done(call, "stage", volume, path).await {
                    if !mutant!(self.calls.ctx(), "failed-stage-stays-mounted") {
                        self.take_down(volume, path).await;
                    }
                    return Err(failed);
                }
            }
        }
        call.after_effect().await?;
        self.table().staged(volume, arguments);
        self.calls.note_staged(volume, &self.config.node_id, true);
        Ok(NodeStageVolumeResponse {})
    }

    /// Waits for the device to appear: the cloud reports `attached` when the machine starts to see it.
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

    /// Finds the device by the volume alone; emits an event if the controller named another one.
    async fn compare_device(&self, volume: &str, named: Option<&String>) -> Result<(), Status> {
        let Some(named) = named else { return Ok(()) };
        if let Some(found) = self.find(volume).await?.filter(|d| d.name != *named) {
            let (volume, named, found) = (volume.into(), named.into(), found.name.into());
            self.calls.ctx().emit(CsiWrongDevice { volume, node: self.node(), told: named, found });
        }
        Ok(())
    }

    async fn stage_block(&self, call: &Call, volume: &str, path: &str, readonly: bool) -> Result<(), Status> {
        if self.find(volume).await?.is_none() {
            return Err(self.refused(call, &DiskError::NotPlugged(volume.to_owned())));
        }
        if !self.table().is_staged(volume) {
            let staged = DiskStaged { readonly, raw: true, ..DiskStaged::new(volume, self.node(), path) };
            self.calls.ctx().emit(staged);
        }
        Ok(())
    }

    pub(super) async fn stage_filesystem(
        &self,
        call: &Call,
        volume: &str,
        path: &str,
        capability: &Capability,
        (readonly, format): (bool, Vec<String>),
    ) -> Result<(), Status> {
        let mut device =
            if mutant!(self.calls.ctx(), "device-by-name") { self.named_as_before(volume).await? } else { None };
        if mutant!(self.calls.ctx(), "first-device-taken") {
            let devices = self.disk().devices().await.map_err(|e| status(&e))?;
            device = devices.into_iter().next().map(|device| device.volume);
        }
        let stage = Stage {
            volume: device.unwrap_or_else(|| volume.to_owned()),
            path: PathBuf::from(path),
            fs_type: capability.fs_type.clone(),
            mount_flags: capability.mount_flags.clone(),
            readonly,
            group: capability.group,
            format,
        };
        let stage = self.spoiled(stage);
        let mut staged = self.disk().stage(&stage).await;
        let formats = mutant!(self.calls.ctx(), "formats-each-time") && staged.as_ref().is_ok_and(|s| !s.already)
            || mutant!(self.calls.ctx(), "formats-after-error") && matches!(staged, Err(DiskError::Io { .. }));
        if formats {
            staged = self.reformat(&stage).await;
        }
        let staged = staged.map_err(|e| self.refused(call, &e))?;
        if !staged.already {
            let (ctx, volume, readonly) = (self.calls.ctx(), Text::from(volume), staged.readonly);
            ctx.emit(DiskStaged {
                readonly,
                formatted: staged.formatted,
                fs_type: staged.fs_type.into(),
                format: if staged.formatted { stage.format.iter().map(Into::into).collect() } else { Vec::new() },
                options: staged.options.iter().filter(|option| *option != "ro").map(Into::into).collect(),
                size_bytes: staged.fs_bytes,
                ..DiskStaged::new(volume.clone(), self.node(), path)
            });
            if !staged.other_writers.is_empty() && !readonly {
                ctx.emit(DiskDoubleMount { volume, node: self.node(), others: staged.other_writers });
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
        let unmounted = if mutant!(self.calls.ctx(), "unstage-forgets-unmount") {
            Ok(false)
        } else {
            self.disk().unstage(volume, Path::new(path)).await
        };
        if unmounted.map_err(|e| self.refused(call, &e))? || self.table().has_block(volume) {
            let (volume, path) = (volume.into(), path.into());
            self.calls.ctx().emit(DiskUnstaged { volume, node: self.node(), path });
        }
        self.done(call, "unstage", volume, path).await?;
        if mutant!(self.calls.ctx(), "unstage-leaves-directory") {
            self.leave_behind(path).await?;
        }
        call.after_effect().await?;
        self.table().unstaged(volume);
        self.calls.note_staged(volume, &self.config.node_id, false);
        Ok(NodeUnstageVolumeResponse {})
    }

    /// Unmounts a volume that was staged despite an error: the caller treats it as not staged, and will not unstage it.
    async fn take_down(&self, volume: &str, path: &str) {
        // If that fails, too, the next attempt finds the mount. There is no answer, so no fault applies after it.
        if let Ok(true) = self.disk().unstage(volume, Path::new(path)).await {
            let (volume, path) = (volume.into(), path.into());
            self.calls.ctx().emit(DiskUnstaged { volume, node: self.node(), path });
        }
    }

    /// Seeded bug: returns the volume whose device now has the name that this volume's device had before.
    async fn named_as_before(&self, volume: &str) -> Result<Option<String>, Status> {
        let Some(found) = self.find(volume).await? else { return Ok(None) };
        let name = self.table().first_name(volume, &found.name);
        let devices = self.disk().devices().await.map_err(|e| status(&e))?;
        let there = devices.into_iter().find(|device| device.name == name);
        there.map(|device| Some(device.volume)).ok_or_else(|| status(&DiskError::NotPlugged(volume.to_owned())))
    }

    /// Drops parts of a request, as seeded bugs do.
    fn spoiled(&self, mut stage: Stage) -> Stage {
        if mutant!(self.calls.ctx(), "mount-flags-ignored") {
            stage.mount_flags.clear();
        }
        if mutant!(self.calls.ctx(), "fs-type-ignored") {
            "ext4".clone_into(&mut stage.fs_type);
        }
        if mutant!(self.calls.ctx(), "format-options-dropped") {
            stage.format.clear();
        }
        if mutant!(self.calls.ctx(), "inode-size-given-as-ratio") {
            stage.format.iter_mut().filter(|option| *option == "-I").for_each(|option| "-i".clone_into(option));
        }
        stage
    }

    /// Seeded bug: treats a device that could not be read as empty.
    async fn reformat(&self, stage: &Stage) -> Result<Staged, DiskError> {
        let disk = self.disk();
        let staged = disk.stage(stage).await?;
        for name in disk.list_dir(&stage.path).await?.unwrap_or_default() {
            disk.remove_file(&stage.path.join(name)).await?;
        }
        Ok(Staged { formatted: true, ..staged })
    }

    /// Seeded bug: leaves a file in a path that should go.
    pub(super) async fn leave_behind(&self, path: &str) -> Result<(), Status> {
        let path = Path::new(path);
        self.disk().make_dir(path).await.map_err(|e| status(&e))?;
        self.disk().append(&path.join(LEFT), b"").await.map_err(|e| status(&e))
    }

    /// Marks a disk operation as recorded.
    pub(super) async fn done(&self, call: &Call, op: &'static str, volume: &str, path: &str) -> Result<(), Status> {
        self.disk().done(op, volume, Path::new(path)).await.map_err(|e| self.refused(call, &e))
    }

    /// Converts a disk error to a status, and records a violation by the caller.
    pub(super) fn refused(&self, call: &Call, error: &DiskError) -> Status {
        match error {
            DiskError::NotPlugged(_) => call.violates(Rule::StageWithoutAttach),
            DiskError::NotStaged { .. } => call.violates(Rule::PublishBeforeStage),
            DiskError::Busy { .. } => call.violates(Rule::UnstageWhilePublished),
            _ => {}
        }
        status(error)
    }
}
