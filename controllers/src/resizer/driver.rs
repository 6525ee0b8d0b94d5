//! The CSI driver's controller service, as the resizer calls it.

use std::time::Duration;

use csi_proto::Channel;
use csi_proto::csi::controller_client::ControllerClient;
use csi_proto::csi::controller_service_capability::{Type as ControllerCapability, rpc::Type as Rpc};
use csi_proto::csi::identity_client::IdentityClient;
use csi_proto::csi::{
    ControllerExpandVolumeRequest, ControllerExpandVolumeResponse, ControllerGetCapabilitiesRequest,
    ControllerModifyVolumeRequest, GetPluginInfoRequest, ProbeRequest,
};
use substrate::HttpService;
use substrate::process::Ctx;
use tonic::Status;

use crate::events::CsiUnreached;
use crate::kube::client::patience;

/// What the driver is called and can do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Introduction {
    pub name: String,
    /// EXPAND_VOLUME.
    pub expand: bool,
    /// MODIFY_VOLUME.
    pub modify: bool,
    /// SINGLE_NODE_MULTI_WRITER.
    pub multi_writer: bool,
}

/// The driver behind one socket.
#[derive(Clone)]
pub struct Driver {
    ctx: Ctx,
    service: HttpService,
    timeout: Duration,
}

impl Driver {
    pub fn new(ctx: &Ctx, service: HttpService, timeout: Duration) -> Self {
        Self { ctx: ctx.clone(), service, timeout }
    }

    fn controller(&self) -> ControllerClient<Channel> {
        ControllerClient::new(Channel(self.service.clone()))
    }

    /// The call is boxed at once: it is kilobytes, and whatever waits for it would be as large.
    fn limited<T>(
        &self,
        call: impl Future<Output = Result<tonic::Response<T>, Status>>,
    ) -> impl Future<Output = Result<T, Status>> {
        let (limit, call) = (patience(&self.ctx, self.timeout), Box::pin(call));
        async move {
            match tokio::time::timeout(limit, call).await {
                Ok(answer) => answer.map(tonic::Response::into_inner),
                Err(_) => Err(Status::deadline_exceeded("context deadline exceeded")),
            }
        }
    }

    /// Asks every second until the driver is ready.
    pub async fn connect(&self) -> Introduction {
        loop {
            match self.introduce().await {
                Ok(Some(introduction)) => return introduction,
                Ok(None) => {}
                Err(status) => {
                    let unreached = || CsiUnreached { error: status.message().to_owned() };
                    self.ctx.trace().trace(self.ctx.name(), unreached);
                }
            }
            self.ctx.sleep(Duration::from_secs(1)).await;
        }
    }

    /// Nothing while the driver says that it is not ready.
    async fn introduce(&self) -> Result<Option<Introduction>, Status> {
        let mut identity = IdentityClient::new(Channel(self.service.clone()));
        if self.limited(identity.probe(ProbeRequest {})).await?.ready == Some(false) {
            return Ok(None);
        }
        let name = self.limited(identity.get_plugin_info(GetPluginInfoRequest {})).await?.name;
        let mut controller = self.controller();
        let answer = self.limited(controller.controller_get_capabilities(ControllerGetCapabilitiesRequest {})).await?;
        let has = |rpc: Rpc| {
            let is = |kind: &Option<ControllerCapability>| matches!(kind, Some(ControllerCapability::Rpc(r)) if r.r#type == i32::from(rpc));
            answer.capabilities.iter().any(|c| is(&c.r#type))
        };
        Ok(Some(Introduction {
            name,
            expand: has(Rpc::ExpandVolume),
            modify: has(Rpc::ModifyVolume),
            multi_writer: has(Rpc::SingleNodeMultiWriter),
        }))
    }

    pub async fn expand(
        &self,
        request: ControllerExpandVolumeRequest,
    ) -> Result<ControllerExpandVolumeResponse, Status> {
        self.limited(self.controller().controller_expand_volume(request)).await
    }

    pub async fn modify(&self, request: ControllerModifyVolumeRequest) -> Result<(), Status> {
        self.limited(self.controller().controller_modify_volume(request)).await.map(drop)
    }
}
