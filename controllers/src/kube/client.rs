//! One connection to the API server under one user agent.

use parking_lot::Mutex;
use std::any::TypeId;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::header::{ACCEPT, CONTENT_TYPE, USER_AGENT};
use http::{HeaderValue, Method, Request, Response};
use http_body_util::BodyExt;
use substrate::body::{Body, Calling, HttpService, Pieces, call, empty};
use substrate::json::Value;
use substrate::link::Streaming;
use substrate::process::Ctx;

use super::api::Api;
use super::error::{ApiError, Status};
use super::informer::Cache;
use super::memo::Memo;
use super::object::Kind;

/// Default timeout of a request, except a watch. Not divided by `time-scale` (`substrate::scale`).
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// Media type of objects.
const JSON: &str = "application/json";
/// Largest accepted answer.
const ANSWER_LIMIT: usize = 512 << 20;

/// Client of the API server. Cheap to clone.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    ctx: Ctx,
    service: HttpService,
    agent: HeaderValue,
    shared: Arc<Shared>,
    limit: Duration,
}

/// State shared by all clients of one process. Its loops share one informer per kind, as in kube-controller-manager.
pub(super) struct Shared {
    agent: HeaderValue,
    pub(super) informers: Mutex<BTreeMap<(TypeId, String), Arc<Cache>>>,
    /// Shared by the whole world.
    pub(super) memo: Arc<Memo>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("agent", &self.0.agent).finish_non_exhaustive()
    }
}

fn header(agent: &str) -> HeaderValue {
    HeaderValue::from_str(agent).unwrap_or(HeaderValue::from_static("mooring"))
}

/// Converts a timeout to this world's scale.
pub fn scaled_timeout(ctx: &Ctx, limit: Duration) -> Duration {
    ctx.scaled_timeout(limit)
}

impl Client {
    /// Creates a client of process `ctx` that calls `service` as `user_agent`.
    pub fn new(ctx: &Ctx, service: HttpService, user_agent: &str) -> Self {
        let agent = header(user_agent);
        let shared = Arc::new(Shared { agent: agent.clone(), informers: Mutex::default(), memo: ctx.world().common() });
        Self(Arc::new(Inner { ctx: ctx.clone(), service, agent, shared, limit: REQUEST_TIMEOUT }))
    }

    /// Returns a client with another user agent on the same connection. Its informers are shared with this client's and
    /// use this client's user agent, like kube-controller-manager's `shared-informers`.
    pub fn named(&self, user_agent: &str) -> Self {
        Self(Arc::new(Inner {
            ctx: self.0.ctx.clone(),
            service: self.0.service.clone(),
            agent: header(user_agent),
            shared: self.0.shared.clone(),
            limit: self.0.limit,
        }))
    }

    /// Returns a client whose requests wait at most `limit` for their answer.
    pub fn within(&self, limit: Duration) -> Self {
        Self(Arc::new(Inner {
            ctx: self.0.ctx.clone(),
            service: self.0.service.clone(),
            agent: self.0.agent.clone(),
            shared: self.0.shared.clone(),
            limit: self.0.ctx.scaled_timeout(limit),
        }))
    }

    /// Returns a client of the same process and service with its own informers, like another binary.
    pub fn beside(&self, user_agent: &str) -> Self {
        let agent = header(user_agent);
        let memo = self.0.shared.memo.clone();
        let shared = Arc::new(Shared { agent: agent.clone(), informers: Mutex::default(), memo });
        let (ctx, service, limit) = (self.0.ctx.clone(), self.0.service.clone(), self.0.limit);
        Self(Arc::new(Inner { ctx, service, agent, shared, limit }))
    }

    /// Returns the client with the user agent of the shared informers.
    pub(super) fn informer_client(&self) -> Self {
        Self(Arc::new(Inner {
            ctx: self.0.ctx.clone(),
            service: self.0.service.clone(),
            agent: self.0.shared.agent.clone(),
            shared: self.0.shared.clone(),
            limit: self.0.limit,
        }))
    }

    pub(super) fn shared(&self) -> &Shared {
        &self.0.shared
    }

    /// Returns the client's process.
    pub fn ctx(&self) -> &Ctx {
        &self.0.ctx
    }

    /// Returns the API of all objects of a kind: cluster-scoped ones, or those of all namespaces (to list and watch).
    pub fn all<K: Kind>(&self) -> Api<K> {
        Api::new(self.clone(), None)
    }

    /// Returns the API of a kind's objects in one namespace.
    pub fn namespaced<K: Kind>(&self, namespace: &str) -> Api<K> {
        Api::new(self.clone(), Some(namespace.to_owned()))
    }

    /// Reads a document other than an API object, such as the resource list of a group.
    ///
    /// # Errors
    /// The server's refusal, or no answer within 30 s.
    pub fn get(&self, path: &str) -> BoxFuture<'static, Result<Bytes, ApiError>> {
        self.request(Method::GET, path, None)
    }

    /// Reads a document in one of the media types of `accept`, which the server chooses.
    ///
    /// # Errors
    /// The server's refusal, or no answer within 30 s.
    pub(super) fn get_as(&self, path: &str, accept: &'static str) -> BoxFuture<'static, Result<Bytes, ApiError>> {
        self.answer_of(self.send(Method::GET, path, None, (accept, false)))
    }

    /// Posts to a path without an [`Api`] verb, such as the token of a service account.
    ///
    /// # Errors
    /// The server's refusal, or no answer within 30 s.
    pub fn post(&self, path: &str, object: Value) -> BoxFuture<'static, Result<Bytes, ApiError>> {
        self.request(Method::POST, path, Some(("application/json", object)))
    }

    /// Replaces the object at a path without an [`Api`] verb, such as the scale of an object.
    ///
    /// # Errors
    /// The server's refusal, or no answer within 30 s.
    pub fn put(&self, path: &str, object: Value) -> BoxFuture<'static, Result<Bytes, ApiError>> {
        self.request(Method::PUT, path, Some(("application/json", object)))
    }

    /// Sends one request and reads its whole answer. Private to this module, so that only it sends patches.
    pub(super) fn request(
        &self,
        method: Method,
        path: &str,
        content: Option<(&'static str, Value)>,
    ) -> BoxFuture<'static, Result<Bytes, ApiError>> {
        self.answer_of(self.send(method, path, content, (JSON, false)))
    }

    fn answer_of(&self, answer: Result<Calling, ApiError>) -> BoxFuture<'static, Result<Bytes, ApiError>> {
        let limit = self.0.limit;
        Box::pin(async move {
            let exchange = async {
                let response = answer?.await.map_err(transport)?;
                let status = response.status();
                let body = whole(response.into_body()).await?;
                if status.is_success() { Ok(body) } else { Err(refusal(status.as_u16(), &body)) }
            };
            tokio::time::timeout(limit, exchange).await.unwrap_or_else(|_| {
                Err(ApiError::Transport("net/http: request canceled (Client.Timeout exceeded)".to_owned()))
            })
        })
    }

    /// Opens a watch; the answer's body is a stream of lines.
    pub(super) fn stream(&self, path: &str) -> BoxFuture<'static, Result<Response<Body>, ApiError>> {
        let answer = self.send(Method::GET, path, None, (JSON, true));
        let limit = REQUEST_TIMEOUT;
        Box::pin(async move {
            let opening = async {
                let response = answer?.await.map_err(transport)?;
                let status = response.status();
                if status.is_success() {
                    return Ok(response);
                }
                let body = whole(response.into_body()).await?;
                Err(refusal(status.as_u16(), &body))
            };
            tokio::time::timeout(limit, opening)
                .await
                .unwrap_or_else(|_| Err(ApiError::Transport("the watch was not answered in time".to_owned())))
        })
    }

    fn send(
        &self,
        method: Method,
        path: &str,
        content: Option<(&'static str, Value)>,
        (accept, streaming): (&'static str, bool),
    ) -> Result<Calling, ApiError> {
        let kind = content.as_ref().map(|(kind, _)| *kind);
        let body = content.map_or_else(empty, |(_, value)| Body::document(value));
        // Changed in place: a builder moves its whole content at each step.
        let mut request = Request::new(body);
        *request.method_mut() = method;
        *request.uri_mut() = path.parse().map_err(|e| ApiError::Transport(format!("request {path}: {e}")))?;
        let headers = request.headers_mut();
        headers.insert(USER_AGENT, self.0.agent.clone());
        headers.insert(ACCEPT, HeaderValue::from_static(accept));
        if let Some(kind) = kind {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        }
        if streaming {
            request.extensions_mut().insert(Streaming);
        }
        Ok(call(self.0.service.clone(), request))
    }
}

/// Reads an answer without its last newline, so that an object's bytes equal those in its watch events.
async fn whole(mut body: Body) -> Result<Bytes, ApiError> {
    if let Some(line) = body.take_line() {
        return Ok(line);
    }
    let mut all = Pieces::default();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(transport)?.into_data() else { continue };
        all.push(data);
        if all.len() > ANSWER_LIMIT {
            return Err(ApiError::Decode(format!("the answer is longer than {ANSWER_LIMIT} bytes")));
        }
    }
    let mut all = all.join();
    if all.ends_with(b"\n") {
        all.truncate(all.len() - 1);
    }
    Ok(all)
}

fn transport(e: substrate::BoxError) -> ApiError {
    ApiError::Transport(e.to_string())
}

fn refusal(code: u16, body: &[u8]) -> ApiError {
    let mut status = serde_json::from_slice::<Status>(body)
        .unwrap_or_else(|_| Status { message: String::from_utf8_lossy(body).into_owned(), ..Status::default() });
    if status.code == 0 {
        status.code = code;
    }
    if status.message.is_empty() {
        status.message = format!("the server answered with status {code}");
    }
    ApiError::Status(Box::new(status))
}
