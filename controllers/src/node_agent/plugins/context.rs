//! Context of the room of plugins.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::storage::v1::CSIDriver;
use parking_lot::Mutex;
use substrate::Ctx;
use tokio::sync::Notify;

use super::csi::Driver;
use crate::kube::{Client, Informer};
use crate::node_agent::changes::Changes;
use crate::node_agent::config::NodeAgentConfig;
use crate::node_agent::node::readiness::Readiness;

/// Fields that the functions about plugins use.
pub(crate) struct PluginContext {
    pub(crate) ctx: Ctx,
    pub(crate) client: Client,
    pub(crate) config: Arc<NodeAgentConfig>,
    pub(crate) drivers_of_cluster: Informer<CSIDriver>,
    /// Registered drivers.
    pub(crate) drivers: Arc<Mutex<BTreeMap<String, Driver>>>,
    /// Notified when a driver is registered.
    pub(crate) driver_registered: Notify,
    /// Held while a driver is written to the Node or removed from it: all drivers share one annotation
    /// (`nodeInfoManager.lock` upstream).
    pub(crate) node_drivers: tokio::sync::Mutex<()>,
    pub(crate) changes: Arc<Changes>,
    pub(crate) readiness: Arc<Readiness>,
}
