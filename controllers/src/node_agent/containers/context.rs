//! Context of the room of containers.

use std::sync::Arc;

use parking_lot::Mutex;
use substrate::Ctx;

use crate::kube::EventRecorder;
use crate::node_agent::config::NodeAgentConfig;
use crate::node_agent::pod_table::pods::Pods;
use crate::node_agent::programs::context::ProgramContext;
use crate::node_agent::runtime::Runtime;

/// Fields that the functions about containers use.
pub(crate) struct ContainerContext {
    pub(crate) ctx: Ctx,
    pub(crate) config: Arc<NodeAgentConfig>,
    pub(crate) recorder: EventRecorder,
    /// The machine's container runtime.
    pub(crate) runtime: Arc<Runtime>,
    pub(crate) pods: Arc<Mutex<Pods>>,
    pub(crate) program_room: Arc<ProgramContext>,
}
