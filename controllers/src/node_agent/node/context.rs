//! Context of the room of the Node object.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use parking_lot::Mutex;
use substrate::Ctx;

use super::readiness::Readiness;
use crate::kube::{Client, EventRecorder, Informer};
use crate::node_agent::changes::Changes;
use crate::node_agent::config::NodeAgentConfig;
use crate::node_agent::volume_manager::VolumeManager;

/// Fields that the functions about the Node object use.
pub(crate) struct NodeContext {
    pub(crate) ctx: Ctx,
    pub(crate) client: Client,
    /// Client for node status and lease. It gives up after one heartbeat interval.
    pub(crate) heartbeat: Client,
    pub(crate) config: Arc<NodeAgentConfig>,
    pub(crate) recorder: EventRecorder,
    pub(crate) node: Informer<Node>,
    pub(crate) volumes: Arc<Mutex<VolumeManager>>,
    pub(crate) changes: Arc<Changes>,
    pub(crate) readiness: Arc<Readiness>,
}
