//! Serves the device stream of an instance.

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, Uri, header};
use axum::response::Response;

use super::late::Late;
use super::{App, error};
use crate::state::ids::InstanceId;

/// Serves `GET /admin/v1/devices?instance=i-…`.
pub(super) async fn stream(State(app): State<Arc<App>>, uri: Uri) -> Response {
    let query = uri.query().unwrap_or_default();
    let Some(text) = query.split('&').find_map(|pair| pair.strip_prefix("instance=")) else {
        return error(StatusCode::BAD_REQUEST, "instance: name one, as in /admin/v1/devices?instance=i-…");
    };
    let instance: InstanceId = match text.parse() {
        Ok(instance) => instance,
        Err(e) => return error(StatusCode::BAD_REQUEST, format!("instance: `{text}` {e}")),
    };
    let lines = match app.ec2.look(&app.ctx, |state| app.devices.follow(state, &instance)) {
        Ok(lines) => lines,
        Err(e) => return error(StatusCode::NOT_FOUND, e),
    };
    let lines = futures_util::stream::unfold(Late::new(app, instance, lines), async |mut lines| {
        lines.next().await.map(|line| (Ok::<_, Infallible>(line), lines))
    });
    let mut response = Response::new(axum::body::Body::from_stream(lines));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson"));
    response
}
