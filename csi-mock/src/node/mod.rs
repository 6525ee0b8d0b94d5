//! The Node service: from an attached device to a directory in a pod, and back.
//!
//! The node service reads staged and published volumes from the [`Disk`] at every call, so that a restarted driver
//! needs no file of its own. It keeps only the arguments of earlier calls in memory, to distinguish an incompatible
//! repetition from a compatible one.

mod publish;
mod service;
mod stage;
mod table;
mod volume;

use std::sync::Arc;

use csi_proto::csi::node_server::NodeServer;
use substrate::{Ctx, HttpService};

use crate::calls::Calls;
use crate::identity::{self, DRIVER_NAME};
use crate::settings::Settings;
use csi_disk::Disk;

pub use service::NodeService;
pub(crate) use service::status;

/// Default volume limit of a node: an m5.large with default metadata (27 shared slots, less the root volume).
pub const DEFAULT_MAX_VOLUMES: i64 = 26;

/// Configuration of the node service of one node.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// Name of the Kubernetes node; the `node` field of events.
    pub node_name: String,
    /// CSI node id: the instance id.
    pub node_id: String,
    /// Zone of the node.
    pub zone: String,
    /// Disk of the node.
    pub disk: Arc<dyn Disk>,
    /// Name of the driver.
    pub driver_name: String,
    /// Default volume limit; 0 leaves it to the CO.
    pub max_volumes: i64,
    /// Settings that can change at run time.
    pub settings: Settings,
}

impl NodeConfig {
    /// Returns the configuration of a node with the default driver name and limit.
    pub fn new(node_name: &str, node_id: &str, zone: &str, disk: Arc<dyn Disk>) -> Self {
        Self {
            node_name: node_name.to_owned(),
            node_id: node_id.to_owned(),
            zone: zone.to_owned(),
            disk,
            driver_name: DRIVER_NAME.to_owned(),
            max_volumes: DEFAULT_MAX_VOLUMES,
            settings: Settings::default(),
        }
    }
}

/// Starts the Identity and Node services in process `ctx`. Returns the router, with the admin endpoints.
pub fn start(ctx: &Ctx, config: NodeConfig) -> HttpService {
    let calls = Calls::with(ctx, config.settings.clone());
    let routes = identity::routes(&calls, &config.driver_name, false);
    let admin = crate::admin::router(&calls, Some(config.disk.clone()));
    let routes = add(routes, &calls, config);
    crate::peer(routes, admin)
}

/// Adds the Node service to the gRPC services of a driver.
pub(crate) fn add(routes: tonic::service::Routes, calls: &Calls, config: NodeConfig) -> tonic::service::Routes {
    calls.ctx().faults().declare(crate::faults::NODE_SERVICE);
    routes.add_service(NodeServer::new(NodeService::new(calls.clone(), config)))
}
