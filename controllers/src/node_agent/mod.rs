//! The node agent: kubelet's admission of pods, its volume side, and the status of pods and of the node.
//!
//! Pure parts: the [volume manager](volume_manager), the [Node object](node_object), [pod status](pod_status), the
//! restarts of containers, and the check of a new pod ([`admission::check`]). The rest is async: it watches, calls, and reports back. A crash ends the
//! process without any clean-up. A restarted agent derives its state from the API server, from its disk, and from the
//! machine's [container runtime](crate::machine), whose containers and logs outlive it.
//!
//! Each directory is a room: a part with one task. A room may import rooms above it in this list, and the files beside the
//! rooms, which import no room. The test `rooms` checks it.
//!
//! 1. `volume_manager`: wanted and mounted volumes, as a pure machine.
//! 2. `node`: the Node object and its lease.
//! 3. `plugins`: drivers, their registration, and the calls to them.
//! 4. `pod_table`: pods with a worker.
//! 5. `volumes`: mounts and unmounts.
//! 6. `rules`: restarts, image pulls and probe results of containers, as pure machines.
//! 7. `programs`: commands, environment and mounts of containers.
//! 8. `containers`: starts, hooks and probes of containers.
//! 9. `status`: the status of pods.
//! 10. `pods`: admission and workers of pods.
//! 11. `server`: logs and statistics at kubelet's port.

mod agent;
mod changes;
pub mod config;
mod containers;
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
use agent::Agent;
pub use config::{KnownPlugin, NodeAgentConfig, PLUGINS_REGISTRY, Plugins, WorkloadDefaults};
pub use logs::Logs;
pub use node::node_object;
pub use plugins::csi;
pub use pods::admission;
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
        let agent = Agent::new(&ctx, &client, config);
        server::stats::serve(&agent.server_room);
        // The pod watch, the volume manager and the lease do not wait for the Node object.
        ctx.spawn(volumes::reconciler::run(agent.volume_room.clone()));
        ctx.spawn(volumes::reconciler::follow_node(agent.volume_room.clone()));
        ctx.spawn(pods::runtime_news::follow(agent.pod_room.clone()));
        ctx.spawn(pods::source::run(agent.pod_room.clone()));
        ctx.spawn(node::lease::run(agent.node_room.clone()));
        let node = node::node_status::register(&agent.node_room).await;
        ctx.spawn(node::node_status::run(agent.node_room.clone()));
        ctx.spawn(plugins::allocatable::run(agent.plugin_room.clone()));
        plugins::registration::initialize_csi_node(&agent.plugin_room, &node).await;
        match plugins {
            Plugins::Known(mut plugins) => {
                let Some(last) = plugins.pop() else { return std::future::pending().await };
                for plugin in plugins {
                    ctx.spawn(plugins::socket::follow(agent.plugin_room.clone(), plugin));
                }
                plugins::socket::follow(agent.plugin_room.clone(), last).await
            }
            Plugins::Directory(path) => plugins::plugin_dir::run(agent.plugin_room.clone(), path).await,
        }
    })
}
