//! HTTP API of the runtime for a kubelet.
//!
//! | request | effect |
//! |---|---|
//! | `GET /v1/pods` | lists the pods; with `watch=true` an event stream of [`News`](super::api::News), one line each |
//! | `POST /v1/pods` | runs a pod's containers ([`PodSpec`]) and answers when they run; may be repeated |
//! | `POST /v1/pods/{uid}/stop` | asks them to stop ([`Stop`]) and does not wait; may be repeated with another grace |
//! | `POST /v1/pods/{uid}/containers` | adds a container to a running pod and starts it ([`ContainerSpec`]); may be repeated |
//! | `POST /v1/pods/{uid}/containers/{container}/start` | starts a container again after its exit, or after the init containers, also with another image ([`StartContainer`]); may be repeated |
//! | `POST /v1/pods/{uid}/containers/{container}/stop` | asks one container to stop ([`Stop`]) and does not wait |
//! | `POST /v1/pods/{uid}/exec/{container}` | starts a program in a container, with kubelet's parameters; with `check=true` only checks that it is possible; the bodies are messages of [`channels`](substrate::channels) |
//! | `POST /v1/pods/{uid}/attach/{container}` | attaches a client to a container, with the same parameters and bodies |
//! | `DELETE /v1/pods/{uid}` | forgets a pod whose containers have stopped, and its logs |
//! | `GET /v1/pods/{uid}/logs/{container}` | a container's log, with kubelet's parameters; `attempt=N` selects the start after N others, of the two latest |

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request, Response, StatusCode, header};
use http_body::Frame;
use http_body_util::StreamBody;
use serde::Serialize;
use serde::de::DeserializeOwned;
use substrate::HttpService;
use substrate::body::{Body, BoxError, boxed, collect, from_service, full};

use super::api::{ContainerSpec, PodSpec, StartContainer, Stop};
use super::container_log::LogOptions;
use super::query::query;
use super::{Machine, attach, exec};

/// Longest request, in bytes: a pod with the contents of its ConfigMaps and Secrets, each of which has at most 1 MiB.
const LIMIT: usize = 8 << 20;
/// Longest name, in bytes: that of a Kubernetes object.
const LONGEST_NAME: usize = 253;

/// Refused request.
type Refusal = (StatusCode, String);

pub(super) fn service(machine: Arc<Machine>) -> HttpService {
    from_service(tower::service_fn(move |request: Request<Body>| {
        let machine = machine.clone();
        async move {
            let answer = answer(&machine, request).await;
            Ok::<_, Infallible>(
                answer.unwrap_or_else(|(code, why)| reply(code, "text/plain; charset=utf-8", full(why))),
            )
        }
    }))
}

async fn answer(machine: &Arc<Machine>, request: Request<Body>) -> Result<Response<Body>, Refusal> {
    let (parts, body) = request.into_parts();
    let path: Vec<&str> = parts.uri.path().trim_matches('/').split('/').collect();
    let parameters = query(parts.uri.query().unwrap_or_default());
    let (get, post) = (parts.method == Method::GET, parts.method == Method::POST);
    match *path {
        ["healthz"] if get => Ok(reply(StatusCode::OK, "text/plain; charset=utf-8", full("ok"))),
        ["v1", "pods"] if get && parameters.iter().any(|(key, value)| key == "watch" && value == "true") => {
            Ok(reply(StatusCode::OK, "application/json", news(machine)))
        }
        ["v1", "pods"] if get => json(StatusCode::OK, &machine.list()),
        ["v1", "pods"] if post => {
            let spec: PodSpec = read(body).await?;
            check(&spec)?;
            let full = |why| (StatusCode::CONFLICT, why);
            json(StatusCode::OK, &machine.run(spec).await.map_err(full)?)
        }
        ["v1", "pods", uid, "stop"] if post => {
            let stop: Stop = read(body).await?;
            let record = machine.stop(uid, Duration::from_millis(stop.grace_ms)).ok_or_else(|| missing(uid))?;
            json(StatusCode::OK, &record)
        }
        ["v1", "pods", uid, "containers"] if post => {
            let added: ContainerSpec = read(body).await?;
            check_name("name", &added.name)?;
            let name = added.name.clone();
            let refused = |why| (StatusCode::CONFLICT, format!("container `{name}` of pod `{uid}`: {why}"));
            json(StatusCode::OK, &machine.add(uid, added).map_err(refused)?)
        }
        ["v1", "pods", uid, "containers", container, "start"] if post => {
            let start: StartContainer = read(body).await?;
            let renewed = start.renewed.map(|renewed| ContainerSpec { name: container.to_owned(), ..renewed });
            let refused = |why| (StatusCode::CONFLICT, format!("container `{container}` of pod `{uid}`: {why}"));
            json(StatusCode::OK, &machine.restart(uid, container, start.attempt, renewed).map_err(refused)?)
        }
        ["v1", "pods", uid, "containers", container, "stop"] if post => {
            let stop: Stop = read(body).await?;
            let none = || (StatusCode::CONFLICT, format!("container `{container}` of pod `{uid}` does not run"));
            let asked = machine.stop_container(uid, container, Duration::from_millis(stop.grace_ms));
            json(StatusCode::OK, &asked.then_some(()).ok_or_else(none)?)
        }
        ["v1", "pods", uid, "exec", container] if post => {
            let exec = exec::parameters(&parameters).map_err(|why| (StatusCode::BAD_REQUEST, why))?;
            let program = machine.started_program(uid, container).await;
            let program = program.map_err(|why| (StatusCode::CONFLICT, why))?;
            let answer = match exec::only_checks(&parameters) {
                true => full(""),
                false => exec::connect(machine, program.exec(&machine.ctx, &exec), body),
            };
            Ok(reply(StatusCode::OK, "application/octet-stream", answer))
        }
        ["v1", "pods", uid, "attach", container] if post => {
            let attach = attach::parameters(&parameters);
            let target = attach::Target::find(machine, uid, container, attach).await;
            let target = target.map_err(|why| (StatusCode::CONFLICT, why))?;
            let answer = match exec::only_checks(&parameters) {
                true => full(""),
                false => exec::connect(machine, target.attach(&machine.ctx, attach), body),
            };
            Ok(reply(StatusCode::OK, "application/octet-stream", answer))
        }
        ["v1", "pods", uid] if parts.method == Method::DELETE => match machine.remove(uid) {
            Ok(true) => json(StatusCode::OK, &()),
            Ok(false) => Err(missing(uid)),
            Err(pod) => {
                let why = format!("the containers of pod {pod} run; stop them first");
                Err((StatusCode::CONFLICT, why))
            }
        },
        ["v1", "pods", uid, "logs", container] if get => {
            let options = LogOptions::read(&parameters, machine.ctx.now().wall)
                .map_err(|error| (StatusCode::BAD_REQUEST, error.to_string()))?;
            let attempt = attempt(&parameters)?;
            let what = attempt.map_or_else(|| "no".to_owned(), |attempt| format!("no start {attempt} of"));
            let none =
                || (StatusCode::NOT_FOUND, format!("pod `{uid}` has {what} container `{container}` on this machine"));
            let log = machine.log(uid, container, attempt).ok_or_else(none)?;
            Ok(reply(StatusCode::OK, "text/plain", log.read(options)))
        }
        ["healthz"]
        | ["v1", "pods"]
        | ["v1", "pods", _]
        | ["v1", "pods", _, "stop" | "containers"]
        | ["v1", "pods", _, "logs", _]
        | ["v1", "pods", _, "exec" | "attach", _]
        | ["v1", "pods", _, "containers", _, "start" | "stop"] => {
            let why = format!("{} is not allowed on {}", parts.method, parts.uri.path());
            Err((StatusCode::METHOD_NOT_ALLOWED, why))
        }
        _ => Err((StatusCode::NOT_FOUND, format!("there is nothing at {}", parts.uri.path()))),
    }
}

/// Reads the parameter `attempt`.
fn attempt(parameters: &[(String, String)]) -> Result<Option<u32>, Refusal> {
    let Some((_, text)) = parameters.iter().find(|(key, _)| key == "attempt") else { return Ok(None) };
    let wrong = |_| (StatusCode::BAD_REQUEST, format!("attempt: `{text}` is not a number of starts"));
    text.parse().map(Some).map_err(wrong)
}

fn missing(uid: &str) -> Refusal {
    (StatusCode::NOT_FOUND, format!("pod `{uid}` is not on this machine"))
}

/// Checks that parts of paths are plain names.
fn check(spec: &PodSpec) -> Result<(), Refusal> {
    check_name("uid", &spec.uid)?;
    spec.containers.iter().try_for_each(|container| check_name("containers[].name", &container.name))
}

fn check_name(field: &str, name: &str) -> Result<(), Refusal> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if !name.is_empty() && name.len() <= LONGEST_NAME && name.chars().all(plain) {
        return Ok(());
    }
    let why = format!("{field}: invalid name `{name}`: use letters, digits, `-`, `_` and `.`");
    Err((StatusCode::BAD_REQUEST, why))
}

async fn read<T: DeserializeOwned>(body: Body) -> Result<T, Refusal> {
    let bytes = collect(body, LIMIT).await.map_err(|e| (StatusCode::BAD_REQUEST, format!("the body: {e}")))?;
    serde_json::from_slice(&bytes).map_err(|e| (StatusCode::BAD_REQUEST, format!("the body: {e}")))
}

fn json(code: StatusCode, value: &impl Serialize) -> Result<Response<Body>, Refusal> {
    let text = serde_json::to_vec(value).map_err(|e| (StatusCode::INTERNAL_SERVER_ERROR, e.to_string()))?;
    Ok(reply(code, "application/json", full(text)))
}

fn reply(code: StatusCode, kind: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = code;
    response.headers_mut().insert(header::CONTENT_TYPE, http::HeaderValue::from_static(kind));
    response
}

/// Streams all pods and then their changes, line by line; never ends.
fn news(machine: &Machine) -> Body {
    let (first, receiver) = machine.follow();
    let state = (Some(first), receiver);
    boxed(StreamBody::new(futures_util::stream::unfold(state, |(first, mut receiver)| async move {
        let line = match first {
            Some(line) => line,
            None => receiver.recv().await?,
        };
        Some((Ok::<_, BoxError>(Frame::data(line)), (None, receiver)))
    })))
}
