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

/// The certificate by which a client proved who it is, DER: an extension of every request on its connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerCertificate(pub Arc<[u8]>);

/// Adapts a peer to what hyper hands out.
#[derive(Clone)]
pub(crate) struct Incoming(pub(crate) HttpService, pub(crate) Option<PeerCertificate>);

impl Service<Request<HyperBody>> for Incoming {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<Body>, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: Request<HyperBody>) -> Self::Future {
        let mut request = request.map(boxed);
        if let Some(certificate) = &self.1 {
            request.extensions_mut().insert(certificate.clone());
        }
        Box::pin(self.0.call(request))
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
                None => connection(stream, service, None).await,
                Some(acceptor) => {
                    // A failed handshake is the client's to report.
                    if let Ok(stream) = acceptor.accept(stream).await {
                        let shown = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
                        let certificate = shown.map(|certificate| PeerCertificate(certificate.as_ref().into()));
                        connection(stream, service, certificate).await;
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
        ctx.spawn(async move { connection(stream, service, None).await });
    }
}

async fn connection(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    service: HttpService,
    certificate: Option<PeerCertificate>,
) {
    // A connection that breaks is not an event of the domain.
    let _ = Builder::new(TokioExecutor::new())
        .serve_connection_with_upgrades(TokioIo::new(stream), TowerToHyperService::new(Incoming(service, certificate)))
        .await;
}
