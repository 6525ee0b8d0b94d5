//! Pods on this node: one worker each, from the first sight to the last unmount (upstream `pod_workers.go`,
//! `kubelet.go` SyncPod, SyncTerminatingPod, SyncTerminatedPod).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ObjectReference, Pod};
use substrate::latest;
use substrate::seed::{between, unit};
use tokio::sync::mpsc;

use super::agent::Agent;
use super::expand::asks_to_grow;
use super::logs::LogFile;
use super::pod_report::{Report, reporter};
use super::pod_status::{Phase, PodFacts};
use super::populate::claims;
use super::volumes::remove_pod_dirs;
use super::workload::{Place, Writer, settings};
use crate::grid::Grid;
use crate::kube::{Delta, reference};

/// First wait after a failed sync (`backOffPeriod`), stretched by up to half of it.
const SYNC_BACKOFF: Duration = Duration::from_secs(10);
const SYNC_JITTER: f64 = 0.5;
/// Grace of a pod that does not say (`terminationGracePeriodSeconds`).
const DEFAULT_GRACE: i64 = 30;

/// What the pod source tells a worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Orders {
    /// Stop, within this time.
    terminate: Option<Duration>,
    /// The object is gone.
    deleted: bool,
}

struct Entry {
    pod: Arc<Pod>,
    wants_volumes: bool,
    unprocessed: bool,
    orders: latest::Sender<Orders>,
}

/// The pods that the agent works on, by uid.
#[derive(Default)]
pub struct Pods(BTreeMap<String, Entry>);

impl Pods {
    /// The pods whose volumes are wanted, and those of them that must be looked up (again).
    pub fn wanted(&mut self) -> (BTreeSet<String>, Vec<Arc<Pod>>) {
        let mut unprocessed = Vec::new();
        let mut wanted = BTreeSet::new();
        for (uid, entry) in self.0.iter_mut().filter(|(_, e)| e.wants_volumes) {
            wanted.insert(uid.clone());
            if std::mem::take(&mut entry.unprocessed) {
                unprocessed.push(entry.pod.clone());
            }
        }
        (wanted, unprocessed)
    }

    /// Whether a worker is on this pod.
    pub fn knows(&self, uid: &str) -> bool {
        self.0.contains_key(uid)
    }

    fn with(&mut self, uid: &str, act: impl FnOnce(&mut Entry)) {
        if let Some(entry) = self.0.get_mut(uid) {
            act(entry);
        }
    }
}

/// Follows the pod source; never ends.
pub(super) async fn run(agent: Arc<Agent>) {
    agent.pod_source.synced().await;
    let mut changes = agent.pod_source.subscribe();
    while let Ok(change) = changes.try_recv() {
        take(&agent, change);
    }
    // The first list is in: what is on disk and not in it may be taken down.
    agent.volumes().set_populated();
    agent.changed();
    while let Some(change) = changes.recv().await {
        take(&agent, change);
    }
}

fn take(agent: &Arc<Agent>, change: Delta<Pod>) {
    match change {
        Delta::Applied { old, new } => {
            if let Some(old) = old.filter(|old| old.metadata.uid != new.metadata.uid) {
                gone(agent, &old);
            }
            applied(agent, new);
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

fn applied(agent: &Arc<Agent>, pod: Arc<Pod>) {
    let uid = uid(&pod);
    agent.config.logs.seen(&pod);
    let terminate = pod.metadata.deletion_timestamp.is_some().then(|| grace(&pod));
    let mut pods = agent.pods();
    if let Some(entry) = pods.0.get_mut(&uid) {
        entry.pod = pod;
        if terminate.is_some() {
            entry.orders.send_if_modified(|orders| {
                let changed = orders.terminate != terminate;
                orders.terminate = terminate;
                changed
            });
        }
        return;
    }
    let over = matches!(phase(&pod), "Succeeded" | "Failed");
    if over && terminate.is_none() {
        return;
    }
    let orders = latest::Sender::new(Orders { terminate, deleted: false });
    let receiver = orders.subscribe();
    // A pod that is over, or on its way out before it began, is only cleaned up.
    let run = !over && terminate.is_none();
    pods.0.insert(uid.clone(), Entry { pod: pod.clone(), wants_volumes: run, unprocessed: run, orders });
    drop(pods);
    agent.ctx.spawn(worker(agent.clone(), uid, pod, run, receiver));
    agent.changed();
}

fn gone(agent: &Agent, pod: &Pod) {
    let mut pods = agent.pods();
    match pods.0.get_mut(&uid(pod)) {
        Some(entry) => entry.orders.send_modify(|orders| {
            orders.deleted = true;
            orders.terminate.get_or_insert_with(|| grace(pod));
        }),
        None => agent.config.logs.forget(pod),
    }
}

/// Containers that run.
struct Running {
    since: Timestamp,
    stop: latest::Sender<bool>,
    kill: latest::Sender<bool>,
    done: mpsc::Receiver<()>,
    logs: Vec<Arc<LogFile>>,
}

impl Running {
    fn print(&self, agent: &Agent, text: &str) {
        for log in &self.logs {
            log.print(&agent.ctx, text);
        }
    }
}

/// Where a worker says what state its pod is in.
struct Teller {
    agent: Arc<Agent>,
    pod: Arc<Pod>,
    facts: PodFacts,
    reports: latest::Sender<Report>,
}

impl Teller {
    fn phase(&self, phase: Phase) {
        self.agent.config.logs.set_state(&self.pod, phase.clone(), &self.facts);
        self.reports.send_replace(Report::Phase(phase));
    }
}

async fn worker(agent: Arc<Agent>, uid: String, pod: Arc<Pod>, run: bool, mut orders: latest::Receiver<Orders>) {
    let facts = PodFacts {
        start_time: agent.ctx.now().wall,
        host_ip: super::node_object::internal_ip(&agent.config),
        pod_ip: run.then(|| agent.next_pod_ip()),
    };
    let reports = latest::Sender::new(Report::Nothing);
    agent.ctx.spawn(reporter(agent.clone(), pod.clone(), facts.clone(), reports.subscribe()));
    let teller = Teller { agent: agent.clone(), pod: pod.clone(), facts, reports };
    let mut running = None;
    if run {
        tokio::select! { biased;
            () = ordered_to_stop(&mut orders) => {}
            () = start(&agent, &uid, &pod, &teller, &mut running) => {}
        }
    }
    let since = running.as_ref().map(|r: &Running| r.since);
    if let Some(running) = running {
        stop(&agent, &pod, running, &mut orders).await;
    }
    let stopped = Phase::Stopped(since, agent.ctx.now().wall);
    if run {
        teller.phase(stopped.clone());
    }
    agent.pods().with(&uid, |entry| entry.wants_volumes = false);
    agent.changed();
    wait_for_unmount(&agent, &uid).await;
    remove_pod_dirs(&agent, &uid).await;
    teller.reports.send_replace(Report::Finish(stopped));
    let mut pods = agent.pods();
    pods.0.remove(&uid);
    if orders.borrow().deleted {
        agent.config.logs.forget(&pod);
    }
}

async fn ordered_to_stop(orders: &mut latest::Receiver<Orders>) {
    // The sender lives in the table as long as the worker.
    let _ = orders.wait_for(|orders| orders.terminate.is_some()).await;
}

/// Brings a pod up; never ends, it is dropped when the pod must stop.
async fn start(agent: &Arc<Agent>, uid: &str, pod: &Arc<Pod>, teller: &Teller, running: &mut Option<Running>) {
    teller.phase(Phase::Waiting);
    let mut rng = agent.ctx.rng(&format!("pod {uid}"));
    let expected: Vec<String> = claims(pod).into_iter().map(|c| c.volume).collect();
    let object = Arc::new(reference::<Pod>(pod));
    while let Err(error) = wait_for_volumes(agent, uid, &expected).await {
        if let Some(error) = error {
            let message = format!("Unable to attach or mount volumes: {error}");
            agent.recorder.event(object.clone(), "Warning", "FailedMount", message);
        }
        agent.ctx.sleep(SYNC_BACKOFF + SYNC_BACKOFF.mul_f64(SYNC_JITTER * unit(&mut rng))).await;
    }
    let (least, most) = agent.config.container_start;
    let ms = between(&mut rng, least.as_millis() as u64, most.as_millis() as u64);
    if ms > 0 {
        agent.ctx.sleep(Duration::from_millis(ms)).await;
    }
    for container in pod.spec.iter().flat_map(|s| &s.containers) {
        let object = Arc::new(of_container(&object, &container.name));
        let image = container.image.as_deref().unwrap_or_default();
        let pulled = format!("Container image \"{image}\" already present on machine and can be accessed by the pod");
        agent.recorder.event(object.clone(), "Normal", "Pulled", pulled);
        agent.recorder.event(object.clone(), "Normal", "Created", "Container created");
        agent.recorder.event(object, "Normal", "Started", "Container started");
    }
    let started = run_containers(agent, uid, pod, &object);
    let since = started.since;
    *running = Some(started);
    teller.phase(Phase::Running(since));
    loop {
        let period = agent.config.timers.pod_sync;
        agent.ctx.sleep(period + period.mul_f64(SYNC_JITTER * unit(&mut rng))).await;
        if republishes(agent, uid) {
            agent.changed();
        }
        if asks_to_grow(agent, uid, pod).await {
            agent.pods().with(uid, |entry| entry.unprocessed = true);
            agent.changed();
        }
    }
}

/// Has the volumes of a pod published once more whose drivers want that at every sync (CSIDriver.spec.requiresRepublish);
/// true when there are any.
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

/// Starts a writer for each claim of the pod.
fn run_containers(agent: &Arc<Agent>, uid: &str, pod: &Pod, object: &Arc<ObjectReference>) -> Running {
    let settings = settings(pod, &agent.config.workload).unwrap_or_else(|error| {
        agent.recorder.event(object.clone(), "Warning", "InvalidAnnotation", format!("{error}; the default is used"));
        agent.config.workload.clone()
    });
    let readonly: BTreeMap<String, bool> = claims(pod).into_iter().map(|c| (c.volume, c.readonly)).collect();
    let part = |name: &Option<String>| name.clone().unwrap_or_default();
    let (stop, kill) = (latest::Sender::new(false), latest::Sender::new(false));
    let (alive, done) = mpsc::channel(1);
    let containers = pod.spec.iter().flat_map(|s| &s.containers);
    let logs: Vec<Arc<LogFile>> = containers
        .map(|container| {
            let log = agent.config.logs.open(pod, &container.name);
            let image = container.image.as_deref().unwrap_or_default();
            log.print(&agent.ctx, &format!("started as a modelled workload of image {image:?}"));
            log
        })
        .collect();
    let mounted = agent.volumes().mounted(uid);
    for (volume_in_pod, spec) in mounted {
        let (log, place) = mounted_by(pod, &volume_in_pod, &logs);
        if let Some(log) = &log {
            let (volume, place) = (&spec.handle, place.unwrap_or("no path"));
            let how = if spec.block { "mapped as a raw device" } else { "mounted" };
            log.print(&agent.ctx, &format!("{volume_in_pod}: volume {volume} is {how} at {place}"));
        }
        let writer = Writer {
            agent: agent.clone(),
            name: volume_in_pod.clone(),
            log,
            pod: format!("{}/{}", part(&pod.metadata.namespace), part(&pod.metadata.name)),
            reference: object.clone(),
            volume: spec.handle.clone(),
            place: Place::of(agent, uid, &spec),
            readonly: spec.readonly || readonly.get(&volume_in_pod).copied().unwrap_or_default(),
            settings: settings.clone(),
        };
        let (stop, mut kill, alive) = (stop.subscribe(), kill.subscribe(), alive.clone());
        agent.ctx.spawn(async move {
            tokio::select! { biased;
                _ = kill.wait_for(|kill| *kill) => {}
                () = writer.run(stop) => {}
            }
            drop(alive);
        });
    }
    Running { since: agent.ctx.now().wall, stop, kill, done, logs }
}

/// The log of the container that writes to a volume, the first that mounts it, and where that is.
fn mounted_by<'a>(pod: &'a Pod, volume: &str, logs: &[Arc<LogFile>]) -> (Option<Arc<LogFile>>, Option<&'a str>) {
    let containers = pod.spec.iter().flat_map(|s| &s.containers);
    let found = containers.zip(logs).find_map(|(container, log)| {
        let mounts = container.volume_mounts.iter().flatten().map(|m| (&m.name, m.mount_path.as_str()));
        let devices = container.volume_devices.iter().flatten().map(|d| (&d.name, d.device_path.as_str()));
        let place = mounts.chain(devices).find(|(name, _)| *name == volume)?.1;
        Some((log.clone(), place))
    });
    // An init container's volume belongs to whoever comes after it.
    found.map_or_else(|| (logs.first().cloned(), None), |(log, place)| (Some(log), Some(place)))
}

/// Stops a pod's containers: SIGTERM, then SIGKILL when the grace is over. A shorter grace may be ordered meanwhile.
async fn stop(agent: &Agent, pod: &Pod, mut running: Running, orders: &mut latest::Receiver<Orders>) {
    let object = reference::<Pod>(pod);
    for container in pod.spec.iter().flat_map(|s| &s.containers) {
        let message = format!("Stopping container {}", container.name);
        agent.recorder.event(of_container(&object, &container.name), "Normal", "Killing", message);
    }
    let begun = agent.ctx.now().mono;
    running.print(agent, "asked to stop (SIGTERM)");
    running.stop.send_replace(true);
    let done = &mut running.done;
    let finished = async {
        // The channel closes when the last writer has ended.
        while done.recv().await.is_some() {}
        if !agent.config.container_stop.is_zero() {
            agent.ctx.sleep(agent.config.container_stop).await;
        }
    };
    let mut finished = Box::pin(finished);
    let end = loop {
        let grace = orders.borrow_and_update().terminate.unwrap_or_default();
        tokio::select! { biased;
            () = &mut finished => break "stopped",
            changed = orders.changed() => if changed.is_err() { break "killed" },
            () = agent.ctx.sleep_until(begun + agent.ctx.scaled(grace)) => break "killed: the grace period is over",
        }
    };
    drop(finished);
    running.kill.send_replace(true);
    running.print(agent, end);
    for log in &running.logs {
        log.close();
    }
}

/// WaitForAttachAndMount: looks at once and every 300 ms, for 2 m 3 s. An error without text is the timeout, of
/// which upstream makes no event.
async fn wait_for_volumes(agent: &Agent, uid: &str, expected: &[String]) -> Result<(), Option<String>> {
    let timers = &agent.config.timers;
    let begun = agent.ctx.now().mono;
    let deadline = begun + agent.ctx.scaled(timers.pod_attach_and_mount_timeout);
    agent.pods().with(uid, |entry| entry.unprocessed = true);
    let mut changes = agent.changes();
    agent.changed();
    loop {
        {
            let mut volumes = agent.volumes();
            if volumes.has_errors(uid) {
                let cause = volumes.take_errors(uid).join("; ");
                return Err(Some(volumes.explain(uid, expected, &cause)));
            }
            if volumes.unmounted(uid, expected).is_empty() {
                return Ok(());
            }
        }
        if !next_look(agent, &mut changes, begun, Some(deadline)).await {
            return Err(None);
        }
    }
}

/// WaitForUnmount: looks at once and every 300 ms.
async fn wait_for_unmount(agent: &Agent, uid: &str) {
    let begun = agent.ctx.now().mono;
    let mut changes = agent.changes();
    while !agent.volumes().is_unmounted(uid) {
        next_look(agent, &mut changes, begun, None).await;
    }
}

/// Waits for a change, and then for the next instant of a 300 ms grid that began at `begun`; false at the deadline.
async fn next_look(
    agent: &Agent,
    changes: &mut latest::Receiver<()>,
    begun: Duration,
    deadline: Option<Duration>,
) -> bool {
    tokio::select! { biased;
        _ = changes.changed() => {}
        () = agent.ctx.sleep_until(deadline.unwrap_or_default()), if deadline.is_some() => return false,
    }
    let poll = agent.ctx.scaled(agent.config.timers.pod_attach_and_mount_poll);
    let now = agent.ctx.now().mono;
    let next = Grid::new(begun, poll).at_or_after(now, Some(now));
    agent.ctx.sleep_until(next).await;
    deadline.is_none_or(|deadline| next < deadline)
}
