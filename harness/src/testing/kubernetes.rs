//! A client of the API server for programs in a cluster: a tower service, and a few methods.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use http::{HeaderValue, Request, Response, header};
use http_body_util::BodyExt as _;
use serde_json::Value;
use substrate::body::{self, BoxError, HttpService, call};
use substrate::link::Streaming;
use tower::Service;

use super::failure::{Error, ErrorKind, Result};
use crate::cluster::Objects;
use crate::scenario::manifests::manifests;
use crate::scenario::steps::patch::{Patch, PatchType};
use crate::spec::custom::Customs;
use crate::spec::object::ObjectRef;

/// Maximum length of a watch line in bytes.
const LONGEST: usize = 64 << 20;

/// The body of an answer.
pub type Body = substrate::Body;

/// A client of the API server. Each request is sent once; its User-Agent is the process, so faults can name it as
/// `caller`.
#[derive(Clone)]
pub struct Kubernetes {
    service: HttpService,
    agent: Arc<str>,
}

impl fmt::Debug for Kubernetes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kubernetes").field("agent", &self.agent).finish_non_exhaustive()
    }
}

/// Adds the common headers of a request, and boxes its body.
pub(super) fn complete<B>(request: Request<B>, agent: &str) -> Request<Body>
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let mut request = request.map(body::boxed);
    let headers = request.headers_mut();
    headers.entry(header::HOST).or_insert(HeaderValue::from_static("localhost"));
    if !headers.contains_key(header::USER_AGENT)
        && let Ok(agent) = HeaderValue::from_str(agent)
    {
        headers.insert(header::USER_AGENT, agent);
    }
    request
}

/// Returns true if the answer comes line by line: a watch, or followed logs.
fn is_stream(query: &str) -> bool {
    query.split('&').any(|part| matches!(part, "watch" | "watch=true" | "watch=1" | "follow=true" | "follow=1"))
}

/// The pending answer to a request.
pub type Answer = Pin<Box<dyn Future<Output = std::result::Result<Response<Body>, BoxError>> + Send>>;

impl<B> Service<Request<B>> for Kubernetes
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = Answer;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<std::result::Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Answer {
        let mut request = complete(request, &self.agent);
        if is_stream(request.uri().query().unwrap_or_default()) {
            request.extensions_mut().insert(Streaming);
        }
        call(self.service.clone(), request)
    }
}

impl Kubernetes {
    pub(super) fn new(service: HttpService, agent: &str) -> Self {
        Self { service, agent: agent.into() }
    }

    fn objects(&self) -> Objects {
        Objects::of_program(self.service.clone(), &self.agent)
    }

    /// Reads an object such as `pvc/data` or `pod/team-a/web`; `None` if it does not exist.
    ///
    /// # Errors
    /// An invalid object name, or the error of the API server.
    pub async fn get(&self, object: &str) -> Result<Option<Value>> {
        let named = object_of(object)?;
        let tree = self.objects().get(&named).await.map_err(|e| Error::refused(&format!("get {object}"), &e))?;
        tree.map(|tree| plain(&tree)).transpose()
    }

    /// Lists the objects at a path of the API, such as `/api/v1/namespaces/default/pods`.
    ///
    /// # Errors
    /// The error of the API server.
    pub async fn list(&self, path: &str) -> Result<Vec<Value>> {
        let listed = self.objects().list_tree(path).await.map_err(|e| Error::refused(&format!("list {path}"), &e))?;
        listed.0.iter().map(plain).collect()
    }

    /// Creates the objects of a YAML text, or merges it into those that exist.
    ///
    /// # Errors
    /// A mistake in the text with its line, or the error of the API server.
    pub async fn apply(&self, yaml: &str) -> Result<()> {
        for manifest in manifests(yaml, &mut Customs::with_snapshots()).map_err(Error::usage)? {
            let applied = self.objects().apply(&manifest).await;
            applied.map_err(|e| Error::refused(&format!("apply {}", manifest.object), &e))?;
        }
        Ok(())
    }

    /// Merges `patch` into an object.
    ///
    /// # Errors
    /// An invalid object name, or the error of the API server.
    pub async fn patch(&self, object: &str, patch: &Value) -> Result<()> {
        let patched = self.objects().patch(&object_of(object)?, patch).await;
        patched.map_err(|e| Error::refused(&format!("patch {object}"), &e))
    }

    /// Merges `patch` into a subresource of an object, such as its `status`.
    ///
    /// # Errors
    /// An invalid object name, or the error of the API server.
    pub async fn patch_subresource(&self, object: &str, subresource: &str, patch: &Value) -> Result<()> {
        let named = object_of(object)?;
        let patch = Patch {
            object: named,
            subresource: Some(subresource.to_owned()),
            r#type: PatchType::Merge,
            with: patch.clone(),
            fails: None,
        };
        let patched = self.objects().patch_as(&patch).await;
        patched.map_err(|e| Error::refused(&format!("patch {object}/{subresource}"), &e))
    }

    /// Deletes an object. A missing object is not an error.
    ///
    /// # Errors
    /// An invalid object name, or the error of the API server.
    pub async fn delete(&self, object: &str) -> Result<()> {
        let deleted = self.objects().delete(&object_of(object)?, None).await;
        deleted.map_err(|e| Error::refused(&format!("delete {object}"), &e))
    }

    /// Watches the objects at a path of the API. Existing objects come first, as `ADDED`.
    ///
    /// # Errors
    /// The error of the API server.
    pub async fn watch(&self, path: &str) -> Result<Watch> {
        let mark = if path.contains('?') { '&' } else { '?' };
        let body = self.objects().open(&format!("{path}{mark}watch=true")).await;
        let body = body.map_err(|e| Error::refused(&format!("watch {path}"), &e))?;
        Ok(Watch { body, buffer: BytesMut::new() })
    }
}

/// Returns the object that a text names.
pub(super) fn object_of(text: &str) -> Result<ObjectRef> {
    text.parse().map_err(Error::usage)
}

/// Converts a tree of the API server to one of `serde_json`.
pub(super) fn plain(tree: &substrate::json::Value) -> Result<Value> {
    serde_json::to_value(tree).map_err(|e| Error::new(ErrorKind::Refused, format!("the answer is not an object: {e}")))
}

/// Changes from a watch.
pub struct Watch {
    body: Body,
    buffer: BytesMut,
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").finish_non_exhaustive()
    }
}

/// A change of an object.
#[derive(Clone, Debug, PartialEq, serde::Deserialize)]
pub struct Change {
    /// `ADDED`, `MODIFIED`, `DELETED`; `ERROR` with a Status as the object.
    pub r#type: String,
    /// The object after the change; the last state of a deleted object.
    pub object: Value,
}

impl Watch {
    /// Waits for the next change; `None` once the watch has ended, as each does after some minutes: start another one.
    ///
    /// # Errors
    /// A broken connection, or an invalid line.
    pub async fn next(&mut self) -> Result<Option<Change>> {
        let broken = |why: String| Error::new(ErrorKind::Refused, format!("the watch broke: {why}"));
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line = self.buffer.split_to(end + 1);
                return serde_json::from_slice(&line).map(Some).map_err(|e| broken(e.to_string()));
            }
            let Some(frame) = self.body.frame().await else {
                let rest = std::mem::take(&mut self.buffer);
                if rest.is_empty() {
                    return Ok(None);
                }
                return serde_json::from_slice(&rest).map(Some).map_err(|e| broken(e.to_string()));
            };
            let frame = frame.map_err(|e| broken(e.to_string()))?;
            if let Ok(data) = frame.into_data() {
                if self.buffer.len() + data.len() > LONGEST {
                    return Err(broken("a line is too long".to_owned()));
                }
                self.buffer.extend_from_slice(&data);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_known_by_query() {
        for query in ["watch=true", "watch=1&resourceVersion=7", "a=b&watch", "follow=true"] {
            assert!(is_stream(query), "{query}");
        }
        for query in ["", "watch=false", "follow=0", "fieldSelector=watch=true1"] {
            assert!(!is_stream(query), "{query}");
        }
    }
}
