//! The async loop: informers feed the world and the queue, one loop schedules, and a task per pod binds.

use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use substrate::mutant;
use substrate::process::Ctx;
use tokio::sync::Notify;

use super::binding::{self, BindingError};
use super::cache::{SchedulerCache, SeededBugs};
use super::cycle::{Placement, schedule};
use super::events::Recorder;
use super::fit_error::Plugin;
use super::hints::ClusterEvent;
use super::node_info::PodKey;
use super::nominations::Nomination;
use super::preemptor::Preempting;
use super::queue::{Failure, SchedulingQueue, Waits};
use super::sources::Sources;
use super::status;
use super::status_writer::StatusWriter;
use super::volume_binding::{PodVolumes, reserve, unreserve};
use super::watch::stored;
use crate::Timers;
use crate::kube::{Client, Delta, Kind};
use crate::metrics::{Metrics, families};

/// Default scheduler name of a pod.
pub(crate) const NAME: &str = "default-scheduler";

/// Configuration of the scheduler.
#[derive(Clone, Debug)]
pub struct Config {
    /// Durations: backoffs, the flush of unschedulable pods, polling and timeout of volume binding.
    pub timers: Timers,
}

impl Config {
    /// Creates a configuration.
    pub fn new(timers: Timers) -> Self {
        Self { timers }
    }
}

/// Runs the scheduler forever. `client` is its own (user agent `kube-scheduler/scheduler`).
pub async fn run(ctx: Ctx, client: Client, config: Config) {
    let sources = Sources::start(&ctx, &client);
    if !mutant!(ctx, "placement-before-lists") {
        sources.synced().await;
    }
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
        preempts_equals: mutant!(ctx, "equals-preempted"),
        ignores_preemption_policy: mutant!(ctx, "preemption-policy-ignored"),
        reprieves_no_pod: mutant!(ctx, "victims-not-reprieved"),
        ignores_nominations: mutant!(ctx, "nominated-room-taken"),
        ignores_attachments: mutant!(ctx, "attached-volumes-not-counted"),
        ignores_capacity: mutant!(ctx, "storage-capacity-ignored"),
        counts_each_use: mutant!(ctx, "shared-volume-counted-twice"),
        ignores_no_schedule: mutant!(ctx, "no-schedule-taint-ignored"),
        keeps_missing_limits: mutant!(ctx, "missing-limit-remembered"),
        counts_bound_only: mutant!(ctx, "unbound-claims-not-counted"),
        spares_unprotected: mutant!(ctx, "budgets-not-spared"),
        ignores_resets: mutant!(ctx, "reset-selection-not-noticed"),
        keeps_assumed: mutant!(ctx, "failed-reservation-kept"),
        ignores_terms_of_others: mutant!(ctx, "anti-affinity-of-others-ignored"),
        mixes_namespaces: mutant!(ctx, "affinity-across-namespaces"),
        skips: match () {
            () if mutant!(ctx, "node-selector-ignored") => Some(Plugin::NodeAffinity),
            () if mutant!(ctx, "requests-not-compared") => Some(Plugin::NodeResourcesFit),
            () => None,
        },
    };
    let queue = SchedulingQueue::new(waits, ctx.now().mono);
    let scheduler = Arc::new(Scheduler {
        recorder: Recorder::new(&client, NAME),
        state: Mutex::new(State { cache, queue, preempting: Preempting::default() }),
        changed: Notify::new(),
        metrics: Metrics::of(&ctx),
        statuses: StatusWriter::new(&ctx, &client),
        ctx,
        client,
        config,
    });
    scheduler.pump(sources).await;
}

/// Starts the caches of `client` before [`run`]: a scheduler that waits to lead fills them (`delayCacheUntilActive` is
/// off).
pub fn warm(ctx: &Ctx, client: &Client) {
    Sources::start(ctx, client);
}

/// Mutable state of the scheduler.
pub(super) struct State {
    pub(super) cache: SchedulerCache,
    pub(super) queue: SchedulingQueue,
    pub(super) preempting: Preempting,
}

/// The scheduler.
pub(super) struct Scheduler {
    pub(super) ctx: Ctx,
    pub(super) metrics: Metrics,
    pub(super) client: Client,
    config: Config,
    pub(super) recorder: Recorder,
    statuses: Arc<StatusWriter>,
    state: Mutex<State>,
    /// Notified when a task returns a pod.
    pub(super) changed: Notify,
}

impl Scheduler {
    async fn pump(self: Arc<Self>, sources: Sources) {
        let (mut pods, mut nodes) = (sources.pods.subscribe(), sources.nodes.subscribe());
        let (mut claims, mut volumes) = (sources.claims.subscribe(), sources.volumes.subscribe());
        let (mut classes, mut csi_nodes) = (sources.classes.subscribe(), sources.csi_nodes.subscribe());
        let (mut drivers, mut attachments) = (sources.drivers.subscribe(), sources.attachments.subscribe());
        let (mut capacities, mut budgets) = (sources.capacities.subscribe(), sources.budgets.subscribe());
        let (mut services, mut replica_sets) = (sources.services.subscribe(), sources.replica_sets.subscribe());
        let (mut stateful_sets, mut namespaces) = (sources.stateful_sets.subscribe(), sources.namespaces.subscribe());
        let mut counted = None;
        loop {
            // All pending events are applied before a pod is scheduled: pods come last.
            let (deadline, counts) = {
                let queue = &self.state().queue;
                (queue.next_deadline(), queue.counts())
            };
            if counted.replace(counts) != Some(counts) {
                for (queue, count) in counts {
                    self.metrics.set(&families::PENDING_PODS, &[queue], count);
                }
            }
            tokio::select! { biased;
                Some(delta) = nodes.recv() => self.node_changed(delta),
                Some(delta) = classes.recv() => self.class_changed(delta),
                Some(delta) = drivers.recv() => self.driver_changed(delta),
                Some(delta) = csi_nodes.recv() => self.csi_node_changed(&delta),
                Some(delta) = volumes.recv() => self.volume_changed(delta),
                Some(delta) = claims.recv() => self.claim_changed(delta),
                Some(delta) = attachments.recv() => self.attachment_changed(&delta),
                Some(delta) = capacities.recv() => self.capacity_changed(delta),
                Some(delta) = namespaces.recv() => self.namespace_changed(delta),
                Some(delta) = budgets.recv() => stored(&mut self.state().cache.budgets, delta),
                Some(delta) = services.recv() => stored(&mut self.state().cache.owners.services, delta),
                Some(delta) = replica_sets.recv() => stored(&mut self.state().cache.owners.replica_sets, delta),
                Some(delta) = stateful_sets.recv() => stored(&mut self.state().cache.owners.stateful_sets, delta),
                Some(delta) = pods.recv() => self.take_pod(delta),
                () = self.schedule_ready() => {}
                () = self.changed.notified() => {}
                () = self.ctx.sleep_until(deadline.unwrap_or(Duration::MAX)), if deadline.is_some() => {}
            }
        }
    }

    fn take_pod(self: &Arc<Self>, delta: Delta<Pod>) {
        if matches!(delta, Delta::Applied { old: None, .. }) && mutant!(self.ctx, "new-pod-found-late") {
            let scheduler = self.clone();
            self.ctx.spawn(async move {
                scheduler.ctx.sleep(Duration::from_secs(60)).await;
                scheduler.pod_changed(delta);
                scheduler.changed.notify_one();
            });
            return;
        }
        self.pod_changed(delta);
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
                self.metrics.count(&families::SCHEDULE_ATTEMPTS, &[NAME, "unschedulable"]);
                // The filter of preemption runs after each failure.
                self.metrics.count(&families::PREEMPTION_ATTEMPTS, &[]);
                state.queue.put_back(now, &key, Failure::Unschedulable(error.plugins.clone()));
                let message = error.to_string();
                let verdict = error.verdict;
                state.cache.nominations.add(pod.clone(), &verdict.nomination);
                drop(state);
                if let Some(candidate) = verdict.candidate {
                    self.preempt(&pod, candidate);
                }
                self.report(&pod, "Unschedulable", &message, &verdict.nomination);
            }
            Ok(Placement { node, volumes }) => {
                let assumed = reserve(&mut state.cache, &volumes, &node);
                state.cache.nominations.remove(&key);
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
            self.statuses.written("nomination", &pod, nominated).await;
        }
        let bound = match self.bind_volumes(&pod, &node, &mut volumes).await {
            Err(error) => Err(format!("running PreBind plugin \"VolumeBinding\": {error}")),
            Ok(()) => {
                let pods = self.client.namespaced::<Pod>(&key.namespace);
                let bound = pods.bind(&key.name, pod.uid(), &node).await;
                bound.map_err(|e| format!("running Bind plugin \"DefaultBinder\": {e}"))
            }
        };
        let result = if bound.is_ok() { "scheduled" } else { "error" };
        self.metrics.count(&families::SCHEDULE_ATTEMPTS, &[NAME, result]);
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
                        if !mutant!(self.ctx, "failed-binding-keeps-room") {
                            state.cache.unplace(&key);
                        }
                        if !mutant!(self.ctx, "failed-binding-not-retried") {
                            state.queue.put_back(now, &key, Failure::Error);
                        }
                        self.happened(&mut state, ClusterEvent::AssignedPodGone(&pod));
                    }
                }
                self.report(&pod, "SchedulerError", &message, &Nomination::Clear);
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
    fn report(&self, pod: &Arc<Pod>, reason: &'static str, message: &str, nomination: &Nomination) {
        self.recorder.event(pod, "Warning", "FailedScheduling", "Scheduling", message);
        let newest = self.state().queue.get(&PodKey::of(pod)).cloned().unwrap_or_else(|| pod.clone());
        // After a failed write, the next scheduling failure writes the condition.
        let status = status::unscheduled(&newest, reason, message, nomination, self.ctx.now().wall);
        if !mutant!(self.ctx, "unschedulable-not-told") {
            self.statuses.write("condition", newest, status);
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}
