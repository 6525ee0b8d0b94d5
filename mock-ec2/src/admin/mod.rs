//! The admin API under `/admin/v1/`: operations that EC2 does not offer to its customers. With several regions,
//! `?region=` selects one. The default is the first region, and for a reset all regions.

mod admin_actions;
mod app;
mod device_stream;
mod devices;
mod late;
mod watch;
mod watchers;

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, Request, State};
use axum::http::{Method, StatusCode, Uri};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use axum::routing::{get, post, put};
use serde_json::json;
use substrate::admin::FaultsApi;
use substrate::fault::Plane;
use substrate::{Ctx, HttpService, admin, body};

use crate::cloud::Ec2;
use crate::regions::Regions;
use crate::state::ids::InstanceId;
use app::{App, error, reply};
use devices::DeviceStreams;
use watchers::Watchers;

/// Returns the service of the admin API of `ec2` in process `ctx`.
pub(crate) fn router(ec2: Ec2, ctx: Ctx, regions: &Regions) -> HttpService {
    let (devices, watchers) = (Arc::<DeviceStreams>::default(), Arc::<Watchers>::default());
    ec2.listen(&devices);
    ec2.listen(&watchers);
    let app = Arc::new(App { ec2, ctx, regions: regions.clone(), devices, watchers });
    let router = Router::new()
        .route("/admin/v1/health", get(async || reply(StatusCode::OK, &json!({ "status": "ok" }))))
        .route("/admin/v1/state", get(state))
        .route("/admin/v1/reset", post(reset))
        .route("/admin/v1/devices", get(device_stream::stream))
        .route("/admin/v1/events", get(watch::events))
        .route("/metrics", get(watch::metrics))
        .route("/admin/v1/switches", get(admin_actions::switches).post(admin_actions::switch))
        .route("/admin/v1/instances/{id}/crash", post(crash))
        .route("/admin/v1/instances/{id}/terminate", post(admin_actions::terminate))
        .route("/admin/v1/instances/{id}/hardware", post(admin_actions::hardware))
        .route("/admin/v1/instances/{id}/{verb}", post(admin_actions::instance))
        .route("/admin/v1/instances/{id}/mounts", put(admin_actions::mounts))
        .route("/admin/v1/instances/{id}/purge", post(admin_actions::purge))
        .route("/admin/v1/volumes/{id}/{verb}", post(admin_actions::volume))
        .route("/admin/v1/snapshots/{id}/{verb}", post(admin_actions::snapshot))
        .route("/admin/v1/tokens/burn", post(admin_actions::burn))
        .fallback(async |uri: Uri| error(StatusCode::NOT_FOUND, format!("nothing is served at {}", uri.path())))
        .method_not_allowed_fallback(async |method: Method, uri: Uri| {
            error(StatusCode::METHOD_NOT_ALLOWED, format!("{method} is not served at {}", uri.path()))
        })
        .with_state(app.clone())
        .merge(faults(&app).router())
        .layer(from_fn_with_state(app, gate));
    body::from_router(router)
}

/// Returns the API of the cloud's faults. Transitions that a fault holds continue as soon as it ends.
fn faults(app: &App) -> FaultsApi {
    let (ec2, ctx) = (app.ec2.clone(), app.ctx.clone());
    FaultsApi::new(&app.ctx, &[Plane::Ec2]).on_end(move || ec2.refresh(&ctx))
}

/// Checks the token, if one is configured, and accepts bodies only as JSON (which a foreign page cannot send).
async fn gate(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    if let Some(refusal) = refusal(&app, &request) {
        return refusal;
    }
    let reads = *request.method() == Method::GET;
    if !reads && let Err(reason) = app.ec2.can_record(&app.ctx).await {
        return error(StatusCode::SERVICE_UNAVAILABLE, format!("state file: {reason}; nothing was done"));
    }
    let response = next.run(request).await;
    let mut recorded = Ok(());
    for cloud in app.regions.clouds() {
        recorded = recorded.and(cloud.recorded(&app.ctx).await);
    }
    match recorded {
        Err(reason) if !reads => error(StatusCode::INTERNAL_SERVER_ERROR, format!("state file: {reason}")),
        _ => response,
    }
}

fn refusal(app: &App, request: &Request) -> Option<Response> {
    if let Err(refusal) = admin::gate(request.headers(), app.ec2.config().admin_token.as_ref()) {
        return Some(refusal.map(axum::body::Body::new));
    }
    if matches!(*request.method(), Method::POST | Method::PUT) && !admin::is_json(request.headers()) {
        return Some(error(StatusCode::UNSUPPORTED_MEDIA_TYPE, "Content-Type: must be application/json"));
    }
    if let Some(region) = region(request.uri()).filter(|region| app.regions.get(Some(region)).is_none()) {
        let served = app.ec2.settings().regions.join(", ");
        return Some(error(StatusCode::NOT_FOUND, format!("region: `{region}` is not served; there are {served}")));
    }
    None
}

/// Returns the region that a request names.
fn region(uri: &Uri) -> Option<&str> {
    uri.query()?.split('&').find_map(|pair| pair.strip_prefix("region="))
}

async fn state(State(app): State<Arc<App>>) -> Response {
    reply(StatusCode::OK, &app.ec2.dump())
}

/// Resets the named region, or all of them.
async fn reset(State(app): State<Arc<App>>, uri: Uri) -> Response {
    let clouds = if region(&uri).is_some() { std::slice::from_ref(&app.ec2) } else { app.regions.clouds() };
    match clouds.iter().try_for_each(|cloud| cloud.reset(&app.ctx)) {
        Ok(()) => reply(StatusCode::OK, &json!({ "status": "reset" })),
        Err(e) => error(StatusCode::INTERNAL_SERVER_ERROR, e),
    }
}

async fn crash(State(app): State<Arc<App>>, Path(id): Path<String>) -> Response {
    let id: InstanceId = match id.parse() {
        Ok(id) => id,
        Err(e) => return error(StatusCode::BAD_REQUEST, format!("instance: `{id}` {e}")),
    };
    match app.ec2.crash(&app.ctx, &id) {
        Ok(()) => reply(StatusCode::OK, &json!({ "instance": id, "state": "impaired" })),
        Err(e) => error(StatusCode::NOT_FOUND, e),
    }
}
