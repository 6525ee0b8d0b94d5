//! Connection to a driver, and the driver's properties.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use csi_proto::Channel;
use csi_proto::csi::controller_client::ControllerClient;
use csi_proto::csi::controller_service_capability::{self, rpc::Type as ControllerRpc};
use csi_proto::csi::group_controller_client::GroupControllerClient;
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

use super::call_log::{Caller, logged};
use super::error::RpcError;
use crate::events::CsiUnreached;
use crate::kube::client::scaled_timeout;
use crate::metrics::{Family, families};

/// Interval between probes of a driver that is not ready.
const PROBE_INTERVAL: Duration = Duration::from_secs(1);

/// Connection to a driver with a deadline on each call.
#[derive(Clone)]
pub struct Connection {
    ctx: Ctx,
    service: HttpService,
    limit: Duration,
    /// The driver's name, once it is known.
    driver: Arc<OnceLock<String>>,
}

impl Connection {
    /// Connects a sidecar to a driver over `service`. Each call takes at most `timeout` (before `time-scale`), which the
    /// driver gets as its deadline.
    pub fn new(ctx: &Ctx, service: HttpService, timeout: Duration) -> Self {
        Self::measured(ctx, service, timeout, &families::CSI_SIDECAR_OPERATIONS)
    }

    /// Connects the kubelet to a driver of this name.
    pub fn of_kubelet(ctx: &Ctx, service: HttpService, timeout: Duration, driver: &str) -> Self {
        let connection = Self::measured(ctx, service, timeout, &families::CSI_OPERATIONS);
        connection.is_of(driver);
        connection
    }

    fn measured(ctx: &Ctx, service: HttpService, timeout: Duration, family: &'static Family) -> Self {
        let limit = scaled_timeout(ctx, timeout);
        let caller = Caller { ctx: ctx.clone(), driver: Arc::default(), family };
        let service = logged(&caller, csi_proto::with_deadline(service, limit));
        Self { ctx: ctx.clone(), service, limit, driver: caller.driver }
    }

    /// Records the driver's name.
    fn is_of(&self, driver: &str) {
        // A restarted driver has the same name.
        self.driver.get_or_init(|| driver.to_owned());
    }

    /// Returns a client of the identity service, for use within [`call`](Self::call).
    pub fn identity(&self) -> IdentityClient<Channel> {
        IdentityClient::new(Channel(self.service.clone()))
    }

    /// Returns a client of the controller service, for use within [`call`](Self::call).
    pub fn controller(&self) -> ControllerClient<Channel> {
        ControllerClient::new(Channel(self.service.clone()))
    }

    /// Returns a client of the group controller service, for use within [`call`](Self::call).
    pub fn group(&self) -> GroupControllerClient<Channel> {
        GroupControllerClient::new(Channel(self.service.clone()))
    }

    /// Returns a client of the node service, for use within [`call`](Self::call).
    pub fn node(&self) -> NodeClient<Channel> {
        NodeClient::new(Channel(self.service.clone()))
    }

    /// Waits for a call, at most until its deadline.
    pub fn call<T>(
        &self,
        call: impl Future<Output = Result<Response<T>, Status>>,
    ) -> impl Future<Output = Result<T, RpcError>> {
        within(&self.ctx, self.limit, call)
    }

    /// Probes every second until the driver is ready, then reads its name and capabilities.
    pub async fn driver(&self) -> Driver {
        loop {
            match self.introduce().await {
                Ok(Some(driver)) => return driver,
                Ok(None) => {}
                Err(e) => self.ctx.trace().emit_lazily(self.ctx.name(), || CsiUnreached { error: e.to_string() }),
            }
            self.ctx.sleep(PROBE_INTERVAL).await;
        }
    }

    /// Reads the driver's properties; None while it is not ready.
    async fn introduce(&self) -> Result<Option<Driver>, RpcError> {
        let mut identity = self.identity();
        // A driver that omits `ready` is ready.
        if self.call(identity.probe(ProbeRequest {})).await?.ready == Some(false) {
            return Ok(None);
        }
        let name = self.call(identity.get_plugin_info(GetPluginInfoRequest {})).await?.name;
        if name.is_empty() {
            return Err(RpcError::Other("driver name is empty".to_owned()));
        }
        self.is_of(&name);
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

    /// Returns the capabilities of the driver's node service.
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

/// Waits for a call to another peer, at most `limit` (already scaled). The call is boxed immediately, because its
/// kilobytes would add to every future that waits for it.
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

/// A ready driver: its name and its capabilities.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Driver {
    /// The name.
    pub name: String,
    services: BTreeSet<i32>,
    controller: BTreeSet<i32>,
}

impl Driver {
    /// Returns true if the driver has the plugin capability.
    pub fn serves(&self, service: PluginService) -> bool {
        self.services.contains(&i32::from(service))
    }

    /// Returns true if the driver's controller service has the capability.
    pub fn can(&self, rpc: ControllerRpc) -> bool {
        self.controller.contains(&i32::from(rpc))
    }
}

/// Capabilities of a node service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeCapabilities(BTreeSet<i32>);

impl NodeCapabilities {
    /// Returns true if it has the capability.
    pub fn can(&self, rpc: NodeRpc) -> bool {
        self.0.contains(&i32::from(rpc))
    }
}
