//! A second driver, like the EFS driver: volumes are directories of shared file systems, which a node mounts over the
//! network without an attachment.
//!
//! The controller service creates an access point for each volume in a [`FileServer`]. The node service mounts its
//! directory at the pod's path. The bytes belong to the disks, and all nodes of a cluster share them. Tests and
//! scenarios reach a file system only through mounts.

mod capability;
mod controller;
mod handle;
mod node;
mod parameters;
mod server;
mod state;

use csi_proto::csi::controller_server::ControllerServer;
use csi_proto::csi::node_server::NodeServer;
use substrate::{Ctx, HttpService};

use crate::calls::Calls;
use crate::capabilities::{Capabilities, Feature};
use crate::identity;
use crate::settings::Settings;

pub use handle::{Handle, is_handle, of_access_point};
pub use node::EfsNodeConfig;
pub use server::FileServer;
pub use state::{AccessPoint, DEFAULT_FILE_SYSTEM, FileSystemSpec};

/// Name of the driver.
pub const EFS_DRIVER_NAME: &str = "efs.csi.aws.com";
/// Returns true if `id` is the id of a file system.
pub fn is_file_system(id: &str) -> bool {
    handle::is_id(id, "fs-")
}

/// Returns the settings of the driver. It neither attaches nor stages, and volumes have no size.
fn settings() -> Settings {
    let features = [Feature::ControllerService, Feature::VolumeAccessibilityConstraints, Feature::CreateDeleteVolume];
    Settings::new(features.into_iter().fold(Capabilities::none(), Capabilities::with))
}

/// Starts the Identity and Controller services in process `ctx`. Returns the router, with the admin endpoints.
pub fn start_controller(ctx: &Ctx, server: FileServer) -> HttpService {
    let calls = Calls::with(ctx, settings());
    calls.ctx().faults().declare(crate::faults::CONTROLLER);
    let service = controller::ControllerService { calls: calls.clone(), server };
    let routes = identity::routes(&calls, EFS_DRIVER_NAME, true).add_service(ControllerServer::new(service));
    crate::peer(routes, crate::admin::router(&calls, None))
}

/// Starts the Identity and Node services in process `ctx`. Returns the router, with the admin endpoints.
pub fn start_node(ctx: &Ctx, config: EfsNodeConfig) -> HttpService {
    let calls = Calls::with(ctx, settings());
    calls.ctx().faults().declare(crate::faults::NODE_SERVICE);
    let admin = crate::admin::router(&calls, Some(config.disk.clone()));
    let service = node::NodeService::new(calls.clone(), config);
    let routes = identity::routes(&calls, EFS_DRIVER_NAME, false).add_service(NodeServer::new(service));
    crate::peer(routes, admin)
}
