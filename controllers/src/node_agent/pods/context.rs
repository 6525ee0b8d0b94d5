//! Context of the room of pods.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use parking_lot::Mutex;
use substrate::Ctx;

use crate::kube::{EventRecorder, Informer};
use crate::node_agent::admission::context::AdmissionContext;
use crate::node_agent::changes::Changes;
use crate::node_agent::config::NodeAgentConfig;
use crate::node_agent::containers::context::ContainerContext;
use crate::node_agent::pod_table::pods::Pods;
use crate::node_agent::programs::context::ProgramContext;
use crate::node_agent::runtime::Runtime;
use crate::node_agent::status::context::StatusContext;
use crate::node_agent::volumes::context::VolumeContext;

/// Fields that the functions about pods use. Those of lower rooms come with their own contexts.
pub(crate) struct PodContext {
    pub(crate) ctx: Ctx,
    pub(crate) config: Arc<NodeAgentConfig>,
    pub(crate) recorder: EventRecorder,
    pub(crate) pod_source: Informer<Pod>,
    pub(crate) pods: Arc<Mutex<Pods>>,
    /// The machine's container runtime.
    pub(crate) runtime: Arc<Runtime>,
    pub(crate) changes: Arc<Changes>,
    pub(crate) admission_room: Arc<AdmissionContext>,
    pub(crate) volume_room: Arc<VolumeContext>,
    pub(crate) program_room: Arc<ProgramContext>,
    pub(crate) container_room: Arc<ContainerContext>,
    pub(crate) status_room: Arc<StatusContext>,
}
