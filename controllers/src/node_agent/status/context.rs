//! Context of the room of the status of pods.

use std::sync::Arc;

use parking_lot::Mutex;
use substrate::Ctx;

use crate::kube::{Client, EventRecorder};
use crate::node_agent::config::NodeAgentConfig;
use crate::node_agent::pod_table::pods::Pods;

/// Fields that the functions about the status of pods use.
pub(crate) struct StatusContext {
    pub(crate) ctx: Ctx,
    pub(crate) client: Client,
    pub(crate) config: Arc<NodeAgentConfig>,
    pub(crate) recorder: EventRecorder,
    pub(crate) pods: Arc<Mutex<Pods>>,
}
