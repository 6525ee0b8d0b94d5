//! State shared by the tasks of one node agent.

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use k8s_openapi::api::core::v1::{Node, ObjectReference, Pod};
use k8s_openapi::api::storage::v1::CSIDriver;
use substrate::json::Text;
use substrate::{Ctx, latest};
use tokio::sync::Notify;

use super::config::NodeAgentConfig;
use super::names::Paths;
use super::plugins::csi::Driver;
use super::pod_table::pods::Pods;
use super::runtime::Runtime;
use super::server::volume_stats::VolumeStats;
use super::volume_manager::VolumeManager;
use super::volumes::devices::Devices;
use crate::kube::{Client, EventRecorder, Informer, ListParams};
use crate::metrics::{Metrics, families};
use crate::state_publisher::LoopStatePublisher;

/// Shared state of a running node agent.
pub struct Agent {
    pub(super) ctx: Ctx,
    pub(super) client: Client,
    /// Client for node status and lease. It gives up after one heartbeat interval.
    pub(super) heartbeat: Client,
    pub(super) config: NodeAgentConfig,
    pub(super) paths: Paths,
    pub(super) recorder: EventRecorder,
    pub(super) node: Informer<Node>,
    pub(super) drivers_of_cluster: Informer<CSIDriver>,
    pub(super) pod_source: Informer<Pod>,
    /// True once the CSINode object exists. Only then may the node become Ready.
    pub(super) csi_node_exists: AtomicBool,
    /// Wakes the status loop before its next tick.
    pub(super) status_due: Notify,
    /// Notified when a driver is registered.
    pub(super) driver_registered: Notify,
    /// Held while a driver is written to the Node or removed from it: all drivers share one annotation
    /// (`nodeInfoManager.lock` upstream).
    pub(super) node_drivers: tokio::sync::Mutex<()>,
    /// The machine's container runtime.
    pub(super) runtime: Runtime,
    /// Raw devices held open for pods.
    pub(super) devices: Devices,
    /// Answers of the drivers about volumes of pods.
    pub(super) volume_stats: Mutex<VolumeStats>,
    volumes: Mutex<VolumeManager>,
    drivers: Mutex<BTreeMap<String, Driver>>,
    pods: Mutex<Pods>,
    reconcile_due: Notify,
    changes: latest::Sender<()>,
    state_publisher: LoopStatePublisher,
}

impl Agent {
    pub(super) fn new(ctx: &Ctx, client: &Client, config: NodeAgentConfig) -> Arc<Self> {
        let named = ListParams::fields(format!("metadata.name={}", config.node_name));
        let mine = ListParams::fields(format!("spec.nodeName={}", config.node_name));
        let timers = &config.timers;
        let (initial, max) = (ctx.scaled(timers.pending_initial), ctx.scaled(timers.pending_max));
        Arc::new(Self {
            ctx: ctx.clone(),
            client: client.clone(),
            heartbeat: client.within(timers.node_status_update.min(timers.lease_duration)),
            paths: Paths::new(&config.root),
            recorder: EventRecorder::on_host(client, "kubelet", &config.node_name),
            node: Informer::start(ctx, client.all(), named),
            drivers_of_cluster: Informer::start(ctx, client.all(), ListParams::default()),
            pod_source: Informer::start(ctx, client.all(), mine),
            csi_node_exists: AtomicBool::new(false),
            status_due: Notify::new(),
            driver_registered: Notify::new(),
            node_drivers: tokio::sync::Mutex::default(),
            runtime: Runtime::new(config.runtime.clone()),
            devices: Devices::default(),
            volume_stats: Mutex::default(),
            volumes: Mutex::new(VolumeManager::new(initial, max)),
            drivers: Mutex::default(),
            pods: Mutex::default(),
            reconcile_due: Notify::new(),
            changes: latest::Sender::new(()),
            state_publisher: LoopStatePublisher::default(),
            config,
        })
    }

    pub(super) fn volumes(&self) -> MutexGuard<'_, VolumeManager> {
        self.volumes.lock()
    }

    pub(super) fn pods(&self) -> MutexGuard<'_, Pods> {
        self.pods.lock()
    }

    pub(super) fn drivers(&self) -> MutexGuard<'_, BTreeMap<String, Driver>> {
        self.drivers.lock()
    }

    /// Publishes the state of the volume manager to observers.
    pub(super) fn publish_state(&self) {
        self.state_publisher.publish_state(&self.ctx, || self.volumes().state());
        let counts = self.volumes().counts();
        let samples = counts.iter().map(|((driver, state), count)| (vec![driver.as_str(), *state], *count));
        Metrics::of(&self.ctx).replace(&families::VOLUME_MANAGER, samples);
    }

    /// Signals a change of volumes or pods: wakes the reconciler and all tasks that wait for volumes.
    pub(super) fn changed(&self) {
        self.changes.send_replace(());
        self.reconcile_due.notify_one();
    }

    /// Returns a receiver that gets every change from now on.
    pub(super) fn changes(&self) -> latest::Receiver<()> {
        self.changes.subscribe()
    }

    /// Waits until the reconciler has a reason to run.
    pub(super) async fn reconcile_due(&self) {
        self.reconcile_due.notified().await;
    }

    pub(super) fn csi_node_initialized(&self) -> bool {
        self.csi_node_exists.load(Ordering::Relaxed)
    }

    /// Returns the node's name, for events.
    pub(super) fn name(&self) -> Text {
        self.config.node_name.as_str().into()
    }

    /// Returns a reference to the node, for events. Upstream uses the node's name as uid too.
    pub(super) fn node_reference(&self) -> ObjectReference {
        ObjectReference {
            kind: Some("Node".to_owned()),
            name: Some(self.config.node_name.clone()),
            uid: Some(self.config.node_name.clone()),
            ..ObjectReference::default()
        }
    }
}
