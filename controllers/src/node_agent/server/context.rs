//! Context of the room of the server.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use substrate::Ctx;

use super::volume_stats::VolumeStats;
use crate::node_agent::config::NodeAgentConfig;
use crate::node_agent::names::Paths;
use crate::node_agent::plugins::csi::Driver;
use crate::node_agent::pod_table::pods::Pods;
use crate::node_agent::runtime::Runtime;
use crate::node_agent::volume_manager::VolumeManager;

/// Fields that the functions of the server use.
pub(crate) struct ServerContext {
    pub(crate) ctx: Ctx,
    pub(crate) config: Arc<NodeAgentConfig>,
    pub(crate) paths: Paths,
    pub(crate) volumes: Arc<Mutex<VolumeManager>>,
    pub(crate) pods: Arc<Mutex<Pods>>,
    /// Registered drivers.
    pub(crate) drivers: Arc<Mutex<BTreeMap<String, Driver>>>,
    /// The machine's container runtime.
    pub(crate) runtime: Arc<Runtime>,
    /// Answers of the drivers about volumes of pods.
    pub(crate) volume_stats: Mutex<VolumeStats>,
}
