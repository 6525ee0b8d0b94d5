//! Requests that a user makes with kubectl, over the API server's wire protocol.

use std::collections::BTreeMap;
use std::io::{Error, ErrorKind};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use controllers::kube::metadata::Propagation;
use http::{Method, Request, StatusCode, request};
use parking_lot::Mutex;
use serde_json::{Value, json};
use substrate::body::{Body, call, collect, empty, full};
use substrate::json::Value as Tree;
use substrate::link::{LinkError, Streaming};
use substrate::{BoxError, HttpService};

use super::condition::Look;
use crate::scenario::reapplied;
use crate::scenario::steps::patch::{Patch, PatchType};
use crate::spec::Manifest;
use crate::spec::names::RUNNER;
use crate::spec::object::{Kind, ObjectRef};

/// Maximum size of an answer in bytes.
const ANSWER_LIMIT: usize = 64 << 20;
/// Maximum number of attempts for a request: a server that ended has half a minute to come back.
pub(crate) const TRIES: u32 = 30;
/// Time limit for an answer, as with `kubectl --request-timeout`. Without it a hanging request would stop the run.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Pause between attempts.
pub(crate) const PAUSE: Duration = Duration::from_secs(1);

/// Errors of requests for objects.
#[derive(Debug, displaydoc::Display, thiserror::Error)]
pub enum ObjectError {
    /// {message}
    Status {
        /// HTTP status code.
        code: u16,
        /// Reason of the Status.
        reason: String,
        /// Message of the Status.
        message: String,
    },
    /// the API server does not answer: {0}
    Transport(BoxError),
}

impl ObjectError {
    /// Returns true if the object does not exist.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Status { code: 404, .. })
    }

    /// Returns true for temporary failures of the network or of an overloaded server.
    fn passes(&self) -> bool {
        matches!(self, Self::Transport(_) | Self::Status { code: 429 | 500 | 503 | 504, .. })
    }

    /// Returns true if the server asks to come back later, as for an eviction that a disruption budget refuses.
    pub(crate) fn is_too_many(&self) -> bool {
        matches!(self, Self::Status { code: 429, .. })
    }

    /// Returns true if no server accepted the request.
    fn was_refused(&self) -> bool {
        matches!(self, Self::Transport(error) if was_refused(error))
    }

    /// Returns true if the requested revision is no longer available.
    pub fn is_gone(&self) -> bool {
        matches!(self, Self::Status { code: 410, .. })
    }
}

/// API client of the user.
#[derive(Clone)]
pub struct Objects {
    service: HttpService,
    /// The User-Agent header.
    agent: Arc<str>,
    /// Maximum number of attempts for a request.
    tries: u32,
    /// Last applied manifests, by URL path; clones share them.
    applied: Arc<Mutex<BTreeMap<String, Value>>>,
}

impl Objects {
    /// Creates a client of the API server behind `service`.
    pub fn new(service: HttpService) -> Self {
        Self { service, agent: RUNNER.into(), tries: TRIES, applied: Arc::default() }
    }

    /// Creates a client for a program, with the user agent `agent` and a single attempt for each request.
    pub(crate) fn of_program(service: HttpService, agent: &str) -> Self {
        Self { service, agent: agent.into(), tries: 1, applied: Arc::default() }
    }

    /// Log of a container of `namespace/pod`, as `kubectl logs`.
    ///
    /// # Errors
    /// Returns the error of the API server, or of the node behind it.
    pub async fn logs(&self, pod: &str, query: &str) -> Result<String, ObjectError> {
        let (namespace, name) = pod.split_once('/').unwrap_or(("default", pod));
        let path = format!("/api/v1/namespaces/{namespace}/pods/{name}/log?{query}");
        let bytes = self.send_patiently(Method::GET, &path, None).await?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Creates the object of `manifest`, or merge-patches the existing one, like a simple `kubectl apply`: keys that this
    /// client applied before and that the manifest lacks are removed. Returns the stored object.
    ///
    /// # Errors
    /// Returns the error of the API server.
    pub async fn apply(&self, manifest: &Manifest) -> Result<Tree, ObjectError> {
        let collection = manifest.object.collection_path();
        let path = manifest.object.path();
        let stored = match self.send(Method::POST, &collection, Some(("application/json", &manifest.value))).await {
            Err(ObjectError::Status { code: 409, reason, .. }) if reason == "AlreadyExists" => {
                let last = self.applied.lock().get(&path).cloned();
                let patch = reapplied::patch(&last.unwrap_or_default(), &manifest.value);
                self.send(Method::PATCH, &path, Some((PatchType::Merge.content_type(), &patch))).await?
            }
            other => other?,
        };
        self.applied.lock().insert(path, manifest.value.clone());
        Ok(decode(&stored))
    }

    /// Reads an object; none if it does not exist.
    ///
    /// # Errors
    /// Returns the error of the API server, or that the answer is not an object.
    pub async fn get(&self, object: &ObjectRef) -> Result<Option<Tree>, ObjectError> {
        self.get_path(&object.path()).await
    }

    /// Reads the object at a URL path; none if it does not exist.
    ///
    /// # Errors
    /// Returns the error of the API server, or that the answer is not an object.
    pub async fn get_path(&self, path: &str) -> Result<Option<Tree>, ObjectError> {
        match self.send(Method::GET, path, None).await {
            Ok(answer) => serde_json::from_slice(&answer).map(Some).map_err(|e| ObjectError::Transport(e.into())),
            Err(e) if e.is_not_found() => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Lists the objects at a URL path as trees, with the revision of the list.
    ///
    /// # Errors
    /// Returns the error of the API server, or that the answer is not a list.
    pub async fn list_tree(&self, path: &str) -> Result<(Vec<Tree>, u64), ObjectError> {
        let answer = self.send(Method::GET, path, None).await?;
        let mut list: Tree = serde_json::from_slice(&answer).map_err(|e| ObjectError::Transport(e.into()))?;
        let revision = list["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok());
        let revision = revision.ok_or_else(|| ObjectError::Transport("a list without a revision".into()))?;
        let Tree::Array(mut items) = list["items"].take() else { return Ok((Vec::new(), revision)) };
        // Items of a typed list omit their type, which follows from that of the list.
        let kind = list["kind"].as_str().and_then(|kind| kind.strip_suffix("List")).unwrap_or_default();
        for item in items.iter_mut().filter_map(Tree::as_object_mut) {
            item.entry("kind").or_insert_with(|| kind.into());
            item.entry("apiVersion").or_insert_with(|| list["apiVersion"].clone());
        }
        Ok((items, revision))
    }

    /// Lists the objects at a URL path as text.
    ///
    /// # Errors
    /// Returns the error of the API server.
    pub(crate) async fn list_text(&self, path: &str) -> Result<Bytes, ObjectError> {
        self.send(Method::GET, path, None).await
    }

    /// Opens a stream and returns its body.
    ///
    /// # Errors
    /// Returns the error of the API server.
    pub async fn open(&self, path: &str) -> Result<Body, ObjectError> {
        let opening = async {
            let mut request =
                self.asking(Method::GET, path).body(empty()).map_err(|e| ObjectError::Transport(e.into()))?;
            request.extensions_mut().insert(Streaming);
            let response = call(self.service.clone(), request).await.map_err(ObjectError::Transport)?;
            let status = response.status();
            if status.is_success() {
                return Ok(response.into_body());
            }
            let bytes = collect(response.into_body(), ANSWER_LIMIT).await.map_err(ObjectError::Transport)?;
            Err(status_error(status, &decode(&bytes), &bytes))
        };
        let late = || ObjectError::Transport(format!("no answer within {TIMEOUT:?}").into());
        tokio::time::timeout(TIMEOUT, opening).await.unwrap_or_else(|_| Err(late()))
    }

    /// Service of the API server.
    pub(crate) fn service(&self) -> &HttpService {
        &self.service
    }

    /// Reads the fields of an object that define its state; none if it does not exist.
    ///
    /// # Errors
    /// Returns the error of the API server, or that the answer is not an object.
    pub async fn look(&self, object: &ObjectRef) -> Result<Option<Look>, ObjectError> {
        match self.send(Method::GET, &object.path(), None).await {
            Ok(answer) => serde_json::from_slice(&answer).map(Some).map_err(|e| ObjectError::Transport(e.into())),
            Err(e) if e.is_not_found() => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Lists all objects of a kind in all namespaces.
    ///
    /// # Errors
    /// Returns the error of the API server.
    pub async fn list(&self, kind: Kind) -> Result<Vec<Tree>, ObjectError> {
        let root = if kind.api_version().contains('/') { "apis" } else { "api" };
        self.list_path(&format!("/{root}/{}/{}", kind.api_version(), kind.resource())).await
    }

    async fn list_path(&self, path: &str) -> Result<Vec<Tree>, ObjectError> {
        let mut list = decode(&self.send(Method::GET, path, None).await?);
        match list["items"].take() {
            Tree::Array(items) => Ok(items),
            _ => Ok(Vec::new()),
        }
    }

    /// Merge-patches an object.
    ///
    /// # Errors
    /// Returns the error of the API server.
    pub async fn patch(&self, object: &ObjectRef, patch: &Value) -> Result<(), ObjectError> {
        self.send(Method::PATCH, &object.path(), Some(("application/merge-patch+json", patch))).await.map(drop)
    }

    /// Patches an object or a subresource. A JSON patch that was accepted is not repeated, because its effect may
    /// differ the second time.
    ///
    /// # Errors
    /// Returns the error of the API server.
    pub async fn patch_as(&self, patch: &Patch) -> Result<(), ObjectError> {
        let mut path = patch.object.path();
        if let Some(subresource) = &patch.subresource {
            path = format!("{path}/{subresource}");
        }
        let body = Some((patch.r#type.content_type(), &patch.with));
        let sent = match patch.r#type {
            PatchType::Json => self.send_once_taken(Method::PATCH, &path, body).await,
            PatchType::Merge | PatchType::Strategic => self.send(Method::PATCH, &path, body).await,
        };
        sent.map(drop)
    }

    /// Deletes an object. With a `grace_seconds` of zero it is removed at once, without the node's confirmation.
    ///
    /// # Errors
    /// Returns the error of the API server; a missing object is fine.
    pub async fn delete(&self, object: &ObjectRef, grace_seconds: Option<i64>) -> Result<(), ObjectError> {
        self.delete_cascading(object, grace_seconds, None).await
    }

    /// Deletes an object, and treats its dependents as `cascade` says.
    ///
    /// # Errors
    /// Returns the error of the API server; a missing object is fine.
    pub async fn delete_cascading(
        &self,
        object: &ObjectRef,
        grace_seconds: Option<i64>,
        cascade: Option<Propagation>,
    ) -> Result<(), ObjectError> {
        let mut options = json!({ "kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": grace_seconds });
        if let Some(cascade) = cascade {
            options["propagationPolicy"] = cascade.word().into();
        }
        match self.send(Method::DELETE, &object.path(), Some(("application/json", &options))).await {
            Err(e) if !e.is_not_found() => Err(e),
            _ => Ok(()),
        }
    }

    /// Evicts a pod. A pod that does not exist counts as evicted.
    ///
    /// # Errors
    /// Returns the error of the API server: 429 if a disruption budget refuses.
    pub(crate) async fn evict(&self, pod: &ObjectRef, grace_seconds: Option<i64>) -> Result<(), ObjectError> {
        let body = json!({
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": { "name": pod.name, "namespace": pod.namespace },
            "deleteOptions": { "gracePeriodSeconds": grace_seconds },
        });
        let is_tried_again = |error: &ObjectError| error.passes() && !error.is_too_many();
        let path = format!("{}/eviction", pod.path());
        match self.send_again(is_tried_again, Method::POST, &path, Some(("application/json", &body))).await {
            Err(e) if !e.is_not_found() => Err(e),
            _ => Ok(()),
        }
    }

    /// Sends a request as it is, and returns the HTTP code and the body of the answer. It is repeated only if no server
    /// accepted it.
    ///
    /// # Errors
    /// If the API server does not answer.
    pub(crate) async fn raw(&self, request: &Request<Bytes>) -> Result<(StatusCode, Bytes), ObjectError> {
        let once = async || {
            let mut copy = Request::new(full(request.body().clone()));
            *copy.method_mut() = request.method().clone();
            *copy.uri_mut() = request.uri().clone();
            *copy.headers_mut() = request.headers().clone();
            let response = call(self.service.clone(), copy).await.map_err(ObjectError::Transport)?;
            let status = response.status();
            let bytes = collect(response.into_body(), ANSWER_LIMIT).await.map_err(ObjectError::Transport)?;
            Ok((status, bytes))
        };
        let patiently = async || match tokio::time::timeout(TIMEOUT, once()).await {
            Ok(answer) => answer,
            Err(_) => Err(ObjectError::Transport(format!("no answer within {TIMEOUT:?}").into())),
        };
        for _ in 1..self.tries {
            match patiently().await {
                Err(error) if error.was_refused() => tokio::time::sleep(PAUSE).await,
                answer => return answer,
            }
        }
        patiently().await
    }

    /// Begins a request of this client.
    pub(crate) fn begin(&self, method: Method, path: &str) -> request::Builder {
        Request::builder().method(method).uri(path).header("host", "localhost").header("user-agent", &*self.agent)
    }

    /// Sends an idempotent request, and repeats it after temporary failures, as a person repeats a command. If the
    /// reply of a create was lost, the repetition finds the object, and [`Objects::apply`] continues with a patch.
    async fn send(&self, method: Method, path: &str, body: Option<(&str, &Value)>) -> Result<Bytes, ObjectError> {
        self.send_again(ObjectError::passes, method, path, body).await
    }

    /// Sends a request that is not idempotent, and repeats it only if it was not accepted.
    async fn send_once_taken(
        &self,
        method: Method,
        path: &str,
        body: Option<(&str, &Value)>,
    ) -> Result<Bytes, ObjectError> {
        self.send_again(ObjectError::was_refused, method, path, body).await
    }

    /// Sends a request, and repeats it after each failure that `is_tried_again`.
    async fn send_again(
        &self,
        is_tried_again: fn(&ObjectError) -> bool,
        method: Method,
        path: &str,
        body: Option<(&str, &Value)>,
    ) -> Result<Bytes, ObjectError> {
        for _ in 1..self.tries {
            match self.send_patiently(method.clone(), path, body).await {
                Err(error) if is_tried_again(&error) => tokio::time::sleep(PAUSE).await,
                answer => return answer,
            }
        }
        self.send_patiently(method, path, body).await
    }

    async fn send_patiently(
        &self,
        method: Method,
        path: &str,
        body: Option<(&str, &Value)>,
    ) -> Result<Bytes, ObjectError> {
        let answer = tokio::time::timeout(TIMEOUT, self.send_once(method, path, body)).await;
        answer.unwrap_or_else(|_| Err(ObjectError::Transport(format!("no answer within {TIMEOUT:?}").into())))
    }

    fn asking(&self, method: Method, path: &str) -> request::Builder {
        self.begin(method, path).header("accept", "application/json")
    }

    async fn send_once(&self, method: Method, path: &str, body: Option<(&str, &Value)>) -> Result<Bytes, ObjectError> {
        let transport = |e: BoxError| ObjectError::Transport(e);
        let mut request = self.asking(method, path);
        if let Some((content_type, _)) = body {
            request = request.header("content-type", content_type);
        }
        let bytes = body.map(|(_, value)| value.to_string()).unwrap_or_default();
        let request = request.body(full(bytes)).map_err(|e| transport(e.into()))?;
        let response = call(self.service.clone(), request).await.map_err(transport)?;
        let status = response.status();
        let bytes = collect(response.into_body(), ANSWER_LIMIT).await.map_err(transport)?;
        if status.is_success() { Ok(bytes) } else { Err(status_error(status, &decode(&bytes), &bytes)) }
    }
}

/// Returns true if no server accepted the request.
pub(crate) fn was_refused(error: &BoxError) -> bool {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&**error);
    while let Some(error) = cause {
        let refused = matches!(error.downcast_ref(), Some(LinkError::Refused(_)));
        if refused || error.downcast_ref::<Error>().is_some_and(|e| e.kind() == ErrorKind::ConnectionRefused) {
            return true;
        }
        cause = error.source();
    }
    false
}

/// Parses an answer; null if it is invalid.
fn decode(bytes: &[u8]) -> Tree {
    // Validating all bytes once is cheaper than validating each string.
    std::str::from_utf8(bytes).ok().and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}

fn status_error(status: StatusCode, value: &Tree, bytes: &[u8]) -> ObjectError {
    let message = value["message"].as_str().map_or_else(|| String::from_utf8_lossy(bytes).into_owned(), str::to_owned);
    let reason = value["reason"].as_str().unwrap_or_default().to_owned();
    ObjectError::Status { code: status.as_u16(), reason, message }
}
