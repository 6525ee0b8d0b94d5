//! Context of the room of admission.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::storage::v1::CSIDriver;
use parking_lot::Mutex;
use substrate::Ctx;

use crate::kube::{Client, Informer};
use crate::node_agent::config::NodeAgentConfig;
use crate::node_agent::plugins::context::PluginContext;
use crate::node_agent::pod_table::pods::Pods;
use crate::node_agent::volume_manager::VolumeManager;

/// Fields that the functions about admission use.
pub(crate) struct AdmissionContext {
    pub(crate) ctx: Ctx,
    pub(crate) client: Client,
    pub(crate) config: Arc<NodeAgentConfig>,
    pub(crate) node: Informer<Node>,
    pub(crate) drivers_of_cluster: Informer<CSIDriver>,
    pub(crate) volumes: Arc<Mutex<VolumeManager>>,
    pub(crate) pods: Arc<Mutex<Pods>>,
    pub(crate) plugin_room: Arc<PluginContext>,
}
