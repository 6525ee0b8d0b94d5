//! The Node service: from an attached device to a directory in a pod, and back.
//!
//! What is staged and published is asked of the [`Disk`] at every call, so that a restarted driver needs no file of
//! its own. Only the arguments of earlier calls are kept in memory, to tell an incompatible repeat from a repeat.

mod publish;
mod service;
mod stage;
mod table;
mod volume;

use std::sync::Arc;

use csi_proto::csi::node_server::NodeServer;
use substrate::{Ctx, HttpService};

use crate::calls::Calls;
use crate::disk::Disk;
use crate::identity::{self, DRIVER_NAME};
use crate::settings::Settings;

pub use service::NodeService;

/// How many volumes a node takes when nothing else is said: an m5.large with default metadata (ec2-api.md §7).
pub const DEFAULT_MAX_VOLUMES: i64 = 26;

/// What the node service of one node is made with.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// The Kubernetes node's name; the `node` field of the trace.
    pub node_name: String,
    /// The CSI node id: the instance id.
    pub node_id: String,
    /// The zone that the node is in.
    pub zone: String,
    /// The node's disk.
    pub disk: Arc<dyn Disk>,
    /// The driver's name.
    pub driver_name: String,
    /// How many volumes can be attached while the settings do not say; 0 leaves it to the CO.
    pub max_volumes: i64,
    /// What can be changed while the driver runs.
    pub settings: Settings,
}

impl NodeConfig {
    /// A node with the default driver name and limit.
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

/// Starts the Identity and Node services in process `ctx`; returns the router, with the admin endpoints.
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
