//! Read-only paths that are not resources: health, version, metrics, discovery, OpenAPI.

use http::request::Parts;
use http::{HeaderValue, Response, header};
use substrate::body::Body;
use substrate::json::json;

use super::respond::{failure, typed};
use super::{Server, probe, query};
use crate::kinds::KindRef;
use crate::state::Status;
use crate::text;
use crate::wire::answer::Answer;

/// Members of `/version`, in the order of Go's struct.
const VERSION: &[&str] = &[
    "major",
    "minor",
    "emulationMajor",
    "emulationMinor",
    "minCompatibilityMajor",
    "minCompatibilityMinor",
    "gitVersion",
    "gitCommit",
    "gitTreeState",
    "buildDate",
    "goVersion",
    "compiler",
    "platform",
];

/// The media type of metrics.
const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";

impl Server {
    /// Answers a request for a path that is not that of a resource.
    pub(super) fn document(&self, parts: &Parts) -> Response<Body> {
        let path = parts.uri.path();
        if parts.method != http::Method::GET {
            return self.wrong_method(path);
        }
        if let Some(health) = probe::answer(path, &query::Query::parse(parts.uri.query())) {
            return health;
        }
        if path == "/version" || path == "/version/" {
            return typed(200, "application/json", version(&self.shared.version));
        }
        if path == "/metrics" {
            return typed(200, METRICS, self.metrics());
        }
        if path == "/metrics/slis" {
            return typed(200, METRICS, probe::indicators());
        }
        let header = |name| parts.headers.get(name).and_then(|v: &HeaderValue| v.to_str().ok()).unwrap_or_default();
        let accept = header(header::ACCEPT);
        let custom: Vec<KindRef> = self.shared.lock().store.custom_kinds().cloned().collect();
        let Some(answer) = self.documented(path, accept, &custom) else { return page_not_found() };
        if answer.is_cached_by(header(header::IF_NONE_MATCH)) {
            let mut response = typed(304, answer.content_type, "");
            set_etag(&mut response, answer.etag.as_deref());
            return response;
        }
        let mut response = typed(200, answer.content_type, answer.body);
        set_etag(&mut response, answer.etag.as_deref());
        response
    }

    fn documented(&self, path: &str, accept: &str, custom: &[KindRef]) -> Option<Answer> {
        self.shared.documents.lock().respond(path, accept, custom)
    }

    /// Answers a method other than GET: 405 for a document, 404 for any other path.
    fn wrong_method(&self, path: &str) -> Response<Body> {
        let custom: Vec<KindRef> = self.shared.lock().store.custom_kinds().cloned().collect();
        let is_served = probe::answer(path, &query::Query::default()).is_some()
            || matches!(path, "/version" | "/version/" | "/metrics" | "/metrics/slis")
            || self.documented(path, "", &custom).is_some();
        if is_served { failure(&Status::method_not_allowed()) } else { page_not_found() }
    }
}

/// Returns the 404 of Go's `net/http` for an unknown path.
fn page_not_found() -> Response<Body> {
    let mut response = typed(404, "text/plain; charset=utf-8", "404 page not found\n");
    response.headers_mut().insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    response
}

fn set_etag(response: &mut Response<Body>, etag: Option<&str>) {
    if let Some(etag) = etag.and_then(|e| HeaderValue::from_str(e).ok()) {
        response.headers_mut().insert(header::ETAG, etag);
        response.headers_mut().insert(header::VARY, HeaderValue::from_static("Accept"));
    }
}

/// Returns the answer of `/version`, which is indented like every answer other than an object or a list.
fn version(version: &str) -> String {
    let version = json!({
        "major": "1",
        "minor": "36",
        "emulationMajor": "1",
        "emulationMinor": "36",
        "minCompatibilityMajor": "1",
        "minCompatibilityMinor": "35",
        "gitVersion": version,
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "none",
        "compiler": "rustc",
        "platform": "linux/amd64",
    });
    let mut compact = Vec::new();
    text::ranked(VERSION, &version, &mut compact);
    String::from_utf8_lossy(&text::indent(&compact)).into_owned()
}
