//! Lifecycle hooks of containers that run programs (upstream `pkg/kubelet/lifecycle/handlers.go`,
//! `kuberuntime_container.go`). Of a modelled container only hooks that sleep run.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use http::HeaderValue;
use k8s_openapi::api::core::v1::{Container, HTTPGetAction, LifecycleHandler, ObjectReference, Pod, PodSpec};

use super::context::ContainerContext;
use super::exec::in_container;
use super::http_get::HttpGet;
use super::of_pod::{grace_of, named, of_container};
use crate::machine::api::{ContainerRecord, ContainerState, PodRecord};
use crate::node_agent::programs::entry_point;
use crate::node_agent::rules::restarts::{is_sidecar, restartable};

/// Least time between the two signals to a container that had a hook (`minimumGracePeriodInSeconds`).
const LEAST_GRACE: Duration = Duration::from_secs(2);
/// User agent of hooks by HTTP.
const USER_AGENT: HeaderValue = HeaderValue::from_static("kube-lifecycle/1.36");

/// Runs the hooks of containers that have started, one after the other. A container whose hook fails is stopped.
pub(crate) async fn post_start(
    room: &ContainerContext,
    uid: &str,
    pod: &Pod,
    object: &Arc<ObjectReference>,
    started: &[String],
) {
    for name in started {
        let Some(container) = named(pod, name) else { continue };
        let hook = container.lifecycle.as_ref().and_then(|lifecycle| lifecycle.post_start.as_ref());
        let Some(hook) = hook.filter(|hook| can_run(room, hook)) else { continue };
        if run(room, uid, object, container, hook).await.is_err() {
            // Upstream keeps the reason out of the Event: it may have secrets.
            event(room, pod, object, container, "FailedPostStartHook", "PostStartHook failed");
            // A modelled container has no program for the hook, and runs on.
            if entry_point::words(container).is_some() {
                stop_one(room, uid, pod, object, container, "FailedPostStartHook", grace_of(pod)).await;
            }
        }
    }
}

/// Stops a container that starts again, after its hook and within the grace period. Returns false if the machine did not
/// take the request.
pub(super) async fn stop_one(
    room: &ContainerContext,
    uid: &str,
    pod: &Pod,
    object: &Arc<ObjectReference>,
    container: &Container,
    message: &str,
    grace: Duration,
) -> bool {
    room.recorder.event(Arc::new(of_container(object, pod, &container.name)), "Normal", "Killing", message.to_owned());
    pre_stop_one(room, uid, pod, object, container, (true, Vec::new()), grace).await
}

/// Stops the containers of a pod one by one if one of them has a hook, or if sidecars end after the others. Returns the
/// rest of their grace period. `hooks` is false if the hooks have had their time.
pub(crate) async fn stop_in_order(
    room: &ContainerContext,
    uid: &str,
    pod: &Pod,
    object: &Arc<ObjectReference>,
    record: Option<&PodRecord>,
    grace: Duration,
    hooks: bool,
) -> Duration {
    let (Some(spec), Some(record)) = (&pod.spec, record) else { return grace };
    // A container that waits for its image or its variables has no hook to run.
    let runs = |one: &&ContainerRecord| matches!(one.state, ContainerState::Running { .. });
    let attempt = |container: &Container| {
        record.container(&container.name).filter(runs).map(|one| (one.name.clone(), one.attempt))
    };
    let running: Vec<&Container> = restartable(spec).filter(|container| attempt(container).is_some()).collect();
    let with_hooks = hooks && running.iter().any(|container| before_stop(room, container).is_some());
    if grace.is_zero() || !with_hooks && !running.iter().any(|container| is_sidecar(container)) {
        return grace;
    }
    let began = room.ctx.now().mono;
    let mut stops = Vec::new();
    let most = if substrate::mutant!(room.ctx, "hook-of-first-container-only") { 1 } else { running.len() };
    for container in running.into_iter().take(most) {
        let before: Vec<_> = ends_before(spec, container).filter_map(&attempt).collect();
        stops.push(pre_stop_one(room, uid, pod, object, container, (hooks, before), grace));
    }
    join_all(stops).await;
    rest(room, began, grace)
}

/// Returns the containers that end before another one is asked to stop (`newTerminationOrdering`): regular ones before
/// sidecars, and later sidecars before earlier ones.
fn ends_before<'a>(spec: &'a PodSpec, container: &Container) -> impl Iterator<Item = &'a Container> {
    let inits = || spec.init_containers.iter().flatten();
    let own =
        inits().position(|init| init.name == container.name && is_sidecar(init)).map_or(usize::MAX, |own| own + 1);
    let is_after = own != usize::MAX;
    let sidecars = inits().skip(own).filter(|init| is_sidecar(init));
    sidecars.chain(spec.containers.iter().filter(move |_| is_after))
}

/// Runs the hook of a container within the grace period, waits for the ends of the containers `before` it, each with the
/// number of its start, and asks the container to stop in the rest of the period. Returns false if the machine did not
/// take the request: a container that has ended meanwhile needs no stop.
async fn pre_stop_one(
    room: &ContainerContext,
    uid: &str,
    pod: &Pod,
    object: &Arc<ObjectReference>,
    container: &Container,
    (hooks, before): (bool, Vec<(String, u32)>),
    grace: Duration,
) -> bool {
    let began = room.ctx.now().mono;
    let mut left = grace;
    if let Some(hook) = before_stop(room, container).filter(|_| hooks && !grace.is_zero()) {
        let done = tokio::select! { biased;
            done = run(room, uid, object, container, hook) => done,
            // Upstream lets the hook run and stops the container.
            () = room.ctx.sleep(grace) => Ok(()),
        };
        if done.is_err() {
            event(room, pod, object, container, "FailedPreStopHook", "PreStopHook failed");
        }
        if !substrate::mutant!(room.ctx, "hook-time-not-counted") {
            left = rest(room, began, grace);
        }
    }
    if !before.is_empty() {
        tokio::select! { biased;
            () = ended(room, uid, &before) => {}
            () = room.ctx.sleep(left) => {}
        }
        left = rest(room, began, grace);
    }
    room.runtime.stop_container(&room.ctx, uid, &container.name, left).await.is_ok()
}

/// Waits until these starts of containers have ended.
async fn ended(room: &ContainerContext, uid: &str, starts: &[(String, u32)]) {
    let mut changes = room.runtime.changes();
    while starts.iter().any(|(name, attempt)| runs(room, uid, name, *attempt)) {
        // The sender lives in the agent.
        let _ = changes.changed().await;
    }
}

/// Returns true if the start of a container after `attempt` others runs.
pub(super) fn runs(room: &ContainerContext, uid: &str, container: &str, attempt: u32) -> bool {
    let record = room.runtime.alive(uid);
    let one = record.as_ref().and_then(|record| record.container(container));
    one.is_some_and(|one| one.attempt == attempt && matches!(one.state, ContainerState::Running { .. }))
}

fn before_stop<'a>(room: &ContainerContext, container: &'a Container) -> Option<&'a LifecycleHandler> {
    container.lifecycle.as_ref()?.pre_stop.as_ref().filter(|hook| can_run(room, hook))
}

/// Returns true if a container of this kubelet has the hook: a modelled container can only sleep.
fn can_run(room: &ContainerContext, hook: &LifecycleHandler) -> bool {
    room.config.programs || hook.sleep.is_some()
}

fn rest(room: &ContainerContext, began: Duration, grace: Duration) -> Duration {
    grace.saturating_sub(room.ctx.unscaled(room.ctx.now().mono - began)).max(LEAST_GRACE)
}

fn event(
    room: &ContainerContext,
    pod: &Pod,
    object: &Arc<ObjectReference>,
    container: &Container,
    reason: &str,
    message: &str,
) {
    let object = Arc::new(of_container(object, pod, &container.name));
    room.recorder.event(object, "Warning", reason, message.to_owned());
}

/// Runs a hook to its end. The status of an HTTP answer does not count.
async fn run(
    room: &ContainerContext,
    uid: &str,
    object: &Arc<ObjectReference>,
    container: &Container,
    hook: &LifecycleHandler,
) -> Result<(), String> {
    match hook {
        LifecycleHandler { exec: Some(exec), .. } => {
            let words = exec.command.as_deref().unwrap_or_default();
            in_container(room, uid, &container.name, words).await
        }
        LifecycleHandler { http_get: Some(get), .. } => by_http(room, object, container, get).await,
        LifecycleHandler { sleep: Some(sleep), .. } => {
            room.ctx.sleep(Duration::from_secs(u64::try_from(sleep.seconds).unwrap_or_default())).await;
            Ok(())
        }
        _ => Err("invalid handler".to_owned()),
    }
}

/// Sends the request of a hook. A server without TLS that gets a request by HTTPS gets it again without TLS.
async fn by_http(
    room: &ContainerContext,
    object: &Arc<ObjectReference>,
    container: &Container,
    get: &HTTPGetAction,
) -> Result<(), String> {
    let get = HttpGet::new(container, get, USER_AGENT)?;
    let Err(failed) = get.send().await else { return Ok(()) };
    if !failed.is_plain || get.without_tls().send().await.is_err() {
        return Err(failed.why);
    }
    let address = get.authority();
    let message = format!("request to HTTPS lifecycle hook {address} got HTTP response, retry with HTTP succeeded");
    room.recorder.event(object.clone(), "Warning", "LifecycleHTTPFallback", message);
    Ok(())
}

#[cfg(test)]
mod tests {
    use substrate::json::{from_value, json};

    use super::*;

    #[test]
    fn sidecars_end_after_the_containers_behind_them() {
        let sidecar = |name: &str| json!({ "name": name, "restartPolicy": "Always" });
        let spec: PodSpec = from_value(json!({
            "initContainers": [{ "name": "init" }, sidecar("one"), { "name": "other" }, sidecar("two"), sidecar("three")],
            "containers": [{ "name": "app" }, { "name": "beside" }],
        }))
        .expect("a spec");
        let before = |name: &str| -> Vec<&str> {
            let mut all = spec.init_containers.iter().flatten().chain(&spec.containers);
            let container = all.find(|container| container.name == name).expect("a container");
            ends_before(&spec, container).map(|container| container.name.as_str()).collect()
        };
        assert_eq!(before("one"), ["two", "three", "app", "beside"]);
        assert_eq!(before("two"), ["three", "app", "beside"]);
        assert_eq!(before("three"), ["app", "beside"]);
        for name in ["app", "beside", "init", "other"] {
            assert!(before(name).is_empty(), "{name}");
        }
    }
}
