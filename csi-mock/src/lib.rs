//! A CSI driver with real disks: controller service over the EC2 API, node service over a [`disk::Disk`].
//!
//! The node service does not touch block devices or paths itself, but calls the [`disk::Disk`] of its node. In the
//! simulation that is a memory model, in the live world real mounts.

mod admin;
mod authority;
mod caller;
pub mod calls;
pub mod capabilities;
mod check;
mod cli;
pub mod controller;
pub mod disk;
pub mod efs;
pub mod events;
mod falsify;
pub mod faults;
mod format;
mod identity;
pub mod kept;
mod metrics;
pub mod mutants;
pub mod node;
mod peer;
pub mod plug;
pub mod registration;
pub mod serve;
pub mod settings;

pub use cli::main_with;
pub use identity::{DRIVER_NAME, WELL_KNOWN_ZONE_KEY, ZONE_KEY};
pub(crate) use peer::peer;

/// Starts all services of one driver in process `ctx`, like `--mode all`. Returns the router, with the admin endpoints.
/// The settings are those of `controller`.
pub fn start(
    ctx: &substrate::Ctx,
    controller: controller::ControllerConfig,
    node: node::NodeConfig,
) -> substrate::HttpService {
    let calls = calls::Calls::with(ctx, controller.settings.clone());
    let disk = Some(node.disk.clone());
    let routes = identity::routes(&calls, &controller.driver_name, true);
    let controller = controller::ControllerConfig { attach_limit: Some(node.max_volumes), ..controller };
    let routes = node::add(controller::add(routes, &calls, controller), &calls, node);
    peer(routes, admin::router(&calls, disk))
}
