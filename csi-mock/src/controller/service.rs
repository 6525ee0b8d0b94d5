//! The Controller RPCs: their subjects, required capabilities, and implementations.

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::sync::Arc;

use csi_proto::csi::controller_server::Controller;
use csi_proto::csi::controller_service_capability::{Rpc, Type};
use csi_proto::csi::*;
use tonic::{Request, Response, Status};

use super::ControllerConfig;
use super::create::{GIB, Source};
use super::devices::Names;
use super::ec2::{Client, Ec2Error};
use crate::calls::{About, Calls};
use crate::capabilities::Feature;
use crate::check::Capability;

/// The Controller service.
#[derive(Clone, Debug)]
pub struct ControllerService {
    pub(super) calls: Calls,
    pub(super) ec2: Client,
    pub(super) config: Arc<ControllerConfig>,
    memory: Arc<Mutex<Memory>>,
    /// Held from the look at the free capacity of a zone until the new volume counts.
    pub(super) capacity_turn: Arc<tokio::sync::Mutex<()>>,
}

/// Memory between calls; not needed after a restart.
#[derive(Clone, Debug, Default)]
pub(super) struct Memory {
    pub names: Names,
    /// By volume name: number of the next ClientToken, after an earlier one was burnt.
    pub generations: BTreeMap<String, u32>,
    /// By volume name: its source. The cloud has separate tokens for copies.
    pub sources: BTreeMap<String, Source>,
    /// By volume and node: capability of the current publish, and true if read-only.
    pub published: BTreeMap<(String, String), (Capability, bool)>,
}

pub(super) fn internal(what: &str, error: &Ec2Error) -> Status {
    match error {
        Ec2Error::Unreachable { .. } => Status::unavailable(format!("{what}: {error}")),
        _ => Status::internal(format!("{what}: {error}")),
    }
}

/// Returns true if `id` is `prefix-` and 8 or 17 lower-case hex digits, as in EC2. Other ids cannot exist there.
pub(super) fn is_id(id: &str, prefix: &str) -> bool {
    let digits = id.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('-')).unwrap_or_default();
    matches!(digits.len(), 8 | 17) && digits.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

pub(super) fn no_volume(volume: &str) -> Status {
    Status::not_found(format!("volume `{volume}` does not exist"))
}

pub(super) fn no_node(node: &str) -> Status {
    Status::not_found(format!("node `{node}` does not exist: there is no such instance"))
}

/// Converts GiB to bytes.
pub(super) fn gib(size: u64) -> i64 {
    i64::try_from(size).unwrap_or(i64::MAX).saturating_mul(GIB)
}

impl ControllerService {
    pub(crate) fn new(calls: Calls, config: ControllerConfig) -> Self {
        let ctx = calls.ctx();
        let ec2 = Client::new(ctx, config.ec2.clone(), &config.ec2_host, &config.region, &config.credentials);
        let ec2 = ec2.batching(config.batching);
        Self { calls, ec2, config: Arc::new(config), memory: Arc::default(), capacity_turn: Arc::default() }
    }

    pub(super) fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock()
    }
}

/// Describes a call of `rpc` with its required capability.
fn about(rpc: &'static str, volume: &str, needs: Feature) -> About {
    About { rpc, volume: volume.to_owned(), needs: Some(needs), ..About::default() }
}

#[tonic::async_trait]
impl Controller for ControllerService {
    async fn create_volume(&self, r: Request<CreateVolumeRequest>) -> Result<Response<CreateVolumeResponse>, Status> {
        let r = r.into_inner();
        let about = About { target: r.name.clone(), ..about("CreateVolume", "", Feature::CreateDeleteVolume) };
        self.calls.rpc(about, r, async |call, r| self.create(call, r).await).await
    }

    async fn delete_volume(&self, r: Request<DeleteVolumeRequest>) -> Result<Response<DeleteVolumeResponse>, Status> {
        let r = r.into_inner();
        let about = about("DeleteVolume", &r.volume_id, Feature::CreateDeleteVolume);
        self.calls.rpc(about, r, async |call, r| self.delete(call, r).await).await
    }

    async fn controller_publish_volume(
        &self,
        r: Request<ControllerPublishVolumeRequest>,
    ) -> Result<Response<ControllerPublishVolumeResponse>, Status> {
        let r = r.into_inner();
        let about = {
            let about = about("ControllerPublishVolume", &r.volume_id, Feature::PublishUnpublishVolume);
            About { node: r.node_id.clone(), readonly: r.readonly, ..about }
        };
        self.calls.rpc(about, r, async |call, r| self.publish(call, r).await).await
    }

    async fn controller_unpublish_volume(
        &self,
        r: Request<ControllerUnpublishVolumeRequest>,
    ) -> Result<Response<ControllerUnpublishVolumeResponse>, Status> {
        let r = r.into_inner();
        let about = {
            let about = about("ControllerUnpublishVolume", &r.volume_id, Feature::PublishUnpublishVolume);
            About { node: r.node_id.clone(), ..about }
        };
        self.calls.rpc(about, r, async |call, r| self.unpublish(call, r).await).await
    }

    async fn validate_volume_capabilities(
        &self,
        r: Request<ValidateVolumeCapabilitiesRequest>,
    ) -> Result<Response<ValidateVolumeCapabilitiesResponse>, Status> {
        let r = r.into_inner();
        let about = about("ValidateVolumeCapabilities", &r.volume_id, Feature::ControllerService);
        self.calls.rpc(about, r, async |_, r| self.validate(r).await).await
    }

    async fn list_volumes(&self, r: Request<ListVolumesRequest>) -> Result<Response<ListVolumesResponse>, Status> {
        let r = r.into_inner();
        let about = about("ListVolumes", "", Feature::ListVolumes);
        self.calls.rpc(about, r, async |call, r| self.list(call, r).await).await
    }

    async fn get_capacity(&self, r: Request<GetCapacityRequest>) -> Result<Response<GetCapacityResponse>, Status> {
        let r = r.into_inner();
        let about = about("GetCapacity", "", Feature::GetCapacity);
        self.calls.rpc(about, r, async |_, r| self.capacity(r).await).await
    }

    async fn create_snapshot(
        &self,
        r: Request<CreateSnapshotRequest>,
    ) -> Result<Response<CreateSnapshotResponse>, Status> {
        let r = r.into_inner();
        let about = {
            let about = about("CreateSnapshot", &r.source_volume_id, Feature::CreateDeleteSnapshot);
            About { target: r.name.clone(), ..about }
        };
        self.calls.rpc(about, r, async |call, r| self.create_snapshot(call, r).await).await
    }

    async fn delete_snapshot(
        &self,
        r: Request<DeleteSnapshotRequest>,
    ) -> Result<Response<DeleteSnapshotResponse>, Status> {
        let r = r.into_inner();
        let about = {
            let about = about("DeleteSnapshot", "", Feature::CreateDeleteSnapshot);
            About { target: r.snapshot_id.clone(), ..about }
        };
        self.calls.rpc(about, r, async |call, r| self.delete_snapshot(call, r).await).await
    }

    async fn list_snapshots(
        &self,
        r: Request<ListSnapshotsRequest>,
    ) -> Result<Response<ListSnapshotsResponse>, Status> {
        let r = r.into_inner();
        let about = about("ListSnapshots", &r.source_volume_id, Feature::ListSnapshots);
        self.calls.rpc(about, r, async |call, r| self.list_snapshots(call, r).await).await
    }

    async fn get_snapshot(&self, r: Request<GetSnapshotRequest>) -> Result<Response<GetSnapshotResponse>, Status> {
        let r = r.into_inner();
        let about = About { target: r.snapshot_id.clone(), ..about("GetSnapshot", "", Feature::GetSnapshot) };
        self.calls.rpc(about, r, async |_, r| self.get_snapshot(r).await).await
    }

    async fn controller_expand_volume(
        &self,
        r: Request<ControllerExpandVolumeRequest>,
    ) -> Result<Response<ControllerExpandVolumeResponse>, Status> {
        let r = r.into_inner();
        let about = about("ControllerExpandVolume", &r.volume_id, Feature::ControllerExpandVolume);
        self.calls.rpc(about, r, async |call, r| self.expand(call, r).await).await
    }

    async fn controller_get_volume(
        &self,
        r: Request<ControllerGetVolumeRequest>,
    ) -> Result<Response<ControllerGetVolumeResponse>, Status> {
        let r = r.into_inner();
        let about = about("ControllerGetVolume", &r.volume_id, Feature::GetVolume);
        self.calls.rpc(about, r, async |_, r| self.get(r).await).await
    }

    async fn controller_modify_volume(
        &self,
        r: Request<ControllerModifyVolumeRequest>,
    ) -> Result<Response<ControllerModifyVolumeResponse>, Status> {
        let r = r.into_inner();
        let about = about("ControllerModifyVolume", &r.volume_id, Feature::ModifyVolume);
        self.calls.rpc(about, r, async |call, r| self.modify(call, r).await).await
    }

    async fn controller_get_capabilities(
        &self,
        request: Request<ControllerGetCapabilitiesRequest>,
    ) -> Result<Response<ControllerGetCapabilitiesResponse>, Status> {
        let offered = |kind: i32| ControllerServiceCapability { r#type: Some(Type::Rpc(Rpc { r#type: kind })) };
        let capabilities = self.calls.settings().capabilities().controller().map(offered).collect();
        let about = about("ControllerGetCapabilities", "", Feature::ControllerService);
        let reply = ControllerGetCapabilitiesResponse { capabilities };
        self.calls.rpc(about, request.into_inner(), async |_, _| Ok(reply)).await
    }
}
