//! NodeGetVolumeStats and NodeExpandVolume.

use std::path::Path;

use csi_proto::csi::{
    NodeExpandVolumeRequest, NodeExpandVolumeResponse, NodeGetVolumeStatsRequest, NodeGetVolumeStatsResponse,
    VolumeCondition, VolumeUsage, volume_usage,
};
use substrate::mutant;
use tonic::Status;

use super::service::{NodeService, status};
use crate::calls::Call;
use crate::capabilities::Feature;
use crate::check::{self, invalid};
use crate::events::DiskExpanded;
use csi_disk::{DiskError, Mount};

fn not_mounted(volume: &str, path: &str) -> Status {
    Status::not_found(format!("volume `{volume}` is not mounted at `{path}`"))
}

impl NodeService {
    /// Returns the mount of `volume` at `path`.
    async fn mounted(&self, volume: &str, path: &str) -> Result<Mount, Status> {
        let found = self.mounts(volume).await?.into_iter().find(|m| m.path == Path::new(path));
        found.ok_or_else(|| not_mounted(volume, path))
    }

    /// Returns the mount of `volume` at `path`. For a raw device, kubelet names a bind of its own.
    async fn measurable(&self, volume: &str, path: &str) -> Result<Mount, Status> {
        let mounts = self.disk().mounts().await.map_err(|error| status(&error))?;
        let found = mounts.into_iter().find(|m| m.volume == volume && m.path == Path::new(path));
        found.ok_or_else(|| not_mounted(volume, path))
    }

    pub(super) async fn stats(&self, request: NodeGetVolumeStatsRequest) -> Result<NodeGetVolumeStatsResponse, Status> {
        let volume = check::required("volume_id", &request.volume_id)?;
        let path = check::path_of_volume("volume_path", &request.volume_path)?;
        if !request.staging_target_path.is_empty() {
            check::path("staging_target_path", &request.staging_target_path)?;
        }
        let mount = self.measurable(volume, path).await?;
        let has_condition = self.calls.settings().has(Feature::NodeVolumeCondition);
        let condition = |message: Option<String>| {
            has_condition.then(|| VolumeCondition {
                abnormal: message.is_some(),
                message: message.unwrap_or_else(|| "the volume is mounted and answers".to_owned()),
            })
        };
        let usage = self.disk().usage(Path::new(path)).await;
        // Statistics take no lock. After a concurrent unpublish they would be those of the directory below the mount,
        // so check again.
        self.measurable(volume, path).await?;
        let usage = match usage {
            Ok(usage) => usage,
            Err(error) if has_condition && error.is_eio() => {
                let message = format!("the device is gone from under the mount: {error}");
                return Ok(NodeGetVolumeStatsResponse {
                    usage: Vec::new(),
                    volume_condition: condition(Some(message)),
                });
            }
            // It was unpublished during the call, and published again since.
            Err(error) if error.is_not_found() => return Err(not_mounted(volume, path)),
            Err(error) => return Err(status(&error)),
        };
        let row = |unit: volume_usage::Unit, total: u64, used: u64, available: u64| {
            let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
            VolumeUsage { available: number(available), total: number(total), used: number(used), unit: unit.into() }
        };
        let bytes = row(volume_usage::Unit::Bytes, usage.total_bytes, usage.used_bytes, usage.available_bytes);
        let inodes = row(volume_usage::Unit::Inodes, usage.total_inodes, usage.used_inodes, usage.available_inodes);
        // A raw device has only a size.
        let usage = if mount.kind.is_raw() { vec![bytes] } else { vec![bytes, inodes] };
        Ok(NodeGetVolumeStatsResponse { usage, volume_condition: condition(None) })
    }

    pub(super) async fn expand(
        &self,
        call: &Call,
        request: NodeExpandVolumeRequest,
    ) -> Result<NodeExpandVolumeResponse, Status> {
        let volume = check::required("volume_id", &request.volume_id)?;
        let path = check::path_of_volume("volume_path", &request.volume_path)?;
        let (required, limit) = match &request.capacity_range {
            None => (0, 0),
            Some(range) if range.required_bytes < 0 || range.limit_bytes < 0 => {
                return Err(invalid("capacity_range", "must not be negative"));
            }
            Some(range) => (range.required_bytes.unsigned_abs(), range.limit_bytes.unsigned_abs()),
        };
        if limit != 0 && required > limit {
            return Err(invalid("capacity_range", "required_bytes is above limit_bytes"));
        }
        if request.volume_capability.is_some() {
            self.capability(request.volume_capability.as_ref())?;
        }
        let _held = self.calls.lock(volume)?;
        self.mounted(volume, path).await?;
        if mutant!(self.calls.ctx(), "expand-answers-early") {
            return Ok(NodeExpandVolumeResponse { capacity_bytes: i64::try_from(required).unwrap_or(i64::MAX) });
        }
        let size = self.disk().expand(volume, Path::new(path)).await.map_err(|error| match &error {
            // CSI: code 9 if the filesystem cannot be expanded while staged like this.
            DiskError::Io { op: "resize", source, .. }
                if source.raw_os_error() == Some(rustix::io::Errno::ROFS.raw_os_error()) =>
            {
                Status::failed_precondition(format!("volume `{volume}` is staged read-only and cannot grow: {error}"))
            }
            error => status(error),
        })?;
        if size < required || (limit != 0 && size > limit) {
            return Err(Status::out_of_range(format!(
                "capacity_range: the device of volume `{volume}` has {size} bytes, asked for are {required} to {limit}"
            )));
        }
        let done = DiskExpanded { volume: volume.into(), node: self.node(), path: path.into(), size_bytes: size };
        self.calls.ctx().emit(done);
        self.done(call, "expand", volume, path).await?;
        call.after_effect().await?;
        Ok(NodeExpandVolumeResponse { capacity_bytes: i64::try_from(size).unwrap_or(i64::MAX) })
    }
}
