//! One connection to the API server under one user agent.

use std::any::TypeId;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
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

/// How long a request may take that is not a watch, where nobody says. No `time-scale` divides it (`substrate::scale`).
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// The longest answer that is read.
const ANSWER_LIMIT: usize = 512 << 20;

/// Speaks to the API server. Cheap to clone.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    ctx: Ctx,
    service: HttpService,
    agent: HeaderValue,
    shared: Arc<Shared>,
    limit: Duration,
}

/// What all clients of one process share: kube-controller-manager's loops have one informer per kind.
pub(super) struct Shared {
    agent: HeaderValue,
    pub(super) informers: Mutex<BTreeMap<(TypeId, String), Arc<Cache>>>,
    /// Of the whole world.
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

/// `limit` as this world waits it.
pub fn patience(ctx: &Ctx, limit: Duration) -> Duration {
    ctx.patience(limit)
}

impl Client {
    /// A client of process `ctx` that calls `service` as `user_agent`.
    pub fn new(ctx: &Ctx, service: HttpService, user_agent: &str) -> Self {
        let agent = header(user_agent);
        let shared = Arc::new(Shared { agent: agent.clone(), informers: Mutex::default(), memo: ctx.world().common() });
        Self(Arc::new(Inner { ctx: ctx.clone(), service, agent, shared, limit: REQUEST_TIMEOUT }))
    }

    /// The same connection under another user agent. Informers started through it are shared with this client's
    /// and run under this client's user agent, as kube-controller-manager's `shared-informers` do.
    pub fn named(&self, user_agent: &str) -> Self {
        Self(Arc::new(Inner {
            ctx: self.0.ctx.clone(),
            service: self.0.service.clone(),
            agent: header(user_agent),
            shared: self.0.shared.clone(),
            limit: self.0.limit,
        }))
    }

    /// The same client, whose requests wait at most `limit` for their answer.
    pub fn within(&self, limit: Duration) -> Self {
        Self(Arc::new(Inner {
            ctx: self.0.ctx.clone(),
            service: self.0.service.clone(),
            agent: self.0.agent.clone(),
            shared: self.0.shared.clone(),
            limit: self.0.ctx.patience(limit),
        }))
    }

    /// A client of the same process and service with informers of its own, as another binary has them.
    pub fn beside(&self, user_agent: &str) -> Self {
        let agent = header(user_agent);
        let memo = self.0.shared.memo.clone();
        let shared = Arc::new(Shared { agent: agent.clone(), informers: Mutex::default(), memo });
        let (ctx, service, limit) = (self.0.ctx.clone(), self.0.service.clone(), self.0.limit);
        Self(Arc::new(Inner { ctx, service, agent, shared, limit }))
    }

    /// The client whose user agent the shared informers run under.
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

    /// The process that the client belongs to.
    pub fn ctx(&self) -> &Ctx {
        &self.0.ctx
    }

    /// All objects of a kind: cluster-scoped ones, or those of all namespaces (to list and watch).
    pub fn all<K: Kind>(&self) -> Api<K> {
        Api::new(self.clone(), None)
    }

    /// The objects of a kind in one namespace.
    pub fn namespaced<K: Kind>(&self, namespace: &str) -> Api<K> {
        Api::new(self.clone(), Some(namespace.to_owned()))
    }

    /// GET of what is no object, as the list of a group's resources.
    ///
    /// # Errors
    /// The server's refusal, or that there was no answer within 30 s.
    pub fn get(&self, path: &str) -> BoxFuture<'static, Result<Bytes, ApiError>> {
        self.request(Method::GET, path, None)
    }

    /// POST of what no [`Api`] has a verb for, as a token of a service account.
    ///
    /// # Errors
    /// The server's refusal, or that there was no answer within 30 s.
    pub fn post(&self, path: &str, object: Value) -> BoxFuture<'static, Result<Bytes, ApiError>> {
        self.request(Method::POST, path, Some(("application/json", object)))
    }

    /// Sends one request and reads its whole answer. Only of this client, so that nobody sends a patch of his own.
    pub(super) fn request(
        &self,
        method: Method,
        path: &str,
        content: Option<(&'static str, Value)>,
    ) -> BoxFuture<'static, Result<Bytes, ApiError>> {
        let answer = self.send(method, path, content, false);
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
        let answer = self.send(Method::GET, path, None, true);
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
        streaming: bool,
    ) -> Result<Calling, ApiError> {
        let kind = content.as_ref().map(|(kind, _)| *kind);
        let body = content.map_or_else(empty, |(_, value)| Body::document(value));
        // In place: a builder moves all that it has at each step.
        let mut request = Request::new(body);
        *request.method_mut() = method;
        *request.uri_mut() = path.parse().map_err(|e| ApiError::Transport(format!("request {path}: {e}")))?;
        let headers = request.headers_mut();
        headers.insert(USER_AGENT, self.0.agent.clone());
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        if let Some(kind) = kind {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        }
        if streaming {
            request.extensions_mut().insert(Streaming);
        }
        Ok(call(self.0.service.clone(), request))
    }
}

/// An answer without the newline at its end, so that the bytes of an object are those that its watchers have.
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
