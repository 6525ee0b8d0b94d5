//! Logs over HTTP: of a container, as kubelet serves them, and of components, for `mooring logs`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use controllers::machine::container_log::{LogOptions, OptionsError};
use controllers::machine::follow::follow;
use controllers::machine::query;
use http::{Method, Request, Response, StatusCode, Uri, header};
use jiff::Timestamp;
use substrate::body::{Body, HttpService, call, empty, full};
use substrate::link::LinkError;
use substrate::words;

use super::log::{Reader, Selection};
use super::pods::MirrorPod;
use super::{Inner, lock};

/// Path of the logs of components.
const COMPONENTS: &str = "/admin/v1/logs";

/// A refusal: status code and reason.
type Refusal = (StatusCode, String);

/// Serves the logs of a pod's containers at `/containerLogs/{namespace}/{pod}/{container}`, and its `ports` at
/// `/proxy/{port}/{path}`. The logs of a pod on a node are served only while its `kubelet` answers.
pub(super) fn container(
    inner: &Arc<Inner>,
    pod: &MirrorPod,
    kubelet: Option<Result<HttpService, String>>,
    ports: BTreeMap<u16, Result<HttpService, String>>,
) -> HttpService {
    let (inner, pod, ports) = (inner.clone(), pod.clone(), Arc::new(ports));
    HttpService::new(move |request| {
        let (inner, pod, kubelet, ports) = (inner.clone(), pod.clone(), kubelet.clone(), ports.clone());
        Box::pin(async move {
            if let Some((port, path)) = proxied(&request) {
                let of_port = ports.get(&port).ok_or(LinkError::Refused(pod.name.clone()))?.clone()?;
                let (mut parts, body) = request.into_parts();
                parts.uri = path;
                return call(of_port, Request::from_parts(parts, body)).await;
            }
            if let Some(kubelet) = kubelet {
                call(kubelet?, Request::get("/healthz").header(header::HOST, "localhost").body(empty())?).await?;
            }
            Ok(answer(of_container(&inner, &pod, &request)))
        })
    })
}

/// Returns the port and the path of a request to `/proxy/{port}/{path}`.
fn proxied(request: &Request<Body>) -> Option<(u16, Uri)> {
    let rest = request.uri().path_and_query()?.as_str().strip_prefix("/proxy/")?;
    let (port, path) = rest.split_once('/')?;
    Some((port.parse().ok()?, format!("/{path}").parse().ok()?))
}

fn of_container(inner: &Arc<Inner>, pod: &MirrorPod, request: &Request<Body>) -> Result<Body, Refusal> {
    let name = request.uri().path().rsplit('/').next().unwrap_or_default();
    let missing = || (StatusCode::NOT_FOUND, format!("container {name:?} not found in pod {:?}", pod.name));
    let container = pod.containers.iter().find(|container| container.name == name).ok_or_else(missing)?;
    let options = options(request, inner.clock.wall())?;
    let life = lock(&inner.log).life(&container.process);
    let incarnation = life.incarnation.saturating_sub(u32::from(options.previous));
    if incarnation == 0 {
        let why = match options.previous {
            true => format!("previous terminated container {name:?} in pod {:?} not found", pod.name),
            false => format!("container {name:?} in pod {:?} is waiting to start: ContainerCreating", pod.name),
        };
        return Err((StatusCode::BAD_REQUEST, why));
    }
    let selection = Selection::Container { process: container.process.clone(), incarnation, has: container.has };
    Ok(read(inner, selection, &options))
}

/// Serves the logs of components at `/admin/v1/logs?component=NAME…`, with the parameters of pods/log. Without a name
/// it serves those of all components.
pub(super) fn components(inner: &Arc<Inner>) -> HttpService {
    let inner = inner.clone();
    HttpService::new(move |request| {
        let answered = answer(of_components(&inner, &request));
        Box::pin(async move { Ok(answered) })
    })
}

fn of_components(inner: &Arc<Inner>, request: &Request<Body>) -> Result<Body, Refusal> {
    if request.method() != Method::GET || request.uri().path() != COMPONENTS {
        return Err((StatusCode::NOT_FOUND, format!("there is only GET {COMPONENTS}")));
    }
    let options = options(request, inner.clock.wall())?;
    let parameters = query(request.uri().query().unwrap_or_default());
    let mut chosen = BTreeSet::new();
    for (_, name) in parameters.iter().filter(|(key, _)| key == "component") {
        let found = find(inner, name);
        if found.is_empty() {
            return Err((StatusCode::NOT_FOUND, unknown(inner, name)));
        }
        chosen.extend(found);
    }
    if chosen.is_empty() {
        chosen.clone_from(&inner.components);
    }
    Ok(read(inner, Selection::Components(chosen), &options))
}

/// Resolves a name to processes: a process, a group, a node, a container or a pod.
fn find(inner: &Inner, name: &str) -> Vec<String> {
    let found = inner.names.resolve(name);
    if !found.is_empty() {
        return found;
    }
    let containers = inner.pods.iter().flat_map(|pod| pod.containers.iter().map(move |container| (pod, container)));
    let called = containers.filter(|(pod, container)| pod.name == name || container.name == name);
    called.map(|(_, container)| container.process.clone()).collect()
}

fn unknown(inner: &Inner, name: &str) -> String {
    let known: Vec<&str> = inner.components.iter().map(String::as_str).collect();
    let nearest = words::nearest(name, known.iter().copied());
    let meant = nearest.map_or_else(|| ".".to_owned(), |nearest| format!("; did you mean {nearest}?"));
    format!("there is no component {name}{meant} There are {}.", known.join(", "))
}

fn options(request: &Request<Body>, now: Timestamp) -> Result<LogOptions, Refusal> {
    LogOptions::read(&query(request.uri().query().unwrap_or_default()), now).map_err(|error| {
        let undecodable = error == OptionsError::Undecodable;
        let code = if undecodable { StatusCode::BAD_REQUEST } else { StatusCode::UNPROCESSABLE_ENTITY };
        (code, error.to_string())
    })
}

/// Returns the log as it is, or a stream of lines that follows it.
fn read(inner: &Arc<Inner>, selection: Selection, options: &LogOptions) -> Body {
    // Subscribe before the first read, so that no line is missed between a read and the wait after it.
    let grown = inner.grown.subscribe();
    let mut reader = Reader::new(&lock(&inner.log), selection, options);
    if !options.follow {
        return full(reader.read(&lock(&inner.log)).concat());
    }
    let inner = inner.clone();
    follow(grown, move || {
        let log = lock(&inner.log);
        (reader.read(&log), reader.is_done(&log))
    })
}

fn answer(result: Result<Body, Refusal>) -> Response<Body> {
    let (code, body) = match result {
        Ok(body) => (StatusCode::OK, body),
        Err((code, why)) => (code, full(why)),
    };
    let mut response = Response::new(body);
    *response.status_mut() = code;
    response.headers_mut().insert(header::CONTENT_TYPE, http::HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}
