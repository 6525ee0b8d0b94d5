//! The Node RPCs.

use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;

use csi_proto::csi::node_server::Node;
use csi_proto::csi::node_service_capability::{Rpc, Type};
use csi_proto::csi::{
    NodeExpandVolumeRequest, NodeExpandVolumeResponse, NodeGetCapabilitiesRequest, NodeGetCapabilitiesResponse,
    NodeGetInfoRequest, NodeGetInfoResponse, NodeGetVolumeStatsRequest, NodeGetVolumeStatsResponse,
    NodePublishVolumeRequest, NodePublishVolumeResponse, NodeServiceCapability, NodeStageVolumeRequest,
    NodeStageVolumeResponse, NodeUnpublishVolumeRequest, NodeUnpublishVolumeResponse, NodeUnstageVolumeRequest,
    NodeUnstageVolumeResponse, Topology, VolumeCapability,
};
use substrate::json::Text;
use tonic::{Request, Response, Status};

use super::NodeConfig;
use super::stage::DEVICE_PATH;
use super::table::Table;
use crate::calls::{About, Calls};
use crate::capabilities::Feature;
use crate::check::{self, Capability};
use crate::identity::{WELL_KNOWN_ZONE_KEY, ZONE_KEY};
use csi_disk::{Device, Disk, DiskError, Mount, MountKind};

/// The Node service of one node.
#[derive(Clone, Debug)]
pub struct NodeService {
    pub(super) calls: Calls,
    pub(super) config: Arc<NodeConfig>,
    table: Arc<Mutex<Table>>,
}

/// Converts a disk error to a gRPC status.
pub(crate) fn status(error: &DiskError) -> Status {
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

    pub(super) fn disk(&self) -> &dyn Disk {
        &*self.config.disk
    }

    pub(super) fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock()
    }

    fn about(&self, rpc: &'static str, volume: &str, target: &str) -> About {
        About {
            rpc,
            volume: volume.to_owned(),
            node: self.config.node_name.clone(),
            target: target.to_owned(),
            device: String::new(),
            needs: None,
            needs_no_attachment: false,
            readonly: false,
        }
    }

    /// Returns the node's name, for the trace.
    pub(super) fn node(&self) -> Text {
        self.config.node_name.as_str().into()
    }

    /// Returns the mounts of a volume that this driver made, without the node agent's second bind of a raw device.
    pub(super) async fn mounts(&self, volume: &str) -> Result<Vec<Mount>, Status> {
        let mut mounts = self.disk().mounts().await.map_err(|e| status(&e))?;
        mounts.retain(|m| m.volume == volume && m.kind != MountKind::Map);
        Ok(mounts)
    }

    /// Returns the device of a volume on this node.
    pub(super) async fn find(&self, volume: &str) -> Result<Option<Device>, Status> {
        self.disk().find(volume).await.map_err(|e| status(&e))
    }

    /// Checks a capability against this node's.
    pub(super) fn capability(&self, value: Option<&VolumeCapability>) -> Result<Capability, Status> {
        let capability = check::capability("volume_capability", value)?;
        let settings = self.calls.settings();
        check::supported("volume_capability", &capability, settings.has(Feature::NodeSingleNodeMultiWriter))?;
        if capability.group.is_some() && !settings.has(Feature::VolumeMountGroup) {
            return Err(check::invalid(
                "volume_capability.mount.volume_mount_group",
                "this driver has no VOLUME_MOUNT_GROUP capability",
            ));
        }
        Ok(capability)
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
        let device = request.publish_context.get(DEVICE_PATH).cloned().unwrap_or_default();
        let about = About { device, needs: Some(Feature::StageUnstageVolume), ..about };
        self.calls.rpc(about, request, async |call, request| self.stage(call, request).await).await
    }

    async fn node_unstage_volume(
        &self,
        request: Request<NodeUnstageVolumeRequest>,
    ) -> Result<Response<NodeUnstageVolumeResponse>, Status> {
        let request = request.into_inner();
        let about = self.about("NodeUnstageVolume", &request.volume_id, &request.staging_target_path);
        let about = About { needs: Some(Feature::StageUnstageVolume), ..about };
        self.calls.rpc(about, request, async |call, request| self.unstage(call, request).await).await
    }

    async fn node_publish_volume(
        &self,
        request: Request<NodePublishVolumeRequest>,
    ) -> Result<Response<NodePublishVolumeResponse>, Status> {
        let request = request.into_inner();
        let device = request.publish_context.get(DEVICE_PATH).cloned().unwrap_or_default();
        let about = self.about("NodePublishVolume", &request.volume_id, &request.target_path);
        let about = About { device, ..about };
        self.calls.rpc(about, request, async |call, request| self.publish(call, request).await).await
    }

    async fn node_unpublish_volume(
        &self,
        request: Request<NodeUnpublishVolumeRequest>,
    ) -> Result<Response<NodeUnpublishVolumeResponse>, Status> {
        let request = request.into_inner();
        let about = self.about("NodeUnpublishVolume", &request.volume_id, &request.target_path);
        self.calls.rpc(about, request, async |call, request| self.unpublish(call, request).await).await
    }

    async fn node_get_volume_stats(
        &self,
        request: Request<NodeGetVolumeStatsRequest>,
    ) -> Result<Response<NodeGetVolumeStatsResponse>, Status> {
        let request = request.into_inner();
        let about = self.about("NodeGetVolumeStats", &request.volume_id, &request.volume_path);
        let about = About { needs: Some(Feature::GetVolumeStats), ..about };
        self.calls.rpc(about, request, async |_, request| self.stats(request).await).await
    }

    async fn node_expand_volume(
        &self,
        request: Request<NodeExpandVolumeRequest>,
    ) -> Result<Response<NodeExpandVolumeResponse>, Status> {
        let request = request.into_inner();
        let about = self.about("NodeExpandVolume", &request.volume_id, &request.volume_path);
        let about = About { needs: Some(Feature::NodeExpandVolume), ..about };
        self.calls.rpc(about, request, async |call, request| self.expand(call, request).await).await
    }

    async fn node_get_capabilities(
        &self,
        request: Request<NodeGetCapabilitiesRequest>,
    ) -> Result<Response<NodeGetCapabilitiesResponse>, Status> {
        let offered = |kind: i32| NodeServiceCapability { r#type: Some(Type::Rpc(Rpc { r#type: kind })) };
        let capabilities: Vec<_> = self.calls.settings().capabilities().node().map(offered).collect();
        let about = self.about("NodeGetCapabilities", "", "");
        let reply = NodeGetCapabilitiesResponse { capabilities };
        self.calls.rpc(about, request.into_inner(), async |_, _| Ok(reply)).await
    }

    async fn node_get_info(
        &self,
        request: Request<NodeGetInfoRequest>,
    ) -> Result<Response<NodeGetInfoResponse>, Status> {
        let about = self.about("NodeGetInfo", "", "");
        let (zone, settings) = (&self.config.zone, self.calls.settings());
        self.calls
            .rpc(about, request.into_inner(), async |call, _| {
                let zone = call.falsify_zone(zone);
                let mut limit = settings.attach_limit().unwrap_or(self.config.max_volumes);
                if limit != 0 && substrate::mutant!(self.calls.ctx(), "limit-told-too-high") {
                    limit += 1;
                }
                let segments = [ZONE_KEY, WELL_KNOWN_ZONE_KEY].map(|key| (key.to_owned(), zone.clone())).into();
                Ok(NodeGetInfoResponse {
                    node_id: call.falsify_node(&self.config.node_id),
                    max_volumes_per_node: match substrate::mutant!(self.calls.ctx(), "limit-not-told") {
                        true => 0,
                        false => limit,
                    },
                    accessible_topology: settings
                        .has(Feature::VolumeAccessibilityConstraints)
                        .then_some(Topology { segments }),
                })
            })
            .await
    }
}
