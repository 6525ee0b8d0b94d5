//! Worker of one pod, from its admission to its last unmount (upstream `kubelet.go` SyncPod, SyncTerminatingPod,
//! SyncTerminatedPod).

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use rand_core::Rng;
use substrate::latest;
use substrate::seed::unit;

use super::context::PodContext;
use super::housekeeping::forget;
use super::pod_volumes::mounted;
use crate::kube::reference;
use crate::machine::api::{ContainerState, PodRecord, State};
use crate::node_agent::containers::ephemeral_starts::start_new;
use crate::node_agent::containers::hooks::{post_start, stop_in_order};
use crate::node_agent::containers::image_change::{stop_changed, with_latest_images};
use crate::node_agent::containers::of_pod::of_container;
use crate::node_agent::containers::prober::{self, restart_failed};
use crate::node_agent::containers::starts::{emit_start_events, has_finished, restart_containers};
use crate::node_agent::pod_table::orders::{Orders, SYNC_BACKOFF, SYNC_JITTER};
use crate::node_agent::programs::unprepared::Unprepared;
use crate::node_agent::programs::workload::{pod_spec, prepared, settings};
use crate::node_agent::progress::Phase;
use crate::node_agent::rules::ephemeral;
use crate::node_agent::rules::image_pulls::Pulls;
use crate::node_agent::rules::probes::Probes;
use crate::node_agent::rules::restarts::{Restarts, restartable};
use crate::node_agent::status::pod_report::{Report, reporter};
use crate::node_agent::status::pod_status::started_before;
use crate::node_agent::status::status_reporter::StatusReporter;
use crate::node_agent::volumes::expand::asks_to_grow;
use crate::node_agent::volumes::pod_dirs::{HOUSEKEEPING, mounted_below, remove_pod_dirs};
use crate::node_agent::volumes::republish::republishes;
use crate::node_agent::volumes::waits::wait_for_unmount;

/// Wait after a failed call to the runtime.
const RUNTIME_RETRY: Duration = Duration::from_secs(1);

/// Runs a pod (if `run`), stops it on order, and cleans up after it.
pub(super) async fn worker(
    room: Arc<PodContext>,
    uid: String,
    pod: Arc<Pod>,
    run: bool,
    mut orders: latest::Receiver<Orders>,
) {
    let reports = latest::Sender::new(Report::Nothing);
    room.ctx.spawn(reporter(room.status_room.clone(), pod.clone(), reports.subscribe()));
    let mut status_reporter = StatusReporter::new(&room.status_room, &pod, reports);
    let known = room.runtime.get(&uid);
    if let Some(record) = &known {
        status_reporter.adopt(record);
    }
    let had = known.is_some_and(|record| record.is_alive());
    let asked = if run { live(&room, &uid, &pod, &mut status_reporter, &mut orders).await } else { had };
    if orders.borrow().expired && status_reporter.facts.refusal.is_none() {
        status_reporter.expired();
    }
    let early = substrate::mutant!(room.ctx, "unmount-before-stop");
    if asked && !early {
        stop(&room, &uid, &pod, &mut orders).await;
    }
    let record = room.runtime.get(&uid);
    status_reporter.facts.waiting.clear();
    if let Some(record) = &record {
        status_reporter.adopt(record);
    }
    let since = record.as_ref().and_then(PodRecord::since).or(status_reporter.since);
    let ended = record.as_ref().and_then(PodRecord::ended);
    let stopped = Phase::Stopped(since, ended.unwrap_or_else(|| room.ctx.now().wall));
    if run || had {
        status_reporter.phase(stopped.clone());
    }
    if substrate::mutant!(room.ctx, "finished-pod-stays-mounted") {
        ordered_to_stop(&mut orders).await;
    }
    room.pods.lock().release_volumes(&uid);
    room.changes.signal();
    if substrate::mutant!(room.ctx, "pod-removed-before-unmount") {
        status_reporter.reports.send_replace(Report::Finish(stopped.clone(), status_reporter.facts.clone()));
    }
    if !substrate::mutant!(room.ctx, "unmount-skipped") {
        wait_for_unmount(&room.volume_room, &uid).await;
        // Includes mounts that kubelet could not reconstruct at its start.
        while mounted_below(&room.volume_room, &uid).await {
            room.ctx.sleep(HOUSEKEEPING).await;
        }
        remove_pod_dirs(&room.volume_room, &uid).await;
    }
    if asked && early {
        stop(&room, &uid, &pod, &mut orders).await;
    }
    if substrate::mutant!(room.ctx, "ended-pod-stays-longer") {
        room.ctx.sleep(Duration::from_secs(60)).await;
    }
    status_reporter.reports.send_replace(Report::Finish(stopped, status_reporter.facts.clone()));
    let deleted = orders.borrow().deleted;
    room.pods.lock().end(uid, deleted);
    if deleted {
        forget(&room, &pod);
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
    room: &Arc<PodContext>,
    uid: &str,
    pod: &Arc<Pod>,
    status_reporter: &mut StatusReporter,
    orders: &mut latest::Receiver<Orders>,
) -> bool {
    let mut rng = room.ctx.rng(&format!("pod {uid}"));
    let object = Arc::new(reference::<Pod>(pod));
    let (settings, wrong) = settings(pod, &room.config.workload);
    for message in wrong {
        room.recorder.event(object.clone(), "Warning", "InvalidAnnotation", message);
    }
    let mut asked = room.runtime.alive(uid).is_some();
    let started = started_before(pod).map_or(0, |restarts| restarts + 1);
    let (mut restarts, mut pulls) = (Restarts::new(&room.ctx, room.config.programs), Pulls::default());
    let mut probes = Probes::new(&room.ctx);
    // The machine's last record of the pod. It counts after the machine has lost it, too.
    let mut last: Option<PodRecord> = None;
    let next = |last: &Option<PodRecord>| last.as_ref().map_or(started, |record| started.max(record.attempt + 1));
    loop {
        let record = room.runtime.get(uid);
        if let Some(record) = &record {
            status_reporter.adopt(record);
        }
        last = record.clone().or(last);
        // Running containers are reported at once. The pod's volumes are still checked.
        match record.as_ref().filter(|record| record.is_alive()).and_then(PodRecord::since) {
            Some(since) => status_reporter.phase(Phase::Running(since)),
            None => status_reporter.phase(Phase::Waiting),
        }
        let lost = record.is_none() && substrate::mutant!(room.ctx, "lost-pod-runs-again");
        if has_finished(pod, record.as_ref(), next(&last) > 0) && !lost {
            return asked;
        }
        match unless_ordered(orders, mounted(room, uid, pod, &object, &mut rng)).await {
            None => return asked,
            Some(Err(refusal)) => {
                status_reporter.refused(refusal);
                return asked;
            }
            Some(Ok(())) => {}
        }
        if room.runtime.alive(uid).is_none() {
            last = room.runtime.get(uid).or(last);
            let attempt = next(&last);
            if attempt > 0 {
                let message = "Pod sandbox changed, it will be killed and re-created.";
                room.recorder.event(object.clone(), "Normal", "SandboxChanged", message);
            }
            let pod = &with_latest_images(pod, room.pods.lock().get(uid).as_deref());
            let Some(prepared) = unless_ordered(orders, prepared(&room.program_room, uid, pod)).await else {
                return asked;
            };
            let prepared = match prepared {
                Ok(prepared) => prepared,
                Err(why) => {
                    status_reporter.facts.unprepared = why.of_container();
                    status_reporter.phase(Phase::Waiting);
                    let Unprepared { reason, message } = why;
                    room.recorder.event(object.clone(), "Warning", reason, message);
                    if unless_ordered(orders, room.ctx.sleep(SYNC_BACKOFF)).await.is_none() {
                        return asked;
                    }
                    continue;
                }
            };
            status_reporter.facts.unprepared = None;
            for why in prepared.programs.values().flat_map(|program| &program.without) {
                room.recorder.event(object.clone(), "Warning", "VolumeNotMounted", why.clone());
            }
            let spec = pod_spec(&room.program_room, uid, pod, (attempt, last.as_ref()), &settings, prepared);
            let lists = room.runtime.lists();
            asked = true;
            // Await the answer: a stop that overtakes this request would stop nothing.
            if let Err(error) = room.runtime.run(&room.ctx, &spec).await {
                let message = format!("Failed to create pod sandbox: {error}");
                room.recorder.event(object.clone(), "Warning", "FailedCreatePodSandBox", message);
                if unless_ordered(orders, room.ctx.sleep(SYNC_BACKOFF)).await.is_none() {
                    return asked;
                }
                continue;
            }
            let starts =
                |name: &String| spec.containers.iter().any(|one| one.name == *name && spec.starts_at_once(one));
            emit_start_events(&room.container_room, pod, &object, |container| starts(&container.name));
            let started: Vec<String> =
                spec.containers.iter().map(|one| one.name.clone()).filter(|name| starts(name)).collect();
            if unless_ordered(orders, wait_for_report(room, uid, attempt, lists)).await.is_none()
                || unless_ordered(orders, post_start(&room.container_room, uid, pod, &object, &started)).await.is_none()
            {
                return asked;
            }
        }
        let Some(record) = room.runtime.alive(uid) else { continue };
        status_reporter.adopt(&record);
        if room.config.programs {
            probes.adopt(pod, &record, room.ctx.now().mono, |wait| room.ctx.scaled(wait));
            if unless_ordered(orders, restart_failed(&room.container_room, uid, pod, &object, &mut probes))
                .await
                .is_none()
            {
                return asked;
            }
            (status_reporter.facts.unready, status_reporter.facts.starting) = (probes.unready(), probes.starting());
        }
        let spec = latest_spec(room, uid);
        // A container that waits may have another image now.
        let latest = room.pods.lock().get(uid).unwrap_or_else(|| pod.clone());
        let stopped = unless_ordered(orders, stop_changed(&room.container_room, uid, &latest, &record, &object)).await;
        let Some(replaced) = stopped else { return asked };
        let record = if replaced.is_empty() { Some(record) } else { room.runtime.alive(uid) };
        let Some(record) = record else { continue };
        if !replaced.is_empty() {
            status_reporter.adopt(&record);
        }
        let (due, started) = match record.since() {
            None => (None, Vec::new()),
            Some(_) if substrate::mutant!(room.ctx, "container-not-restarted") => (None, Vec::new()),
            Some(_) => {
                let waits = (&mut restarts, &mut pulls, &replaced);
                restart_containers(
                    &room.container_room,
                    uid,
                    &latest,
                    &record,
                    &object,
                    waits,
                    &mut status_reporter.facts,
                )
                .await
            }
        };
        if unless_ordered(orders, post_start(&room.container_room, uid, pod, &object, &started)).await.is_none() {
            return asked;
        }
        let again = async {
            if record.since().is_none() { None } else { start_new(&room.container_room, uid, &record, &object).await }
        };
        let Some(again) = unless_ordered(orders, again).await else { return asked };
        let due = [due, again].into_iter().flatten().min();
        // A replaced container is not reported between its end and its start: with the policy Never it could not run again.
        if !started.iter().any(|name| replaced.contains(name)) {
            status_reporter.phase(record.since().map_or(Phase::Waiting, Phase::Running));
        }
        let kept = async {
            tokio::select! { biased;
                () = keep(room, uid, pod, (&record, spec), due, &mut rng) => {}
                () = prober::run(&room.container_room, uid, pod, &object, &mut probes) => {}
            }
        };
        if unless_ordered(orders, kept).await.is_none() {
            return asked;
        }
        last = Some(record);
    }
}

/// Waits until the runtime reports the pod's containers, or has been listed again since list number `lists`.
async fn wait_for_report(room: &PodContext, uid: &str, attempt: u32, lists: u64) {
    let mut changes = room.runtime.changes();
    let here = |record: PodRecord| record.attempt >= attempt && record.since().is_some();
    while !room.runtime.get(uid).is_some_and(here) && room.runtime.lists() == lists {
        // The sender lives in the agent.
        let _ = changes.changed().await;
    }
}

/// Version of a pod's spec: its generation, and its number of ephemeral containers.
type SpecVersion = (Option<i64>, usize);

/// Returns the version of the latest spec of a pod.
fn latest_spec(room: &PodContext, uid: &str) -> SpecVersion {
    room.pods.lock().get(uid).map_or((None, 0), |pod| (pod.metadata.generation, ephemeral::count(&pod)))
}

/// Checks a running pod periodically, until one of its containers or its spec changes, or `due`. `known` is the machine's
/// record, and the version of the spec.
async fn keep(
    room: &PodContext,
    uid: &str,
    pod: &Pod,
    known: (&PodRecord, SpecVersion),
    due: Option<Duration>,
    rng: &mut impl Rng,
) {
    let mut changes = room.runtime.changes();
    let mut next = next_sync(room, rng);
    let is_known = |now: &PodRecord| now == known.0 && latest_spec(room, uid) == known.1;
    while room.runtime.get(uid).is_some_and(|now| is_known(&now)) {
        tokio::select! { biased;
            _ = changes.changed() => continue,
            () = room.ctx.sleep_until(due.unwrap_or_default()), if due.is_some() => return,
            () = room.ctx.sleep_until(next) => {}
        }
        if republishes(&room.volume_room, uid) {
            room.changes.signal();
        }
        if asks_to_grow(&room.volume_room, uid, pod).await {
            room.pods.lock().look_up_again(uid);
            room.changes.signal();
        }
        next = next_sync(room, rng);
    }
}

/// Returns the time of a running pod's next sync.
fn next_sync(room: &PodContext, rng: &mut impl Rng) -> Duration {
    let period = room.config.timers.pod_sync;
    room.ctx.now().mono + room.ctx.scaled(period + period.mul_f64(SYNC_JITTER * unit(rng)))
}

/// Stops a pod's containers and waits for their end. A shorter grace period may be ordered meanwhile.
async fn stop(room: &PodContext, uid: &str, pod: &Pod, orders: &mut latest::Receiver<Orders>) {
    if substrate::mutant!(room.ctx, "deleted-pod-stopped-late") {
        room.ctx.sleep(Duration::from_secs(60)).await;
    }
    let object = reference::<Pod>(pod);
    let record = room.runtime.get(uid);
    let has_exited = |name: &str| {
        let Some(record) = &record else { return false };
        // A container that waits for its image, or for an init container, has not started.
        let waits =
            |state: ContainerState| matches!(record.state, State::Running { .. }) && state == ContainerState::Created;
        record.container(name).is_some_and(|one| one.exit().is_some() || waits(one.state))
    };
    for container in pod.spec.iter().flat_map(restartable).filter(|container| !has_exited(&container.name)) {
        let message = format!("Stopping container {}", container.name);
        room.recorder.event(of_container(&object, pod, &container.name), "Normal", "Killing", message);
    }
    let latest = room.pods.lock().get(uid);
    if let Some(latest) = &latest {
        for name in ephemeral::running(latest, record.as_ref()) {
            let message = format!("Stopping container {name}");
            room.recorder.event(of_container(&object, latest, &name), "Normal", "Killing", message);
        }
    }
    let object = Arc::new(object);
    let mut hooks = true;
    loop {
        let mut grace = orders.borrow_and_update().terminate.unwrap_or_default();
        if substrate::mutant!(room.ctx, "grace-period-not-granted") {
            grace = Duration::ZERO;
        }
        let running = room.runtime.alive(uid);
        tokio::select! { biased;
            // A shorter grace period: the hooks have had theirs.
            _ = orders.changed() => {
                hooks = false;
                continue;
            }
            rest = stop_in_order(&room.container_room, uid, pod, &object, running.as_ref(), grace, hooks) => grace = rest,
        }
        hooks = false;
        match room.runtime.stop(&room.ctx, uid, grace).await {
            Ok(true) => {}
            Ok(false) => return,
            Err(_) => {
                room.ctx.sleep(RUNTIME_RETRY).await;
                continue;
            }
        }
        tokio::select! { biased;
            () = room.runtime.ended(uid) => return,
            // The table keeps the sender.
            _ = orders.changed() => {}
        }
    }
}
