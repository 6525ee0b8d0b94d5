//! A CSI driver with real disks: controller service over the EC2 API, node service over a [`Disk`](csi_disk::Disk).
//!
//! It has every RPC of CSI 1.12 behind switches, with the parameters, messages and codes of the EBS driver. The node
//! service does not touch block devices or paths itself, but calls the [`Disk`](csi_disk::Disk) of its node. In the simulation that
//! is a memory model, in the live world real mounts. `csi-mock/README.md` is for users of the program.
//!
//! ```
//! use csi_disk::MemoryDisks;
//! use csi_mock::node::{self, NodeConfig};
//! use csi_proto::Channel;
//! use csi_proto::csi::NodeGetInfoRequest;
//! use csi_proto::csi::node_client::NodeClient;
//! use substrate::Process;
//! use substrate::world::{Options, simulate};
//!
//! let info = simulate(Options::default(), async |world| {
//!     let process = Process::start(&world, "csi-node", |_| std::future::pending());
//!     let disk = MemoryDisks::new().node("node-a");
//!     let config = NodeConfig::new("node-a", "i-0123456789abcdef0", "us-east-1a", disk);
//!     let service = node::start(&process.ctx().unwrap(), config);
//!     NodeClient::new(Channel(service)).node_get_info(NodeGetInfoRequest {}).await.unwrap().into_inner()
//! });
//! assert_eq!(info.node_id, "i-0123456789abcdef0");
//! assert_eq!(info.accessible_topology.unwrap().segments["topology.kubernetes.io/zone"], "us-east-1a");
//! ```
//!
//! # Modules
//!
//! - [`controller`] is the Controller service over the EC2 Query API, [`node`] the Node service, `identity` the third.
//! - [`calls`] has the common parts of each RPC: trace events, fault points, the log entry, the lock on the volume.
//! - Devices, mounts and files are those of the crate `csi-disk`.
//! - [`registration`] registers the driver with kubelet.
//! - [`efs`] is a second driver, for shared file systems.
//! - [`settings`] and [`capabilities`] are switches that can change while it runs; `admin` is their API.
//! - [`events`] holds the trace events, [`faults`] the fault points, [`mutants`] the seeded bugs.
//! - [`serve`] is the only module that names listeners.
//!
//! # Never
//!
//! The node service asks the cloud nothing. No path and no command comes from the network.

mod admin;
mod caller;
pub mod calls;
pub mod capabilities;
mod check;
mod cli;
pub mod controller;
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
