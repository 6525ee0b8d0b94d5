//! Context of the room of pods.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::storage::v1::CSIDriver;
use parking_lot::Mutex;
use substrate::Ctx;

use crate::kube::{Client, EventRecorder, Informer};
use crate::node_agent::changes::Changes;
use crate::node_agent::config::NodeAgentConfig;
use crate::node_agent::containers::context::ContainerContext;
use crate::node_agent::names::Paths;
use crate::node_agent::plugins::context::PluginContext;
use crate::node_agent::pod_table::pods::Pods;
use crate::node_agent::programs::context::ProgramContext;
use crate::node_agent::runtime::Runtime;
use crate::node_agent::status::context::StatusContext;
use crate::node_agent::volume_manager::VolumeManager;
use crate::node_agent::volumes::context::VolumeContext;

/// Fields that the functions about pods use. Those of lower rooms come with their own contexts.
pub(crate) struct PodContext {
    pub(crate) ctx: Ctx,
    pub(crate) client: Client,
    pub(crate) config: Arc<NodeAgentConfig>,
    pub(crate) paths: Paths,
    pub(crate) recorder: EventRecorder,
    pub(crate) node: Informer<Node>,
    pub(crate) drivers_of_cluster: Informer<CSIDriver>,
    pub(crate) pod_source: Informer<Pod>,
    pub(crate) volumes: Arc<Mutex<VolumeManager>>,
    pub(crate) pods: Arc<Mutex<Pods>>,
    /// The machine's container runtime.
    pub(crate) runtime: Arc<Runtime>,
    pub(crate) changes: Arc<Changes>,
    pub(crate) plugin_room: Arc<PluginContext>,
    pub(crate) volume_room: Arc<VolumeContext>,
    pub(crate) program_room: Arc<ProgramContext>,
    pub(crate) container_room: Arc<ContainerContext>,
    pub(crate) status_room: Arc<StatusContext>,
}
