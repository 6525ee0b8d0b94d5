//! Probes of a pod's containers: a command in the container, an HTTP request, a TCP connection or a gRPC call (upstream
//! `pkg/kubelet/prober`). Containers share the network of the machine.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use k8s_openapi::api::core::v1::{
    Container, ExecAction, GRPCAction, HTTPGetAction, ObjectReference, Pod, Probe, TCPSocketAction,
};

use super::context::ContainerContext;
use super::exec::in_container;
use super::health;
use super::hooks::stop_one;
use super::http_get::{ADDRESS, HttpGet, dial_error, join, resolve_port};
use super::of_pod::{grace_of, named, of_container};
use crate::node_agent::expansion::expanded;
use crate::node_agent::rules::probes::{Probes, seconds};
use crate::node_agent::rules::restarts::{go_text, name_with_uid};
use crate::node_agent::serve;

/// User agent of probes by HTTP and gRPC.
const USER_AGENT: HeaderValue = HeaderValue::from_static("kube-probe/1.36");
/// Longest output in an Event.
const OUTPUT: usize = 1024;

/// Reason why a probe did not pass.
enum Failure {
    /// The container is not healthy.
    Unhealthy(String),
    /// The probe is not possible.
    Impossible(String),
}

/// Runs the probes of a pod until one of them changes a result.
pub(crate) async fn run(
    room: &ContainerContext,
    uid: &str,
    pod: &Pod,
    object: &Arc<ObjectReference>,
    probes: &mut Probes,
) {
    loop {
        let Some((due, key, probe)) = probes.next() else { return std::future::pending().await };
        let (key, probe) = (key.clone(), probe.clone());
        room.ctx.sleep_until(due).await;
        let Some(container) = named(pod, &key.0) else { return };
        let result = once(room, uid, pod, container, &probe).await;
        let said = match &result {
            Ok(None) => None,
            Ok(Some(warning)) => Some(("ProbeWarning", "warning", warning)),
            Err(Failure::Unhealthy(why)) => Some(("Unhealthy", "failed", why)),
            Err(Failure::Impossible(why)) => Some(("Unhealthy", "errored and resulted in unknown state", why)),
        };
        if let Some((reason, how, why)) = said {
            let message = format!("{} probe {how}: {}", key.1.name(), why.chars().take(OUTPUT).collect::<String>());
            room.recorder.event(Arc::new(of_container(object, pod, &key.0)), "Warning", reason, message);
        }
        let now = room.ctx.now().mono;
        if probes.take(&key, result.is_ok(), now, |wait: Duration| room.ctx.scaled(wait)) {
            return;
        }
    }
}

/// Stops the containers whose liveness or startup probe has failed. They start again as after an exit.
pub(crate) async fn restart_failed(
    room: &ContainerContext,
    uid: &str,
    pod: &Pod,
    object: &Arc<ObjectReference>,
    probes: &mut Probes,
) {
    for (name, kind) in probes.take_failed() {
        let message = format!("Container {name} failed {} probe, will be restarted", kind.name().to_lowercase());
        if let Some(container) = named(pod, &name) {
            let grace = kind.grace_of(container).unwrap_or_else(|| grace_of(pod));
            stop_one(room, uid, pod, object, container, &message, grace).await;
        }
    }
}

/// Makes a probe once. Returns its warning, if it passes with one.
async fn once(
    room: &ContainerContext,
    uid: &str,
    pod: &Pod,
    container: &Container,
    probe: &Probe,
) -> Result<Option<String>, Failure> {
    let limit = seconds(probe.timeout_seconds, 1);
    let passed = match probe {
        Probe { exec: Some(exec), .. } => {
            let words = words(container, exec);
            let late = || format!("command timed out: {:?} timed out after {}", words.join(" "), go_text(limit));
            let run = in_container(room, uid, &container.name, &words);
            within(room, limit, run, late).await.map_err(Failure::Unhealthy)
        }
        Probe { http_get: Some(get), .. } => return by_http(room, container, get, limit).await,
        Probe { tcp_socket: Some(tcp), .. } => by_tcp(room, container, tcp, limit).await,
        Probe { grpc: Some(grpc), .. } => by_grpc(room, grpc, limit).await,
        _ => Err(Failure::Impossible(format!("missing probe handler for {}:{}", name_with_uid(pod), container.name))),
    };
    passed.map(|()| None)
}

/// Returns the command of a probe with the variables that the container gives as text
/// (`ExpandContainerCommandOnlyStatic`).
fn words(container: &Container, exec: &ExecAction) -> Vec<String> {
    let env = container.env.iter().flatten().map(|one| (one.name.clone(), one.value.clone().unwrap_or_default()));
    let env = env.collect();
    exec.command.iter().flatten().map(|word| expanded(word, &env)).collect()
}

/// Waits for `work` at most `limit`, and returns `late` as the error then.
async fn within<T>(
    room: &ContainerContext,
    limit: Duration,
    work: impl Future<Output = Result<T, String>>,
    late: impl FnOnce() -> String,
) -> Result<T, String> {
    tokio::select! { biased;
        done = work => done,
        () = room.ctx.sleep(limit) => Err(late()),
    }
}

async fn by_http(
    room: &ContainerContext,
    container: &Container,
    get: &HTTPGetAction,
    limit: Duration,
) -> Result<Option<String>, Failure> {
    let get = HttpGet::new(container, get, USER_AGENT).map_err(Failure::Impossible)?;
    let late = || get.failed("context deadline exceeded (Client.Timeout exceeded while awaiting headers)");
    let sent = async { get.send().await.map_err(|failed| failed.why) };
    let answer = within(room, limit, sent, late).await.map_err(Failure::Unhealthy)?;
    match answer.status.as_u16() {
        200..=299 => Ok(None),
        300..=399 => Ok(Some(format!("Probe terminated redirects, Response body: {}", answer.body))),
        code => Err(Failure::Unhealthy(format!("HTTP probe failed with statuscode: {code}"))),
    }
}

async fn by_tcp(
    room: &ContainerContext,
    container: &Container,
    tcp: &TCPSocketAction,
    limit: Duration,
) -> Result<(), Failure> {
    let port = resolve_port(container, &tcp.port).map_err(Failure::Impossible)?;
    let host = tcp.host.as_deref().filter(|host| !host.is_empty()).unwrap_or(ADDRESS);
    let address = join(host, port);
    let connected = async { serve::connects(host, port).await.map_err(|error| dial_error(&address, &error)) };
    let late = || format!("dial tcp {address}: i/o timeout");
    within(room, limit, connected, late).await.map_err(Failure::Unhealthy)
}

async fn by_grpc(room: &ContainerContext, grpc: &GRPCAction, limit: Duration) -> Result<(), Failure> {
    let address = format!("{ADDRESS}:{}", grpc.port);
    let peer =
        substrate::dial::grpc(&format!("tcp://{address}")).map_err(|error| Failure::Impossible(error.to_string()))?;
    let service = grpc.service.as_deref().unwrap_or_default();
    health::check(&room.ctx, peer, &address, service, USER_AGENT, limit).await.map_err(Failure::Unhealthy)
}

#[cfg(test)]
mod tests {
    use substrate::json::{from_value, json};

    use super::*;

    #[test]
    fn a_command_has_the_variables_that_are_text() {
        let field = json!({ "fieldRef": { "fieldPath": "metadata.name" } });
        let env = json!([{ "name": "A", "value": "1" }, { "name": "POD", "valueFrom": field }]);
        let container = from_value(json!({ "name": "app", "env": env })).unwrap();
        let exec = from_value(json!({ "command": ["test", "$(A)", "$(B)$(POD)"] })).unwrap();
        assert_eq!(words(&container, &exec), ["test", "1", "$(B)"]);
    }
}
