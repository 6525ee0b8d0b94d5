//! Context of the room of volumes.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::storage::v1::CSIDriver;
use parking_lot::Mutex;
use substrate::Ctx;

use super::devices::Devices;
use crate::kube::{Client, EventRecorder, Informer};
use crate::metrics::{Metrics, families};
use crate::node_agent::changes::Changes;
use crate::node_agent::config::NodeAgentConfig;
use crate::node_agent::names::Paths;
use crate::node_agent::plugins::csi::Driver;
use crate::node_agent::pod_table::pods::Pods;
use crate::node_agent::runtime::Runtime;
use crate::node_agent::volume_manager::VolumeManager;
use crate::state_publisher::LoopStatePublisher;

/// Fields that the functions about volumes use.
pub(crate) struct VolumeContext {
    pub(crate) ctx: Ctx,
    pub(crate) client: Client,
    pub(crate) config: Arc<NodeAgentConfig>,
    pub(crate) paths: Paths,
    pub(crate) recorder: EventRecorder,
    pub(crate) node: Informer<Node>,
    pub(crate) drivers_of_cluster: Informer<CSIDriver>,
    /// Registered drivers.
    pub(crate) drivers: Arc<Mutex<BTreeMap<String, Driver>>>,
    /// Raw devices held open for pods.
    pub(crate) devices: Devices,
    pub(crate) volumes: Arc<Mutex<VolumeManager>>,
    pub(crate) pods: Arc<Mutex<Pods>>,
    /// The machine's container runtime.
    pub(crate) runtime: Arc<Runtime>,
    pub(crate) changes: Arc<Changes>,
    pub(crate) state_publisher: LoopStatePublisher,
}

impl VolumeContext {
    /// Publishes the state of the volume manager to observers.
    pub(super) fn publish_state(&self) {
        self.state_publisher.publish_state(&self.ctx, || self.volumes.lock().state());
        let counts = self.volumes.lock().counts();
        let samples = counts.iter().map(|((driver, state), count)| (vec![driver.as_str(), *state], *count));
        Metrics::of(&self.ctx).replace(&families::VOLUME_MANAGER, samples);
    }
}
