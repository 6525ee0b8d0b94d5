//! NodePublishVolume and NodeUnpublishVolume.

use std::path::{Path, PathBuf};

use csi_proto::csi::{
    NodePublishVolumeRequest, NodePublishVolumeResponse, NodeUnpublishVolumeRequest, NodeUnpublishVolumeResponse,
};
use substrate::mutant;
use tonic::Status;

use super::service::{NodeService, status};
use super::stage::published_readonly;
use super::table::{PublishArguments, Verdict};
use crate::calls::Call;
use crate::capabilities::Feature;
use crate::check;
use crate::events::{DiskPublished, DiskUnpublished, DiskUnstaged};
use crate::format;
use csi_disk::{DiskError, MountKind, Publish};

impl NodeService {
    pub(super) async fn publish(
        &self,
        call: &Call,
        request: NodePublishVolumeRequest,
    ) -> Result<NodePublishVolumeResponse, Status> {
        let volume = check::required("volume_id", &request.volume_id)?;
        let target = check::path("target_path", &request.target_path)?;
        check::map("publish_context", &request.publish_context)?;
        check::map("volume_context", &request.volume_context)?;
        let capability = self.capability(request.volume_capability.as_ref())?;
        let stages = self.calls.settings().has(Feature::StageUnstageVolume);
        if stages && request.staging_target_path.is_empty() {
            // CSI: code 9 if the plugin has STAGE_UNSTAGE_VOLUME and the path is missing.
            return Err(Status::failed_precondition("staging_target_path: is required, this driver stages volumes"));
        }
        if !request.staging_target_path.is_empty() {
            check::path("staging_target_path", &request.staging_target_path)?;
        }
        let _held = self.calls.lock(volume)?;
        let asked = request.readonly && !mutant!(self.calls.ctx(), "read-only-ignored");
        let readonly = asked || capability.reader_only() || published_readonly(&request.publish_context);
        let arguments = PublishArguments { staging_path: request.staging_target_path.clone(), capability, readonly };
        self.check_publish(volume, target, &arguments, stages).await?;
        let binds = stages || arguments.capability.block;
        let (already, made_readonly) = if binds {
            self.bind(call, volume, target, &arguments).await?
        } else {
            // Without a staging step the filesystem is mounted at the target itself.
            let there = self.mounts(volume).await?.into_iter().find(|m| m.path == Path::new(target));
            if there.is_none() {
                let format = format::options(&request.volume_context, &arguments.capability.fs_type)?;
                self.stage_filesystem(call, volume, target, &arguments.capability, (readonly, format)).await?;
            }
            (there.is_some(), there.map_or(readonly, |m| m.readonly))
        };
        if already && made_readonly != readonly {
            // Published before a restart of the driver, with the other access.
            return Err(Status::already_exists(format!(
                "volume `{volume}` is published at `{target}` with readonly={made_readonly}"
            )));
        }
        if !already {
            let (volume, path) = (volume.into(), target.into());
            let done = DiskPublished { volume, node: self.node(), path, readonly: made_readonly, options: None };
            self.calls.ctx().emit(done);
        }
        self.done(call, if binds { "publish" } else { "stage" }, volume, target).await?;
        call.after_effect().await?;
        self.table().published(volume, target, arguments);
        Ok(NodePublishVolumeResponse {})
    }

    /// Checks the T/P table of NodePublishVolume against the disk's state.
    async fn check_publish(
        &self,
        volume: &str,
        target: &str,
        arguments: &PublishArguments,
        stages: bool,
    ) -> Result<(), Status> {
        let mounts = self.mounts(volume).await?;
        let published = |kind: MountKind| kind != MountKind::Staging || !stages;
        let targets: Vec<String> =
            mounts.iter().filter(|m| published(m.kind)).map(|m| m.path.display().to_string()).collect();
        if let Some(other) = targets.iter().find(|other| **other != target)
            && !arguments.capability.many_nodes()
            && mutant!(self.calls.ctx(), "second-target-refused")
        {
            return Err(Status::failed_precondition(format!("volume `{volume}` is published at `{other}`")));
        }
        match self.table().publish(volume, target, arguments, &targets) {
            Verdict::Go => Ok(()),
            Verdict::Incompatible => Err(Status::already_exists(format!(
                "volume `{volume}` is published at `{target}` with other arguments"
            ))),
            Verdict::SecondTarget(other) => {
                let mode = arguments.capability.mode.as_str_name();
                Err(Status::failed_precondition(format!(
                    "volume `{volume}` is published at `{other}`, and {mode} allows one target only"
                )))
            }
        }
    }

    /// Publishes the staged filesystem or the raw device at the target. Returns true if it was published already, and
    /// true if it is read-only.
    async fn bind(
        &self,
        call: &Call,
        volume: &str,
        target: &str,
        arguments: &PublishArguments,
    ) -> Result<(bool, bool), Status> {
        let publish = Publish {
            volume: volume.to_owned(),
            staging_path: PathBuf::from(&arguments.staging_path),
            path: PathBuf::from(target),
            block: arguments.capability.block,
            group: arguments.capability.group,
            mount_flags: arguments.capability.mount_flags.clone(),
            readonly: arguments.readonly,
        };
        if mutant!(self.calls.ctx(), "publish-trusts-directory")
            && let Ok(Some(_)) = self.disk().list_dir(&publish.path).await
        {
            return Ok((true, publish.readonly));
        }
        let published = self.disk().publish(&publish).await.map_err(|e| match e {
            DiskError::Busy { .. } => status(&e),
            e => self.refused(call, &e),
        })?;
        Ok((published.already, published.readonly))
    }

    pub(super) async fn unpublish(
        &self,
        call: &Call,
        request: NodeUnpublishVolumeRequest,
    ) -> Result<NodeUnpublishVolumeResponse, Status> {
        let volume = check::required("volume_id", &request.volume_id)?;
        let target = check::path("target_path", &request.target_path)?;
        let _held = self.calls.lock(volume)?;
        let path = Path::new(target);
        let stages = self.calls.settings().has(Feature::StageUnstageVolume);
        let mut unmounted = false;
        if !stages {
            let mounts = self.mounts(volume).await?;
            if mounts.iter().any(|m| m.path == path && m.kind == MountKind::Staging) {
                unmounted = self.disk().unstage(volume, path).await.map_err(|e| status(&e))?;
                if unmounted {
                    // One unmount ended both, and the disk may fail before the second call.
                    let (node, path) = (self.node(), target);
                    self.calls.ctx().emit(DiskUnstaged { volume: volume.into(), node, path: path.into() });
                    let node = self.node();
                    self.calls.ctx().emit(DiskUnpublished { volume: volume.into(), node, path: path.into() });
                }
            }
        }
        if mutant!(self.calls.ctx(), "unpublish-forgets-unmount") {
            return Ok(NodeUnpublishVolumeResponse {});
        }
        let unpublished = self.disk().unpublish(volume, path).await.map_err(|e| status(&e))?;
        if !unpublished && !unmounted && mutant!(self.calls.ctx(), "repeated-unpublish-refused") {
            return Err(Status::not_found(format!("volume `{volume}` is not mounted at `{target}`")));
        }
        if unpublished && !unmounted {
            let (volume, path) = (volume.into(), target.into());
            self.calls.ctx().emit(DiskUnpublished { volume, node: self.node(), path });
        }
        if mutant!(self.calls.ctx(), "unpublish-takes-every-target") {
            self.unpublish_all(volume).await?;
        }
        if unmounted {
            self.done(call, "unstage", volume, target).await?;
        }
        self.done(call, "unpublish", volume, target).await?;
        if mutant!(self.calls.ctx(), "unpublish-leaves-directory") {
            self.leave_behind(target).await?;
        }
        call.after_effect().await?;
        self.table().unpublished(volume, target);
        Ok(NodeUnpublishVolumeResponse {})
    }

    /// Seeded bug: unmounts a volume at all targets.
    async fn unpublish_all(&self, volume: &str) -> Result<(), Status> {
        for mount in self.mounts(volume).await?.into_iter().filter(|m| m.kind == MountKind::Target) {
            if self.disk().unpublish(volume, &mount.path).await.map_err(|e| status(&e))? {
                let path = mount.path.display().to_string().as_str().into();
                self.calls.ctx().emit(DiskUnpublished { volume: volume.into(), node: self.node(), path });
            }
        }
        Ok(())
    }
}
