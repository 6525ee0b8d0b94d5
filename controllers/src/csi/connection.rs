//! The connection to a driver, and the driver behind it.

use std::collections::BTreeSet;
use std::time::Duration;

use csi_proto::Channel;
use csi_proto::csi::controller_client::ControllerClient;
use csi_proto::csi::controller_service_capability::{self, rpc::Type as ControllerRpc};
use csi_proto::csi::identity_client::IdentityClient;
use csi_proto::csi::node_client::NodeClient;
use csi_proto::csi::node_service_capability::{self, rpc::Type as NodeRpc};
use csi_proto::csi::plugin_capability::{self, service::Type as PluginService};
use csi_proto::csi::{
    ControllerGetCapabilitiesRequest, GetPluginCapabilitiesRequest, GetPluginInfoRequest, NodeGetCapabilitiesRequest,
    ProbeRequest,
};
use substrate::HttpService;
use substrate::process::Ctx;
use tonic::{Response, Status};

use super::error::RpcError;
use super::told::told;
use crate::events::CsiUnreached;
use crate::kube::client::patience;

/// How long until a driver that is not ready is asked again.
const PROBE_INTERVAL: Duration = Duration::from_secs(1);

/// A way to a driver, on which each call has a deadline.
#[derive(Clone)]
pub struct Connection {
    ctx: Ctx,
    service: HttpService,
    limit: Duration,
}

impl Connection {
    /// A driver reached over `service`; each call takes at most `timeout` (before `time-scale`), and the driver is
    /// told so.
    pub fn new(ctx: &Ctx, service: HttpService, timeout: Duration) -> Self {
        let limit = patience(ctx, timeout);
        Self { ctx: ctx.clone(), service: told(ctx, csi_proto::with_deadline(service, limit)), limit }
    }

    /// The driver's identity service; to be called within [`call`](Self::call).
    pub fn identity(&self) -> IdentityClient<Channel> {
        IdentityClient::new(Channel(self.service.clone()))
    }

    /// The driver's controller service; to be called within [`call`](Self::call).
    pub fn controller(&self) -> ControllerClient<Channel> {
        ControllerClient::new(Channel(self.service.clone()))
    }

    /// The driver's node service; to be called within [`call`](Self::call).
    pub fn node(&self) -> NodeClient<Channel> {
        NodeClient::new(Channel(self.service.clone()))
    }

    /// Waits for a call, but not beyond its deadline.
    pub fn call<T>(
        &self,
        call: impl Future<Output = Result<Response<T>, Status>>,
    ) -> impl Future<Output = Result<T, RpcError>> {
        within(&self.ctx, self.limit, call)
    }

    /// Asks every second until the driver is ready, then what it is and can do.
    pub async fn driver(&self) -> Driver {
        loop {
            match self.introduce().await {
                Ok(Some(driver)) => return driver,
                Ok(None) => {}
                Err(e) => self.ctx.trace().mention(self.ctx.name(), || CsiUnreached { error: e.to_string() }),
            }
            self.ctx.sleep(PROBE_INTERVAL).await;
        }
    }

    /// Nothing while the driver says that it is not ready.
    async fn introduce(&self) -> Result<Option<Driver>, RpcError> {
        let mut identity = self.identity();
        // A driver that does not say whether it is ready is.
        if self.call(identity.probe(ProbeRequest {})).await?.ready == Some(false) {
            return Ok(None);
        }
        let name = self.call(identity.get_plugin_info(GetPluginInfoRequest {})).await?.name;
        if name.is_empty() {
            return Err(RpcError::Other("driver name is empty".to_owned()));
        }
        let answer = self.call(identity.get_plugin_capabilities(GetPluginCapabilitiesRequest {})).await?;
        let mut driver = Driver { name, services: BTreeSet::new(), controller: BTreeSet::new() };
        for capability in answer.capabilities {
            if let Some(plugin_capability::Type::Service(offered)) = capability.r#type {
                driver.services.insert(offered.r#type);
            }
        }
        if driver.serves(PluginService::ControllerService) {
            let request = ControllerGetCapabilitiesRequest {};
            let answer = self.call(self.controller().controller_get_capabilities(request)).await?;
            for capability in answer.capabilities {
                if let Some(controller_service_capability::Type::Rpc(offered)) = capability.r#type {
                    driver.controller.insert(offered.r#type);
                }
            }
        }
        Ok(Some(driver))
    }

    /// What the driver's node service can do.
    ///
    /// # Errors
    /// The call's error.
    pub async fn node_capabilities(&self) -> Result<NodeCapabilities, RpcError> {
        let answer = self.call(self.node().node_get_capabilities(NodeGetCapabilitiesRequest {})).await?;
        let offered = answer.capabilities.into_iter().filter_map(|capability| match capability.r#type? {
            node_service_capability::Type::Rpc(rpc) => Some(rpc.r#type),
        });
        Ok(NodeCapabilities(offered.collect()))
    }
}

/// Waits for a call to a peer that is asked nothing but this, at most `limit` (already scaled). The call is boxed at
/// once: it is kilobytes, and whatever waits for it would be as large.
pub fn within<T>(
    ctx: &Ctx,
    limit: Duration,
    call: impl Future<Output = Result<Response<T>, Status>>,
) -> impl Future<Output = Result<T, RpcError>> {
    let (ctx, call) = (ctx.clone(), Box::pin(call));
    let deadline = ctx.now().mono + limit;
    async move {
        let answer = tokio::select! { biased;
            answer = call => answer,
            () = ctx.sleep_until(deadline) => return Err(RpcError::deadline_exceeded()),
        };
        answer.map(Response::into_inner).map_err(|status| RpcError::new(&status, ctx.now().mono >= deadline))
    }
}

/// A driver that is ready: its name, and what it says that it can do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Driver {
    /// The name.
    pub name: String,
    services: BTreeSet<i32>,
    controller: BTreeSet<i32>,
}

impl Driver {
    /// Whether the driver has the service, or the trait, of a plugin.
    pub fn serves(&self, service: PluginService) -> bool {
        self.services.contains(&i32::from(service))
    }

    /// Whether the driver's controller service can do this.
    pub fn can(&self, rpc: ControllerRpc) -> bool {
        self.controller.contains(&i32::from(rpc))
    }
}

/// What a node service can do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeCapabilities(BTreeSet<i32>);

impl NodeCapabilities {
    /// Whether it can do this.
    pub fn can(&self, rpc: NodeRpc) -> bool {
        self.0.contains(&i32::from(rpc))
    }
}
