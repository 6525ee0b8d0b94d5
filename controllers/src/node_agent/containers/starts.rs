//! Starts of the containers of a pod, with their Events (upstream `kuberuntime_manager.go`, `kuberuntime_container.go`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, ObjectReference, Pod};

use super::context::ContainerContext;
use super::image_change::has_other_image;
use super::of_pod::of_container;
use crate::machine::api::PodRecord;
use crate::node_agent::pod_table::orders::SYNC_BACKOFF;
use crate::node_agent::programs::needed::refers;
use crate::node_agent::programs::sub_path;
use crate::node_agent::programs::workload::renewed_spec;
use crate::node_agent::progress::{NotStarted, PodFacts, UNPREPARED};
use crate::node_agent::rules::image_pulls::Pulls;
use crate::node_agent::rules::restarts::{Restarts, ends_with_machine, is_finished, is_initialized, name_with_uid};

/// Returns true if none of the pod's containers starts again. `record` is what the machine knows of them, if they ever
/// ran.
pub(crate) fn has_finished(pod: &Pod, record: Option<&PodRecord>, ran: bool) -> bool {
    let Some(spec) = &pod.spec else { return false };
    match record {
        Some(record) => is_finished(spec, record),
        // The machine was lost with them.
        None => ran && ends_with_machine(spec),
    }
}

/// Starts the containers that are to start again, and those that were `replaced`. Returns the time at which to look at
/// the others, and the names of those that it started.
pub(crate) async fn restart_containers(
    room: &Arc<ContainerContext>,
    uid: &str,
    pod: &Pod,
    record: &PodRecord,
    object: &Arc<ObjectReference>,
    (restarts, pulls, replaced): (&mut Restarts, &mut Pulls, &BTreeSet<String>),
    facts: &mut PodFacts,
) -> (Option<Duration>, Vec<String>) {
    restarts.starting.clone_from(&facts.starting);
    let mut plan = restarts.plan(pod, record, room.ctx.now().mono, |wait| room.ctx.scaled(wait));
    // A replaced container starts again with any restart policy.
    for one in replaced.iter().filter_map(|name| record.container(name)) {
        let is_planned = plan.start.iter().any(|(name, _)| *name == one.name) || plan.waiting.contains_key(&one.name);
        if !is_planned {
            plan.start.push((one.name.clone(), one.attempt + 1));
        }
    }
    for (name, message) in &plan.waiting {
        if facts.waiting.get(name) != Some(message) {
            let message = format!("Back-off restarting failed container {name} in pod {}", name_with_uid(pod));
            room.recorder.event(Arc::new(of_container(object, pod, name)), "Warning", "BackOff", message);
        }
    }
    if substrate::mutant!(room.ctx, "crash-loop-told-while-running") {
        facts.waiting.extend(plan.waiting);
    } else {
        facts.waiting = plan.waiting;
    }
    let (mut wait, mut started) = (plan.wait, Vec::new());
    let mut not_started: BTreeMap<String, NotStarted> = BTreeMap::new();
    let inits = || {
        pod.spec
            .iter()
            .filter(|spec| !is_initialized(spec, record))
            .flat_map(|spec| spec.init_containers.iter().flatten())
    };
    for (name, attempt) in plan.start {
        // Until the pod is initialized, the containers after one that does not start wait for it.
        if inits().any(|init| not_started.contains_key(&init.name)) {
            break;
        }
        let container = all(pod).find(|container| container.name == name);
        let now = room.ctx.now().mono;
        if let Some(failure) = container.and_then(|one| pulls.attempt(one, now, |wait| room.ctx.scaled(wait))) {
            for (kind, reason, message) in failure.events {
                room.recorder.event(Arc::new(of_container(object, pod, &name)), kind, reason, message);
            }
            not_started.insert(name, failure.waits);
            wait = Some(wait.map_or(failure.again, |wait| wait.min(failure.again)));
            continue;
        }
        if let Err(why) = sub_path::check(&room.program_room, uid, pod, &name) {
            let message = format!("Error: {why}");
            room.recorder.event(Arc::new(of_container(object, pod, &name)), "Warning", "Failed", message);
            not_started.insert(name, NotStarted { reason: UNPREPARED, message: why });
            let retry = room.ctx.scaled(SYNC_BACKOFF);
            wait = Some(wait.map_or(retry, |wait| wait.min(retry)));
            continue;
        }
        let renewed = match container.filter(|container| has_other_image(record, container) || refers(container)) {
            None => None,
            Some(container) => match renewed_spec(&room.program_room, uid, pod, container, attempt).await {
                Ok(renewed) => Some(renewed),
                Err(why) => {
                    if let Some(message) = why.of_container() {
                        not_started.insert(name.clone(), NotStarted { reason: UNPREPARED, message });
                    }
                    let object = Arc::new(of_container(object, pod, &name));
                    room.recorder.event(object, "Warning", why.reason, why.message);
                    let retry = room.ctx.scaled(SYNC_BACKOFF);
                    wait = Some(wait.map_or(retry, |wait| wait.min(retry)));
                    continue;
                }
            },
        };
        match room.runtime.start(&room.ctx, uid, &name, attempt, renewed).await {
            Ok(()) => {
                emit_start_events(room, pod, object, |container| container.name == name);
                started.push(name);
            }
            Err(error) => {
                let message = format!("Error: {error}");
                room.recorder.event(Arc::new(of_container(object, pod, &name)), "Warning", "Failed", message);
                let retry = room.ctx.scaled(SYNC_BACKOFF);
                wait = Some(wait.map_or(retry, |wait| wait.min(retry)));
            }
        }
    }
    facts.not_started = not_started;
    (wait.map(|wait| room.ctx.now().mono + wait), started)
}

/// Emits the Events of containers that were started.
pub(crate) fn emit_start_events(
    room: &ContainerContext,
    pod: &Pod,
    object: &Arc<ObjectReference>,
    started: impl Fn(&Container) -> bool,
) {
    for container in all(pod).filter(|container| started(container)) {
        emit_start_event(room, Arc::new(of_container(object, pod, &container.name)), container);
    }
}

/// Returns the init containers and the regular containers of a pod.
fn all(pod: &Pod) -> impl Iterator<Item = &Container> {
    let inits = pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
    inits.chain(pod.spec.iter().flat_map(|spec| &spec.containers))
}

/// Emits the Events of one container that was started. `object` refers to it.
pub(super) fn emit_start_event(room: &ContainerContext, object: Arc<ObjectReference>, container: &Container) {
    let image = container.image.as_deref().unwrap_or_default();
    let pulled = if container.image_pull_policy.as_deref() == Some("Always") {
        // No registry exists: a pull succeeds at once.
        room.recorder.event(object.clone(), "Normal", "Pulling", format!("Pulling image \"{image}\""));
        format!("Successfully pulled image \"{image}\" in 0s (0s including waiting). Image size: 0 bytes.")
    } else {
        format!("Container image \"{image}\" already present on machine and can be accessed by the pod")
    };
    room.recorder.event(object.clone(), "Normal", "Pulled", pulled);
    room.recorder.event(object.clone(), "Normal", "Created", "Container created");
    room.recorder.event(object, "Normal", "Started", "Container started");
}
