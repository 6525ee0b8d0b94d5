//! Records the writes that arrive at the API server.

use parking_lot::Mutex;
use std::sync::Arc;

use bytes::Bytes;
use harness::cluster::wiring::{Fabric, Wiring};
use http::header::{CONTENT_TYPE, USER_AGENT};
use http::request::Parts;
use http::{Method, Request};
use serde_json::Value;
use substrate::body::{call, collect, empty, full};
use substrate::{BoxError, Ctx, HttpService};

/// Maximum size of a body in bytes.
const LIMIT: usize = 64 << 20;

/// A request that changes an object.
#[derive(Clone, Debug, Default)]
pub struct Write {
    /// The User-Agent.
    pub agent: String,
    /// The method.
    pub method: String,
    /// Path and query.
    pub target: String,
    /// The media type of the body.
    pub media: String,
    /// The body.
    pub body: Value,
    /// For a PUT, the object before it.
    pub before: Value,
    /// The HTTP status of the reply, 0 until it arrives.
    pub status: u16,
    /// The body of the reply.
    pub answer: Value,
}

#[derive(Default)]
struct Log {
    writes: Vec<Write>,
    /// Marks, each with the number of writes before it.
    marks: Vec<(String, usize)>,
}

/// Records every write. Clones share the record.
#[derive(Clone, Default)]
pub struct Recorder(Arc<Mutex<Log>>);

impl Recorder {
    fn log(&self) -> parking_lot::MutexGuard<'_, Log> {
        self.0.lock()
    }

    /// Sets a mark.
    pub fn mark(&self, name: &str) {
        let mut log = self.log();
        let written = log.writes.len();
        log.marks.push((name.to_owned(), written));
    }

    /// Returns all writes, and the range of those from the mark `from` up to the mark `to`.
    pub fn between(&self, from: &str, to: &str) -> Option<(Vec<Write>, std::ops::Range<usize>)> {
        let log = self.log();
        let at = |name: &str| log.marks.iter().find(|(mark, _)| mark == name).map(|(_, at)| *at);
        Some((log.writes.clone(), at(from)?..at(to)?))
    }

    /// Wraps the server behind `service` in the recorder.
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
        let word = |name| parts.headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or_default().to_owned();
        let write = Write {
            agent: word(USER_AGENT),
            method: parts.method.to_string(),
            target: parts.uri.path_and_query().map_or("", |p| p.as_str()).to_owned(),
            media: word(CONTENT_TYPE),
            body: parse(sent),
            before,
            ..Write::default()
        };
        let writes = &mut self.log().writes;
        writes.push(write);
        writes.len() - 1
    }

    fn end(&self, index: usize, status: u16, answer: &Bytes) {
        let write = &mut self.log().writes[index];
        (write.status, write.answer) = (status, parse(answer));
    }
}

fn parse(bytes: &Bytes) -> Value {
    serde_json::from_slice(bytes).unwrap_or_default()
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
pub struct Ear(pub Recorder);

impl Wiring for Ear {
    fn publish(&self, ctx: &Ctx, name: &str, service: HttpService) -> Result<(), String> {
        let service = if name == "apiserver" { self.0.recorded(service) } else { service };
        Fabric.publish(ctx, name, service)
    }

    fn connect(&self, ctx: &Ctx, name: &str) -> Result<HttpService, String> {
        Fabric.connect(ctx, name)
    }
}
