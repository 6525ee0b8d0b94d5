//! The one HTTP shape that crosses every seam: a boxed body and a boxed, cloneable service.

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty, Full};
use tower::{Service, ServiceExt};

/// Any error that crosses a seam.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
/// The body of every request and response between components.
pub type Body = UnsyncBoxBody<Bytes, BoxError>;
/// What a call to a peer gives. The boxed future has a plain type, so that it fits into spawned tasks.
pub type Calling = BoxFuture<'static, Result<Response<Body>, BoxError>>;

/// A callable peer: a router in the same process, a link, a pool of sockets. It may be called at any time. Clones
/// are the same peer, and cost nothing: there is one for each call.
#[derive(Clone)]
pub struct HttpService(Arc<dyn Fn(Request<Body>) -> Calling + Send + Sync>);

impl HttpService {
    /// The peer that answers by `answer`.
    pub fn new(answer: impl Fn(Request<Body>) -> Calling + Send + Sync + 'static) -> Self {
        Self(Arc::new(answer))
    }
}

impl std::fmt::Debug for HttpService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("HttpService").finish_non_exhaustive()
    }
}

impl Service<Request<Body>> for HttpService {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = Calling;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Calling {
        (self.0)(request)
    }
}

/// A body of known bytes.
pub fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|e: Infallible| match e {}).boxed_unsync()
}

/// A body without bytes.
pub fn empty() -> Body {
    Empty::new().map_err(|e: Infallible| match e {}).boxed_unsync()
}

/// Boxes any body.
pub fn boxed<B>(body: B) -> Body
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    body.map_err(Into::into).boxed_unsync()
}

/// Turns an axum router (or a tonic service inside one) into a peer.
pub fn from_router(router: axum::Router) -> HttpService {
    from_service(router.into_service::<Body>())
}

/// Turns any infallible HTTP service into a peer.
pub fn from_service<S, B>(service: S) -> HttpService
where
    S: Service<Request<Body>, Response = Response<B>, Error = Infallible> + Clone + Send + Sync + 'static,
    S::Future: Send + 'static,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    HttpService::new(move |request| {
        Box::pin(service.clone().oneshot(request).map(|answer| match answer {
            Ok(response) => Ok(response.map(boxed)),
            Err(never) => match never {},
        }))
    })
}

/// Reads a whole body, at most `limit` bytes. The boxed future has a plain type, so that it fits into spawned tasks.
///
/// # Errors
/// The body's own error, or that it is longer than `limit`.
pub fn collect(body: Body, limit: usize) -> BoxFuture<'static, Result<Bytes, BoxError>> {
    Box::pin(async move {
        let mut body = body;
        let mut whole = bytes::BytesMut::new();
        while let Some(frame) = body.frame().await {
            if let Ok(data) = frame?.into_data() {
                if whole.len() + data.len() > limit {
                    return Err(format!("the body is longer than {limit} bytes").into());
                }
                whole.extend_from_slice(&data);
            }
        }
        Ok(whole.freeze())
    })
}

/// Calls a peer once.
pub fn call(service: HttpService, request: Request<Body>) -> Calling {
    (service.0)(request)
}
