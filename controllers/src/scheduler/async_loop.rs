//! The async loop: informers feed the world and the queue, one loop schedules, and a task per pod binds.

use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod, PodStatus};
use k8s_openapi::api::storage::v1::{CSIDriver, CSINode, CSIStorageCapacity, StorageClass, VolumeAttachment};
use substrate::mutant;
use substrate::process::Ctx;
use tokio::sync::Notify;

use super::binding::{self, BindingError};
use super::cache::{PodKey, SchedulerCache, SeededBugs};
use super::cycle::{Placement, schedule};
use super::events::Recorder;
use super::hints::{ClusterEvent, pod_may_fit_now, worth_retrying};
use super::queue::{Failure, SchedulingQueue, Waits};
use super::status;
use super::volume_binding::{PodVolumes, reserve, unreserve};
use crate::Timers;
use crate::binder::object::ClaimKey;
use crate::events::SchedulerError;
use crate::kube::{Client, Delta, Informer, Kind, ListParams};
use crate::mirror_pod::is_stand_in;

/// Default scheduler name of a pod.
pub(crate) const NAME: &str = "default-scheduler";
/// Selector without finished pods.
const PODS: &str = "status.phase!=Succeeded,status.phase!=Failed";

/// Configuration of the scheduler.
#[derive(Clone, Debug)]
pub struct Config {
    /// Durations: backoffs, the flush of unschedulable pods, polling and timeout of volume binding.
    pub timers: Timers,
    /// If set, watch CSIStorageCapacity objects. Otherwise drivers are assumed to have room everywhere.
    pub storage_capacity: bool,
}

impl Config {
    /// Creates a configuration without published capacities.
    pub fn new(timers: Timers) -> Self {
        Self { timers, storage_capacity: false }
    }
}

/// Runs the scheduler forever. `client` is its own (user agent `kube-scheduler/scheduler`).
pub async fn run(ctx: Ctx, client: Client, config: Config) {
    let sources = Sources::start(&ctx, &client, &config);
    sources.synced().await;
    let t = &config.timers;
    let waits = Waits {
        initial_backoff: ctx.scaled(t.pod_initial_backoff),
        max_backoff: ctx.scaled(t.pod_max_backoff),
        flush_after: ctx.scaled(t.unschedulable_flush),
        backoff_tick: ctx.scaled(Duration::from_secs(1)),
        flush_tick: ctx.scaled(Duration::from_secs(30)),
    };
    let mut cache = SchedulerCache::default();
    cache.seeded_bugs = SeededBugs {
        ignores_zones: mutant!(ctx, "zone-not-compared"),
        ignores_limits: mutant!(ctx, "volume-limits-ignored"),
        one_too_many: mutant!(ctx, "one-volume-too-many"),
        ignores_once_pod: mutant!(ctx, "once-pod-not-compared"),
        takes_foreign_claims: mutant!(ctx, "foreign-claim-taken"),
    };
    cache.capacities = config.storage_capacity.then(Default::default);
    let queue = SchedulingQueue::new(waits, ctx.now().mono);
    let scheduler = Arc::new(Scheduler {
        recorder: Recorder::new(&client, NAME),
        state: Mutex::new(State { cache, queue }),
        changed: Notify::new(),
        ctx,
        client,
        config,
    });
    scheduler.pump(sources).await;
}

/// Starts the caches of `client` before [`run`]: a scheduler that waits to lead fills them (`delayCacheUntilActive` is
/// off).
pub fn warm(ctx: &Ctx, client: &Client, config: &Config) {
    Sources::start(ctx, client, config);
}

struct Sources {
    pods: Informer<Pod>,
    nodes: Informer<Node>,
    claims: Informer<PersistentVolumeClaim>,
    volumes: Informer<PersistentVolume>,
    classes: Informer<StorageClass>,
    csi_nodes: Informer<CSINode>,
    drivers: Informer<CSIDriver>,
    attachments: Informer<VolumeAttachment>,
    capacities: Option<Informer<CSIStorageCapacity>>,
}

impl Sources {
    fn start(ctx: &Ctx, client: &Client, config: &Config) -> Self {
        Self {
            pods: Informer::start(ctx, client.all(), ListParams::fields(PODS)),
            nodes: Informer::start(ctx, client.all(), ListParams::default()),
            claims: Informer::start(ctx, client.all(), ListParams::default()),
            volumes: Informer::start(ctx, client.all(), ListParams::default()),
            classes: Informer::start(ctx, client.all(), ListParams::default()),
            csi_nodes: Informer::start(ctx, client.all(), ListParams::default()),
            drivers: Informer::start(ctx, client.all(), ListParams::default()),
            attachments: Informer::start(ctx, client.all(), ListParams::default()),
            capacities: config.storage_capacity.then(|| Informer::start(ctx, client.all(), ListParams::default())),
        }
    }

    async fn synced(&self) {
        self.pods.synced().await;
        self.nodes.synced().await;
        self.claims.synced().await;
        self.volumes.synced().await;
        self.classes.synced().await;
        self.csi_nodes.synced().await;
        self.drivers.synced().await;
        self.attachments.synced().await;
        if let Some(capacities) = &self.capacities {
            capacities.synced().await;
        }
    }
}

struct State {
    cache: SchedulerCache,
    queue: SchedulingQueue,
}

struct Scheduler {
    ctx: Ctx,
    client: Client,
    config: Config,
    recorder: Recorder,
    state: Mutex<State>,
    /// Notified when a binding returns a pod.
    changed: Notify,
}

impl Scheduler {
    async fn pump(self: Arc<Self>, sources: Sources) {
        let (mut pods, mut nodes) = (sources.pods.subscribe(), sources.nodes.subscribe());
        let (mut claims, mut volumes) = (sources.claims.subscribe(), sources.volumes.subscribe());
        let (mut classes, mut csi_nodes) = (sources.classes.subscribe(), sources.csi_nodes.subscribe());
        let (mut drivers, mut attachments) = (sources.drivers.subscribe(), sources.attachments.subscribe());
        let mut capacities = sources.capacities.as_ref().map(Informer::subscribe);
        loop {
            // All pending events are applied before a pod is scheduled: pods come last.
            let deadline = self.state().queue.next_deadline();
            tokio::select! { biased;
                Some(delta) = nodes.recv() => self.node_changed(delta),
                Some(delta) = classes.recv() => self.class_changed(delta),
                Some(delta) = drivers.recv() => self.driver_changed(delta),
                Some(delta) = csi_nodes.recv() => self.csi_node_changed(&delta),
                Some(delta) = volumes.recv() => self.volume_changed(delta),
                Some(delta) = claims.recv() => self.claim_changed(delta),
                Some(delta) = attachments.recv() => self.attachment_changed(&delta),
                Some(delta) = async { capacities.as_mut()?.recv().await }, if capacities.is_some() => {
                    self.capacity_changed(delta);
                }
                Some(delta) = pods.recv() => self.pod_changed(delta),
                () = self.schedule_ready() => {}
                () = self.changed.notified() => {}
                () = self.ctx.sleep_until(deadline.unwrap_or(Duration::MAX)), if deadline.is_some() => {}
            }
        }
    }

    /// Schedules one pod, or stays pending if none is ready.
    async fn schedule_ready(self: &Arc<Self>) {
        let now = self.ctx.now().mono;
        let next = self.state().queue.pop(now);
        match next {
            Some(pod) => self.schedule_one(pod),
            None => std::future::pending().await,
        }
    }

    fn schedule_one(self: &Arc<Self>, pod: Arc<Pod>) {
        let key = PodKey::of(&pod);
        if pod.is_deleting() {
            let message = format!("skip schedule deleting pod: {}/{}", key.namespace, key.name);
            self.recorder.event(&pod, "Warning", "FailedScheduling", "Scheduling", &message);
            self.state().queue.delete(&key);
            return;
        }
        let now = self.ctx.now().mono;
        let mut state = self.state();
        match schedule(&state.cache, &pod) {
            Err(error) => {
                state.queue.put_back(now, &key, Failure::Unschedulable(error.plugins.clone()));
                drop(state);
                self.report(&pod, "Unschedulable", &error.to_string());
            }
            Ok(Placement { node, volumes }) => {
                let assumed = reserve(&mut state.cache, &volumes, &node);
                if !mutant!(self.ctx, "limit-race") {
                    state.cache.place(pod.clone(), &node);
                }
                drop(state);
                let scheduler = self.clone();
                self.ctx.spawn(async move { scheduler.bind(pod, node, assumed).await });
            }
        }
    }

    /// Runs the binding cycle: volumes first, then the pod.
    async fn bind(self: Arc<Self>, pod: Arc<Pod>, node: String, mut volumes: PodVolumes) {
        let key = PodKey::of(&pod);
        if !volumes.is_empty() {
            // Without volumes the binding is immediate, so no nomination is needed. Upstream waits for the answer, and
            // continues whatever it is.
            let nominated = status::nominated(&pod, &node);
            written(&self.ctx, &self.client, "nomination", &pod, nominated).await;
        }
        let bound = match self.bind_volumes(&pod, &node, &mut volumes).await {
            Err(error) => Err(format!("running PreBind plugin \"VolumeBinding\": {error}")),
            Ok(()) => {
                let pods = self.client.namespaced::<Pod>(&key.namespace);
                let bound = pods.bind(&key.name, pod.uid(), &node).await;
                bound.map_err(|e| format!("running Bind plugin \"DefaultBinder\": {e}"))
            }
        };
        match bound {
            Ok(()) => {
                let message = format!("Successfully assigned {}/{} to {node}", key.namespace, key.name);
                self.recorder.event(&pod, "Normal", "Scheduled", "Binding", &message);
            }
            Err(message) => {
                let now = self.ctx.now().mono;
                {
                    let mut state = self.state();
                    unreserve(&mut state.cache, &volumes);
                    // The pod may have got its node anyway. Then the informer reports it, and it is no longer in the
                    // queue.
                    if state.queue.get(&key).is_some_and(|queued| queued.uid() == pod.uid()) {
                        state.cache.unplace(&key);
                        state.queue.put_back(now, &key, Failure::Error);
                    }
                }
                self.report(&pod, "SchedulerError", &message);
                self.changed.notify_one();
            }
        }
    }

    /// Writes the assumed objects, and waits until the binder has bound them (`BindPodVolumes`).
    async fn bind_volumes(&self, pod: &Pod, node: &str, volumes: &mut PodVolumes) -> Result<(), BindingError> {
        if volumes.is_empty() {
            return Ok(());
        }
        let api = |e: crate::kube::ApiError| BindingError::Api(e.to_string());
        for (volume, _) in &mut volumes.static_bindings {
            *volume = self.client.all().replace(&**volume).await.map_err(api)?;
        }
        for claim in &mut volumes.provisions {
            *claim = self.client.all().replace(&**claim).await.map_err(api)?;
        }
        if mutant!(self.ctx, "binding-not-awaited") {
            return Ok(());
        }
        let wrapped = |e: BindingError| BindingError::Api(format!("binding volumes: {e}"));
        let step = self.ctx.scaled(self.config.timers.bind_poll);
        let started = self.ctx.now().mono;
        let deadline = started + self.ctx.scaled(self.config.timers.bind_timeout);
        let mut next = started;
        loop {
            next += step;
            if next > deadline {
                self.ctx.sleep_until(deadline).await;
                return Err(wrapped(BindingError::Timeout));
            }
            self.ctx.sleep_until(next).await;
            if self.check(pod, node, volumes).map_err(wrapped)? {
                return Ok(());
            }
        }
    }

    fn check(&self, pod: &Pod, node: &str, volumes: &PodVolumes) -> Result<bool, BindingError> {
        let state = self.state();
        let Some(node) = state.cache.nodes.get(node).and_then(|info| info.node.as_ref()) else {
            return Err(BindingError::NoNode(node.to_owned()));
        };
        let exists = state.queue.get(&PodKey::of(pod)).is_some_and(|queued| queued.uid() == pod.uid());
        binding::check(&state.cache, node, (!exists).then(|| pod.name()), volumes)
    }

    /// Emits the event and writes the condition with the reason why a pod has no node.
    fn report(&self, pod: &Arc<Pod>, reason: &'static str, message: &str) {
        self.recorder.event(pod, "Warning", "FailedScheduling", "Scheduling", message);
        let newest = self.state().queue.get(&PodKey::of(pod)).cloned().unwrap_or_else(|| pod.clone());
        // After a failed write, the next scheduling failure writes the condition.
        let status = status::unscheduled(&newest, reason, message, self.ctx.now().wall);
        self.write("condition", newest, status);
    }

    /// Writes a pod's status in the background, like upstream's dispatcher of API calls.
    fn write(&self, what: &'static str, pod: Arc<Pod>, status: PodStatus) {
        let (ctx, client) = (self.ctx.clone(), self.client.clone());
        self.ctx.spawn(async move { written(&ctx, &client, what, &pod, status).await });
    }

    fn happened(&self, state: &mut State, event: ClusterEvent<'_>) {
        if !state.queue.nobody_waits() {
            state.queue.happened(self.ctx.now().mono, |pod, plugins| worth_retrying(event, pod, plugins));
        }
    }

    fn node_changed(&self, delta: Delta<Node>) {
        let mut state = self.state();
        match delta {
            Delta::Applied { old, new } => {
                state.cache.store_node(new.clone());
                self.happened(&mut state, ClusterEvent::Node(old.as_deref(), &new));
            }
            Delta::Deleted(node) => state.cache.remove_node(node.name()),
        }
    }

    fn class_changed(&self, delta: Delta<StorageClass>) {
        let mut state = self.state();
        match delta {
            Delta::Applied { old, new } => {
                state.cache.classes.insert(new.name().to_owned(), new.clone());
                self.happened(&mut state, ClusterEvent::Class(old.as_deref(), &new));
            }
            Delta::Deleted(class) => drop(state.cache.classes.remove(class.name())),
        }
    }

    fn driver_changed(&self, delta: Delta<CSIDriver>) {
        let mut state = self.state();
        match delta {
            Delta::Applied { old, new } => {
                state.cache.drivers.insert(new.name().to_owned(), new.clone());
                if let Some(old) = old {
                    self.happened(&mut state, ClusterEvent::Driver(&old, &new));
                }
            }
            Delta::Deleted(driver) => drop(state.cache.drivers.remove(driver.name())),
        }
    }

    fn csi_node_changed(&self, delta: &Delta<CSINode>) {
        let mut state = self.state();
        match delta {
            Delta::Applied { old, new } => {
                state.cache.store_csi_node(new);
                self.happened(&mut state, ClusterEvent::CsiNode(old.as_deref(), new));
            }
            Delta::Deleted(csi_node) => state.cache.remove_csi_node(csi_node.name()),
        }
    }

    fn capacity_changed(&self, delta: Delta<CSIStorageCapacity>) {
        let mut state = self.state();
        let Some(capacities) = &mut state.cache.capacities else { return };
        let key = |c: &CSIStorageCapacity| format!("{}/{}", c.namespace(), c.name());
        match delta {
            Delta::Applied { new, .. } => {
                capacities.insert(key(&new), new.clone());
                self.happened(&mut state, ClusterEvent::Capacity(&new));
            }
            Delta::Deleted(capacity) => drop(capacities.remove(&key(&capacity))),
        }
    }

    fn volume_changed(&self, delta: Delta<PersistentVolume>) {
        let mut state = self.state();
        match delta {
            Delta::Applied { old, new } => {
                state.cache.store_volume(new.clone());
                self.happened(&mut state, ClusterEvent::Volume(old.as_deref(), &new));
            }
            Delta::Deleted(volume) => state.cache.remove_volume(volume.name()),
        }
    }

    fn claim_changed(&self, delta: Delta<PersistentVolumeClaim>) {
        let mut state = self.state();
        match delta {
            Delta::Applied { old, new } => {
                state.cache.claims.store(ClaimKey::of(&new), new.clone());
                self.happened(&mut state, ClusterEvent::Claim(old.as_deref(), &new));
            }
            Delta::Deleted(claim) => state.cache.claims.remove(&ClaimKey::of(&claim)),
        }
    }

    fn attachment_changed(&self, delta: &Delta<VolumeAttachment>) {
        let mut state = self.state();
        match delta {
            Delta::Applied { new, .. } => state.cache.store_attachment(new),
            Delta::Deleted(va) => {
                state.cache.remove_attachment(va.name());
                self.happened(&mut state, ClusterEvent::AttachmentGone);
            }
        }
    }

    fn pod_changed(&self, delta: Delta<Pod>) {
        let now = self.ctx.now().mono;
        let mut state = self.state();
        match delta {
            // It uses no resources of a node.
            Delta::Applied { new: pod, .. } | Delta::Deleted(pod) if is_stand_in(&pod) => {}
            Delta::Applied { old, new } => {
                let key = PodKey::of(&new);
                if let Some(node) = node_of(&new) {
                    state.queue.delete(&key);
                    state.cache.place(new.clone(), node);
                    return;
                }
                if !is_ours(&new) {
                    return;
                }
                if old.as_ref().is_some_and(|old| node_of(old).is_some()) {
                    // A new pod with the name of one that had a node.
                    state.cache.unplace(&key);
                }
                let relevant = old.is_none_or(|old| pod_may_fit_now(&old, &new));
                state.queue.update(now, new, relevant);
            }
            Delta::Deleted(pod) => {
                let key = PodKey::of(&pod);
                state.queue.delete(&key);
                let placed = state.cache.place_of(&key).is_some();
                state.cache.unplace(&key);
                if placed {
                    self.happened(&mut state, ClusterEvent::AssignedPodGone(&pod));
                }
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref().and_then(|s| s.node_name.as_deref()).filter(|node| !node.is_empty())
}

/// Returns true if this scheduler is responsible for the pod, and no gate holds it.
fn is_ours(pod: &Pod) -> bool {
    let Some(spec) = &pod.spec else { return false };
    spec.scheduler_name.as_deref().unwrap_or(NAME) == NAME && spec.scheduling_gates.iter().flatten().next().is_none()
}

/// Writes a pod's status; a failure is only traced.
async fn written(ctx: &Ctx, client: &Client, what: &'static str, pod: &Pod, status: PodStatus) {
    if let Err(e) = status::patch(client, pod, status).await {
        let pod = pod.name().into();
        ctx.trace().emit_lazily(ctx.name(), || SchedulerError { what: what.into(), pod, error: e.to_string() });
    }
}
