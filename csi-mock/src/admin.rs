//! `/admin/v1/*`: faults, settings, the call log and broken rules, the socket, reset; `/healthz` and `/metrics`.
//!
//! Changes require `application/json`, which a web page can send to another origin only after a preflight.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use bytes::Bytes;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use substrate::HttpService;
use substrate::admin::{self, FaultsApi, Secret};
use substrate::fault::Plane;

use crate::calls::Calls;
use crate::settings::Change;
use csi_disk::Disk;

/// State of the endpoints.
#[derive(Clone, Debug)]
struct AdminState {
    calls: Calls,
    disk: Option<Arc<dyn Disk>>,
}

/// Planes of faults that affect a driver.
const PLANES: &[Plane] = &[Plane::Csi];
/// Same with a node's disk.
const NODE_PLANES: &[Plane] = &[Plane::Csi, Plane::Disk];

impl AdminState {
    fn planes(&self) -> &'static [Plane] {
        if self.disk.is_some() { NODE_PLANES } else { PLANES }
    }
}

/// Returns the admin endpoints for their own port; with a token, every request must carry it.
pub(crate) fn service(calls: &Calls, disk: Option<Arc<dyn Disk>>, token: Option<Secret>) -> HttpService {
    let router = match token {
        None => router(calls, disk),
        Some(token) => router(calls, disk).layer(middleware::from_fn_with_state(token, check_token)),
    };
    substrate::body::from_router(router)
}

async fn check_token(State(token): State<Secret>, request: Request, next: Next) -> Response {
    match admin::gate(request.headers(), Some(&token)) {
        Ok(()) => next.run(request).await,
        Err(refusal) => refusal.map(axum::body::Body::new),
    }
}

/// Returns the admin endpoints of a driver process.
pub(crate) fn router(calls: &Calls, disk: Option<Arc<dyn Disk>>) -> Router {
    let admin_state = AdminState { calls: calls.clone(), disk };
    let faults = FaultsApi::new(calls.ctx(), admin_state.planes()).router();
    let router = Router::new()
        .route("/admin/v1/calls", get(records))
        .route("/admin/v1/state", get(state))
        .route("/admin/v1/violations", get(violations))
        .route("/admin/v1/settings", get(settings).post(change_settings))
        .route("/admin/v1/socket", post(drop_socket))
        .route("/admin/v1/reset", post(reset))
        .route("/healthz", get(health))
        .route("/metrics", get(metrics))
        .layer(axum::extract::DefaultBodyLimit::max(admin::BODY_LIMIT))
        .with_state(admin_state);
    router.merge(faults)
}

fn answer<T: serde::Serialize>(value: &T) -> Response {
    admin::reply(StatusCode::OK, value).map(axum::body::Body::new)
}

fn refuse(status: StatusCode, message: &str) -> Response {
    admin::error(status, message).map(axum::body::Body::new)
}

/// Refusal of a change.
struct Refusal(StatusCode, String);

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        refuse(self.0, &self.1)
    }
}

fn want_json(headers: &HeaderMap) -> Result<(), Refusal> {
    if admin::is_json(headers) {
        return Ok(());
    }
    Err(Refusal(StatusCode::UNSUPPORTED_MEDIA_TYPE, "Content-Type: must be application/json".to_owned()))
}

/// Parses a change from the body of a request.
fn change<T: DeserializeOwned>(what: &str, headers: &HeaderMap, body: &Bytes) -> Result<T, Refusal> {
    want_json(headers)?;
    serde_json::from_slice(body).map_err(|error| Refusal(StatusCode::BAD_REQUEST, format!("{what}: {error}")))
}

async fn violations(State(AdminState { calls, .. }): State<AdminState>) -> Response {
    answer(&json!({ "violations": calls.violations(), "totals": calls.broken() }))
}

async fn settings(State(AdminState { calls, .. }): State<AdminState>) -> Response {
    answer(&calls.settings().dump())
}

async fn change_settings(
    State(AdminState { calls, .. }): State<AdminState>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Refusal> {
    let change: Change = change("settings", &headers, &body)?;
    match calls.settings().change(&change) {
        Ok(()) => Ok(answer(&calls.settings().dump())),
        Err(error) => Err(Refusal(StatusCode::BAD_REQUEST, error)),
    }
}

/// Absence of the socket.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Absence {
    /// Milliseconds.
    absent_ms: u64,
}

/// Longest absence of the socket.
const LONGEST_ABSENCE: Duration = Duration::from_secs(3600);

async fn drop_socket(
    State(AdminState { calls, .. }): State<AdminState>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Refusal> {
    let absence: Absence = change("socket", &headers, &body)?;
    let absence = Duration::from_millis(absence.absent_ms);
    if absence > LONGEST_ABSENCE {
        return Err(Refusal(StatusCode::BAD_REQUEST, "absentMs: must be at most an hour".to_owned()));
    }
    let none = || Refusal(StatusCode::CONFLICT, "this driver has no unix socket of its own".to_owned());
    let begun = calls.drop_socket(absence).ok_or_else(none)?;
    // Answered when the socket is gone. A listener that has ended has none, either.
    let _ = begun.await;
    Ok(answer(&json!({ "absentMs": absence.as_millis() as u64 })))
}

/// Answers like Probe: healthy if the driver is ready and can read its disk.
async fn health(State(AdminState { calls, disk }): State<AdminState>) -> Response {
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

async fn metrics(State(AdminState { calls, disk }): State<AdminState>) -> Response {
    let text = crate::metrics::text(&calls, disk.as_deref()).await;
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response()
}

async fn records(State(AdminState { calls, .. }): State<AdminState>) -> Response {
    answer(&json!({ "open": calls.open(), "calls": calls.records() }))
}

/// Returns the driver's state: devices and mounts of its node, and the results of its calls.
async fn state(State(AdminState { calls, disk }): State<AdminState>) -> Response {
    let mut state = json!({ "open": calls.open(), "calls": calls.totals() });
    if let Some(disk) = disk {
        match (disk.devices().await, disk.mounts().await) {
            (Ok(devices), Ok(mounts)) => {
                state["node"] = json!({
                    "name": disk.node(), "backend": disk.backend(), "devices": devices, "mounts": mounts,
                });
            }
            (Err(error), _) | (_, Err(error)) => {
                return refuse(StatusCode::INTERNAL_SERVER_ERROR, &format!("the disk cannot be read: {error}"));
            }
        }
    }
    answer(&state)
}

/// Ends the faults of the driver and empties its log; faults of other servers of the world stay.
async fn reset(State(admin_state): State<AdminState>, headers: HeaderMap) -> Result<Response, Refusal> {
    want_json(&headers)?;
    let faults = admin_state.calls.ctx().faults();
    for report in faults.list().into_iter().filter(|r| admin_state.planes().contains(&r.fault.matches.plane)) {
        faults.remove(&report.fault.name);
    }
    admin_state.calls.clear();
    Ok(answer(&json!({})))
}
