//! Lifecycle hooks of containers that run programs (upstream `pkg/kubelet/lifecycle/handlers.go`,
//! `kuberuntime_container.go`). Of a modelled container only hooks that sleep run.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use http::HeaderValue;
use k8s_openapi::api::core::v1::{Container, HTTPGetAction, LifecycleHandler, ObjectReference, Pod};

use super::agent::Agent;
use super::containers::of_container;
use super::entry_point;
use super::http_get::HttpGet;
use super::prober;
use super::restarts::restartable;
use crate::machine::api::PodRecord;

/// Least time between the two signals to a container that had a hook (`minimumGracePeriodInSeconds`).
const LEAST_GRACE: Duration = Duration::from_secs(2);
/// User agent of hooks by HTTP.
const USER_AGENT: HeaderValue = HeaderValue::from_static("kube-lifecycle/1.36");

/// Returns the grace period of a pod that is not deleted.
pub(super) fn grace_of(pod: &Pod) -> Duration {
    let grace = pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds);
    Duration::from_secs(grace.and_then(|grace| u64::try_from(grace).ok()).unwrap_or(30))
}

/// Runs the hooks of containers that have started, one after the other. A container whose hook fails is stopped.
pub(super) async fn post_start(agent: &Agent, uid: &str, pod: &Pod, object: &Arc<ObjectReference>, started: &[String]) {
    for name in started {
        let Some(container) = prober::named(pod, name) else { continue };
        let hook = container.lifecycle.as_ref().and_then(|lifecycle| lifecycle.post_start.as_ref());
        let Some(hook) = hook.filter(|hook| can_run(agent, hook)) else { continue };
        if run(agent, uid, object, container, hook).await.is_err() {
            // Upstream keeps the reason out of the Event: it may have secrets.
            event(agent, pod, object, container, "FailedPostStartHook", "PostStartHook failed");
            // A modelled container has no program for the hook, and runs on.
            if entry_point::words(container).is_some() {
                stop_one(agent, uid, pod, object, container, "FailedPostStartHook", grace_of(pod)).await;
            }
        }
    }
}

/// Stops a container that starts again, after its hook and within the grace period. Returns false if the machine did not
/// take the request.
pub(super) async fn stop_one(
    agent: &Agent,
    uid: &str,
    pod: &Pod,
    object: &Arc<ObjectReference>,
    container: &Container,
    message: &str,
    grace: Duration,
) -> bool {
    agent.recorder.event(Arc::new(of_container(object, pod, &container.name)), "Normal", "Killing", message.to_owned());
    pre_stop_one(agent, uid, pod, object, container, grace).await
}

/// Stops the containers of a pod one by one if one of them has a hook. Returns the rest of their grace period.
pub(super) async fn pre_stop(
    agent: &Agent,
    uid: &str,
    pod: &Pod,
    object: &Arc<ObjectReference>,
    record: Option<&PodRecord>,
    grace: Duration,
) -> Duration {
    let runs = |container: &&Container| {
        record.and_then(|record| record.container(&container.name)).is_some_and(|one| one.exit().is_none())
    };
    let running: Vec<&Container> = pod.spec.iter().flat_map(restartable).filter(runs).collect();
    if grace.is_zero() || running.iter().all(|container| before_stop(agent, container).is_none()) {
        return grace;
    }
    let began = agent.ctx.now().mono;
    let mut stops = Vec::new();
    let most = if substrate::mutant!(agent.ctx, "hook-of-first-container-only") { 1 } else { running.len() };
    for container in running.into_iter().take(most) {
        stops.push(pre_stop_one(agent, uid, pod, object, container, grace));
    }
    join_all(stops).await;
    rest(agent, began, grace)
}

/// Runs the hook of a container within the grace period and asks the container to stop in the rest of it. Returns false
/// if the machine did not take the request: a container that has ended meanwhile needs no stop.
async fn pre_stop_one(
    agent: &Agent,
    uid: &str,
    pod: &Pod,
    object: &Arc<ObjectReference>,
    container: &Container,
    grace: Duration,
) -> bool {
    let began = agent.ctx.now().mono;
    let mut left = grace;
    if let Some(hook) = before_stop(agent, container).filter(|_| !grace.is_zero()) {
        let done = tokio::select! { biased;
            done = run(agent, uid, object, container, hook) => done,
            // Upstream lets the hook run and stops the container.
            () = agent.ctx.sleep(grace) => Ok(()),
        };
        if done.is_err() {
            event(agent, pod, object, container, "FailedPreStopHook", "PreStopHook failed");
        }
        if !substrate::mutant!(agent.ctx, "hook-time-not-counted") {
            left = rest(agent, began, grace);
        }
    }
    agent.runtime.stop_container(&agent.ctx, uid, &container.name, left).await.is_ok()
}

fn before_stop<'a>(agent: &Agent, container: &'a Container) -> Option<&'a LifecycleHandler> {
    container.lifecycle.as_ref()?.pre_stop.as_ref().filter(|hook| can_run(agent, hook))
}

/// Returns true if a container of this kubelet has the hook: a modelled container can only sleep.
fn can_run(agent: &Agent, hook: &LifecycleHandler) -> bool {
    agent.config.programs || hook.sleep.is_some()
}

fn rest(agent: &Agent, began: Duration, grace: Duration) -> Duration {
    grace.saturating_sub(agent.ctx.unscaled(agent.ctx.now().mono - began)).max(LEAST_GRACE)
}

fn event(agent: &Agent, pod: &Pod, object: &Arc<ObjectReference>, container: &Container, reason: &str, message: &str) {
    let object = Arc::new(of_container(object, pod, &container.name));
    agent.recorder.event(object, "Warning", reason, message.to_owned());
}

/// Runs a hook to its end. The status of an HTTP answer does not count.
async fn run(
    agent: &Agent,
    uid: &str,
    object: &Arc<ObjectReference>,
    container: &Container,
    hook: &LifecycleHandler,
) -> Result<(), String> {
    match hook {
        LifecycleHandler { exec: Some(exec), .. } => {
            let words = exec.command.as_deref().unwrap_or_default();
            prober::in_container(agent, uid, &container.name, words).await
        }
        LifecycleHandler { http_get: Some(get), .. } => by_http(agent, object, container, get).await,
        LifecycleHandler { sleep: Some(sleep), .. } => {
            agent.ctx.sleep(Duration::from_secs(u64::try_from(sleep.seconds).unwrap_or_default())).await;
            Ok(())
        }
        _ => Err("invalid handler".to_owned()),
    }
}

/// Sends the request of a hook. A server without TLS that gets a request by HTTPS gets it again without TLS.
async fn by_http(
    agent: &Agent,
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
    agent.recorder.event(object.clone(), "Warning", "LifecycleHTTPFallback", message);
    Ok(())
}
