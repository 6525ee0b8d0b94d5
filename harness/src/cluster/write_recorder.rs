//! Records the writes that arrive at a simulated API server, for `expect: {writes: …}`.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, USER_AGENT};
use http::request::Parts;
use http::{HeaderName, Method, Request};
use serde_json::Value;
use substrate::body::{call, collect, empty, full};
use substrate::{BoxError, Ctx, HttpService};

use super::Cluster;
use crate::wiring::{Fabric, Wiring};
use crate::writes::{Elsewhere, Names, Shown, Write};

/// Maximum size of a body in bytes.
const LIMIT: usize = 64 << 20;

/// Records every write. Clones share the record.
#[derive(Clone, Debug, Default)]
pub(super) struct WriteRecorder(Arc<Mutex<Vec<Write>>>);

impl WriteRecorder {
    /// Wraps the API server behind `service` in the recorder.
    fn recorded(&self, service: HttpService) -> HttpService {
        let recorder = self.clone();
        HttpService::new(move |request| {
            if [Method::GET, Method::HEAD, Method::OPTIONS].contains(request.method()) {
                return call(service.clone(), request);
            }
            let (recorder, service) = (recorder.clone(), service.clone());
            Box::pin(async move {
                let (parts, body) = request.into_parts();
                let sent = collect(body, LIMIT).await?;
                let before = if parts.method == Method::PUT { read(&service, &parts).await? } else { Value::Null };
                let index = recorder.begin(&parts, &sent, before);
                let response = call(service, Request::from_parts(parts, full(sent))).await?;
                let (head, body) = response.into_parts();
                let answer = collect(body, LIMIT).await?;
                recorder.end(index, head.status.as_u16(), &answer);
                Ok(http::Response::from_parts(head, full(answer)))
            })
        })
    }

    fn begin(&self, parts: &Parts, sent: &Bytes, before: Value) -> usize {
        let write = Write {
            agent: header(parts, &USER_AGENT),
            method: parts.method.to_string(),
            target: parts.uri.path_and_query().map_or("", |p| p.as_str()).to_owned(),
            media: header(parts, &CONTENT_TYPE),
            body: parse(sent),
            before,
            ..Write::default()
        };
        let mut writes = self.0.lock();
        writes.push(write);
        writes.len() - 1
    }

    fn end(&self, index: usize, status: u16, answer: &Bytes) {
        let write = &mut self.0.lock()[index];
        (write.status, write.answer) = (status, parse(answer));
    }
}

/// Returns a header as text; an absent one is empty.
fn header(parts: &Parts, name: &HeaderName) -> String {
    parts.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("").to_owned()
}

/// Parses a body. A body that is empty or not JSON, such as a refusal in plain text, is null.
fn parse(bytes: &Bytes) -> Value {
    serde_json::from_slice(bytes).unwrap_or(Value::Null)
}

/// Reads the object that a PUT is about to change.
async fn read(service: &HttpService, put: &Parts) -> Result<Value, BoxError> {
    let path = put.uri.path();
    let path = path.strip_suffix("/status").unwrap_or(path);
    let request = Request::get(path).header("host", "localhost").header("accept", "application/json").body(empty())?;
    let response = call(service.clone(), request).await?;
    Ok(parse(&collect(response.into_body(), LIMIT).await?))
}

/// The fabric with a recorder at the API server.
pub(super) struct RecordingFabric(pub(super) WriteRecorder);

impl Wiring for RecordingFabric {
    fn publish(&self, ctx: &Ctx, name: &str, service: HttpService) -> Result<(), String> {
        let service = if name == "apiserver" { self.0.recorded(service) } else { service };
        Fabric.publish(ctx, name, service)
    }

    fn connect(&self, ctx: &Ctx, name: &str) -> Result<HttpService, String> {
        Fabric.connect(ctx, name)
    }
}

impl Cluster {
    /// Returns the number of writes that the API server has received; zero if they are not recorded.
    pub(crate) fn written(&self) -> usize {
        self.write_recorder.as_ref().map_or(0, |recorder| recorder.0.lock().len())
    }

    /// Returns the writes from number `since` on, as files show them, without those of other files. None if writes are
    /// not recorded in this cluster.
    pub(crate) fn writes_since(&self, since: usize, elsewhere: &[Elsewhere]) -> Option<Vec<Shown>> {
        let writes = self.write_recorder.as_ref()?.0.lock().clone();
        let nodes: BTreeMap<String, String> =
            self.nodes.iter().map(|(name, node)| (name.clone(), node.instance.clone())).collect();
        let names = Names::learn(&writes, &nodes);
        let shown = writes[since..].iter().filter_map(|write| names.show(write));
        Some(shown.filter(|shown| !elsewhere.iter().any(|other| other.has(shown))).collect())
    }
}
