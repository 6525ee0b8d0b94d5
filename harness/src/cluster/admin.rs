//! Admin API of a whole live cluster, at one address.
//!
//! | Request | Answer |
//! |---|---|
//! | `GET /admin/v1/health` | `{"status": "ok"}` |
//! | `GET /admin/v1/status` | processes that run, and a description of the cluster |
//! | `GET /admin/v1/state` | `{"cluster", "cloud", "kubernetes", "faults"}`: everything |
//! | `GET /admin/v1/trace` | the newest events since the last reset, as JSON lines |
//! | `GET /admin/v1/logs?component=NAME…` | logs of the components, with the parameters of pods/log |
//! | `GET /admin/v1/checks` | results of the invariants, if they are checked |
//! | `POST /admin/v1/checks`, `{"rest": true, "empty": true, "within": "5m"}` | the same results, after the cluster has converged and everything was deleted |
//! | `POST /admin/v1/reset` | starts the cluster again with empty servers, at the same addresses |
//! | `/admin/v1/faults…` | the API of [`substrate::admin`] for the faults of all planes |
//! | `GET /admin/v1/crashes` | `{"crashes": [process, …]}`: processes that were crashed here and are down |
//! | `POST /admin/v1/crashes`, `{"process": NAME}` | crashes a process, a node, or a group of processes; 201 |
//! | `DELETE /admin/v1/crashes/{process}` | starts it again; 404 if it is not down |
//!
//! Errors are `{"error": TEXT}`. If a token is set, every request must carry it.

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::Router;
use axum::extract::{Path, Request, State};
use axum::http::{Method, StatusCode, Uri, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use axum::routing::{get, post};
use bytes::Bytes;
use serde_json::{Value, json};
use substrate::admin::{self, FaultsApi, Secret};
use substrate::body::{call, collect, empty};
use substrate::fault::{Fault, Mistake, Plane};
use substrate::{Ctx, HttpService, body};
use tokio::sync::Mutex as Turn;

use super::checks::{Asked, Checks};
use super::{Cluster, names, sockets};
use crate::cluster::defaults;
use crate::program::ProgramReport;
use crate::spec::object::Condition;
use crate::wiring::Wiring;

/// All planes of faults.
const PLANES: &[Plane] = &[Plane::Ec2, Plane::K8s, Plane::Csi, Plane::Link, Plane::Disk, Plane::Process, Plane::Clock];
/// Maximum size in bytes of a request body other than a fault.
const BODY_LIMIT: usize = 4 << 10;
/// Maximum size in bytes of a server's state.
const STATE_LIMIT: usize = 512 << 20;

/// State shared by all handlers.
struct App {
    cluster: Arc<Cluster>,
    faults: FaultsApi,
    token: Option<Secret>,
    /// The invariants, if they are checked.
    checks: Option<Checks>,
    /// Names that were crashed here and not started again.
    crashed: Mutex<BTreeSet<String>>,
    /// Ordinal of the last event before the last reset.
    since: AtomicU64,
    /// Lock held while processes are crashed, started or reset: one request at a time.
    turn: Turn<()>,
    /// Called with true before a reset and with false after it.
    on_reset: Box<dyn Fn(bool) + Send + Sync>,
}

impl Cluster {
    /// Serves the admin API of the whole cluster until the cluster is gone. Does nothing if the cluster has no admin
    /// address. `checks` are the invariants, if they are checked; `on_reset` is called with true when a reset begins
    /// and with false when it is over.
    ///
    /// # Errors
    /// If the address cannot be served.
    pub fn serve_admin(
        self: &Arc<Self>,
        token: Option<Secret>,
        checks: Option<Checks>,
        on_reset: impl Fn(bool) + Send + Sync + 'static,
    ) -> Result<(), String> {
        let Some(sockets) = &self.sockets else { return Ok(()) };
        let service = self.admin(&self.user, token, checks, on_reset);
        Wiring::publish(&**sockets, &self.user, sockets::ADMIN, service)
    }

    /// Returns the admin API of this cluster as a service of process `ctx`, with its invariants. `on_reset` is called
    /// with true when a reset begins and with false when it is over.
    pub fn admin(
        self: &Arc<Self>,
        ctx: &Ctx,
        token: Option<Secret>,
        checks: Option<Checks>,
        on_reset: impl Fn(bool) + Send + Sync + 'static,
    ) -> HttpService {
        let cluster = self.clone();
        let faults = FaultsApi::new(ctx, PLANES).watching().on_end(move || cluster.refresh_cloud());
        let app = Arc::new(App {
            cluster: self.clone(),
            faults,
            token,
            checks,
            crashed: Mutex::default(),
            since: AtomicU64::new(0),
            turn: Turn::new(()),
            on_reset: Box::new(on_reset),
        });
        let router = Router::new()
            .route("/admin/v1/health", get(async || reply(StatusCode::OK, &json!({ "status": "ok" }))))
            .route("/admin/v1/status", get(async |State(app): State<Arc<App>>| reply(StatusCode::OK, &app.status())))
            .route("/admin/v1/state", get(state))
            .route("/admin/v1/trace", get(trace))
            .route("/admin/v1/logs", get(logs))
            .route("/admin/v1/checks", get(checked).post(checked))
            .route("/admin/v1/reset", post(reset))
            .route("/admin/v1/faults", axum::routing::any(faults_of))
            .route("/admin/v1/faults/{*name}", axum::routing::any(faults_of))
            .route("/admin/v1/crashes", get(crashes).post(crash))
            .route("/admin/v1/crashes/{*process}", axum::routing::delete(restart))
            .fallback(async |uri: Uri| error(StatusCode::NOT_FOUND, &format!("nothing is served at {}", uri.path())))
            .method_not_allowed_fallback(async |method: Method, uri: Uri| {
                error(StatusCode::METHOD_NOT_ALLOWED, &format!("{method} is not possible on {}", uri.path()))
            })
            .with_state(app.clone())
            .layer(from_fn_with_state(app, gate));
        body::from_router(router)
    }
}

fn reply(status: StatusCode, value: &Value) -> Response {
    admin::reply(status, value).map(axum::body::Body::new)
}

fn error(status: StatusCode, message: &str) -> Response {
    admin::error(status, message).map(axum::body::Body::new)
}

/// Rejects requests without the token (if there is one) and POST bodies that are not JSON. A web page of another origin
/// cannot send JSON without a preflight.
async fn gate(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    if let Err(refusal) = admin::gate(request.headers(), app.token.as_ref()) {
        return refusal.map(axum::body::Body::new);
    }
    if *request.method() == Method::POST && !admin::is_json(request.headers()) {
        return error(StatusCode::UNSUPPORTED_MEDIA_TYPE, "Content-Type: must be application/json");
    }
    next.run(request).await
}

impl App {
    fn crashed(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.crashed.lock()
    }

    fn status(&self) -> Value {
        let cluster = &self.cluster;
        let spec = cluster.spec();
        let processes: Vec<Value> = cluster
            .all_members()
            .into_iter()
            .map(|(name, member)| json!({ "name": name, "up": member.is_up() }))
            .collect();
        // The output of a program is in its log.
        let programs = cluster.programs().map(|program| ProgramReport { log: Vec::new(), ..program.report() });
        let programs: Vec<Value> = programs.map(|report| json!({ "line": report.line(), "program": report })).collect();
        json!({
            "processes": processes,
            "programs": programs,
            "bareNodes": cluster.bare_nodes(),
            "nodes": spec.nodes.iter().map(|n| json!({ "name": n.name, "zone": n.zone })).collect::<Vec<_>>(),
            "down": cluster.down_nodes(),
            "backend": cluster.backend(),
            "seed": cluster.world().options().seed,
            "timeScale": cluster.world().scale().factor(),
            "ms": u64::try_from(cluster.world().clock().mono().as_millis()).unwrap_or(u64::MAX),
            "events": cluster.world().trace().len(),
            "faults": cluster.world().faults().list().len(),
        })
    }

    /// Parses `when.until`: the cluster itself ends faults with such a condition.
    fn until(sent: &[u8]) -> Result<Option<(String, Condition)>, Mistake> {
        // The fault API rejects a body that does not parse.
        let Ok(fault) = serde_json::from_slice::<Fault>(sent) else { return Ok(None) };
        let until = fault.when.until.as_deref().map(str::parse::<Condition>).transpose();
        let until = until.map_err(|message| Mistake::new("when.until", message))?;
        Ok(until.map(|condition| (fault.name, condition)))
    }
}

async fn faults_of(State(app): State<Arc<App>>, request: Request) -> Response {
    let (parts, sent) = request.into_parts();
    // A longer body is refused with 413.
    let sent = axum::body::to_bytes(sent, admin::BODY_LIMIT).await;
    let Ok(sent) = sent else {
        let message = format!("a fault has at most {} bytes", admin::BODY_LIMIT);
        return error(StatusCode::PAYLOAD_TOO_LARGE, &message);
    };
    let adds = parts.method == Method::POST;
    let until = match if adds { App::until(&sent) } else { Ok(None) } {
        Ok(until) => until,
        Err(mistake) => {
            let value = json!({ "error": mistake.to_string(), "field": mistake.field });
            return reply(StatusCode::BAD_REQUEST, &value);
        }
    };
    let answer = app.faults.call(&parts, &sent);
    if let (StatusCode::CREATED, Some((name, condition))) = (answer.status(), until) {
        app.cluster.end_when(name, condition);
    }
    answer.map(axum::body::Body::new)
}

async fn logs(State(app): State<Arc<App>>, request: Request) -> Response {
    let Some(logs) = app.cluster.component_logs() else {
        return error(StatusCode::NOT_FOUND, "the components of this cluster have no logs");
    };
    match call(logs, request.map(body::boxed)).await {
        Ok(response) if response.status().is_success() => response.map(axum::body::Body::new),
        Ok(refusal) => {
            let (status, why) = (refusal.status(), collect(refusal.into_body(), BODY_LIMIT).await.unwrap_or_default());
            error(status, &String::from_utf8_lossy(&why))
        }
        Err(why) => error(StatusCode::INTERNAL_SERVER_ERROR, &why.to_string()),
    }
}

async fn crashes(State(app): State<Arc<App>>) -> Response {
    reply(StatusCode::OK, &json!({ "crashes": &*app.crashed() }))
}

async fn crash(State(app): State<Arc<App>>, request: Request) -> Response {
    let sent = axum::body::to_bytes(request.into_body(), BODY_LIMIT).await.unwrap_or_default();
    let sent: Value = serde_json::from_slice(&sent).unwrap_or_default();
    let Some(process) = sent["process"].as_str().map(str::to_owned) else {
        return error(StatusCode::BAD_REQUEST, "process: write {\"process\": NAME}, as in csi-attacher or node-a");
    };
    let _turn = app.turn.lock().await;
    let known = names::of(app.cluster.spec());
    let all = || known.processes.iter().chain(known.groups.keys()).map(String::as_str);
    if !all().any(|name| name == process) {
        let hint = match substrate::words::nearest(&process, all()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("there are {}", all().collect::<Vec<_>>().join(", ")),
        };
        return error(StatusCode::BAD_REQUEST, &format!("process: there is no process `{process}`; {hint}"));
    }
    match app.cluster.crash(&process).await {
        Ok(()) => {
            app.crashed().insert(process.clone());
            reply(StatusCode::CREATED, &json!({ "process": process }))
        }
        Err(why) => error(StatusCode::CONFLICT, &why),
    }
}

async fn restart(State(app): State<Arc<App>>, Path(process): Path<String>) -> Response {
    let _turn = app.turn.lock().await;
    if !app.crashed().remove(&process) {
        return error(StatusCode::NOT_FOUND, &format!("`{process}` was not crashed here"));
    }
    match app.cluster.restart(&process).await {
        Ok(()) => reply(StatusCode::OK, &json!({ "process": process })),
        // Another request was faster.
        Err(why) => error(StatusCode::CONFLICT, &why),
    }
}

async fn reset(State(app): State<Arc<App>>) -> Response {
    let _turn = app.turn.lock().await;
    (app.on_reset)(true);
    let done = async {
        app.cluster.reset().await?;
        app.crashed().clear();
        if let Some(checks) = &app.checks {
            checks.restart();
        }
        app.since.store(app.cluster.world().trace().len(), Ordering::Relaxed);
        defaults::apply_more(app.cluster.objects(), app.cluster.spec()).await.map_err(|e| e.to_string())
    };
    let done = done.await;
    (app.on_reset)(false);
    match done {
        Ok(()) => reply(StatusCode::OK, &json!({ "status": "reset" })),
        Err(why) => error(StatusCode::INTERNAL_SERVER_ERROR, &why),
    }
}

async fn checked(State(app): State<Arc<App>>, request: Request) -> Response {
    let Some(checks) = &app.checks else {
        return error(
            StatusCode::NOT_FOUND,
            "this Mooring does not check invariants: start it with `mooring up --check`",
        );
    };
    let reads = *request.method() != Method::POST;
    let sent = axum::body::to_bytes(request.into_body(), BODY_LIMIT).await.unwrap_or_default();
    let asked = if reads { Ok(Asked::default()) } else { serde_json::from_slice(&sent) };
    match asked {
        Err(why) => error(StatusCode::BAD_REQUEST, &why.to_string()),
        Ok(asked) => match checks.look(&app.cluster, asked).await {
            Ok(report) => reply(StatusCode::OK, &report),
            Err(why) => error(StatusCode::CONFLICT, &why),
        },
    }
}

async fn trace(State(app): State<Arc<App>>) -> Response {
    let since = app.since.load(Ordering::Relaxed);
    let mut text = String::new();
    for event in app.cluster.world().trace().events().iter().filter(|event| event.n > since || is_ground(event)) {
        text.push_str(&event.line().text());
        text.push('\n');
    }
    let mut response = Response::new(axum::body::Body::from(text));
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/x-ndjson"));
    response
}

/// Returns true for events that stay valid after a reset: they introduce the nodes.
fn is_ground(event: &substrate::Event) -> bool {
    event.is::<crate::events::ClusterNode>()
}

async fn state(State(app): State<Arc<App>>) -> Response {
    let token = app.cluster.spec().admin_token.clone();
    let cloud = ask(app.cluster.ec2(), token.as_ref()).await;
    let kubernetes = ask(app.cluster.objects().service(), None).await;
    let show = |state: Result<Value, String>| state.unwrap_or_else(|why| json!({ "error": why }));
    reply(
        StatusCode::OK,
        &json!({
            "cluster": app.status(),
            "cloud": show(cloud),
            "kubernetes": show(kubernetes),
            "faults": app.cluster.world().faults().list(),
        }),
    )
}

/// Reads the state of a server through its own admin API. Fails if the server is down.
async fn ask(server: &HttpService, token: Option<&Secret>) -> Result<Value, String> {
    let asking = async {
        let mut request = http::Request::get("/admin/v1/state").header("host", "localhost");
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {}", token.reveal()));
        }
        let request = request.body(empty()).map_err(|e| e.to_string())?;
        let answer = call(server.clone(), request).await.map_err(|e| e.to_string())?;
        let bytes: Bytes = collect(answer.into_body(), STATE_LIMIT).await.map_err(|e| e.to_string())?;
        serde_json::from_slice(&bytes).map_err(|e| e.to_string())
    };
    let answer = tokio::time::timeout(std::time::Duration::from_secs(10), asking).await;
    answer.unwrap_or_else(|_| Err("no answer".to_owned()))
}
