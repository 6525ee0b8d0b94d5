//! The node agent: kubelet's admission of pods, its volume side, and the status of pods and of the node.
//!
//! Pure parts: the [volume manager](volume_manager), the [Node object](node_object), [pod status](pod_status), the
//! restarts of containers, and the check of a new pod ([`admission::check`]). The rest is async: it watches, calls, and
//! reports back. A crash ends the process without any clean-up. A restarted agent derives its state from the API server,
//! from its disk, and from the machine's [container runtime](crate::machine), whose containers and logs outlive it.
//!
//! Each directory is a room: a part with one task. A room may import rooms above it in this list, and the files beside the
//! rooms, which import no room. The tests in `rooms.rs` check it. A room with tasks or calls has a context: the fields that
//! its functions use (`context.rs` in the room). `contexts.rs` builds all of them.
//!
//! 1. `volume_manager`: wanted and mounted volumes, as a pure machine.
//! 2. `node`: the Node object and its lease.
//! 3. `plugins`: drivers, their registration, and the calls to them.
//! 4. `pod_table`: pods with a worker.
//! 5. `admission`: the check of a new pod.
//! 6. `volumes`: mounts and unmounts.
//! 7. `rules`: restarts, image pulls and probe results of containers, as pure machines.
//! 8. `programs`: commands, environment and mounts of containers.
//! 9. `containers`: starts, hooks and probes of containers.
//! 10. `status`: the status of pods.
//! 11. `pods`: the pod source and the workers of pods.
//! 12. `server`: logs and statistics at kubelet's port.

pub mod admission;
mod changes;
pub mod config;
mod containers;
mod contexts;
pub mod events;
pub mod expansion;
pub mod logs;
pub mod mutants;
pub mod names;
mod node;
mod plugins;
mod pod_table;
mod pods;
mod programs;
mod progress;
mod refusal;
mod registration_socket;
#[cfg(test)]
mod rooms;
mod rules;
mod runtime;
pub mod serve;
mod server;
mod status;
mod system_text;
#[cfg(test)]
mod tests;
pub mod volume_manager;
mod volumes;

use futures_util::future::BoxFuture;
use substrate::Ctx;

use crate::kube::Client;
pub use config::{KnownPlugin, NodeAgentConfig, PLUGINS_REGISTRY, Plugins, WorkloadDefaults};
use contexts::Contexts;
pub use logs::Logs;
pub use node::node_object;
pub use plugins::csi;
pub use programs::workload;
pub use registration_socket::RegistrationSocket;
pub use server::log_service::service;
pub use status::pod_status;
pub use volume_manager::affinity;
pub use volumes::{pod_facts, populate, reconstruct};

/// Runs the agent of one node in process `ctx`; never returns.
///
/// The future is boxed here so that the agent is compiled once, with this crate's optimisation, not in each caller.
pub fn run(ctx: Ctx, client: Client, config: NodeAgentConfig) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        let plugins = config.plugins.clone();
        let rooms = Contexts::new(&ctx, &client, config);
        server::stats::serve(&rooms.server);
        // The pod watch, the volume manager and the lease do not wait for the Node object.
        ctx.spawn(volumes::reconciler::run(rooms.volumes.clone()));
        ctx.spawn(volumes::reconciler::follow_node(rooms.volumes.clone()));
        ctx.spawn(pods::runtime_news::follow(rooms.pods.clone()));
        ctx.spawn(pods::source::run(rooms.pods.clone()));
        ctx.spawn(node::lease::run(rooms.node.clone()));
        let node = node::node_status::register(&rooms.node).await;
        ctx.spawn(node::node_status::run(rooms.node.clone()));
        ctx.spawn(plugins::allocatable::run(rooms.plugins.clone()));
        plugins::registration::initialize_csi_node(&rooms.plugins, &node).await;
        match plugins {
            Plugins::Known(mut plugins) => {
                let Some(last) = plugins.pop() else { return std::future::pending().await };
                for plugin in plugins {
                    ctx.spawn(plugins::socket::follow(rooms.plugins.clone(), plugin));
                }
                plugins::socket::follow(rooms.plugins.clone(), last).await
            }
            Plugins::Directory(path) => plugins::plugin_dir::run(rooms.plugins.clone(), path).await,
        }
    })
}
