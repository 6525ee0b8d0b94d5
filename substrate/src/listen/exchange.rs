//! A request and its answer on a connection. The body must arrive in time, and the connection knows the duration of
//! both.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{Request, Response};
use http_body::{Body as _, Frame, SizeHint};
use hyper::body::Incoming as HyperBody;
use tokio::time::{Instant, Sleep};
use tower::Service;

use super::PeerCertificate;
use super::life::{Asked, Life};
use crate::body::{BoxError, Holding, HttpService, boxed};

/// Adapts a peer to hyper's types.
#[derive(Clone)]
pub(crate) struct Incoming {
    pub(crate) service: HttpService,
    pub(crate) certificate: Option<PeerCertificate>,
    /// The connection, if its lifetime is tracked.
    pub(crate) life: Option<Arc<Life>>,
}

impl Service<Request<HyperBody>> for Incoming {
    type Response = Response<Answer>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<Answer>, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.service.poll_ready(cx)
    }

    fn call(&mut self, request: Request<HyperBody>) -> Self::Future {
        let asked = self.life.as_ref().map(Life::request);
        let mut request = match &self.life {
            Some(life) if !request.body().is_end_stream() => {
                let life = life.clone();
                request.map(|body| boxed(Timed { body, life, due: None, waits: false }))
            }
            _ => request.map(boxed),
        };
        if let Some(certificate) = &self.certificate {
            request.extensions_mut().insert(certificate.clone());
        }
        let answering = self.service.call(request);
        Box::pin(async move { Ok(answering.await?.map(|body| Answer::new(body, asked))) })
    }
}

/// Body of an answer; the request ends with its last byte.
pub(crate) type Answer = Holding<Option<Asked>>;

/// the rest of the request's body did not arrive in time
#[derive(Clone, Copy, Debug, displaydoc::Display, thiserror::Error)]
struct Late;

/// Body of a request whose next piece must arrive in time.
struct Timed {
    body: HyperBody,
    life: Arc<Life>,
    due: Option<Pin<Box<Sleep>>>,
    /// True while the next piece is awaited.
    waits: bool,
}

impl http_body::Body for Timed {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        if let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(cx) {
            this.waits = false;
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        let due = this.due.get_or_insert_with(|| Box::pin(tokio::time::sleep(this.life.timeouts.body)));
        if !std::mem::replace(&mut this.waits, true) {
            due.as_mut().reset(Instant::now() + this.life.timeouts.body);
        }
        due.as_mut().poll(cx).map(|()| Some(Err(Late.into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
