//! The Node RPCs.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use csi_proto::csi::node_server::Node;
use csi_proto::csi::node_service_capability::{Rpc, Type, rpc};
use csi_proto::csi::{
    NodeExpandVolumeRequest, NodeExpandVolumeResponse, NodeGetCapabilitiesRequest, NodeGetCapabilitiesResponse,
    NodeGetInfoRequest, NodeGetInfoResponse, NodeGetVolumeStatsRequest, NodeGetVolumeStatsResponse,
    NodePublishVolumeRequest, NodePublishVolumeResponse, NodeServiceCapability, NodeStageVolumeRequest,
    NodeStageVolumeResponse, NodeUnpublishVolumeRequest, NodeUnpublishVolumeResponse, NodeUnstageVolumeRequest,
    NodeUnstageVolumeResponse, Topology, VolumeUsage, volume_usage,
};
use serde_json::json;
use tonic::{Request, Response, Status};

use super::NodeConfig;
use super::table::{PublishArguments, StageArguments, Table, Verdict};
use crate::calls::{About, Call, Calls};
use crate::check;
use crate::disk::{Disk, DiskError, Mount, MountKind, Publish, Stage};
use crate::identity::{WELL_KNOWN_ZONE_KEY, ZONE_KEY};

/// The Node service of one node.
#[derive(Clone, Debug)]
pub struct NodeService {
    calls: Calls,
    config: Arc<NodeConfig>,
    table: Arc<Mutex<Table>>,
}

/// The gRPC status of a disk error (csi-driver.md §1).
fn status(error: &DiskError) -> Status {
    let text = error.to_string();
    match error {
        DiskError::BadPath { .. } | DiskError::Unsupported { .. } => Status::invalid_argument(text),
        DiskError::NotPlugged(_) => Status::not_found(text),
        DiskError::NotStaged { .. }
        | DiskError::Occupied { .. }
        | DiskError::Busy { .. }
        | DiskError::Environment(_) => Status::failed_precondition(text),
        DiskError::Corrupt { .. } | DiskError::NotOurs { .. } | DiskError::Io { .. } => Status::internal(text),
    }
}

impl NodeService {
    pub(crate) fn new(calls: Calls, config: NodeConfig) -> Self {
        Self { calls, config: Arc::new(config), table: Arc::default() }
    }

    fn disk(&self) -> &dyn Disk {
        &*self.config.disk
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn about(&self, rpc: &'static str, volume: &str, target: &str) -> About {
        About { rpc, volume: volume.to_owned(), node: self.config.node_name.clone(), target: target.to_owned() }
    }

    fn emit(&self, kind: &str, volume: &str, more: serde_json::Value) {
        let mut fields = json!({ "volume": volume, "node": self.config.node_name });
        if let (Some(fields), serde_json::Value::Object(more)) = (fields.as_object_mut(), more) {
            fields.extend(more);
        }
        self.calls.ctx().emit(kind, fields);
    }

    async fn mounts(&self, volume: &str) -> Result<Vec<Mount>, Status> {
        let mut mounts = self.disk().mounts().await.map_err(|e| status(&e))?;
        mounts.retain(|m| m.volume == volume);
        Ok(mounts)
    }

    async fn stage(&self, call: &Call, request: NodeStageVolumeRequest) -> Result<NodeStageVolumeResponse, Status> {
        let volume = check::required("volume_id", &request.volume_id)?;
        let path = check::path("staging_target_path", &request.staging_target_path)?;
        let capability = check::capability("volume_capability", request.volume_capability.as_ref())?;
        let _held = self.calls.lock(volume)?;
        let readonly = capability.reader_only() || capability.mount_flags.iter().any(|f| f == "ro");
        let arguments = StageArguments { path: path.to_owned(), capability: capability.clone() };
        let there = self.mounts(volume).await?.into_iter().find(|m| m.path == Path::new(path));
        // A path that is not mounted any more (power loss, an unmount behind our back) binds nobody.
        let incompatible = there
            .as_ref()
            .is_some_and(|m| m.readonly != readonly || self.table().stage(volume, &arguments) == Verdict::Incompatible);
        if incompatible {
            return Err(Status::already_exists(format!(
                "volume `{volume}` is staged at `{path}` with another volume_capability"
            )));
        }
        let stage = Stage {
            volume: volume.to_owned(),
            path: PathBuf::from(path),
            fs_type: capability.fs_type.clone(),
            mount_flags: capability.mount_flags.clone(),
            readonly,
        };
        let staged = self.disk().stage(&stage).await.map_err(|e| status(&e))?;
        if !staged.already {
            let done = json!({ "path": path, "readonly": staged.readonly, "formatted": staged.formatted });
            self.emit("disk.staged", volume, done);
            if !staged.other_writers.is_empty() && !staged.readonly {
                self.emit("disk.double_mount", volume, json!({ "others": staged.other_writers }));
            }
        }
        call.after_effect().await?;
        self.table().staged(volume, arguments);
        Ok(NodeStageVolumeResponse {})
    }

    async fn unstage(
        &self,
        call: &Call,
        request: NodeUnstageVolumeRequest,
    ) -> Result<NodeUnstageVolumeResponse, Status> {
        let volume = check::required("volume_id", &request.volume_id)?;
        let path = check::path("staging_target_path", &request.staging_target_path)?;
        let _held = self.calls.lock(volume)?;
        if self.disk().unstage(volume, Path::new(path)).await.map_err(|e| status(&e))? {
            self.emit("disk.unstaged", volume, json!({ "path": path }));
        }
        call.after_effect().await?;
        self.table().unstaged(volume);
        Ok(NodeUnstageVolumeResponse {})
    }

    async fn publish(
        &self,
        call: &Call,
        request: NodePublishVolumeRequest,
    ) -> Result<NodePublishVolumeResponse, Status> {
        let volume = check::required("volume_id", &request.volume_id)?;
        let target = check::path("target_path", &request.target_path)?;
        let capability = check::capability("volume_capability", request.volume_capability.as_ref())?;
        if request.staging_target_path.is_empty() {
            // CSI: code 9 when the plugin has STAGE_UNSTAGE_VOLUME and the path is missing.
            return Err(Status::failed_precondition("staging_target_path: is required, this driver stages volumes"));
        }
        let staging_path = check::path("staging_target_path", &request.staging_target_path)?;
        let _held = self.calls.lock(volume)?;
        let readonly = request.readonly || capability.reader_only() || capability.mount_flags.iter().any(|f| f == "ro");
        let arguments = PublishArguments { staging_path: staging_path.to_owned(), capability, readonly };
        let mounts = self.mounts(volume).await?;
        let targets: Vec<String> =
            mounts.iter().filter(|m| m.kind == MountKind::Target).map(|m| m.path.display().to_string()).collect();
        match self.table().publish(volume, target, &arguments, &targets) {
            Verdict::Go => {}
            Verdict::Incompatible => {
                return Err(Status::already_exists(format!(
                    "volume `{volume}` is published at `{target}` with other arguments"
                )));
            }
            Verdict::SecondTarget(other) => {
                let mode = arguments.capability.mode.as_str_name();
                return Err(Status::failed_precondition(format!(
                    "volume `{volume}` is published at `{other}`, and {mode} allows one target only"
                )));
            }
        }
        let publish = Publish {
            volume: volume.to_owned(),
            staging_path: PathBuf::from(staging_path),
            path: PathBuf::from(target),
            mount_flags: arguments.capability.mount_flags.clone(),
            readonly,
        };
        let published = self.disk().publish(&publish).await.map_err(|e| status(&e))?;
        if published.already && published.readonly != readonly {
            // Published before a restart of the driver, with the other kind of access.
            return Err(Status::already_exists(format!(
                "volume `{volume}` is published at `{target}` with readonly={}",
                published.readonly
            )));
        }
        if !published.already {
            self.emit("disk.published", volume, json!({ "path": target, "readonly": published.readonly }));
        }
        call.after_effect().await?;
        self.table().published(volume, target, arguments);
        Ok(NodePublishVolumeResponse {})
    }

    async fn unpublish(
        &self,
        call: &Call,
        request: NodeUnpublishVolumeRequest,
    ) -> Result<NodeUnpublishVolumeResponse, Status> {
        let volume = check::required("volume_id", &request.volume_id)?;
        let target = check::path("target_path", &request.target_path)?;
        let _held = self.calls.lock(volume)?;
        if self.disk().unpublish(volume, Path::new(target)).await.map_err(|e| status(&e))? {
            self.emit("disk.unpublished", volume, json!({ "path": target }));
        }
        call.after_effect().await?;
        self.table().unpublished(volume, target);
        Ok(NodeUnpublishVolumeResponse {})
    }

    async fn stats(&self, request: NodeGetVolumeStatsRequest) -> Result<NodeGetVolumeStatsResponse, Status> {
        let volume = check::required("volume_id", &request.volume_id)?;
        let path = check::path("volume_path", &request.volume_path)?;
        if !self.mounts(volume).await?.iter().any(|m| m.path == Path::new(path)) {
            return Err(Status::not_found(format!("volume `{volume}` is not mounted at `{path}`")));
        }
        let usage = self.disk().usage(Path::new(path)).await.map_err(|e| status(&e))?;
        let row = |unit: volume_usage::Unit, total: u64, used: u64, available: u64| VolumeUsage {
            available: available as i64,
            total: total as i64,
            used: used as i64,
            unit: unit.into(),
        };
        let bytes = row(volume_usage::Unit::Bytes, usage.total_bytes, usage.used_bytes, usage.available_bytes);
        let inodes = row(volume_usage::Unit::Inodes, usage.total_inodes, usage.used_inodes, usage.available_inodes);
        Ok(NodeGetVolumeStatsResponse { usage: vec![bytes, inodes], volume_condition: None })
    }
}

#[tonic::async_trait]
impl Node for NodeService {
    async fn node_stage_volume(
        &self,
        request: Request<NodeStageVolumeRequest>,
    ) -> Result<Response<NodeStageVolumeResponse>, Status> {
        let request = request.into_inner();
        let about = self.about("NodeStageVolume", &request.volume_id, &request.staging_target_path);
        self.calls.run(about, async |call| self.stage(call, request).await).await
    }

    async fn node_unstage_volume(
        &self,
        request: Request<NodeUnstageVolumeRequest>,
    ) -> Result<Response<NodeUnstageVolumeResponse>, Status> {
        let request = request.into_inner();
        let about = self.about("NodeUnstageVolume", &request.volume_id, &request.staging_target_path);
        self.calls.run(about, async |call| self.unstage(call, request).await).await
    }

    async fn node_publish_volume(
        &self,
        request: Request<NodePublishVolumeRequest>,
    ) -> Result<Response<NodePublishVolumeResponse>, Status> {
        let request = request.into_inner();
        let about = self.about("NodePublishVolume", &request.volume_id, &request.target_path);
        self.calls.run(about, async |call| self.publish(call, request).await).await
    }

    async fn node_unpublish_volume(
        &self,
        request: Request<NodeUnpublishVolumeRequest>,
    ) -> Result<Response<NodeUnpublishVolumeResponse>, Status> {
        let request = request.into_inner();
        let about = self.about("NodeUnpublishVolume", &request.volume_id, &request.target_path);
        self.calls.run(about, async |call| self.unpublish(call, request).await).await
    }

    async fn node_get_volume_stats(
        &self,
        request: Request<NodeGetVolumeStatsRequest>,
    ) -> Result<Response<NodeGetVolumeStatsResponse>, Status> {
        let request = request.into_inner();
        let about = self.about("NodeGetVolumeStats", &request.volume_id, &request.volume_path);
        self.calls.run(about, async |_| self.stats(request).await).await
    }

    async fn node_expand_volume(
        &self,
        request: Request<NodeExpandVolumeRequest>,
    ) -> Result<Response<NodeExpandVolumeResponse>, Status> {
        let request = request.into_inner();
        let about = self.about("NodeExpandVolume", &request.volume_id, &request.volume_path);
        self.calls.run(about, async |_| Err(Status::unimplemented("this driver has no EXPAND_VOLUME capability"))).await
    }

    async fn node_get_capabilities(
        &self,
        _: Request<NodeGetCapabilitiesRequest>,
    ) -> Result<Response<NodeGetCapabilitiesResponse>, Status> {
        let offered = |kind: rpc::Type| NodeServiceCapability { r#type: Some(Type::Rpc(Rpc { r#type: kind.into() })) };
        let capabilities =
            [rpc::Type::StageUnstageVolume, rpc::Type::GetVolumeStats, rpc::Type::SingleNodeMultiWriter].map(offered);
        let about = self.about("NodeGetCapabilities", "", "");
        self.calls.run(about, async |_| Ok(NodeGetCapabilitiesResponse { capabilities: capabilities.to_vec() })).await
    }

    async fn node_get_info(&self, _: Request<NodeGetInfoRequest>) -> Result<Response<NodeGetInfoResponse>, Status> {
        let about = self.about("NodeGetInfo", "", "");
        let zone = &self.config.zone;
        let segments = [ZONE_KEY, WELL_KNOWN_ZONE_KEY].map(|key| (key.to_owned(), zone.clone())).into();
        self.calls
            .run(about, async |_| {
                Ok(NodeGetInfoResponse {
                    node_id: self.config.node_id.clone(),
                    max_volumes_per_node: self.config.max_volumes,
                    accessible_topology: Some(Topology { segments }),
                })
            })
            .await
    }
}
