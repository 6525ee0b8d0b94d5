//! The one HTTP shape that crosses every seam: a boxed body and a boxed, cloneable service.

use std::convert::Infallible;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty, Full};
use tower::util::BoxCloneSyncService;
use tower::{Service, ServiceExt};

/// Any error that crosses a seam.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
/// The body of every request and response between components.
pub type Body = UnsyncBoxBody<Bytes, BoxError>;
/// A callable peer: a router in the same process, a link, a pool of sockets.
pub type HttpService = BoxCloneSyncService<Request<Body>, Response<Body>, BoxError>;

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
    BoxCloneSyncService::new(service.map_response(|r| r.map(boxed)).map_err(|e: Infallible| -> BoxError { match e {} }))
}

/// Reads a whole body, at most `limit` bytes. The boxed future has a plain type, so that it fits into spawned tasks.
///
/// # Errors
/// The body's own error, or that it is longer than `limit`.
pub fn collect(body: Body, limit: usize) -> futures_util::future::BoxFuture<'static, Result<Bytes, BoxError>> {
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

/// What a call to a peer gives.
pub type Calling = futures_util::future::BoxFuture<'static, Result<Response<Body>, BoxError>>;

/// Calls a peer once. Use it instead of `oneshot` inside spawned tasks: the boxed future has a plain type.
pub fn call(service: HttpService, request: Request<Body>) -> Calling {
    Box::pin(service.oneshot(request))
}
