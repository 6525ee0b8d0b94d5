//! Serves a peer on sockets: TCP with or without TLS, unix. The loop only; each server's `serve` chooses addresses.

use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::future::BoxFuture;
use http::{Request, Response};
use hyper::body::Incoming as HyperBody;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tower::Service;

use crate::body::{Body, BoxError, HttpService, boxed};
use crate::process::Ctx;

/// Adapts a peer to what hyper hands out.
#[derive(Clone)]
pub(crate) struct Incoming(pub(crate) HttpService);

impl Service<Request<HyperBody>> for Incoming {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<Body>, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: Request<HyperBody>) -> Self::Future {
        Box::pin(self.0.call(request.map(boxed)))
    }
}

/// Accepts TCP connections for ever and serves HTTP/1.1 and HTTP/2 on them, within process `ctx`.
pub async fn tcp(ctx: Ctx, listener: TcpListener, service: HttpService, tls: Option<Arc<rustls::ServerConfig>>) {
    let acceptor = tls.map(tokio_rustls::TlsAcceptor::from);
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // Out of descriptors: the next accept would fail at once too.
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            continue;
        };
        // Small answers must not wait for more bytes.
        let _ = stream.set_nodelay(true);
        let (service, acceptor) = (service.clone(), acceptor.clone());
        ctx.spawn(async move {
            match acceptor {
                None => connection(stream, service).await,
                Some(acceptor) => {
                    // A failed handshake is the client's to report.
                    if let Ok(stream) = acceptor.accept(stream).await {
                        connection(stream, service).await;
                    }
                }
            }
        });
    }
}

/// Accepts connections on a unix socket for ever.
pub async fn unix(ctx: Ctx, listener: UnixListener, service: HttpService) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            continue;
        };
        let service = service.clone();
        ctx.spawn(async move { connection(stream, service).await });
    }
}

async fn connection(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, service: HttpService) {
    // A connection that breaks is not an event of the domain.
    let _ = Builder::new(TokioExecutor::new())
        .serve_connection_with_upgrades(TokioIo::new(stream), TowerToHyperService::new(Incoming(service)))
        .await;
}
