//! HTTP types of every seam between components: one body type, and a boxed, cloneable service.

use std::any::Any;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use http::{Request, Response};
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;
use tower::{Service, ServiceExt};

use crate::document::Document;
use crate::json::Value;

/// Any error that crosses a seam.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
/// Result of a call to a peer. The boxed future has a nameable type, so that it fits into spawned tasks.
pub type Calling = BoxFuture<'static, Result<Response<Body>, BoxError>>;

/// Body of every request and response between components. Most are complete and need no box.
#[derive(Debug, Default)]
pub struct Body(Kind);

#[derive(Debug, Default)]
enum Kind {
    /// Empty, or read to its end.
    #[default]
    Empty,
    /// Complete, in one piece.
    Whole(Bytes),
    /// Complete, except for the newline at its end.
    Line(Bytes),
    /// A tree that has not been serialized yet.
    Document(Box<Document>),
    /// A stream.
    Any(UnsyncBoxBody<Bytes, BoxError>),
}

impl Body {
    /// Creates a JSON document: text for a reader of bytes, the tree itself for a peer in the same OS process.
    pub fn document(value: Value) -> Self {
        Self(Kind::Document(Box::new(Document::new(value))))
    }

    /// Creates a body from a text and a newline at its end, without a copy: many bodies may share the text.
    pub fn line(text: Bytes) -> Self {
        Self(Kind::Line(text))
    }

    /// Takes the text of a line without its newline, and leaves an empty body; `None` if this is not a line.
    pub fn take_line(&mut self) -> Option<Bytes> {
        let Kind::Line(text) = &mut self.0 else { return None };
        let text = std::mem::take(text);
        self.0 = Kind::Empty;
        Some(text)
    }

    /// Takes the tree of a document instead of its text, and leaves an empty body. `None` if this is not a document, or
    /// if its text may be longer than `limit` bytes, so that the limit is the same for readers of bytes and of trees.
    pub fn take_document(&mut self, limit: usize) -> Option<Value> {
        match &mut self.0 {
            Kind::Document(document) => document.take(limit),
            _ => None,
        }
    }

    /// Returns true if it is a stream.
    pub fn is_streamed(&self) -> bool {
        matches!(self.0, Kind::Any(_))
    }

    /// Returns true if it is complete, in one piece.
    pub(crate) fn is_whole(&self) -> bool {
        matches!(self.0, Kind::Empty | Kind::Whole(_) | Kind::Line(_))
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match &mut self.0 {
            Kind::Empty => Poll::Ready(None),
            Kind::Whole(bytes) => {
                let bytes = std::mem::take(bytes);
                self.0 = Kind::Empty;
                Poll::Ready(Some(Ok(Frame::data(bytes))))
            }
            Kind::Line(text) => {
                let text = std::mem::take(text);
                self.0 = Kind::Whole(Bytes::from_static(b"\n"));
                Poll::Ready(Some(Ok(Frame::data(text))))
            }
            Kind::Document(document) => Poll::Ready(document.read().map(|text| Ok(Frame::data(text)))),
            Kind::Any(body) => Pin::new(body).poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Kind::Empty => true,
            Kind::Whole(_) | Kind::Line(_) => false,
            Kind::Document(document) => document.is_read(),
            Kind::Any(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Empty => SizeHint::with_exact(0),
            Kind::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Kind::Line(text) => SizeHint::with_exact(text.len() as u64 + 1),
            Kind::Document(document) => SizeHint::with_exact(document.len() as u64),
            Kind::Any(body) => body.size_hint(),
        }
    }
}

/// A body that holds a value until its last byte is sent or it is dropped.
#[derive(Debug)]
pub struct Holding<T> {
    body: Body,
    _held: T,
}

impl<T> Holding<T> {
    /// Returns `body` with the value that it holds.
    pub fn new(body: Body, held: T) -> Self {
        Self { body, _held: held }
    }
}

impl<T: Unpin> http_body::Body for Holding<T> {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A callable peer: a router in the same process, a link, a pool of sockets. It may be called at any time. Clones refer
/// to the same peer and are cheap: each call clones it.
#[derive(Clone)]
pub struct HttpService(Arc<dyn Fn(Request<Body>) -> Calling + Send + Sync>);

impl HttpService {
    /// Creates a peer that answers with `answer`.
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

/// Creates a body of known bytes.
pub fn full(bytes: impl Into<Bytes>) -> Body {
    let bytes = bytes.into();
    Body(if bytes.is_empty() { Kind::Empty } else { Kind::Whole(bytes) })
}

/// Creates an empty body.
pub fn empty() -> Body {
    Body::default()
}

/// Converts any body; one of this type stays as it is.
pub fn boxed<B>(body: B) -> Body
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let mut body = Some(body);
    if let Some(ours) = (&mut body as &mut dyn Any).downcast_mut::<Option<Body>>() {
        return ours.take().unwrap_or_default();
    }
    body.map_or_else(empty, |body| Body(Kind::Any(body.map_err(Into::into).boxed_unsync())))
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

/// Pieces of a body. A single one, the usual case, is not copied.
#[derive(Debug, Default)]
pub struct Pieces {
    first: Bytes,
    more: BytesMut,
}

impl Pieces {
    /// Adds the next piece.
    pub fn push(&mut self, piece: Bytes) {
        if self.is_empty() {
            self.first = piece;
            return;
        }
        self.more.extend_from_slice(&std::mem::take(&mut self.first));
        self.more.extend_from_slice(&piece);
    }

    /// Returns the number of bytes.
    pub fn len(&self) -> usize {
        self.first.len() + self.more.len()
    }

    /// Returns true if there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Joins the pieces.
    pub fn join(self) -> Bytes {
        if self.more.is_empty() { self.first } else { self.more.freeze() }
    }
}

/// Reads a whole body of at most `limit` bytes. The boxed future has a nameable type, so that it fits into spawned
/// tasks.
///
/// # Errors
/// The body's own error, or that it is longer than `limit`.
pub fn collect(body: Body, limit: usize) -> BoxFuture<'static, Result<Bytes, BoxError>> {
    Box::pin(async move {
        let mut body = body;
        let mut whole = Pieces::default();
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame?.into_data() else { continue };
            whole.push(data);
            if whole.len() > limit {
                return Err(format!("the body is longer than {limit} bytes").into());
            }
        }
        Ok(whole.join())
    })
}

/// Calls a peer once.
pub fn call(service: HttpService, request: Request<Body>) -> Calling {
    (service.0)(request)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_line_is_its_text_and_a_newline_and_its_text_is_shared() {
        let text = Bytes::from_static(b"{}");
        let body = Body::line(text.clone());
        assert_eq!(http_body::Body::size_hint(&body).exact(), Some(3));
        assert_eq!(collect(body, 3).await.unwrap(), "{}\n");
        let mut body = Body::line(text.clone());
        assert!(body.is_whole());
        let taken = body.take_line().unwrap();
        assert_eq!(taken.as_ptr(), text.as_ptr());
        assert_eq!((body.take_line(), collect(body, 3).await.unwrap()), (None, Bytes::new()));
        assert_eq!(full("x").take_line(), None);
    }
}
