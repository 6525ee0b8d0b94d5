//! The Node service of the EFS driver: mounts a directory of a file system at a pod's path.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use csi_proto::csi::node_server::Node;
use csi_proto::csi::*;
use substrate::mutant;
use tonic::{Request, Response, Status};

use super::capability;
use super::handle::Handle;
use super::server::FileServer;
use crate::calls::{About, Call, Calls};
use crate::capabilities::Feature;
use crate::check;
use crate::events::{DiskPublished, DiskUnpublished};
use crate::identity::WELL_KNOWN_ZONE_KEY;
use crate::kept::Message;
use crate::node::status;
use csi_disk::{Disk, Share};

/// Configuration of the node service of one node.
#[derive(Clone, Debug)]
pub struct EfsNodeConfig {
    /// Name of the Kubernetes node; the `node` field of events.
    pub node_name: String,
    /// CSI node id: the instance id.
    pub node_id: String,
    /// Zone of the node.
    pub zone: String,
    /// Disk of the node.
    pub disk: Arc<dyn Disk>,
    /// The EFS service.
    pub server: FileServer,
}

/// The Node service of one node.
#[derive(Clone, Debug)]
pub(super) struct NodeService {
    calls: Calls,
    config: Arc<EfsNodeConfig>,
}

/// Requirements of a mount that are not in its handle.
struct Options {
    readonly: bool,
    access_point: Option<String>,
    /// Mount options that are not the mount helper's own.
    flags: Vec<String>,
}

impl NodeService {
    pub fn new(calls: Calls, config: EfsNodeConfig) -> Self {
        Self { calls, config: Arc::new(config) }
    }

    fn about(&self, rpc: &'static str, volume: &str, target: &str) -> About {
        let (volume, node, target) = (volume.to_owned(), self.config.node_name.clone(), target.to_owned());
        About { rpc, volume, node, target, needs_no_attachment: true, ..About::default() }
    }

    async fn publish(
        &self,
        call: &Call,
        request: NodePublishVolumeRequest,
    ) -> Result<NodePublishVolumeResponse, Status> {
        let volume = check::required("volume_id", &request.volume_id)?;
        let target = check::path("target_path", &request.target_path)?;
        let flags = capability::check("volume_capability", request.volume_capability.as_ref())?;
        let is_encrypted = encrypts(&request)?;
        let handle = Handle::parse(volume)?;
        let mut options = options(&handle, flags, is_encrypted, request.readonly)?;
        if mutant!(self.calls.ctx(), "share-mount-option-dropped") {
            options.flags.pop();
        }
        let _held = self.calls.lock_at(volume, target)?;
        let could_not = |why: &dyn std::fmt::Display| {
            Status::internal(format!(
                "Could not mount \"{}:{}\" at \"{target}\": {why}",
                handle.file_system, handle.path
            ))
        };
        let directory = self.config.server.mount(&handle.file_system, options.access_point.as_deref(), &handle.path);
        let share = Share {
            volume: volume.to_owned(),
            path: PathBuf::from(target),
            directory: directory.map_err(|refusal| could_not(&refusal))?,
            file_system: handle.file_system.clone(),
            mount_flags: options.flags,
            readonly: options.readonly && !mutant!(self.calls.ctx(), "share-read-only-ignored"),
        };
        let mounted = self.config.disk.mount_share(&share).await.map_err(|e| could_not(&e))?;
        if !mounted.already {
            let (volume, node, path) = (volume.into(), self.config.node_name.as_str().into(), target.into());
            let options = mounted.options.map(|all| all.into_iter().map(Into::into).collect());
            self.calls.ctx().emit(DiskPublished { volume, node, path, readonly: mounted.readonly, options });
        }
        self.config.disk.done("publish", volume, Path::new(target)).await.map_err(|e| could_not(&e))?;
        call.after_effect().await?;
        Ok(NodePublishVolumeResponse {})
    }

    async fn unpublish(
        &self,
        call: &Call,
        request: NodeUnpublishVolumeRequest,
    ) -> Result<NodeUnpublishVolumeResponse, Status> {
        let volume = check::required("volume_id", &request.volume_id)?;
        let target = check::path("target_path", &request.target_path)?;
        let _held = self.calls.lock_at(volume, target)?;
        let could_not = |error: csi_disk::DiskError| {
            let status = status(&error);
            Status::new(status.code(), format!("Could not unmount \"{target}\": {error}"))
        };
        if self.config.disk.unpublish(volume, Path::new(target)).await.map_err(could_not)? {
            let (volume, node, path) = (volume.into(), self.config.node_name.as_str().into(), target.into());
            self.calls.ctx().emit(DiskUnpublished { volume, node, path });
        }
        self.config.disk.done("unpublish", volume, Path::new(target)).await.map_err(could_not)?;
        call.after_effect().await?;
        Ok(NodeUnpublishVolumeResponse {})
    }

    /// Answers a call of a capability that the driver lacks.
    async fn lacks<Q: Message, T: Message>(
        &self,
        (rpc, needs): (&'static str, Feature),
        (volume, target): (String, String),
        request: Q,
    ) -> Result<Response<T>, Status> {
        let about = About { needs: Some(needs), ..self.about(rpc, &volume, &target) };
        let refused = async |_: &Call, _| Err(Status::unimplemented(format!("this driver does not serve {rpc}")));
        self.calls.rpc(about, request, refused).await
    }
}

/// Reads the volume context: returns true if the mount is encrypted in transit.
fn encrypts(request: &NodePublishVolumeRequest) -> Result<bool, Status> {
    let mut encrypts = true;
    for (key, value) in &request.volume_context {
        match key.to_lowercase().as_str() {
            "storage.kubernetes.io/csiprovisioneridentity" => {}
            "encryptintransit" => {
                encrypts = value.to_lowercase().parse().map_err(|_| {
                    Status::invalid_argument(format!(
                        "Volume context property \"{key}\" must be a boolean value: {value}"
                    ))
                })?;
            }
            _ => return Err(Status::invalid_argument(format!("Volume context property {key} not supported."))),
        }
    }
    Ok(encrypts)
}

/// Combines the mount options with the handle.
fn options(handle: &Handle, flags: &[String], is_encrypted: bool, readonly: bool) -> Result<Options, Status> {
    let mut options = Options { readonly, access_point: handle.access_point.clone(), flags: Vec::new() };
    for flag in flags.iter().map(|flag| flag.to_lowercase()) {
        if let Some(id) = flag.strip_prefix("accesspoint=") {
            if let Some(other) = options.access_point.as_deref().filter(|other| *other != id) {
                return Err(Status::invalid_argument(format!(
                    "Found conflicting access point IDs in mountOptions ({id}) and volumeHandle ({other})"
                )));
            }
            options.access_point = Some(id.to_owned());
        } else if flag == "tls" && !is_encrypted {
            return Err(Status::invalid_argument("Found tls in mountOptions but encryptInTransit is false"));
        } else if flag == "ro" {
            options.readonly = true;
        } else if !matches!(flag.as_str(), "tls" | "iam") {
            options.flags.push(flag);
        }
    }
    Ok(options)
}

#[tonic::async_trait]
impl Node for NodeService {
    async fn node_stage_volume(
        &self,
        request: Request<NodeStageVolumeRequest>,
    ) -> Result<Response<NodeStageVolumeResponse>, Status> {
        let request = request.into_inner();
        let place = (request.volume_id.clone(), request.staging_target_path.clone());
        self.lacks(("NodeStageVolume", Feature::StageUnstageVolume), place, request).await
    }

    async fn node_unstage_volume(
        &self,
        request: Request<NodeUnstageVolumeRequest>,
    ) -> Result<Response<NodeUnstageVolumeResponse>, Status> {
        let request = request.into_inner();
        let place = (request.volume_id.clone(), request.staging_target_path.clone());
        self.lacks(("NodeUnstageVolume", Feature::StageUnstageVolume), place, request).await
    }

    async fn node_publish_volume(
        &self,
        request: Request<NodePublishVolumeRequest>,
    ) -> Result<Response<NodePublishVolumeResponse>, Status> {
        let request = request.into_inner();
        let about = self.about("NodePublishVolume", &request.volume_id, &request.target_path);
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
        let place = (request.volume_id.clone(), request.volume_path.clone());
        self.lacks(("NodeGetVolumeStats", Feature::GetVolumeStats), place, request).await
    }

    async fn node_expand_volume(
        &self,
        request: Request<NodeExpandVolumeRequest>,
    ) -> Result<Response<NodeExpandVolumeResponse>, Status> {
        let request = request.into_inner();
        let place = (request.volume_id.clone(), request.volume_path.clone());
        self.lacks(("NodeExpandVolume", Feature::NodeExpandVolume), place, request).await
    }

    async fn node_get_capabilities(
        &self,
        request: Request<NodeGetCapabilitiesRequest>,
    ) -> Result<Response<NodeGetCapabilitiesResponse>, Status> {
        let about = self.about("NodeGetCapabilities", "", "");
        let reply = NodeGetCapabilitiesResponse::default();
        self.calls.rpc(about, request.into_inner(), async |_, _| Ok(reply)).await
    }

    async fn node_get_info(
        &self,
        request: Request<NodeGetInfoRequest>,
    ) -> Result<Response<NodeGetInfoResponse>, Status> {
        let about = self.about("NodeGetInfo", "", "");
        let segments = [(WELL_KNOWN_ZONE_KEY.to_owned(), self.config.zone.clone())].into();
        let reply = NodeGetInfoResponse {
            node_id: self.config.node_id.clone(),
            // Network mounts have no limit.
            max_volumes_per_node: 0,
            accessible_topology: Some(Topology { segments }),
        };
        self.calls.rpc(about, request.into_inner(), async |_, _| Ok(reply)).await
    }
}
