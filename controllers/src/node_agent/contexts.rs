//! Contexts of the rooms of one node agent. A context has the fields that the functions of its room use; rooms share the
//! state that several of them use.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use substrate::Ctx;
use tokio::sync::Notify;

use super::admission::context::AdmissionContext;
use super::changes::Changes;
use super::config::NodeAgentConfig;
use super::containers::context::ContainerContext;
use super::names::Paths;
use super::node::context::NodeContext;
use super::node::readiness::Readiness;
use super::plugins::context::PluginContext;
use super::plugins::csi::Driver;
use super::pod_table::pods::Pods;
use super::pods::context::PodContext;
use super::programs::context::ProgramContext;
use super::runtime::Runtime;
use super::server::context::ServerContext;
use super::status::context::StatusContext;
use super::volume_manager::VolumeManager;
use super::volumes::context::VolumeContext;
use super::volumes::devices::Devices;
use crate::kube::{Client, EventRecorder, Informer, ListParams};
use crate::state_publisher::LoopStatePublisher;

/// Contexts of the rooms whose tasks [`run`](super::run) starts.
pub(super) struct Contexts {
    pub node: Arc<NodeContext>,
    pub plugins: Arc<PluginContext>,
    pub volumes: Arc<VolumeContext>,
    pub pods: Arc<PodContext>,
    /// The server of the process reads statistics as long as this is there.
    pub server: Arc<ServerContext>,
}

impl Contexts {
    pub fn new(ctx: &Ctx, client: &Client, config: NodeAgentConfig) -> Self {
        let named = ListParams::fields(format!("metadata.name={}", config.node_name));
        let mine = ListParams::fields(format!("spec.nodeName={}", config.node_name));
        let timers = &config.timers;
        let (initial, max) = (ctx.scaled(timers.pending_initial), ctx.scaled(timers.pending_max));
        let heartbeat = client.within(timers.node_status_update.min(timers.lease_duration));
        let paths = Paths::new(&config.root);
        let recorder = EventRecorder::on_host(client, "kubelet", &config.node_name);
        let node = Informer::start(ctx, client.all(), named);
        let drivers_of_cluster = Informer::start(ctx, client.all(), ListParams::default());
        let pod_source = Informer::start(ctx, client.all(), mine);
        let readiness = Arc::<Readiness>::default();
        let runtime = Arc::new(Runtime::new(config.runtime.clone()));
        let volumes = Arc::new(Mutex::new(VolumeManager::new(initial, max)));
        let drivers = Arc::<Mutex<BTreeMap<String, Driver>>>::default();
        let pods = Arc::<Mutex<Pods>>::default();
        let changes = Arc::<Changes>::default();
        let (ctx, client, config) = (ctx.clone(), client.clone(), Arc::new(config));
        let node_room = Arc::new(NodeContext {
            ctx: ctx.clone(),
            client: client.clone(),
            heartbeat: heartbeat.clone(),
            config: config.clone(),
            recorder: recorder.clone(),
            node: node.clone(),
            volumes: volumes.clone(),
            changes: changes.clone(),
            readiness: readiness.clone(),
        });
        let plugin_room = Arc::new(PluginContext {
            ctx: ctx.clone(),
            client: client.clone(),
            config: config.clone(),
            drivers_of_cluster: drivers_of_cluster.clone(),
            drivers: drivers.clone(),
            driver_registered: Notify::new(),
            node_drivers: tokio::sync::Mutex::default(),
            changes: changes.clone(),
            readiness: readiness.clone(),
        });
        let admission_room = Arc::new(AdmissionContext {
            ctx: ctx.clone(),
            client: client.clone(),
            config: config.clone(),
            node: node.clone(),
            drivers_of_cluster: drivers_of_cluster.clone(),
            volumes: volumes.clone(),
            pods: pods.clone(),
            plugin_room: plugin_room.clone(),
        });
        let volume_room = Arc::new(VolumeContext {
            ctx: ctx.clone(),
            client: client.clone(),
            config: config.clone(),
            paths: paths.clone(),
            recorder: recorder.clone(),
            node: node.clone(),
            drivers_of_cluster: drivers_of_cluster.clone(),
            drivers: drivers.clone(),
            devices: Devices::default(),
            volumes: volumes.clone(),
            pods: pods.clone(),
            runtime: runtime.clone(),
            changes: changes.clone(),
            state_publisher: LoopStatePublisher::default(),
        });
        let program_room = Arc::new(ProgramContext {
            ctx: ctx.clone(),
            client: client.clone(),
            config: config.clone(),
            paths: paths.clone(),
            node: node.clone(),
            volumes: volumes.clone(),
        });
        let container_room = Arc::new(ContainerContext {
            ctx: ctx.clone(),
            config: config.clone(),
            recorder: recorder.clone(),
            runtime: runtime.clone(),
            pods: pods.clone(),
            program_room: program_room.clone(),
        });
        let status_room = Arc::new(StatusContext {
            ctx: ctx.clone(),
            client: client.clone(),
            config: config.clone(),
            recorder: recorder.clone(),
            pods: pods.clone(),
        });
        let pod_room = Arc::new(PodContext {
            ctx: ctx.clone(),
            config: config.clone(),
            recorder: recorder.clone(),
            pod_source: pod_source.clone(),
            pods: pods.clone(),
            runtime: runtime.clone(),
            changes: changes.clone(),
            admission_room: admission_room.clone(),
            volume_room: volume_room.clone(),
            program_room: program_room.clone(),
            container_room: container_room.clone(),
            status_room: status_room.clone(),
        });
        let server_room = Arc::new(ServerContext {
            ctx: ctx.clone(),
            config: config.clone(),
            paths: paths.clone(),
            volumes: volumes.clone(),
            pods: pods.clone(),
            drivers: drivers.clone(),
            runtime: runtime.clone(),
            volume_stats: Mutex::default(),
        });
        Self { node: node_room, plugins: plugin_room, volumes: volume_room, pods: pod_room, server: server_room }
    }
}
