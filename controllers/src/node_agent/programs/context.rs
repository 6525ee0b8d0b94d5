//! Context of the room of programs.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use parking_lot::Mutex;
use substrate::Ctx;

use crate::kube::{Client, Informer};
use crate::node_agent::config::NodeAgentConfig;
use crate::node_agent::names::Paths;
use crate::node_agent::volume_manager::VolumeManager;

/// Fields that the functions about programs use.
pub(crate) struct ProgramContext {
    pub(crate) ctx: Ctx,
    pub(crate) client: Client,
    pub(crate) config: Arc<NodeAgentConfig>,
    pub(crate) paths: Paths,
    pub(crate) node: Informer<Node>,
    pub(crate) volumes: Arc<Mutex<VolumeManager>>,
}
