//! Serves the logs of the pods on a node, as kubelet does.

use std::convert::Infallible;

use http::{Method, Request, Response, StatusCode, header};
use substrate::body::{Body, collect, empty, from_service, full};
use substrate::{Ctx, HttpService};

use super::log_target::{CONTAINER_LOGS, Target, find};
use super::stats;
use crate::machine::container_log::{LogOptions, OptionsError};
use crate::machine::query;
use crate::metrics::Metrics;
use crate::node_agent::logs::Logs;
use crate::node_agent::runtime::{self, send};

/// Path of the statistics.
const SUMMARY: &str = "/stats/summary";
/// Path of the metrics of pods and containers.
const RESOURCES: &str = "/metrics/resource";
/// Path of the pods.
const PODS: &str = "/pods";
/// Kinds of connections with a program in a container, and their paths.
const CONNECTIONS: [(&str, &str); 2] = [("exec", "/exec/"), ("attach", "/attach/")];

/// Builds the node's own server in process `ctx`: `/healthz`, the pods, and their logs and programs, which it reaches
/// through the machine's `runtime`.
pub fn service(ctx: &Ctx, logs: &Logs, runtime: HttpService) -> HttpService {
    let (ctx, logs) = (ctx.clone(), logs.clone());
    from_service(tower::service_fn(move |request: Request<Body>| {
        let (ctx, logs, runtime) = (ctx.clone(), logs.clone(), runtime.clone());
        async move { Ok::<_, Infallible>(answer(&ctx, &logs, &runtime, request).await) }
    }))
}

async fn answer(ctx: &Ctx, logs: &Logs, runtime: &HttpService, request: Request<Body>) -> Response<Body> {
    let path = request.uri().path();
    let connection = CONNECTIONS.into_iter().find_map(|(verb, prefix)| Some((verb, Target::parse(path, prefix)?)));
    if let (&Method::POST, Some((verb, target))) = (request.method(), connection) {
        return connect(logs, runtime, verb, &target, request).await;
    }
    if request.method() != Method::GET {
        return plain(StatusCode::METHOD_NOT_ALLOWED, "405: Method Not Allowed");
    }
    if path == "/healthz" {
        return plain(StatusCode::OK, "ok");
    }
    if path == "/metrics" {
        stats::show_metrics(ctx).await;
    }
    if let Some(response) = Metrics::of(ctx).respond(&request) {
        return response;
    }
    if path == SUMMARY {
        let parameters = request.uri().query().unwrap_or_default();
        return summary(ctx, parameters).await;
    }
    if path == PODS || path.strip_suffix('/') == Some(PODS) {
        return json(&logs.pods());
    }
    if path == RESOURCES {
        return stats::resources(ctx).map_or_else(not_running, |text| plain(StatusCode::OK, &text));
    }
    let Some(target) = Target::parse(path, CONTAINER_LOGS) else {
        return plain(StatusCode::NOT_FOUND, "404 page not found");
    };
    let parameters = request.uri().query().unwrap_or_default();
    let options = match LogOptions::read(&query(parameters), ctx.now().wall) {
        Ok(options) => options,
        Err(error) => {
            let undecodable = error == OptionsError::Undecodable;
            let code = if undecodable { StatusCode::BAD_REQUEST } else { StatusCode::UNPROCESSABLE_ENTITY };
            return plain(code, &error.to_string());
        }
    };
    match find(logs, ctx, &target, options.previous) {
        Ok((uid, id)) => fetch(runtime, &target, &uid, &id, parameters, &options).await,
        Err((code, why)) => plain(code, &why),
    }
}

/// Returns the statistics of the node's pods (`handleSummary`).
async fn summary(ctx: &Ctx, parameters: &str) -> Response<Body> {
    let parameters = query(parameters);
    let only = parameters.iter().filter(|(name, _)| name == "only_cpu_and_memory").map(|(_, value)| value.as_str());
    let only = only.eq(["true"]);
    stats::summary(ctx, only).await.map_or_else(not_running, |text| json(&text))
}

fn json(text: &str) -> Response<Body> {
    let mut response = plain(StatusCode::OK, text);
    response.headers_mut().insert(header::CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    response
}

fn not_running() -> Response<Body> {
    plain(StatusCode::INTERNAL_SERVER_ERROR, "Internal Error: failed to get node info")
}

/// Connects a client with a program in a container: one that it starts (`exec`), or the container's own (`attach`). The
/// bodies are messages of [`substrate::channels`].
async fn connect(
    logs: &Logs,
    machine: &HttpService,
    verb: &str,
    target: &Target,
    request: Request<Body>,
) -> Response<Body> {
    let found = target.among(&logs.lock()).map(|logs| logs.pod.metadata.uid.clone().unwrap_or_default());
    let uid = match found {
        Ok(uid) => uid,
        Err((code, why)) => return plain(code, &why),
    };
    let query = request.uri().query().unwrap_or_default().to_owned();
    match runtime::connect(machine, verb, (&uid, &target.container), &query, request.into_body()).await {
        Ok(answer) => answer,
        Err(error) => {
            plain(StatusCode::INTERNAL_SERVER_ERROR, &format!("failed to reach the container runtime: {error}"))
        }
    }
}

/// Fetches a container's log from the machine.
async fn fetch(
    runtime: &HttpService,
    target: &Target,
    uid: &str,
    id: &str,
    parameters: &str,
    options: &LogOptions,
) -> Response<Body> {
    let lost = || plain(StatusCode::BAD_REQUEST, &format!("unable to retrieve container logs for {id}"));
    let attempt = attempt(id);
    let path = format!("/v1/pods/{uid}/logs/{}?attempt={attempt}&{parameters}", target.container);
    let answer = match send(runtime, Method::GET, &path, empty(), options.follow).await {
        Ok(answer) => answer,
        Err(error) => {
            let why = format!("failed to reach the container runtime for {id}: {error}");
            return plain(StatusCode::INTERNAL_SERVER_ERROR, &why);
        }
    };
    match answer.status() {
        StatusCode::NOT_FOUND => lost(),
        code if code.is_success() => {
            let mut response = Response::new(answer.into_body());
            response.headers_mut().insert(header::CONTENT_TYPE, http::HeaderValue::from_static("text/plain"));
            response
        }
        code => {
            let text = collect(answer.into_body(), 1 << 16).await.unwrap_or_default();
            plain(code, &String::from_utf8_lossy(&text))
        }
    }
}

/// Returns the number of starts before that of a container's id (`container_id` in the room of the status).
pub(crate) fn attempt(id: &str) -> u32 {
    // `mooring://UID/NAME`, and `/N` after a restart.
    id.rsplit('/').next().filter(|_| id.matches('/').count() == 4).and_then(|last| last.parse().ok()).unwrap_or(0)
}

fn plain(code: StatusCode, text: &str) -> Response<Body> {
    let mut response = Response::new(full(text.to_owned()));
    *response.status_mut() = code;
    response.headers_mut().insert(header::CONTENT_TYPE, http::HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}
