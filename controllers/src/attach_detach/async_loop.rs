//! The async loop: informers → world → reconciler → writes and operations.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{AttachedVolume, Node, ObjectReference, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::VolumeAttachment;
use substrate::mutant;
use substrate::process::Ctx;
use tokio::sync::mpsc;

use super::EVENT_SOURCE;
use super::actual::AttachState;
use super::cluster::{
    Listers, bound_volume, claim_names, is_managed, is_terminated, node_of, node_view, volumes_in_use,
};
use super::operation::Operations;
use super::reconcile::{Action, ForcedReason, Reconciler};
use super::volume::{VolumeSpec, attachment_name, parse_unique_name};
use crate::events::{Attach, Detach};
use crate::kube::{Client, Delta, EventRecorder, Informer, Kind, ListParams, reference};
use crate::metrics::{Metrics, families, plugin};
use crate::pending::{OperationKey, PendingOperations};
use crate::state_publisher::LoopStatePublisher;
use crate::tick_schedule::TickSchedule;
use crate::timers::Timers;

/// Result of an operation.
enum Done {
    Attached {
        key: OperationKey,
        spec: Arc<VolumeSpec>,
        node: String,
        pods: Vec<Arc<ObjectReference>>,
        result: Result<(), String>,
    },
    Detached {
        key: OperationKey,
        volume: String,
        node: String,
        result: Result<(), String>,
    },
}

/// Runs the controller forever.
pub async fn run(ctx: Ctx, client: Client, timers: Timers, metrics: Metrics) {
    let pods = Informer::<Pod>::start(&ctx, client.all(), ListParams::default());
    let nodes = Informer::<Node>::start(&ctx, client.all(), ListParams::default());
    let listers = Listers {
        claims: Informer::start(&ctx, client.all(), ListParams::default()),
        volumes: Informer::start(&ctx, client.all(), ListParams::default()),
        drivers: Informer::start(&ctx, client.all(), ListParams::default()),
        ignores_attach_required: mutant!(ctx, "attach-required-ignored"),
        wants_shared_modes_only: mutant!(ctx, "one-node-mode-suffices"),
    };
    let attachments = Informer::<VolumeAttachment>::start(&ctx, client.all(), ListParams::default());
    pods.synced().await;
    nodes.synced().await;
    listers.claims.synced().await;
    listers.volumes.synced().await;
    listers.drivers.synced().await;
    attachments.synced().await;
    let pending = PendingOperations::new(ctx.scaled(timers.pending_initial), ctx.scaled(timers.pending_max));
    let max_wait_for_unmount =
        if mutant!(ctx, "force-detach-early") { Duration::from_secs(60) } else { timers.max_wait_for_unmount };
    let never_forces = timers.disable_force_detach || mutant!(ctx, "force-detach-never");
    let mut reconciler = Reconciler::new(pending, ctx.scaled(max_wait_for_unmount), never_forces);
    reconciler.ignores_other_nodes = mutant!(ctx, "multi-attach-check-skipped");
    reconciler.ignores_mounts = mutant!(ctx, "detach-without-unmount-wait");
    reconciler.remembers_out_of_service = mutant!(ctx, "out-of-service-remembered");
    reconciler.remembers_unready = mutant!(ctx, "unready-node-remembered");
    reconciler.forces_ready_nodes = mutant!(ctx, "ready-node-forced");
    reconciler.forgets_failed_attaches = mutant!(ctx, "failed-attach-forgotten");
    reconciler.ignores_failed_detaches = mutant!(ctx, "failed-detach-ignored");
    reconciler.keeps_detach_requests = mutant!(ctx, "detach-request-kept");
    reconciler.serializes_shared = mutant!(ctx, "shared-volume-attached-one-by-one");
    reconciler.retries_attaches_at_once = mutant!(ctx, "failed-attach-not-delayed");
    reconciler.actual.reports_new_only = mutant!(ctx, "retried-attach-not-reported");
    let (done, ended) = mpsc::unbounded_channel();
    let operations = Operations {
        ctx: ctx.clone(),
        client: client.clone(),
        attachments: attachments.clone(),
        timers: timers.clone(),
    };
    let mut async_loop = AsyncLoop {
        recorder: EventRecorder::new(&client, EVENT_SOURCE),
        ctx,
        client,
        timers,
        metrics,
        nodes,
        pods,
        listers,
        attachments,
        operations,
        reconciler,
        users: BTreeMap::new(),
        done,
        dirty: true,
        flapped: false,
        state_publisher: LoopStatePublisher::default(),
    };
    async_loop.metrics.announce(&families::FORCED_DETACHES);
    async_loop.populate();
    async_loop.serve(ended).await;
}

struct AsyncLoop {
    ctx: Ctx,
    client: Client,
    timers: Timers,
    metrics: Metrics,
    recorder: EventRecorder,
    nodes: Informer<Node>,
    pods: Informer<Pod>,
    listers: Listers,
    attachments: Informer<VolumeAttachment>,
    operations: Operations,
    reconciler: Reconciler,
    /// (namespace, claim) → names of the pods that use it.
    users: BTreeMap<(String, String), BTreeSet<String>>,
    done: mpsc::UnboundedSender<Done>,
    /// True after a change since the last pass.
    dirty: bool,
    /// Alternating state of the seeded bug in node statuses.
    flapped: bool,
    state_publisher: LoopStatePublisher,
}

impl AsyncLoop {
    /// Reconstructs the world after a start: node statuses, then VolumeAttachments, then pods.
    fn populate(&mut self) {
        for node in self.nodes.list() {
            self.reconciler.set_node(node.name(), node_view(&node));
            if is_managed(&node) {
                self.reconciler.desired.add_node(node.name());
            }
            let attached = node.status.as_ref().and_then(|s| s.volumes_attached.as_deref()).unwrap_or_default();
            for volume in attached {
                self.reconciler.actual.add(&volume.name, None, node.name(), true);
            }
            self.reconciler.actual.set_mounted(node.name(), volumes_in_use(&node));
        }
        let dangling =
            if mutant!(self.ctx, "dangling-attachments-ignored") { Vec::new() } else { self.attachments.list() };
        for attachment in dangling {
            // An attachment with an unknown volume is skipped, as upstream: it leaks.
            let Some(spec) = self.spec_of(&attachment) else { continue };
            let (volume, node) = (spec.unique_name(), attachment.spec.node_name.as_str());
            match self.reconciler.actual.state(&volume, node) {
                AttachState::Attached => self.reconciler.actual.add(&volume, Some(&spec), node, true),
                // The attachment was left by a controller that crashed between the attach and the node status. It is
                // detached if no pod needs it.
                AttachState::Detached => self.reconciler.actual.add(&volume, Some(&spec), node, false),
                AttachState::Uncertain => {}
            }
        }
        for pod in self.pods.list() {
            self.pod_applied(&pod);
            if let Some(node) = node_of(&pod) {
                for spec in self.listers.attachable_volumes(&pod) {
                    if self.reconciler.actual.state(&spec.unique_name(), node) == AttachState::Attached {
                        self.reconciler.actual.add(&spec.unique_name(), Some(&spec), node, true);
                    }
                }
            }
        }
    }

    fn spec_of(&self, attachment: &VolumeAttachment) -> Option<Arc<VolumeSpec>> {
        let pv = attachment.spec.source.persistent_volume_name.as_deref()?;
        let spec = self.listers.spec(&*self.listers.volumes.get("", pv)?)?;
        self.listers.attachable(&spec.driver).then(|| Arc::new(spec))
    }

    async fn serve(mut self, mut ended: mpsc::UnboundedReceiver<Done>) {
        let mut pods = self.pods.subscribe();
        let mut nodes = self.nodes.subscribe();
        let mut claims = self.listers.claims.subscribe();
        let start = self.ctx.now().mono;
        let ticks = TickSchedule::new(start, self.ctx.scaled(self.timers.reconciler_loop));
        let mut verify_at = start + self.ctx.scaled(self.timers.verify_attached_sync);
        let mut populate_at = start + self.ctx.scaled(self.timers.desired_state_populator);
        let mut add_missing_at = start + self.ctx.scaled(self.timers.add_missing_pods);
        let mut next: Option<Duration> = None;
        let mut last: Option<Duration> = None;
        loop {
            self.state_publisher.publish_state(&self.ctx, || self.reconciler.state());
            let mut wake = verify_at.min(populate_at);
            if let Some(next) = next {
                wake = wake.min(next);
            }
            let now = self.ctx.now().mono;
            let due = if self.dirty { now } else { wake };
            let at = ticks.at_or_after(due, last);
            tokio::select! { biased;
                Some(delta) = nodes.recv() => self.node_changed(delta),
                Some(delta) = pods.recv() => self.pod_changed(delta),
                Some(delta) = claims.recv() => self.claim_changed(&delta),
                Some(done) = ended.recv() => self.operation_ended(done),
                () = self.ctx.sleep_until(at) => {
                    last = Some(at);
                    let now = self.ctx.now().mono;
                    if now >= populate_at {
                        populate_at = now + self.ctx.scaled(self.timers.desired_state_populator);
                        self.remove_vanished_pods();
                        if now >= add_missing_at {
                            add_missing_at = now + self.ctx.scaled(self.timers.add_missing_pods);
                            for pod in self.pods.list() {
                                self.pod_applied(&pod);
                            }
                        }
                    }
                    self.dirty = false;
                    next = self.pass(now).await;
                    if now >= verify_at {
                        verify_at = now + self.ctx.scaled(self.timers.verify_attached_sync);
                        self.verify().await;
                    }
                }
            }
        }
    }

    fn node_changed(&mut self, delta: Delta<Node>) {
        match delta {
            Delta::Applied { old, new } => {
                let name = new.name();
                if is_managed(&new) && !self.reconciler.desired.has_node(name) {
                    self.reconciler.desired.add_node(name);
                    self.dirty = true;
                }
                if old.is_none() && !mutant!(self.ctx, "report-lost-with-node") {
                    self.reconciler.actual.touch_report(name);
                    self.dirty = true;
                }
                let seen = old.as_ref().filter(|_| mutant!(self.ctx, "previous-node-read")).unwrap_or(&new);
                self.dirty |= self.reconciler.set_node(name, node_view(seen));
                let in_use = volumes_in_use(&new);
                let is_missed = in_use.is_empty() && mutant!(self.ctx, "last-mount-kept");
                self.dirty |= !is_missed && self.reconciler.actual.set_mounted(name, in_use);
            }
            Delta::Deleted(node) => {
                self.reconciler.remove_node(node.name());
                self.reconciler.desired.delete_node(node.name());
                // The last status of a deleted node still applies, so the detach of a mounted volume waits for six
                // minutes.
                let forgotten = mutant!(self.ctx, "deleted-node-is-unmounted");
                self.reconciler.actual.set_mounted(node.name(), if forgotten { &[] } else { volumes_in_use(&node) });
                self.dirty = true;
            }
        }
    }

    fn pod_changed(&mut self, delta: Delta<Pod>) {
        match delta {
            Delta::Applied { old: Some(_), .. } if mutant!(self.ctx, "bound-pod-found-late") => {}
            Delta::Applied { new, .. } => self.pod_applied(&new),
            Delta::Deleted(pod) => {
                for (claim, _) in claim_names(&pod) {
                    let key = (pod.namespace().to_owned(), claim);
                    if let Some(users) = self.users.get_mut(&key) {
                        users.remove(pod.name());
                        if users.is_empty() {
                            self.users.remove(&key);
                        }
                    }
                }
                self.process(&pod, false);
            }
        }
    }

    fn pod_applied(&mut self, pod: &Pod) {
        for (claim, _) in claim_names(pod) {
            self.users.entry((pod.namespace().to_owned(), claim)).or_default().insert(pod.name().to_owned());
        }
        self.process(pod, !self.has_ended(pod));
    }

    /// Returns true if a pod no longer needs its volumes.
    fn has_ended(&self, pod: &Pod) -> bool {
        is_terminated(pod) && !mutant!(self.ctx, "finished-pod-keeps-volume")
    }

    /// Adds the pod's volumes to the desired state, or removes them (`ProcessPodVolumes`).
    fn process(&mut self, pod: &Pod, add: bool) {
        let Some(node) = node_of(pod) else { return };
        if !self.reconciler.desired.has_node(node) {
            return;
        }
        let specs = self.listers.attachable_volumes(pod);
        if specs.is_empty() {
            return;
        }
        let object = add.then(|| Arc::new(reference(pod)));
        for spec in specs {
            self.dirty |= match &object {
                Some(object) => self.reconciler.desired.add_pod(pod.uid(), object, &spec, node),
                None => self.reconciler.desired.delete_pod(pod.uid(), &spec.unique_name(), node),
            };
        }
    }

    /// Handles a claim that became bound: the volumes of its pods are now known.
    fn claim_changed(&mut self, delta: &Delta<PersistentVolumeClaim>) {
        let Delta::Applied { new, .. } = delta else { return };
        if bound_volume(new).is_none() {
            return;
        }
        let key = (new.namespace().to_owned(), new.name().to_owned());
        for name in self.users.get(&key).cloned().unwrap_or_default() {
            if let Some(pod) = self.pods.get(new.namespace(), &name)
                && !self.has_ended(&pod)
            {
                self.process(&pod, true);
            }
        }
    }

    /// Runs the populator: removes pods that are gone from the cache or have ended.
    fn remove_vanished_pods(&mut self) {
        let mut gone = Vec::new();
        let by_name = mutant!(self.ctx, "vanished-pod-known-by-name");
        for (node, volume, entry) in self.reconciler.desired.volumes() {
            // The driver's `attachRequired` may have become false (kubernetes#89173).
            let attachable = self.listers.attachable(&entry.spec.driver);
            for (uid, pod) in &entry.pods {
                let (namespace, name) = (pod.namespace.as_deref(), pod.name.as_deref());
                let cached = self.pods.get(namespace.unwrap_or_default(), name.unwrap_or_default());
                if !attachable || cached.is_none_or(|pod| pod.uid() != uid && !by_name || self.has_ended(&pod)) {
                    gone.push((uid.clone(), volume.to_owned(), node.to_owned()));
                }
            }
        }
        for (uid, volume, node) in gone {
            self.dirty |= self.reconciler.desired.delete_pod(&uid, &volume, &node);
        }
    }

    /// Runs one pass of the reconciler. Returns the time of the next pass that is needed without an event.
    async fn pass(&mut self, now: Duration) -> Option<Duration> {
        let plan = self.reconciler.reconcile(now);
        for action in plan.actions {
            match action {
                Action::Detach { key, volume, node, spec, report, forced } => {
                    if let Some(volumes) = report
                        && !mutant!(self.ctx, "volumes-attached-not-updated")
                        && !self.write_report(&node, &volumes).await
                    {
                        let forgets = mutant!(self.ctx, "report-not-restored");
                        self.reconciler.detach_aborted(&key, &volume, &node, !forgets);
                        self.dirty = true;
                        continue;
                    }
                    self.detach(key, volume, node, spec.as_deref(), forced);
                }
                Action::Attach { key, volume, node, spec, pods } => self.attach(key, &volume, node, spec, pods),
                Action::MultiAttach { pod, message } => {
                    self.recorder.event(pod, "Warning", "FailedAttachVolume", message);
                }
                Action::Report { node, volumes } => {
                    if !self.write_report(&node, &volumes).await && !mutant!(self.ctx, "failed-report-not-repeated") {
                        self.reconciler.report_failed(&node);
                        self.dirty = true;
                    }
                }
            }
        }
        self.measure();
        plan.next
    }

    /// Sets the gauges of volumes.
    fn measure(&self) {
        let states = [
            ("actual_state_of_world", self.reconciler.actual.counts()),
            ("desired_state_of_world", self.reconciler.desired.counts()),
        ];
        for (state, counts) in states {
            for (driver, count) in counts {
                self.metrics.set(&families::TOTAL_VOLUMES, &[&plugin(driver), state], *count);
            }
        }
    }

    /// Patches nodes/status of a cached node. Returns true on success, or if the node does not exist.
    async fn write_report(&self, name: &str, volumes: &[String]) -> bool {
        let Some(node) = self.nodes.get("", name) else { return true };
        let device = if self.flapped { "flaps" } else { "" };
        let report = |name: &String| AttachedVolume { name: name.clone(), device_path: device.to_owned() };
        let mut changed = Box::new(Node::clone(&node));
        changed.status.get_or_insert_default().volumes_attached = Some(volumes.iter().map(report).collect());
        match self.client.all::<Node>().patch_node_status(&node, &changed).await {
            Ok(_) => true,
            Err(e) => e.is_not_found(),
        }
    }

    fn attach(
        &self,
        key: OperationKey,
        volume: &str,
        node: String,
        spec: Arc<VolumeSpec>,
        pods: Vec<Arc<ObjectReference>>,
    ) {
        let (volume, pv) = (Reconciler::handle(volume).into(), spec.pv.as_str().into());
        self.ctx.emit(Attach { volume, pv, node: node.as_str().into(), forced: false });
        let (operations, done) = (self.operations.clone(), self.done.clone());
        let measured = self.metrics.operation(&self.ctx, &spec.driver, "volume_attach");
        self.ctx.spawn(async move {
            let result = operations.attach(&spec, &node).await;
            measured.ended(result.is_ok());
            // The receiver ends only with the process.
            let _ = done.send(Done::Attached { key, spec, node, pods, result });
        });
    }

    fn detach(
        &self,
        key: OperationKey,
        volume: String,
        node: String,
        spec: Option<&VolumeSpec>,
        forced: Option<ForcedReason>,
    ) {
        if let Some(reason) = forced {
            self.metrics.count(&families::FORCED_DETACHES, &[reason.label()]);
        }
        self.ctx.emit(Detach {
            volume: Reconciler::handle(&volume).into(),
            pv: spec.map_or("", |spec| spec.pv.as_str()).into(),
            node: node.as_str().into(),
            forced: forced.is_some(),
            reason: forced,
        });
        let (operations, done) = (self.operations.clone(), self.done.clone());
        let verify = forced.is_none() && !self.reconciler.ignores_mounts;
        let driver = parse_unique_name(&volume).map_or("", |(driver, _)| driver);
        let measured = self.metrics.operation(&self.ctx, driver, "volume_detach");
        self.ctx.spawn(async move {
            let result = operations.detach(&volume, &node, verify).await;
            measured.ended(result.is_ok());
            let _ = done.send(Done::Detached { key, volume, node, result });
        });
    }

    fn operation_ended(&mut self, done: Done) {
        let now = self.ctx.now().mono;
        self.dirty = true;
        match done {
            Done::Attached { key, spec, node, pods, result } => {
                let (kind, reason, message) = match &result {
                    Ok(()) => (
                        "Normal",
                        "SuccessfulAttachVolume",
                        format!("AttachVolume.Attach succeeded for volume \"{}\" ", spec.pv),
                    ),
                    Err(e) => (
                        "Warning",
                        "FailedAttachVolume",
                        format!("AttachVolume.Attach failed for volume \"{}\" : {e}", spec.pv),
                    ),
                };
                for pod in &pods {
                    self.recorder.event(pod.clone(), kind, reason, message.clone());
                }
                self.reconciler.attached(now, &key, &spec, &node, result);
            }
            // A failed detach emits no event, as upstream.
            Done::Detached { key, volume, node, result } => self.reconciler.detached(now, &key, &volume, &node, result),
        }
    }

    /// Runs the verify sync: a missing or unattached VolumeAttachment counts as detached.
    async fn verify(&mut self) {
        if mutant!(self.ctx, "status-flaps") {
            self.flapped = !self.flapped;
            self.reconciler.actual.touch_reports();
            self.dirty = true;
        }
        let mut lost = Vec::new();
        let mut missing = Vec::new();
        for (volume, entry) in self.reconciler.actual.volumes() {
            let Some(spec) = &entry.spec else { continue };
            if !self.listers.attachable(&spec.driver) {
                continue;
            }
            for node in entry.nodes.iter().filter(|(_, on)| on.confirmed).map(|(node, _)| node) {
                let name = attachment_name(&spec.handle, &spec.driver, node);
                match self.attachments.get("", &name) {
                    Some(attachment) if attachment.status.as_ref().is_some_and(|s| s.attached) => {}
                    Some(_) => lost.push((volume.to_owned(), node.clone())),
                    None if mutant!(self.ctx, "missing-attachment-trusted") => {}
                    None => missing.push((volume.to_owned(), node.clone(), name)),
                }
            }
        }
        for (volume, node, name) in missing {
            let live = self.client.all::<VolumeAttachment>().get(&name).await;
            if live.is_ok_and(|a| a.status.as_ref().is_some_and(|s| s.attached)) {
                continue;
            }
            lost.push((volume, node));
        }
        for (volume, node) in lost {
            self.reconciler.actual.remove(&volume, &node);
            self.dirty = true;
        }
    }
}
