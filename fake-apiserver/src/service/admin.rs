//! `/admin/v1/`: faults, a dump of the state, compaction, reset. JSON in, JSON out.

use http::request::Parts;
use http::{Method, Response, StatusCode};
use substrate::admin::{self, FaultsApi};
use substrate::body::Body;
use substrate::fault::Plane;
use substrate::json::{Value, json};

use super::hub::Hub;
use super::respond::json_value;
use super::{Server, body, query};
use crate::events::{Load, Reset};

/// Maximum size of an admin request in bytes.
const LIMIT: usize = 1 << 20;
/// Maximum size of a saved state in bytes.
const STATE_LIMIT: usize = 256 << 20;

impl Server {
    pub(super) async fn admin(&self, parts: &Parts, sent: Body) -> Response<Body> {
        let path = query::decode(parts.uri.path(), false);
        let segments: Vec<&str> = path.trim_matches('/').split('/').skip(1).collect();
        if FaultsApi::is(parts.uri.path()) {
            // A body over this limit is larger than any fault, and the faults API refuses it.
            return match body::whole(sent, LIMIT).await {
                Ok(sent) => FaultsApi::new(&self.ctx, &[Plane::K8s]).call(parts, &sent),
                Err(status) => error(status.code, &status.message),
            };
        }
        let sent = match self.admin_body(parts, sent).await {
            Ok(sent) => sent,
            Err(response) => return response,
        };
        match (parts.method.as_str(), segments.as_slice()) {
            ("GET", ["v1", "state"]) => self.dump(parts),
            ("PUT", ["v1", "state"]) => self.load(&sent),
            ("POST", ["v1", "reset"]) => {
                self.reset();
                json_value(200, &json!({"revision": self.shared.revision()}))
            }
            ("POST", ["v1", "compact"]) => {
                let mut state = self.shared.lock();
                let newest = state.store.revision();
                let revision = sent.get("revision").and_then(Value::as_u64).unwrap_or(newest).min(newest);
                state.store.compact(revision);
                json_value(200, &json!({"revision": revision}))
            }
            (_, ["v1", "state" | "reset" | "compact", ..]) => {
                error(405, &format!("{} is not possible on {path}", parts.method))
            }
            _ => error(404, &format!("nothing is served at {path}; try /admin/v1/state, /reset, /compact or /faults")),
        }
    }

    /// Parses a JSON body. Other media types are refused, because a web page can send them without a CORS preflight.
    async fn admin_body(&self, parts: &Parts, sent: Body) -> Result<Value, Response<Body>> {
        let limit = if parts.uri.path().ends_with("/state") { STATE_LIMIT } else { LIMIT };
        let bytes = body::whole(sent, limit).await.map_err(|status| error(status.code, &status.message))?;
        let changes = parts.method == Method::POST || parts.method == Method::PUT;
        if changes && !admin::is_json(&parts.headers) {
            return Err(error(415, "Content-Type: must be application/json"));
        }
        if bytes.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&bytes).map_err(|e| error(400, &format!("the body is not valid JSON: {e}")))
    }

    /// Returns the state, at present or at an earlier revision, for a fork.
    fn dump(&self, parts: &Parts) -> Response<Body> {
        let query = query::Query::parse(parts.uri.query());
        let state = self.shared.lock();
        let revision = match query.number("revision") {
            Ok(revision) => revision.unwrap_or(state.store.revision()).min(state.store.revision()),
            Err(status) => return error(status.code, &status.message),
        };
        match state.store.saved(revision) {
            Ok(resources) => {
                json_value(200, &json!({"revision": revision, "watchers": state.hub.len(), "resources": resources}))
            }
            Err(status) => error(status.code, &status.message),
        }
    }

    /// Replaces the state by a saved one; every stream ends.
    fn load(&self, sent: &Value) -> Response<Body> {
        let now = self.ctx.now();
        let mut state = self.shared.lock();
        match state.store.load(now, &sent["resources"]) {
            Ok(count) => {
                // Watchers receive no events about the old state: their streams end, and a new list shows the new
                // state.
                state.hub = Hub::new();
                state.epoch += 1;
                state.store.take_committed();
                state.restart_journal();
                let revision = state.store.revision();
                self.shared.revision.send_replace(revision);
                self.ctx.emit(Load { objects: count as u64, rv: revision });
                json_value(200, &json!({"revision": revision, "objects": count}))
            }
            Err(status) => error(status.code, &status.message),
        }
    }

    /// Removes all objects; every stream ends.
    fn reset(&self) {
        let now = self.ctx.now();
        {
            let mut state = self.shared.lock();
            state.hub = Hub::new();
            state.epoch += 1;
        }
        self.ctx.emit(Reset {});
        self.commit("bootstrap", self.ctx.name(), |store| store.reset(now));
        self.shared.lock().restart_journal();
    }
}

fn error(code: u16, why: &str) -> Response<Body> {
    admin::error(StatusCode::from_u16(code).unwrap_or(StatusCode::BAD_REQUEST), why)
}
