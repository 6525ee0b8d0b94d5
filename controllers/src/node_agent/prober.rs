//! Probes of a pod's containers: a command in the container, an HTTP request or a TCP connection (upstream
//! `pkg/kubelet/prober`). Containers share the network of the machine.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Request, StatusCode, header};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use k8s_openapi::api::core::v1::{Container, HTTPGetAction, ObjectReference, Pod, Probe};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use substrate::body::{BoxError, boxed, call, empty};
use substrate::channels::{self, Decoder};
use substrate::json::Value;

use super::agent::Agent;
use super::containers::of_container;
use super::hooks::stop_one;
use super::probes::{Probes, seconds};
use super::serve;

/// User agent of probes by HTTP.
const USER_AGENT: HeaderValue = HeaderValue::from_static("kube-probe/1.36");
/// Longest output in an Event.
const OUTPUT: usize = 1024;

/// Runs the probes of a pod until one of them changes a result.
pub(super) async fn run(agent: &Agent, uid: &str, pod: &Pod, object: &Arc<ObjectReference>, probes: &mut Probes) {
    loop {
        let Some((due, key, probe)) = probes.next() else { return std::future::pending().await };
        let (key, probe) = (key.clone(), probe.clone());
        agent.ctx.sleep_until(due).await;
        let Some(container) = named(pod, &key.0) else { return };
        let timeout = agent.ctx.scaled(seconds(probe.timeout_seconds, 1));
        let result = tokio::select! { biased;
            result = once(agent, uid, container, &probe) => result,
            () = agent.ctx.sleep_until(agent.ctx.now().mono + timeout) => {
                Err(format!("timed out after {}s", seconds(probe.timeout_seconds, 1).as_secs()))
            }
        };
        if let Err(why) = &result {
            let message = format!("{} probe failed: {}", key.1.name(), why.chars().take(OUTPUT).collect::<String>());
            agent.recorder.event(Arc::new(of_container(object, pod, &key.0)), "Warning", "Unhealthy", message);
        }
        let now = agent.ctx.now().mono;
        if probes.take(&key, result.is_ok(), now, |wait: Duration| agent.ctx.scaled(wait)) {
            return;
        }
    }
}

/// Stops the containers whose liveness or startup probe has failed. They start again as after an exit.
pub(super) async fn restart_failed(
    agent: &Agent,
    uid: &str,
    pod: &Pod,
    object: &Arc<ObjectReference>,
    probes: &mut Probes,
) {
    for (name, kind) in probes.take_failed() {
        let message = format!("Container {name} failed {} probe, will be restarted", kind.name().to_lowercase());
        if let Some(container) = named(pod, &name) {
            stop_one(agent, uid, pod, object, container, &message).await;
        }
    }
}

/// Returns a container or an init container of a pod by its name.
pub(super) fn named<'a>(pod: &'a Pod, name: &str) -> Option<&'a Container> {
    let spec = pod.spec.as_ref()?;
    spec.init_containers.iter().flatten().chain(&spec.containers).find(|container| container.name == name)
}

async fn once(agent: &Agent, uid: &str, container: &Container, probe: &Probe) -> Result<(), String> {
    if let Some(exec) = &probe.exec {
        let words = exec.command.as_deref().unwrap_or_default();
        return in_container(agent, uid, &container.name, words).await;
    }
    if let Some(get) = &probe.http_get {
        let code = request(container, get, USER_AGENT).await?;
        let passed = (StatusCode::OK..StatusCode::BAD_REQUEST).contains(&code);
        return if passed { Ok(()) } else { Err(format!("HTTP probe failed with statuscode: {}", code.as_u16())) };
    }
    if let Some(tcp) = &probe.tcp_socket {
        let port = port(container, &tcp.port)?;
        return serve::connects(tcp.host.as_deref().unwrap_or("127.0.0.1"), port).await.map_err(|e| e.to_string());
    }
    Err("a probe by gRPC is not served; use exec, httpGet or tcpSocket".to_owned())
}

/// Runs a command in a container.
pub(super) async fn in_container(agent: &Agent, uid: &str, container: &str, words: &[String]) -> Result<(), String> {
    // The request stays open until the result has come.
    let open = boxed(StreamBody::new(futures_util::stream::pending::<Result<Frame<Bytes>, BoxError>>()));
    let answer = agent.runtime.exec(uid, container, words, open).await.map_err(|error| error.to_string())?;
    let (mut body, mut decoder, mut output) = (answer, Decoder::default(), String::new());
    while let Some(Ok(frame)) = body.frame().await {
        decoder.add(frame.data_ref().map_or(&[][..], |data| data));
        while let Some((channel, content)) = decoder.take().map_err(|error| error.to_string())? {
            if channel != channels::RESULT {
                output += &String::from_utf8_lossy(&content);
                continue;
            }
            let status: Value = serde_json::from_slice(&content).unwrap_or_default();
            return if status["status"] == "Success" { Ok(()) } else { Err(output) };
        }
    }
    Err("the container runtime gave no result".to_owned())
}

/// Sends the request of a probe or a hook. Returns the status of the answer.
pub(super) async fn request(
    container: &Container,
    get: &HTTPGetAction,
    agent: HeaderValue,
) -> Result<StatusCode, String> {
    if get.scheme.as_deref() == Some("HTTPS") {
        return Err("a request by HTTPS is not served".to_owned());
    }
    let port = port(container, &get.port)?;
    let host = get.host.as_deref().filter(|host| !host.is_empty()).unwrap_or("127.0.0.1");
    let path = get.path.as_deref().filter(|path| !path.is_empty()).unwrap_or("/");
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    let service = substrate::dial::http(&format!("http://{host}:{port}")).map_err(|error| error.to_string())?;
    let mut request = Request::get(&path).header(header::HOST, format!("{host}:{port}"));
    request = request.header(header::USER_AGENT, agent);
    for one in get.http_headers.iter().flatten() {
        request = request.header(&one.name, &one.value);
    }
    let request = request.body(empty()).map_err(|error| error.to_string())?;
    let answer =
        call(service, request).await.map_err(|error| format!("Get \"http://{host}:{port}{path}\": {error}"))?;
    Ok(answer.status())
}

/// Returns a port by its number or its name.
fn port(container: &Container, port: &IntOrString) -> Result<u16, String> {
    let number = match port {
        IntOrString::Int(number) => Some(*number),
        IntOrString::String(name) => {
            let mut ports = container.ports.iter().flatten();
            ports.find(|port| port.name.as_deref() == Some(name)).map(|port| port.container_port)
        }
    };
    number.and_then(|number| u16::try_from(number).ok()).ok_or_else(|| format!("couldn't find port: {port:?}"))
}
