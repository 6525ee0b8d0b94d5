//! kubelet's side of the CSI node calls: requests, deadlines, final and uncertain errors (upstream `csi_client.go`).

use std::collections::BTreeMap;
use std::future::Future;
use std::path::Path;
use std::time::Duration;

use csi_proto::csi::node_service_capability::rpc;
use csi_proto::csi::volume_capability::{AccessMode, AccessType, BlockVolume, MountVolume};
use csi_proto::csi::{
    CapacityRange, NodeExpandVolumeRequest, NodeGetInfoRequest, NodeGetInfoResponse, NodeGetVolumeStatsRequest,
    NodeGetVolumeStatsResponse, NodePublishVolumeRequest, NodeStageVolumeRequest, NodeUnpublishVolumeRequest,
    NodeUnstageVolumeRequest, VolumeCapability,
};
use substrate::{Ctx, HttpService};
use tonic::{Response, Status};

use crate::csi::{Connection, RpcError, within};
use crate::kube::client::scaled_timeout;
use crate::node_agent::volume_manager::{StepError, VolumeSpec};

/// A registered CSI driver of this node.
#[derive(Clone)]
pub struct Driver {
    /// Answers `csi.v1.Node`.
    connection: Connection,
    /// Node capability STAGE_UNSTAGE_VOLUME.
    pub stage_unstage: bool,
    /// Node capability EXPAND_VOLUME.
    pub expand_volume: bool,
    /// Node capability SINGLE_NODE_MULTI_WRITER.
    pub single_node_multi_writer: bool,
    /// Node capability VOLUME_MOUNT_GROUP.
    pub mount_group: bool,
    /// Node capability GET_VOLUME_STATS.
    pub volume_stats: bool,
    /// Node capability VOLUME_CONDITION.
    pub volume_condition: bool,
}

/// The publish_context of a volume: `status.attachmentMetadata` of its VolumeAttachment.
pub type PublishContext = BTreeMap<String, String>;

/// Fields of a call besides the volume and its paths.
#[derive(Clone, Debug, Default)]
pub struct Carried {
    /// The publish_context.
    pub publish_context: PublishContext,
    /// Additional entries of the volume_context: facts about the pod.
    pub volume_context: BTreeMap<String, String>,
    /// Secrets that the volume names for this call.
    pub secrets: BTreeMap<String, String>,
    /// Group of the volume. Sent only to a driver with VOLUME_MOUNT_GROUP.
    pub group: Option<u32>,
}

impl Driver {
    /// Connects to the driver at `service` and reads its capabilities. A call takes at most `timeout` (`csiTimeout`, 2
    /// min), before scaling.
    ///
    /// # Errors
    /// The call's error.
    pub async fn connect(ctx: &Ctx, service: HttpService, timeout: Duration, name: &str) -> Result<Self, StepError> {
        let connection = Connection::of_kubelet(ctx, service, timeout, name);
        let node = connection.node_capabilities().await?;
        Ok(Self {
            connection,
            stage_unstage: node.can(rpc::Type::StageUnstageVolume),
            expand_volume: node.can(rpc::Type::ExpandVolume),
            single_node_multi_writer: node.can(rpc::Type::SingleNodeMultiWriter),
            mount_group: node.can(rpc::Type::VolumeMountGroup),
            volume_stats: node.can(rpc::Type::GetVolumeStats),
            volume_condition: node.can(rpc::Type::VolumeCondition),
        })
    }

    fn capability(&self, spec: &VolumeSpec, group: Option<u32>) -> VolumeCapability {
        let access_type = if spec.block {
            AccessType::Block(BlockVolume {})
        } else {
            AccessType::Mount(MountVolume {
                fs_type: spec.fs_type.clone(),
                mount_flags: spec.mount_options.clone(),
                volume_mount_group: group.filter(|_| self.mount_group).map_or_else(String::new, |g| g.to_string()),
            })
        };
        VolumeCapability {
            access_type: Some(access_type),
            access_mode: Some(AccessMode { mode: spec.access_mode(self.single_node_multi_writer).into() }),
        }
    }

    /// Calls NodeGetInfo.
    ///
    /// # Errors
    /// The call's error.
    pub async fn info(&self) -> Result<NodeGetInfoResponse, StepError> {
        Ok(self.connection.call(self.connection.node().node_get_info(NodeGetInfoRequest {})).await?)
    }

    /// Calls NodeStageVolume.
    ///
    /// # Errors
    /// The call's error.
    pub async fn stage(&self, spec: &VolumeSpec, staging: &Path, carried: Carried) -> Result<(), StepError> {
        let request = NodeStageVolumeRequest {
            volume_id: spec.handle.clone(),
            publish_context: carried.publish_context,
            staging_target_path: text(staging),
            volume_capability: Some(self.capability(spec, carried.group)),
            volume_context: spec.attributes.clone(),
            secrets: carried.secrets,
        };
        Ok(self.connection.call(self.connection.node().node_stage_volume(request)).await.map(drop)?)
    }

    /// Calls NodePublishVolume.
    ///
    /// # Errors
    /// The call's error.
    pub async fn publish(
        &self,
        spec: &VolumeSpec,
        (staging, target): (&Path, &Path),
        readonly: bool,
        carried: Carried,
    ) -> Result<(), StepError> {
        let mut volume_context = spec.attributes.clone();
        volume_context.extend(carried.volume_context);
        let request = NodePublishVolumeRequest {
            volume_id: spec.handle.clone(),
            publish_context: carried.publish_context,
            staging_target_path: if self.stage_unstage { text(staging) } else { String::new() },
            target_path: text(target),
            volume_capability: Some(self.capability(spec, carried.group)),
            readonly,
            volume_context,
            secrets: carried.secrets,
        };
        Ok(self.connection.call(self.connection.node().node_publish_volume(request)).await.map(drop)?)
    }

    /// Calls NodeExpandVolume for at least `bytes`. `path` is a pod's target path, or the staging path.
    ///
    /// # Errors
    /// The call's status: some codes mean more than a failure.
    pub async fn expand(
        &self,
        spec: &VolumeSpec,
        (staging, path): (&Path, &Path),
        bytes: i64,
        secrets: BTreeMap<String, String>,
    ) -> Result<(), Status> {
        let request = NodeExpandVolumeRequest {
            volume_id: spec.handle.clone(),
            volume_path: text(path),
            capacity_range: Some(CapacityRange { required_bytes: bytes, limit_bytes: 0 }),
            staging_target_path: if self.stage_unstage { text(staging) } else { String::new() },
            volume_capability: Some(self.capability(spec, None)),
            secrets,
        };
        let answer = self.connection.call(self.connection.node().node_expand_volume(request)).await;
        answer.map(drop).map_err(|e| Status::from(&e))
    }

    /// Calls NodeGetVolumeStats for a volume at a pod's path.
    ///
    /// # Errors
    /// The call's error.
    pub async fn stats(&self, handle: &str, path: &Path) -> Result<NodeGetVolumeStatsResponse, StepError> {
        let request = NodeGetVolumeStatsRequest {
            volume_id: handle.to_owned(),
            volume_path: text(path),
            ..NodeGetVolumeStatsRequest::default()
        };
        Ok(self.connection.call(self.connection.node().node_get_volume_stats(request)).await?)
    }

    /// Calls NodeUnpublishVolume.
    ///
    /// # Errors
    /// The call's error.
    pub async fn unpublish(&self, handle: &str, target: &Path) -> Result<(), StepError> {
        let request = NodeUnpublishVolumeRequest { volume_id: handle.to_owned(), target_path: text(target) };
        Ok(self.connection.call(self.connection.node().node_unpublish_volume(request)).await.map(drop)?)
    }

    /// Calls NodeUnstageVolume.
    ///
    /// # Errors
    /// The call's error.
    pub async fn unstage(&self, handle: &str, staging: &Path) -> Result<(), StepError> {
        let request = NodeUnstageVolumeRequest { volume_id: handle.to_owned(), staging_target_path: text(staging) };
        Ok(self.connection.call(self.connection.node().node_unstage_volume(request)).await.map(drop)?)
    }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// Waits for a call, at most `limit`.
///
/// # Errors
/// The call's error, final or uncertain.
pub fn bounded<T>(
    ctx: &Ctx,
    limit: Duration,
    call: impl Future<Output = Result<Response<T>, Status>>,
) -> impl Future<Output = Result<T, StepError>> {
    let answer = within(ctx, scaled_timeout(ctx, limit), call);
    async move { Ok(answer.await?) }
}

impl From<RpcError> for StepError {
    fn from(error: RpcError) -> Self {
        if error.is_final() { Self::Final(error.to_string()) } else { Self::Uncertain(error.to_string()) }
    }
}

/// Classifies a gRPC status as kubelet does, with the text of Go's gRPC.
pub fn classify(status: &Status) -> StepError {
    RpcError::new(status, false).into()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(Status::internal("no"), StepError::Final("rpc error: code = Internal desc = no".to_owned()))]
    #[case(Status::unknown("no"), StepError::Final("rpc error: code = Unknown desc = no".to_owned()))]
    #[case(Status::not_found("no"), StepError::Final("rpc error: code = NotFound desc = no".to_owned()))]
    #[case(Status::cancelled("no"), StepError::Uncertain("rpc error: code = Canceled desc = no".to_owned()))]
    #[case(Status::aborted("no"), StepError::Uncertain("rpc error: code = Aborted desc = no".to_owned()))]
    #[case(Status::resource_exhausted("no"),
        StepError::Uncertain("rpc error: code = ResourceExhausted desc = no".to_owned()))]
    fn codes_are_final_or_uncertain_as_upstream(#[case] status: Status, #[case] expected: StepError) {
        assert_eq!(classify(&status), expected);
    }

    #[test]
    fn an_error_that_is_not_grpc_is_uncertain() {
        let broken = Status::from_error("connection reset".into());
        assert!(matches!(classify(&broken), StepError::Uncertain(_)));
    }
}
