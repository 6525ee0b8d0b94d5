//! Pods on this node. Each admitted pod has a worker until its last unmount (upstream `pod_workers.go`, `kubelet.go`
//! SyncPod, SyncTerminatingPod, SyncTerminatedPod).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ObjectReference, Pod};
use rand_core::Rng;
use substrate::latest;
use substrate::seed::unit;

use super::admission::{Refusal, admit};
use super::agent::Agent;
use super::deadline;
use super::expand::asks_to_grow;
use super::pod_dirs::{HOUSEKEEPING, mounted_below, remove_pod_dirs};
use super::pod_report::{Report, reporter};
use super::pod_status::{Phase, started_before};
use super::pod_volumes::{mounted, wait_for_unmount};
use super::populate::populate_pod;
use super::status_reporter::StatusReporter;
use super::workload::{pod_spec, settings};
use crate::kube::{Delta, reference};
use crate::machine::api::PodRecord;
use crate::mirror_pod::is_stand_in;

/// First wait after a failed sync (`backOffPeriod`). Jitter adds up to half of it.
pub(super) const SYNC_BACKOFF: Duration = Duration::from_secs(10);
pub(super) const SYNC_JITTER: f64 = 0.5;
/// Grace period of a pod that sets none (`terminationGracePeriodSeconds`).
const DEFAULT_GRACE: i64 = 30;
/// Grace period of containers whose pod is gone (`SyncTerminatingRuntimePod`).
const ORPHAN_GRACE: Duration = Duration::from_secs(1);
/// Wait after a failed call to the runtime.
const RUNTIME_RETRY: Duration = Duration::from_secs(1);

/// Orders of the pod source to a worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Orders {
    /// Stop within this time.
    terminate: Option<Duration>,
    /// True if the object is gone.
    deleted: bool,
    /// True if the pod was active for too long.
    expired: bool,
}

struct Entry {
    pod: Arc<Pod>,
    wants_volumes: bool,
    unprocessed: bool,
    orders: latest::Sender<Orders>,
}

/// Pods with a worker.
#[derive(Default)]
pub struct Pods {
    /// By uid.
    entries: BTreeMap<String, Entry>,
    /// Uids of the pods that were refused and are not gone.
    refused: BTreeSet<String>,
    /// True once the pod source and the runtime have both listed, and all their pods are in `entries`.
    listed: bool,
}

impl Pods {
    /// Returns the pods whose volumes are wanted, and those of them to look up, for the first time or again.
    pub fn wanted(&mut self) -> (BTreeSet<String>, Vec<Arc<Pod>>) {
        let mut unprocessed = Vec::new();
        let mut wanted = BTreeSet::new();
        for (uid, entry) in self.entries.iter_mut().filter(|(_, e)| e.wants_volumes) {
            wanted.insert(uid.clone());
            // Until the sources are ready, a pass does not cover all pods.
            if self.listed && std::mem::take(&mut entry.unprocessed) {
                unprocessed.push(entry.pod.clone());
            }
        }
        (wanted, unprocessed)
    }

    /// Returns the pods whose containers may run, except those whose object is gone (`GetActivePods`).
    pub fn active(&self) -> Vec<Arc<Pod>> {
        let active = self.entries.values().filter(|entry| entry.wants_volumes && !entry.orders.borrow().deleted);
        active.map(|entry| entry.pod.clone()).collect()
    }

    /// Returns true if this pod has a worker.
    pub fn knows(&self, uid: &str) -> bool {
        self.entries.contains_key(uid)
    }

    /// Returns true if this pod has a worker that wants its volumes.
    pub fn wants(&self, uid: &str) -> bool {
        self.entries.get(uid).is_some_and(|entry| entry.wants_volumes)
    }

    /// Returns a pod that has a worker.
    pub fn get(&self, uid: &str) -> Option<Arc<Pod>> {
        self.entries.get(uid).map(|entry| entry.pod.clone())
    }

    /// Looks up the volumes of a pod again at the next pass of the populator.
    pub fn look_up_again(&mut self, uid: &str) {
        self.with(uid, |entry| entry.unprocessed = true);
    }

    /// Orders the worker of a pod to stop because the pod was active for too long.
    pub(super) fn expire(&mut self, uid: &str) {
        self.with(uid, |entry| {
            let grace = grace(&entry.pod);
            entry.orders.send_modify(|orders| {
                orders.expired = true;
                orders.terminate.get_or_insert(grace);
            });
        });
    }

    fn with(&mut self, uid: &str, act: impl FnOnce(&mut Entry)) {
        if let Some(entry) = self.entries.get_mut(uid) {
            act(entry);
        }
    }
}

/// Follows the pod source; never returns.
pub(super) async fn run(agent: Arc<Agent>) {
    agent.pod_source.synced().await;
    // Only the runtime knows which containers run.
    agent.runtime.synced().await;
    // Admission needs the node's labels and taints.
    agent.node.synced().await;
    let mut changes = agent.pod_source.subscribe();
    let mut first: Vec<Delta<Pod>> = std::iter::from_fn(|| changes.try_recv()).collect();
    // The oldest pods are admitted first. The sort is stable: changes of one pod keep their order.
    first.sort_by_key(|change| match change {
        Delta::Applied { new: pod, .. } | Delta::Deleted(pod) => pod.metadata.creation_timestamp.clone(),
    });
    for change in first {
        take(&agent, change).await;
    }
    let first = {
        let mut pods = agent.pods();
        pods.listed = true;
        if substrate::mutant!(agent.ctx, "populated-too-early") { Vec::new() } else { pods.wanted().1 }
    };
    housekeeping(&agent);
    agent.ctx.spawn(remove_orphaned_dirs(agent.clone()));
    agent.ctx.spawn(first_pass(agent.clone(), first));
    while let Some(change) = changes.recv().await {
        take(&agent, change).await;
    }
}

/// Removes empty directories that an earlier kubelet left of deleted pods (`cleanupOrphanedPodDirs`). Directories with
/// volumes are removed when the volumes are unmounted.
async fn remove_orphaned_dirs(agent: Arc<Agent>) {
    let uids = loop {
        match agent.config.disk.list_dir(&agent.paths.pods()).await {
            Ok(uids) => break uids.unwrap_or_default(),
            Err(_) => agent.ctx.sleep(HOUSEKEEPING).await,
        }
    };
    for uid in uids {
        if !agent.pods().knows(&uid) && !mounted_below(&agent, &uid).await {
            remove_pod_dirs(&agent, &uid).await;
        }
    }
}

/// Runs the populator's first pass after all sources were ready. After it, mounts on disk that no pod wants may be
/// unmounted (`hasAddedPods`). A pod is included even if its volumes could not be looked up.
async fn first_pass(agent: Arc<Agent>, pods: Vec<Arc<Pod>>) {
    for pod in pods {
        populate_pod(&agent, &pod).await;
    }
    agent.volumes().set_populated();
    agent.changed();
}

/// Stops and removes containers of pods that are gone (`HandlePodCleanups`).
pub(super) fn housekeeping(agent: &Arc<Agent>) {
    let orphans: Vec<PodRecord> = {
        let pods = agent.pods();
        if !pods.listed {
            return;
        }
        let gone = |record: &PodRecord| !pods.knows(&record.uid) && (record.is_alive() || !is_in_source(agent, record));
        agent.runtime.list().into_iter().filter(gone).collect()
    };
    for orphan in orphans {
        let agent = agent.clone();
        agent.ctx.clone().spawn(async move {
            // Retry a failed call at each housekeeping, until the runtime's record changes or a worker takes the pod.
            loop {
                let done = if orphan.is_alive() {
                    agent.runtime.stop(&agent.ctx, &orphan.uid, ORPHAN_GRACE).await.map(drop)
                } else {
                    agent.runtime.remove(&agent.ctx, &orphan.uid).await
                };
                if done.is_ok() {
                    return;
                }
                agent.ctx.sleep(HOUSEKEEPING).await;
                let there = agent.runtime.get(&orphan.uid).is_some_and(|now| now.is_alive() == orphan.is_alive());
                if !there || agent.pods().knows(&orphan.uid) {
                    return;
                }
            }
        });
    }
}

fn is_in_source(agent: &Agent, record: &PodRecord) -> bool {
    let (namespace, name) = record.pod.split_once('/').unwrap_or(("", &record.pod));
    agent.pod_source.get(namespace, name).is_some_and(|pod| pod.metadata.uid.as_deref() == Some(&record.uid))
}

async fn take(agent: &Arc<Agent>, change: Delta<Pod>) {
    match change {
        // The process that a stand-in pod represents runs without this agent.
        Delta::Applied { new: pod, .. } | Delta::Deleted(pod) if is_stand_in(&pod) => {}
        Delta::Applied { old, new } => {
            if let Some(old) = old.filter(|old| old.metadata.uid != new.metadata.uid) {
                gone(agent, &old);
            }
            applied(agent, new).await;
        }
        Delta::Deleted(pod) => gone(agent, &pod),
    }
}

fn uid(pod: &Pod) -> String {
    pod.metadata.uid.clone().unwrap_or_default()
}

fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|s| s.phase.as_deref()).unwrap_or_default()
}

fn grace(pod: &Pod) -> Duration {
    let of_spec = pod.spec.as_ref().and_then(|s| s.termination_grace_period_seconds);
    let seconds = pod.metadata.deletion_grace_period_seconds.or(of_spec).unwrap_or(DEFAULT_GRACE);
    Duration::from_secs(u64::try_from(seconds).unwrap_or_default())
}

async fn applied(agent: &Arc<Agent>, pod: Arc<Pod>) {
    let uid = uid(&pod);
    agent.config.logs.seen(&pod);
    let over = matches!(phase(&pod), "Succeeded" | "Failed");
    let alive = agent.runtime.alive(&uid).is_some();
    // Containers of a finished pod are stopped like those of a deleted one.
    let terminate = (pod.metadata.deletion_timestamp.is_some() || over && alive).then(|| grace(&pod));
    if renewed(agent, &uid, &pod, terminate) || over && terminate.is_none() {
        return;
    }
    // A pod that is finished, or deleted before it began, is only cleaned up. It keeps its volumes while its containers
    // may run.
    let run = !over && terminate.is_none();
    if run {
        if agent.pods().refused.contains(&uid) {
            return;
        }
        if let Err(refusal) = admit(agent, &pod).await {
            return refuse(agent, uid, pod, refusal);
        }
    }
    let orders = latest::Sender::new(Orders { terminate, ..Orders::default() });
    let receiver = orders.subscribe();
    let wants_volumes = run || alive;
    let entry = Entry { pod: pod.clone(), wants_volumes, unprocessed: wants_volumes, orders };
    agent.pods().entries.insert(uid.clone(), entry);
    if run {
        deadline::watch(agent, &uid, &pod);
    }
    agent.ctx.spawn(worker(agent.clone(), uid, pod, run, receiver));
    agent.changed();
}

/// Gives a pod's worker its new object. Returns false if there is no worker.
fn renewed(agent: &Arc<Agent>, uid: &str, pod: &Arc<Pod>, terminate: Option<Duration>) -> bool {
    let mut pods = agent.pods();
    let Some(entry) = pods.entries.get_mut(uid) else { return false };
    let has_other_limit = deadline::limit(&entry.pod) != deadline::limit(pod);
    entry.pod = pod.clone();
    if pod.metadata.deletion_timestamp.is_some() {
        entry.orders.send_if_modified(|orders| {
            let changed = orders.terminate != terminate;
            orders.terminate = terminate;
            changed
        });
    }
    drop(pods);
    if has_other_limit {
        deadline::watch(agent, uid, pod);
    }
    true
}

/// Reports that a pod is refused (`rejectPod`). It gets no worker.
fn refuse(agent: &Arc<Agent>, uid: String, pod: Arc<Pod>, refusal: Refusal) {
    agent.pods().refused.insert(uid);
    let reports = latest::Sender::new(Report::Nothing);
    agent.ctx.spawn(reporter(agent.clone(), pod.clone(), reports.subscribe()));
    StatusReporter::new(agent, &pod, reports).refused(refusal);
}

fn gone(agent: &Arc<Agent>, pod: &Pod) {
    let mut pods = agent.pods();
    pods.refused.remove(&uid(pod));
    match pods.entries.get_mut(&uid(pod)) {
        Some(entry) => entry.orders.send_modify(|orders| {
            orders.deleted = true;
            orders.terminate.get_or_insert_with(|| grace(pod));
        }),
        None => {
            drop(pods);
            forget(agent, pod);
        }
    }
}

/// Forgets a pod that is gone: its logs are no longer served.
fn forget(agent: &Arc<Agent>, pod: &Pod) {
    agent.config.logs.forget(pod);
    housekeeping(agent);
}

async fn worker(agent: Arc<Agent>, uid: String, pod: Arc<Pod>, run: bool, mut orders: latest::Receiver<Orders>) {
    let reports = latest::Sender::new(Report::Nothing);
    agent.ctx.spawn(reporter(agent.clone(), pod.clone(), reports.subscribe()));
    let mut status_reporter = StatusReporter::new(&agent, &pod, reports);
    let known = agent.runtime.get(&uid);
    if let Some(record) = &known {
        status_reporter.adopt(record);
    }
    let had = known.is_some_and(|record| record.is_alive());
    let asked = if run { live(&agent, &uid, &pod, &mut status_reporter, &mut orders).await } else { had };
    if orders.borrow().expired && status_reporter.facts.refusal.is_none() {
        status_reporter.expired();
    }
    let early = substrate::mutant!(agent.ctx, "unmount-before-stop");
    if asked && !early {
        stop(&agent, &uid, &pod, &mut orders).await;
    }
    let record = agent.runtime.get(&uid);
    let since = record.as_ref().and_then(PodRecord::since).or(status_reporter.since);
    let ended = record.as_ref().and_then(PodRecord::ended);
    let stopped = Phase::Stopped(since, ended.unwrap_or_else(|| agent.ctx.now().wall));
    if run || had {
        status_reporter.phase(stopped.clone());
    }
    agent.pods().with(&uid, |entry| entry.wants_volumes = false);
    agent.changed();
    if substrate::mutant!(agent.ctx, "pod-removed-before-unmount") {
        status_reporter.reports.send_replace(Report::Finish(stopped.clone(), status_reporter.facts.clone()));
    }
    if !substrate::mutant!(agent.ctx, "unmount-skipped") {
        wait_for_unmount(&agent, &uid).await;
        // Includes mounts that kubelet could not reconstruct at its start.
        while mounted_below(&agent, &uid).await {
            agent.ctx.sleep(HOUSEKEEPING).await;
        }
        remove_pod_dirs(&agent, &uid).await;
    }
    if asked && early {
        stop(&agent, &uid, &pod, &mut orders).await;
    }
    status_reporter.reports.send_replace(Report::Finish(stopped, status_reporter.facts.clone()));
    let deleted = orders.borrow().deleted;
    agent.pods().entries.remove(&uid);
    if deleted {
        forget(&agent, &pod);
    }
}

async fn ordered_to_stop(orders: &mut latest::Receiver<Orders>) {
    // The sender lives in the table as long as the worker.
    let _ = orders.wait_for(|orders| orders.terminate.is_some()).await;
}

/// Runs `work` unless the pod must stop now, or gets the order to stop meanwhile.
async fn unless_ordered<T>(orders: &mut latest::Receiver<Orders>, work: impl Future<Output = T>) -> Option<T> {
    tokio::select! { biased;
        () = ordered_to_stop(orders) => None,
        done = work => Some(done),
    }
}

/// Starts a pod and keeps it running until it must stop. Returns true if its containers run, or may run.
async fn live(
    agent: &Arc<Agent>,
    uid: &str,
    pod: &Arc<Pod>,
    status_reporter: &mut StatusReporter,
    orders: &mut latest::Receiver<Orders>,
) -> bool {
    let mut rng = agent.ctx.rng(&format!("pod {uid}"));
    let object = Arc::new(reference::<Pod>(pod));
    let settings = settings(pod, &agent.config.workload).unwrap_or_else(|error| {
        agent.recorder.event(object.clone(), "Warning", "InvalidAnnotation", format!("{error}; the default is used"));
        agent.config.workload.clone()
    });
    let mut asked = agent.runtime.alive(uid).is_some();
    let mut attempt = started_before(pod).map_or(0, |restarts| restarts + 1);
    loop {
        // Running containers are reported at once. The pod's volumes are still checked.
        match agent.runtime.alive(uid).and_then(|record| record.since()) {
            Some(since) => status_reporter.phase(Phase::Running(since)),
            None => status_reporter.phase(Phase::Waiting),
        }
        match unless_ordered(orders, mounted(agent, uid, pod, &object, &mut rng)).await {
            None => return asked,
            Some(Err(refusal)) => {
                status_reporter.refused(refusal);
                return asked;
            }
            Some(Ok(())) => {}
        }
        if agent.runtime.alive(uid).is_none() {
            if let Some(record) = agent.runtime.get(uid) {
                attempt = attempt.max(record.attempt + 1);
            }
            if attempt > 0 {
                let message = "Pod sandbox changed, it will be killed and re-created.";
                agent.recorder.event(object.clone(), "Normal", "SandboxChanged", message);
            }
            let spec = pod_spec(agent, uid, pod, attempt, &settings);
            let lists = agent.runtime.lists();
            asked = true;
            // Await the answer: a stop that overtakes this request would stop nothing.
            if let Err(error) = agent.runtime.run(&agent.ctx, &spec).await {
                let message = format!("Failed to create pod sandbox: {error}");
                agent.recorder.event(object.clone(), "Warning", "FailedCreatePodSandBox", message);
                if unless_ordered(orders, agent.ctx.sleep(SYNC_BACKOFF)).await.is_none() {
                    return asked;
                }
                continue;
            }
            emit_start_events(agent, pod, &object);
            if unless_ordered(orders, wait_for_report(agent, uid, attempt, lists)).await.is_none() {
                return asked;
            }
        }
        let Some(record) = agent.runtime.alive(uid) else { continue };
        status_reporter.adopt(&record);
        status_reporter.phase(record.since().map_or(Phase::Waiting, Phase::Running));
        if unless_ordered(orders, keep(agent, uid, pod, &record, &mut rng)).await.is_none() {
            return asked;
        }
        attempt = record.attempt + 1;
    }
}

/// Waits until the runtime reports the pod's containers, or has been listed again since list number `lists`.
async fn wait_for_report(agent: &Agent, uid: &str, attempt: u32, lists: u64) {
    let mut changes = agent.runtime.changes();
    let here = |record: PodRecord| record.attempt >= attempt && record.since().is_some();
    while !agent.runtime.get(uid).is_some_and(here) && agent.runtime.lists() == lists {
        // The sender lives in the agent.
        let _ = changes.changed().await;
    }
}

fn emit_start_events(agent: &Agent, pod: &Pod, object: &Arc<ObjectReference>) {
    for container in pod.spec.iter().flat_map(|s| &s.containers) {
        let object = Arc::new(of_container(object, &container.name));
        let image = container.image.as_deref().unwrap_or_default();
        let pulled = if container.image_pull_policy.as_deref() == Some("Always") {
            // No registry exists: a pull succeeds at once.
            agent.recorder.event(object.clone(), "Normal", "Pulling", format!("Pulling image \"{image}\""));
            format!("Successfully pulled image \"{image}\" in 0s (0s including waiting). Image size: 0 bytes.")
        } else {
            format!("Container image \"{image}\" already present on machine and can be accessed by the pod")
        };
        agent.recorder.event(object.clone(), "Normal", "Pulled", pulled);
        agent.recorder.event(object.clone(), "Normal", "Created", "Container created");
        agent.recorder.event(object, "Normal", "Started", "Container started");
    }
}

/// Checks a running pod periodically, until its containers end or are replaced.
async fn keep(agent: &Agent, uid: &str, pod: &Pod, record: &PodRecord, rng: &mut impl Rng) {
    let mut changes = agent.runtime.changes();
    let mut next = next_sync(agent, rng);
    while agent.runtime.get(uid).is_some_and(|now| now == *record) {
        tokio::select! { biased;
            _ = changes.changed() => continue,
            () = agent.ctx.sleep_until(next) => {}
        }
        if republishes(agent, uid) {
            agent.changed();
        }
        if asks_to_grow(agent, uid, pod).await {
            agent.pods().look_up_again(uid);
            agent.changed();
        }
        next = next_sync(agent, rng);
    }
}

/// Returns the time of a running pod's next sync.
fn next_sync(agent: &Agent, rng: &mut impl Rng) -> Duration {
    let period = agent.config.timers.pod_sync;
    agent.ctx.now().mono + agent.ctx.scaled(period + period.mul_f64(SYNC_JITTER * unit(rng)))
}

/// Requests another publish of the pod's volumes whose drivers set CSIDriver.spec.requiresRepublish. Returns true if
/// there are any.
fn republishes(agent: &Agent, uid: &str) -> bool {
    let mounted = agent.volumes().mounted(uid);
    let wants = |driver: &str| {
        let driver = agent.drivers_of_cluster.get("", driver);
        driver.is_some_and(|d| d.spec.requires_republish == Some(true))
    };
    let mut any = false;
    for (_, spec) in mounted.into_iter().filter(|(_, spec)| wants(&spec.driver)) {
        agent.volumes().require_remount(uid, &spec.name);
        any = true;
    }
    any
}

fn of_container(object: &ObjectReference, container: &str) -> ObjectReference {
    ObjectReference { field_path: Some(format!("spec.containers{{{container}}}")), ..object.clone() }
}

/// Stops a pod's containers and waits for their end. A shorter grace period may be ordered meanwhile.
async fn stop(agent: &Agent, uid: &str, pod: &Pod, orders: &mut latest::Receiver<Orders>) {
    let object = reference::<Pod>(pod);
    for container in pod.spec.iter().flat_map(|s| &s.containers) {
        let message = format!("Stopping container {}", container.name);
        agent.recorder.event(of_container(&object, &container.name), "Normal", "Killing", message);
    }
    loop {
        let grace = orders.borrow_and_update().terminate.unwrap_or_default();
        match agent.runtime.stop(&agent.ctx, uid, grace).await {
            Ok(true) => {}
            Ok(false) => return,
            Err(_) => {
                agent.ctx.sleep(RUNTIME_RETRY).await;
                continue;
            }
        }
        tokio::select! { biased;
            () = agent.runtime.ended(uid) => return,
            // The table keeps the sender.
            _ = orders.changed() => {}
        }
    }
}
