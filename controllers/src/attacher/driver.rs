//! The CSI driver's controller service, as the attacher calls it.

use std::collections::BTreeMap;
use std::time::Duration;

use csi_proto::Channel;
use csi_proto::csi::controller_client::ControllerClient;
use csi_proto::csi::controller_service_capability::{Type as ControllerCapability, rpc::Type as Rpc};
use csi_proto::csi::identity_client::IdentityClient;
use csi_proto::csi::plugin_capability::{Type as PluginCapability, service::Type as Service};
use csi_proto::csi::volume_capability::access_mode::Mode;
use csi_proto::csi::volume_capability::{AccessMode, AccessType, BlockVolume, MountVolume};
use csi_proto::csi::{
    ControllerGetCapabilitiesRequest, ControllerPublishVolumeRequest, ControllerUnpublishVolumeRequest,
    GetPluginCapabilitiesRequest, GetPluginInfoRequest, ListVolumesRequest, ProbeRequest, VolumeCapability,
};
use k8s_openapi::api::core::v1::PersistentVolumeSpec;
use substrate::body::HttpService;
use substrate::process::Ctx;
use tonic::Status;

use crate::events::CsiUnreached;
use crate::kube::client::patience;

/// A call that failed, in the words of grpc-go.
#[derive(Clone, Debug, PartialEq, Eq, displaydoc::Display, thiserror::Error)]
pub enum RpcError {
    /// rpc error: code = {name} desc = {message}
    Grpc {
        /// The code's number.
        code: i32,
        /// The code's name.
        name: &'static str,
        /// The driver's text.
        message: String,
    },
    /// {0}
    Other(String),
}

impl RpcError {
    /// The gRPC code; nothing when no call was made.
    pub fn code(&self) -> Option<i32> {
        match self {
            Self::Grpc { code, .. } => Some(*code),
            Self::Other(_) => None,
        }
    }
}

impl From<Status> for RpcError {
    fn from(status: Status) -> Self {
        Self::Grpc { code: status.code() as i32, name: go_name(status.code()), message: status.message().to_owned() }
    }
}

impl From<String> for RpcError {
    fn from(text: String) -> Self {
        Self::Other(text)
    }
}

fn go_name(code: tonic::Code) -> &'static str {
    use tonic::Code;
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "Canceled",
        Code::Unknown => "Unknown",
        Code::InvalidArgument => "InvalidArgument",
        Code::DeadlineExceeded => "DeadlineExceeded",
        Code::NotFound => "NotFound",
        Code::AlreadyExists => "AlreadyExists",
        Code::PermissionDenied => "PermissionDenied",
        Code::ResourceExhausted => "ResourceExhausted",
        Code::FailedPrecondition => "FailedPrecondition",
        Code::Aborted => "Aborted",
        Code::OutOfRange => "OutOfRange",
        Code::Unimplemented => "Unimplemented",
        Code::Internal => "Internal",
        Code::Unavailable => "Unavailable",
        Code::DataLoss => "DataLoss",
        Code::Unauthenticated => "Unauthenticated",
    }
}

/// What the driver can do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// It attaches volumes at all; otherwise the trivial handler is used.
    pub publish: bool,
    /// PUBLISH_READONLY.
    pub readonly: bool,
    /// SINGLE_NODE_MULTI_WRITER.
    pub single_node_multi_writer: bool,
    /// LIST_VOLUMES and LIST_VOLUMES_PUBLISHED_NODES.
    pub list_published: bool,
}

/// The driver behind one socket.
#[derive(Clone)]
pub struct Driver {
    ctx: Ctx,
    service: HttpService,
    limit: Duration,
}

impl Driver {
    /// A driver reached over `service`; each call takes at most `timeout` (before `time-scale`).
    pub fn new(ctx: &Ctx, service: HttpService, timeout: Duration) -> Self {
        let limit = patience(ctx, timeout);
        Self { ctx: ctx.clone(), service: csi_proto::with_deadline(service, limit), limit }
    }

    fn identity(&self) -> IdentityClient<Channel> {
        IdentityClient::new(Channel(self.service.clone()))
    }

    fn controller(&self) -> ControllerClient<Channel> {
        ControllerClient::new(Channel(self.service.clone()))
    }

    /// The call is boxed at once: it is kilobytes, and whatever waits for it would be as large.
    fn limited<T>(
        &self,
        call: impl Future<Output = Result<tonic::Response<T>, Status>>,
    ) -> impl Future<Output = Result<T, RpcError>> {
        let (limit, call) = (self.limit, Box::pin(call));
        async move {
            match tokio::time::timeout(limit, call).await {
                Ok(answer) => Ok(answer?.into_inner()),
                Err(_) => Err(Status::deadline_exceeded("context deadline exceeded").into()),
            }
        }
    }

    /// Asks every second until the driver is ready; gives its name and what it can do.
    pub async fn connect(&self) -> (String, Capabilities) {
        loop {
            match self.probe().await {
                Ok(Some(found)) => return found,
                Ok(None) => {}
                Err(e) => self.ctx.trace().trace(self.ctx.name(), || CsiUnreached { error: e.to_string() }),
            }
            self.ctx.sleep(Duration::from_secs(1)).await;
        }
    }

    async fn probe(&self) -> Result<Option<(String, Capabilities)>, RpcError> {
        let mut identity = self.identity();
        // A driver that does not say whether it is ready is.
        if self.limited(identity.probe(ProbeRequest {})).await?.ready == Some(false) {
            return Ok(None);
        }
        let name = self.limited(identity.get_plugin_info(GetPluginInfoRequest {})).await?.name;
        let plugin = self.limited(identity.get_plugin_capabilities(GetPluginCapabilitiesRequest {})).await?;
        let has_controller = plugin.capabilities.iter().any(|c| {
            matches!(&c.r#type, Some(PluginCapability::Service(s)) if s.r#type == Service::ControllerService as i32)
        });
        if !has_controller {
            return Ok(Some((name, Capabilities::default())));
        }
        let mut controller = self.controller();
        let answer = self.limited(controller.controller_get_capabilities(ControllerGetCapabilitiesRequest {})).await?;
        let has = |rpc: Rpc| {
            answer
                .capabilities
                .iter()
                .any(|c| matches!(&c.r#type, Some(ControllerCapability::Rpc(r)) if r.r#type == rpc as i32))
        };
        let capabilities = Capabilities {
            publish: has(Rpc::PublishUnpublishVolume),
            readonly: has(Rpc::PublishReadonly),
            single_node_multi_writer: has(Rpc::SingleNodeMultiWriter),
            list_published: has(Rpc::ListVolumes) && has(Rpc::ListVolumesPublishedNodes),
        };
        Ok(Some((name, capabilities)))
    }

    /// ControllerPublishVolume; gives the publish_context.
    ///
    /// # Errors
    /// The driver's status, or DEADLINE_EXCEEDED.
    pub async fn publish(&self, request: ControllerPublishVolumeRequest) -> Result<BTreeMap<String, String>, RpcError> {
        let mut controller = self.controller();
        Ok(self.limited(controller.controller_publish_volume(request)).await?.publish_context)
    }

    /// ControllerUnpublishVolume.
    ///
    /// # Errors
    /// The driver's status, or DEADLINE_EXCEEDED.
    pub async fn unpublish(&self, request: ControllerUnpublishVolumeRequest) -> Result<(), RpcError> {
        let mut controller = self.controller();
        self.limited(controller.controller_unpublish_volume(request)).await.map(|_| ())
    }

    /// ListVolumes, all pages: volume → ids of the nodes it is published to.
    ///
    /// # Errors
    /// The driver's status, or DEADLINE_EXCEEDED.
    pub async fn published(&self) -> Result<BTreeMap<String, Vec<String>>, RpcError> {
        let mut published = BTreeMap::new();
        let mut starting_token = String::new();
        loop {
            let request = ListVolumesRequest { max_entries: 0, starting_token };
            let page = self.limited(self.controller().list_volumes(request)).await?;
            for entry in page.entries {
                if let Some(volume) = entry.volume {
                    published.insert(volume.volume_id, entry.status.map(|s| s.published_node_ids).unwrap_or_default());
                }
            }
            if page.next_token.is_empty() {
                return Ok(published);
            }
            starting_token = page.next_token;
        }
    }
}

/// The capability to ask for (`GetVolumeCapabilities`): access type from the volume mode, access mode from all of the
/// volume's access modes.
///
/// # Errors
/// When the access modes have no counterpart in CSI.
pub fn volume_capability(pv: &PersistentVolumeSpec, multi_writer: bool) -> Result<VolumeCapability, String> {
    let modes = pv.access_modes.as_deref().unwrap_or_default();
    let has = |mode: &str| modes.iter().any(|m| m == mode);
    let mode = if has("ReadWriteMany") {
        Mode::MultiNodeMultiWriter
    } else if has("ReadOnlyMany") && has("ReadWriteOnce") {
        return Err("CSI does not support ReadOnlyMany and ReadWriteOnce on the same PersistentVolume".to_owned());
    } else if has("ReadOnlyMany") {
        Mode::MultiNodeReaderOnly
    } else if has("ReadWriteOnce") {
        if multi_writer { Mode::SingleNodeMultiWriter } else { Mode::SingleNodeWriter }
    } else if has("ReadWriteOncePod") {
        if multi_writer { Mode::SingleNodeSingleWriter } else { Mode::SingleNodeWriter }
    } else {
        return Err(format!("unsupported AccessMode combination: {modes:?}"));
    };
    let access_type = if pv.volume_mode.as_deref() == Some("Block") {
        AccessType::Block(BlockVolume {})
    } else {
        AccessType::Mount(MountVolume {
            fs_type: pv.csi.as_ref().and_then(|csi| csi.fs_type.clone()).unwrap_or_default(),
            mount_flags: pv.mount_options.clone().unwrap_or_default(),
            volume_mount_group: String::new(),
        })
    };
    Ok(VolumeCapability { access_mode: Some(AccessMode { mode: mode as i32 }), access_type: Some(access_type) })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(&["ReadWriteOnce"], false, Some(Mode::SingleNodeWriter))]
    #[case(&["ReadWriteOnce"], true, Some(Mode::SingleNodeMultiWriter))]
    #[case(&["ReadWriteOncePod"], false, Some(Mode::SingleNodeWriter))]
    #[case(&["ReadWriteOncePod"], true, Some(Mode::SingleNodeSingleWriter))]
    #[case(&["ReadWriteMany", "ReadWriteOnce"], false, Some(Mode::MultiNodeMultiWriter))]
    #[case(&["ReadOnlyMany"], false, Some(Mode::MultiNodeReaderOnly))]
    #[case(&["ReadOnlyMany", "ReadWriteOnce"], false, None)]
    #[case(&[], false, None)]
    fn access_modes_map_to_csi(#[case] modes: &[&str], #[case] multi_writer: bool, #[case] expected: Option<Mode>) {
        let access_modes = Some(modes.iter().map(|&m| m.to_owned()).collect());
        let pv = PersistentVolumeSpec { access_modes, ..PersistentVolumeSpec::default() };
        let mode = volume_capability(&pv, multi_writer).ok().and_then(|c| c.access_mode).map(|m| m.mode);
        assert_eq!(mode, expected.map(|m| m as i32));
    }

    #[test]
    fn errors_read_as_those_of_grpc_go() {
        let error = RpcError::from(Status::cancelled("gone"));
        assert_eq!(error.to_string(), "rpc error: code = Canceled desc = gone");
        assert_eq!(error.code(), Some(1));
    }
}
