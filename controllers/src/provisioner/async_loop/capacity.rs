//! Keeps the CSIStorageCapacity objects of the driver up to date (upstream `pkg/capacity`).

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, PersistentVolume};
use k8s_openapi::api::storage::v1::{CSINode, CSIStorageCapacity, StorageClass};
use parking_lot::{Mutex, MutexGuard};
use substrate::mutant;
use substrate::process::Ctx;

use super::super::capacity::items::{Capacities, Item, Task};
use super::super::capacity::object::{NAMESPACE, Write, request, selector, write};
use super::super::capacity::segments::{csi_node_matters, node_matters, segments};
use super::super::outcome::State;
use super::{Driver, Sources};
use crate::csi::Connection;
use crate::events::ProvisionerError;
use crate::kube::{Api, Client, DeleteParams, Delta, Informer, Kind, ListParams, Outcome, WorkQueue};
use crate::metrics::{Metrics, families};
use crate::timers::Timers;

/// Publisher of the driver's capacity.
pub(super) struct Publisher {
    ctx: Ctx,
    connection: Connection,
    driver: String,
    period: Duration,
    api: Api<CSIStorageCapacity>,
    classes: Informer<StorageClass>,
    nodes: Informer<Node>,
    csi_nodes: Informer<CSINode>,
    objects: Informer<CSIStorageCapacity>,
    queue: WorkQueue<Task>,
    /// Queue of one item: the segments must be computed again.
    topology: WorkQueue<()>,
    state: Mutex<Capacities>,
    metrics: Metrics,
}

impl Publisher {
    /// Starts the loop. None without `--enable-capacity`, or if the driver has no GET_CAPACITY.
    pub(super) fn start(
        ctx: &Ctx,
        client: &Client,
        timers: &Timers,
        driver: &Driver,
        sources: &Sources,
    ) -> Option<Arc<Self>> {
        if !timers.enable_capacity || !driver.capabilities.get_capacity {
            return None;
        }
        let params = ListParams { label_selector: Some(selector(&driver.name)), ..ListParams::default() };
        let api = client.namespaced::<CSIStorageCapacity>(NAMESPACE);
        let (base, max) = (timers.sidecar_retry_start, timers.sidecar_retry_max);
        let publisher = Arc::new(Self {
            ctx: ctx.clone(),
            connection: driver.connection.clone(),
            driver: driver.name.clone(),
            period: timers.capacity_poll_interval,
            classes: sources.classes.clone(),
            nodes: sources.nodes.clone(),
            csi_nodes: sources.csi_nodes.clone(),
            objects: Informer::start(ctx, api.clone(), params),
            api,
            queue: WorkQueue::new(ctx, base, max).named("csistoragecapacity"),
            topology: WorkQueue::new(ctx, base, max).named("csitopology"),
            state: Mutex::new(Capacities::new(&driver.name, timers.capacity_for_immediate_binding)),
            metrics: Metrics::of(ctx),
        });
        ctx.spawn(publisher.clone().run(timers.workers.capacity));
        Some(publisher)
    }

    /// Queues the objects that a new volume has probably changed (`provisionWrapper`): those of its topology, or
    /// without one those of its class.
    pub(super) fn volume_created(&self, volume: &PersistentVolume, class: &StorageClass) {
        match volume.spec.as_ref().and_then(|spec| spec.node_affinity.as_ref()) {
            Some(affinity) => self.change(|state| state.of_topology(affinity)),
            None => self.change(|state| state.of_class(class.name())),
        }
    }

    /// Queues the objects of a class after a creation that failed, unless the attempt changed nothing.
    pub(super) fn creation_failed(&self, state: State, class: &StorageClass) {
        if state != State::NoChange {
            self.change(|state| state.of_class(class.name()));
        }
    }

    /// Queues the objects in the topology of a deleted volume.
    pub(super) fn volume_deleted(&self, volume: &PersistentVolume) {
        if let Some(affinity) = volume.spec.as_ref().and_then(|spec| spec.node_affinity.as_ref()) {
            self.change(|state| state.of_topology(affinity));
        }
    }

    async fn run(self: Arc<Self>, workers: usize) {
        self.objects.synced().await;
        let (mut nodes, mut csi_nodes) = (self.nodes.subscribe(), self.csi_nodes.subscribe());
        let (mut classes, mut objects) = (self.classes.subscribe(), self.objects.subscribe());
        // Segments and classes come first: an object without them is obsolete.
        self.find_segments();
        while let Some(delta) = classes.try_recv() {
            self.class_changed(&delta);
        }
        while let Some(delta) = objects.try_recv() {
            self.object_changed(&delta);
        }
        let worker = self.clone();
        self.ctx.spawn(self.topology.clone().run(1, move |()| {
            worker.find_segments();
            std::future::ready(Outcome::Done)
        }));
        let worker = self.clone();
        self.ctx.spawn(self.queue.clone().run(workers, move |task| worker.clone().work(task)));
        self.ctx.spawn(self.clone().poll());
        loop {
            tokio::select! { biased;
                Some(delta) = nodes.recv() => if node_matters(&delta) {
                    self.topology.add(());
                },
                Some(delta) = csi_nodes.recv() => if csi_node_matters(&delta, &self.driver) {
                    self.topology.add(());
                },
                Some(delta) = classes.recv() => self.class_changed(&delta),
                Some(delta) = objects.recv() => self.object_changed(&delta),
                else => return,
            }
        }
    }

    /// Queues all items in each period. The start has queued them already.
    async fn poll(self: Arc<Self>) {
        loop {
            self.ctx.sleep(self.period).await;
            self.change(|state| state.all());
        }
    }

    fn find_segments(&self) {
        let found = segments(&self.driver, &self.csi_nodes.list(), |name| self.nodes.get("", name));
        self.change(|state| state.set_segments(found));
    }

    fn class_changed(&self, delta: &Delta<StorageClass>) {
        self.change(|state| match delta {
            Delta::Applied { new, .. } => state.class_applied(new),
            Delta::Deleted(class) => state.class_deleted(class.name()),
        });
    }

    fn object_changed(&self, delta: &Delta<CSIStorageCapacity>) {
        self.change(|state| match delta {
            Delta::Applied { new, .. } => state.object_applied(new),
            Delta::Deleted(object) => state.object_deleted(object),
        });
    }

    /// Applies a change, and queues the tasks that it needs.
    fn change<T: IntoIterator<Item = Task>>(&self, change: impl FnOnce(&mut Capacities) -> T) {
        let mut state = self.state();
        for task in change(&mut state) {
            self.queue.add(task);
        }
        let mut obsolete = 0;
        self.objects.each(|object| obsolete += u64::from(state.is_obsolete(object)));
        self.metrics.set(&families::CAPACITIES_GOAL, &[], state.goal() as u64);
        self.metrics.set(&families::CAPACITIES_CURRENT, &[], state.current() as u64);
        self.metrics.set(&families::CAPACITIES_OBSOLETE, &[], obsolete);
    }

    async fn work(self: Arc<Self>, task: Task) -> Outcome {
        let (object, done) = match &task {
            Task::Sync(item) => (&item.class, self.sync(item).await),
            Task::Delete(name) => (name, self.delete(name).await),
        };
        let Err(error) = done else { return Outcome::Done };
        self.ctx.trace().emit_lazily(self.ctx.name(), || ProvisionerError {
            what: "capacity".into(),
            object: object.as_str().into(),
            error,
        });
        Outcome::Retry
    }

    /// Asks the driver for the capacity of an item, and creates or updates its object. After an error of the driver the
    /// object keeps its value.
    async fn sync(&self, item: &Item) -> Result<(), String> {
        let found = self.state().find(item);
        // The class or the segment may be gone meanwhile.
        let (Some(old), Some(class)) = (found, self.classes.get("", &item.class)) else { return Ok(()) };
        let mut driver = self.connection.controller();
        let answer = self.connection.call(driver.get_capacity(request(item, &class))).await;
        let answer = answer.map_err(|e| e.to_string())?;
        let written = match write(&self.driver, item, old.as_deref(), &answer) {
            None => Ok(()),
            Some(Write::Create(new)) => self.api.create_unread(&new).await,
            Some(Write::Replace(_)) if mutant!(self.ctx, "published-capacity-kept") => Ok(()),
            Some(Write::Replace(new)) => self.api.replace(&new).await.map(drop),
        };
        written.map_err(|e| e.to_string())
    }

    async fn delete(&self, name: &str) -> Result<(), String> {
        match self.api.delete(name, &DeleteParams::default()).await {
            Err(e) if !e.is_not_found() => Err(e.to_string()),
            _ => Ok(()),
        }
    }

    fn state(&self) -> MutexGuard<'_, Capacities> {
        self.state.lock()
    }
}
