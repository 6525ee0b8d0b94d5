//! State of the handlers, and their answers.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;
use substrate::{Ctx, admin};

use super::devices::DeviceStreams;
use super::watchers::Watchers;
use crate::cloud::Ec2;
use crate::regions::Regions;

/// State of the handlers.
pub(super) struct App {
    pub(super) ec2: Ec2,
    pub(super) ctx: Ctx,
    /// All regions, including this one.
    pub(super) regions: Regions,
    pub(super) devices: Arc<DeviceStreams>,
    pub(super) watchers: Arc<Watchers>,
}

/// Builds a JSON answer.
pub(super) fn reply(status: StatusCode, value: &impl Serialize) -> Response {
    admin::reply(status, value).map(axum::body::Body::new)
}

/// Builds a JSON error: `{"error": "…"}`.
pub(super) fn error(status: StatusCode, message: impl ToString) -> Response {
    admin::error(status, &message.to_string()).map(axum::body::Body::new)
}
