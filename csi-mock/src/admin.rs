//! `/admin/v1/*`: faults, settings, the call log and broken rules, the socket, reset; `/healthz` and `/metrics`.
//!
//! Changes want `application/json`, which no web page can send across origins without being asked first.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, json};
use substrate::HttpService;
use substrate::fault::{Fault, Plane};

use crate::calls::{Calls, check_effect};
use crate::disk::Disk;
use crate::settings::Change;

/// A JSON answer.
struct Json(Value);

impl IntoResponse for Json {
    fn into_response(self) -> Response {
        ([(header::CONTENT_TYPE, "application/json")], self.0.to_string()).into_response()
    }
}

/// What the endpoints work on.
#[derive(Clone, Debug)]
struct Desk {
    calls: Calls,
    disk: Option<Arc<dyn Disk>>,
}

/// The largest fault that is read, in bytes.
const MAX_BODY: usize = 64 << 10;

/// A secret that never shows in output.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Token(String);

impl Token {
    /// Takes the text of a token.
    pub fn new(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// The text, for who has to send it.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Whether `given` is this token; takes the same time wherever the two differ.
    fn matches(&self, given: &str) -> bool {
        let (own, given) = (self.0.as_bytes(), given.as_bytes());
        let differing = own.iter().zip(given).fold(0, |acc, (a, b)| acc | (a ^ b));
        own.len() == given.len() && differing == 0
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(redacted)")
    }
}

/// The admin endpoints for a port of their own; with a token, every request must carry it.
pub(crate) fn service(calls: &Calls, disk: Option<Arc<dyn Disk>>, token: Option<Token>) -> HttpService {
    let router = match token {
        None => router(calls, disk),
        Some(token) => router(calls, disk).layer(middleware::from_fn_with_state(token, check_token)),
    };
    substrate::body::from_router(router)
}

async fn check_token(State(token): State<Token>, request: Request, next: Next) -> Response {
    let given = request.headers().get(header::AUTHORIZATION).and_then(|v| v.to_str().ok());
    if given.and_then(|v| v.strip_prefix("Bearer ")).is_some_and(|given| token.matches(given)) {
        return next.run(request).await;
    }
    refuse(StatusCode::UNAUTHORIZED, "Authorization: must be `Bearer` and the admin token")
}

/// The admin endpoints of a driver process.
pub(crate) fn router(calls: &Calls, disk: Option<Arc<dyn Disk>>) -> Router {
    Router::new()
        .route("/admin/v1/faults", get(list).post(add).delete(clear))
        .route("/admin/v1/faults/{name}", get(one).delete(remove))
        .route("/admin/v1/calls", get(records))
        .route("/admin/v1/state", get(state))
        .route("/admin/v1/violations", get(violations))
        .route("/admin/v1/settings", get(settings).post(change_settings))
        .route("/admin/v1/socket", post(drop_socket))
        .route("/admin/v1/reset", post(reset))
        .route("/healthz", get(health))
        .route("/metrics", get(metrics))
        .layer(axum::extract::DefaultBodyLimit::max(MAX_BODY))
        .with_state(Desk { calls: calls.clone(), disk })
}

fn refuse(status: StatusCode, message: impl Into<String>) -> Response {
    (status, Json(json!({ "error": message.into() }))).into_response()
}

fn is_json(headers: &HeaderMap) -> bool {
    headers
        .get(header::CONTENT_TYPE)
        .and_then(|v| v.to_str().ok())
        .is_some_and(|v| v.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json")))
}

async fn list(State(Desk { calls, .. }): State<Desk>) -> Json {
    Json(json!({ "faults": calls.ctx().faults().list() }))
}

async fn add(State(desk): State<Desk>, headers: HeaderMap, body: Bytes) -> Response {
    let calls = &desk.calls;
    if !is_json(&headers) {
        return refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, "Content-Type: must be application/json");
    }
    let fault: Fault = match serde_json::from_slice(&body) {
        Ok(fault) => fault,
        Err(error) => return refuse(StatusCode::BAD_REQUEST, format!("fault: {error}")),
    };
    let possible = match fault.matches.plane {
        Plane::Csi => check_effect(&fault.effect),
        Plane::Disk if desk.disk.is_some() => Ok(()),
        Plane::Disk => Err("match.plane: this driver has no node service, and so no disk".to_owned()),
        _ => Err("match.plane: this server acts on faults of the planes csi and disk".to_owned()),
    };
    let name = fault.name.clone();
    match possible.and_then(|()| calls.ctx().faults().add(calls.ctx().now().mono, fault)) {
        Ok(()) => (StatusCode::CREATED, Json(json!({ "name": name }))).into_response(),
        Err(error) => refuse(StatusCode::BAD_REQUEST, error),
    }
}

async fn one(State(Desk { calls, .. }): State<Desk>, Path(name): Path<String>) -> Response {
    match calls.ctx().faults().get(&name) {
        Some(report) => Json(json!(report)).into_response(),
        None => refuse(StatusCode::NOT_FOUND, format!("no fault called `{name}` is in force")),
    }
}

async fn remove(State(Desk { calls, .. }): State<Desk>, Path(name): Path<String>) -> Response {
    match calls.ctx().faults().remove(&name) {
        Some(report) => Json(json!(report)).into_response(),
        None => refuse(StatusCode::NOT_FOUND, format!("no fault called `{name}` is in force")),
    }
}

async fn clear(State(Desk { calls, .. }): State<Desk>) -> Json {
    Json(json!({ "faults": calls.ctx().faults().clear(None) }))
}

async fn violations(State(Desk { calls, .. }): State<Desk>) -> Json {
    Json(json!({ "violations": calls.violations(), "totals": calls.broken() }))
}

async fn settings(State(Desk { calls, .. }): State<Desk>) -> Json {
    Json(calls.settings().dump())
}

async fn change_settings(State(Desk { calls, .. }): State<Desk>, headers: HeaderMap, body: Bytes) -> Response {
    if !is_json(&headers) {
        return refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, "Content-Type: must be application/json");
    }
    let change: Change = match serde_json::from_slice(&body) {
        Ok(change) => change,
        Err(error) => return refuse(StatusCode::BAD_REQUEST, format!("settings: {error}")),
    };
    match calls.settings().change(&change) {
        Ok(()) => Json(calls.settings().dump()).into_response(),
        Err(error) => refuse(StatusCode::BAD_REQUEST, error),
    }
}

/// How long the socket stays away.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Absence {
    /// Milliseconds.
    absent_ms: u64,
}

/// Longest time without a socket.
const LONGEST_ABSENCE: Duration = Duration::from_secs(3600);

async fn drop_socket(State(Desk { calls, .. }): State<Desk>, headers: HeaderMap, body: Bytes) -> Response {
    if !is_json(&headers) {
        return refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, "Content-Type: must be application/json");
    }
    let absence = match serde_json::from_slice::<Absence>(&body) {
        Ok(absence) => Duration::from_millis(absence.absent_ms),
        Err(error) => return refuse(StatusCode::BAD_REQUEST, format!("socket: {error}")),
    };
    if absence > LONGEST_ABSENCE {
        return refuse(StatusCode::BAD_REQUEST, "absentMs: must be at most an hour");
    }
    if calls.drop_socket(absence) {
        return Json(json!({ "absentMs": absence.as_millis() as u64 })).into_response();
    }
    refuse(StatusCode::CONFLICT, "this driver has no unix socket of its own")
}

/// Healthy as Probe is: ready, and able to read its disk.
async fn health(State(Desk { calls, disk }): State<Desk>) -> Response {
    if !calls.settings().ready() {
        return (StatusCode::SERVICE_UNAVAILABLE, "not ready\n").into_response();
    }
    if let Some(disk) = disk
        && let Err(error) = disk.mounts().await
    {
        return (StatusCode::SERVICE_UNAVAILABLE, format!("the disk cannot be read: {error}\n")).into_response();
    }
    "ok\n".into_response()
}

async fn metrics(State(Desk { calls, disk }): State<Desk>) -> Response {
    let text = crate::metrics::text(&calls, disk.as_deref()).await;
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response()
}

async fn records(State(Desk { calls, .. }): State<Desk>) -> Json {
    Json(json!({ "open": calls.open(), "calls": calls.records() }))
}

/// What the driver sees: devices and mounts of its node, and how its calls ended.
async fn state(State(Desk { calls, disk }): State<Desk>) -> Response {
    let mut state = json!({ "open": calls.open(), "calls": calls.totals() });
    if let Some(disk) = disk {
        match (disk.devices().await, disk.mounts().await) {
            (Ok(devices), Ok(mounts)) => {
                state["node"] = json!({
                    "name": disk.node(), "backend": disk.backend(), "devices": devices, "mounts": mounts,
                });
            }
            (Err(error), _) | (_, Err(error)) => {
                return refuse(StatusCode::INTERNAL_SERVER_ERROR, format!("the disk cannot be read: {error}"));
            }
        }
    }
    Json(state).into_response()
}

async fn reset(State(Desk { calls, .. }): State<Desk>, headers: HeaderMap) -> Response {
    if !is_json(&headers) {
        return refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, "Content-Type: must be application/json");
    }
    calls.ctx().faults().clear(None);
    calls.clear();
    Json(json!({})).into_response()
}
