//! kubelet's side of the CSI node calls: requests, deadlines, and which errors are final (storage-controllers §9).

use std::collections::BTreeMap;
use std::error::Error as _;
use std::future::Future;
use std::path::Path;
use std::time::Duration;

use csi_proto::Channel;
use csi_proto::csi::node_client::NodeClient;
use csi_proto::csi::node_service_capability::{self, rpc};
use csi_proto::csi::volume_capability::{AccessMode, AccessType, BlockVolume, MountVolume};
use csi_proto::csi::{
    CapacityRange, NodeExpandVolumeRequest, NodeGetCapabilitiesRequest, NodeGetInfoRequest, NodeGetInfoResponse,
    NodePublishVolumeRequest, NodeStageVolumeRequest, NodeUnpublishVolumeRequest, NodeUnstageVolumeRequest,
    VolumeCapability,
};
use substrate::{Ctx, HttpService};
use tonic::{Code, Response, Status};

use super::volume_manager::{StepError, VolumeSpec};
use crate::kube::client::patience;

/// A registered CSI driver of this node.
#[derive(Clone)]
pub struct Driver {
    /// Answers `csi.v1.Node`.
    pub service: HttpService,
    /// Node capability STAGE_UNSTAGE_VOLUME.
    pub stage_unstage: bool,
    /// Node capability EXPAND_VOLUME.
    pub expand_volume: bool,
    /// Node capability SINGLE_NODE_MULTI_WRITER.
    pub single_node_multi_writer: bool,
    /// Node capability VOLUME_MOUNT_GROUP.
    pub mount_group: bool,
    /// Longest call (`csiTimeout`, 2 min), before scaling.
    pub timeout: Duration,
}

/// The publish_context of a volume: `status.attachmentMetadata` of its VolumeAttachment.
pub type PublishContext = BTreeMap<String, String>;

/// What a call carries beside the volume and its paths.
#[derive(Clone, Debug, Default)]
pub struct Carried {
    /// The publish_context.
    pub publish_context: PublishContext,
    /// More of the volume_context: facts about the pod.
    pub volume_context: BTreeMap<String, String>,
    /// The secrets that the volume names for this call.
    pub secrets: BTreeMap<String, String>,
    /// The group that the volume is for; only a driver with VOLUME_MOUNT_GROUP is told.
    pub group: Option<u32>,
}

impl Driver {
    /// A driver at `service` whose capabilities are asked for.
    ///
    /// # Errors
    /// The call's error.
    pub async fn connect(ctx: &Ctx, service: HttpService, timeout: Duration) -> Result<Self, StepError> {
        let service = csi_proto::with_deadline(service, patience(ctx, timeout));
        let mut client = NodeClient::new(Channel(service.clone()));
        let answer = bounded(ctx, timeout, client.node_get_capabilities(NodeGetCapabilitiesRequest {})).await?;
        let has = |wanted: rpc::Type| {
            answer.capabilities.iter().any(|c| {
                matches!(&c.r#type, Some(node_service_capability::Type::Rpc(rpc)) if rpc.r#type == i32::from(wanted))
            })
        };
        Ok(Self {
            service,
            stage_unstage: has(rpc::Type::StageUnstageVolume),
            expand_volume: has(rpc::Type::ExpandVolume),
            single_node_multi_writer: has(rpc::Type::SingleNodeMultiWriter),
            mount_group: has(rpc::Type::VolumeMountGroup),
            timeout,
        })
    }

    fn client(&self) -> NodeClient<Channel> {
        NodeClient::new(Channel(self.service.clone()))
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

    /// NodeGetInfo.
    ///
    /// # Errors
    /// The call's error.
    pub async fn info(&self, ctx: &Ctx) -> Result<NodeGetInfoResponse, StepError> {
        bounded(ctx, self.timeout, self.client().node_get_info(NodeGetInfoRequest {})).await
    }

    /// NodeStageVolume.
    ///
    /// # Errors
    /// The call's error.
    pub async fn stage(&self, ctx: &Ctx, spec: &VolumeSpec, staging: &Path, carried: Carried) -> Result<(), StepError> {
        let request = NodeStageVolumeRequest {
            volume_id: spec.handle.clone(),
            publish_context: carried.publish_context,
            staging_target_path: text(staging),
            volume_capability: Some(self.capability(spec, carried.group)),
            volume_context: spec.attributes.clone(),
            secrets: carried.secrets,
        };
        bounded(ctx, self.timeout, self.client().node_stage_volume(request)).await.map(drop)
    }

    /// NodePublishVolume.
    ///
    /// # Errors
    /// The call's error.
    pub async fn publish(
        &self,
        ctx: &Ctx,
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
        bounded(ctx, self.timeout, self.client().node_publish_volume(request)).await.map(drop)
    }

    /// NodeExpandVolume to at least `bytes`. `path` is where a pod sees the volume, or the staging path.
    ///
    /// # Errors
    /// The call's status, of which some codes mean more than failure.
    pub async fn expand(
        &self,
        ctx: &Ctx,
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
        within(ctx, self.timeout, self.client().node_expand_volume(request)).await.map(drop)
    }

    /// NodeUnpublishVolume.
    ///
    /// # Errors
    /// The call's error.
    pub async fn unpublish(&self, ctx: &Ctx, handle: &str, target: &Path) -> Result<(), StepError> {
        let request = NodeUnpublishVolumeRequest { volume_id: handle.to_owned(), target_path: text(target) };
        bounded(ctx, self.timeout, self.client().node_unpublish_volume(request)).await.map(drop)
    }

    /// NodeUnstageVolume.
    ///
    /// # Errors
    /// The call's error.
    pub async fn unstage(&self, ctx: &Ctx, handle: &str, staging: &Path) -> Result<(), StepError> {
        let request = NodeUnstageVolumeRequest { volume_id: handle.to_owned(), staging_target_path: text(staging) };
        bounded(ctx, self.timeout, self.client().node_unstage_volume(request)).await.map(drop)
    }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// Waits for a call, at most `limit`.
///
/// # Errors
/// The call's error, sorted into final and uncertain.
pub fn bounded<T>(
    ctx: &Ctx,
    limit: Duration,
    call: impl Future<Output = Result<Response<T>, Status>>,
) -> impl Future<Output = Result<T, StepError>> {
    let answer = within(ctx, limit, call);
    async move { answer.await.map_err(|status| classify(&status)) }
}

/// The same, with the status as it came. The call is boxed at once: it is kilobytes, and whatever waits for it would
/// be as large.
fn within<T>(
    ctx: &Ctx,
    limit: Duration,
    call: impl Future<Output = Result<Response<T>, Status>>,
) -> impl Future<Output = Result<T, Status>> {
    let call = Box::pin(call);
    let deadline = ctx.now().mono + patience(ctx, limit);
    async move {
        let answer = tokio::select! { biased;
            answer = call => answer,
            () = ctx.sleep_until(deadline) => Err(Status::deadline_exceeded("context deadline exceeded")),
        };
        answer.map(Response::into_inner)
    }
}

/// Sorts a gRPC status as kubelet does, and words it as Go's gRPC does.
pub fn classify(status: &Status) -> StepError {
    // tonic keeps the source of what did not come from the peer: a connection that failed.
    if let Some(source) = status.source() {
        return StepError::Uncertain(format!("rpc error: code = Unavailable desc = {source}"));
    }
    let code = match status.code() {
        Code::Cancelled => "Canceled".to_owned(),
        other => format!("{other:?}"),
    };
    let message = format!("rpc error: code = {code} desc = {}", status.message());
    match status.code() {
        Code::Cancelled | Code::DeadlineExceeded | Code::Unavailable | Code::ResourceExhausted | Code::Aborted => {
            StepError::Uncertain(message)
        }
        _ => StepError::Final(message),
    }
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
