//! Serves a peer on sockets: TCP with or without TLS, and any accepted stream. Each server's `serve` chooses the
//! addresses.

mod authority;
mod exchange;
mod life;
#[cfg(test)]
mod tests;
mod unix;

use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::body::HttpService;
use crate::duplex::Tasks;
use crate::process::Ctx;

pub(crate) use exchange::Incoming;
pub use life::ConnectionTimeouts;
pub use unix::{SocketError, accept_unix, bind_unix, socket_path, unix};

use life::{ConnectionSet, Life, Membership, ObservedStream};

/// Verified client certificate, DER, with the further certificates that the client sent: an extension of every request
/// on its connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerCertificate(pub Arc<[u8]>, pub Arc<[Vec<u8>]>);

impl PeerCertificate {
    /// Creates a certificate without further ones.
    pub fn of(certificate: impl Into<Arc<[u8]>>) -> Self {
        Self(certificate.into(), Arc::default())
    }
}

/// Maximum size of a request line with its headers in bytes, as in Go's net/http (`DefaultMaxHeaderBytes`). The `http`
/// crate limits a path with its query to 65,534 bytes.
const HEAD_BYTES: usize = 1 << 20;
/// The same limit for HTTP/2.
const HEAD_LIST_BYTES: u32 = 1 << 20;
/// Maximum number of headers of a request over HTTP/1.1. Go has no limit, and impersonation can take hundreds of
/// groups.
const HEADERS: usize = 512;

/// Pause after a failed accept: without free descriptors the next one would fail at once, too.
const AGAIN: Duration = Duration::from_millis(50);
/// Time that a connection has to close after it was asked to.
const FAREWELL: Duration = Duration::from_secs(1);
/// Answer if there is no room and no idle connection to close; the client retries.
const BUSY: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: text/plain\r\nretry-after: 1\r\n\
                      connection: close\r\ncontent-length: 21\r\n\r\ntoo many connections\n";

/// Accepts TCP connections forever and serves HTTP/1.1 and HTTP/2 on them, within process `ctx`.
pub async fn tcp(ctx: Ctx, listener: TcpListener, service: HttpService, tls: Option<Arc<rustls::ServerConfig>>) {
    tcp_with(ctx, listener, service, tls, ConnectionTimeouts::API).await;
}

/// Like [`tcp`], with another `timeouts`.
pub async fn tcp_with(
    ctx: Ctx,
    listener: TcpListener,
    service: HttpService,
    tls: Option<Arc<rustls::ServerConfig>>,
    timeouts: ConnectionTimeouts,
) {
    let admission = Admission::of(&ctx);
    accept(ctx, listener, service, tls, timeouts, admission).await;
}

async fn accept(
    ctx: Ctx,
    listener: TcpListener,
    service: HttpService,
    tls: Option<Arc<rustls::ServerConfig>>,
    timeouts: ConnectionTimeouts,
    admission: Admission,
) {
    let acceptor = tls.map(tokio_rustls::TlsAcceptor::from);
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            admission.connections.make_room();
            tokio::time::sleep(AGAIN).await;
            continue;
        };
        let life = Life::begin(timeouts);
        let Some(place) = admission.enter(&life) else {
            // Over TLS an answer would need a handshake, which costs more than the answer.
            let plain = acceptor.is_none();
            ctx.spawn(async move { turn_away(stream, plain).await });
            continue;
        };
        // Small answers must not wait for more bytes.
        let _ = stream.set_nodelay(true);
        let (own, service, acceptor) = (ctx.clone(), service.clone(), acceptor.clone());
        ctx.spawn(async move {
            let _place = place;
            match acceptor {
                None => served(own, Box::new(stream), service, None, life).await,
                Some(acceptor) => {
                    // The client reports a failed handshake.
                    if let Ok(Ok(stream)) = tokio::time::timeout(timeouts.head, acceptor.accept(stream)).await {
                        let shown = stream.get_ref().1.peer_certificates().and_then(|chain| chain.split_first());
                        let certificate = shown.map(|(first, rest)| {
                            PeerCertificate(
                                first.as_ref().into(),
                                rest.iter().map(|one| one.as_ref().to_vec()).collect(),
                            )
                        });
                        served(own, Box::new(stream), service, certificate, life).await;
                    }
                }
            }
        });
    }
}

/// Serves HTTP on an accepted stream, within process `ctx`, until it ends.
pub async fn stream(
    ctx: Ctx,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    service: HttpService,
    timeouts: ConnectionTimeouts,
) {
    let life = Life::begin(timeouts);
    // The protocol is not known yet, so the client gets no answer.
    let Some(_place) = Admission::of(&ctx).enter(&life) else { return };
    served(ctx, Box::new(stream), service, None, life).await;
}

/// Closes all connections of the world of `ctx`. No new ones are accepted, and requests under way have a second to
/// finish. HTTP/2 clients receive GOAWAY.
pub async fn farewell(ctx: &Ctx) {
    let connections: Arc<ConnectionSet> = ctx.world().common();
    connections.dismiss();
    let _ = tokio::time::timeout(2 * FAREWELL, connections.emptied()).await;
}

/// Closes an idle connection after an accept failed, and waits until another attempt makes sense.
pub async fn make_room(ctx: &Ctx) {
    Admission::of(ctx).connections.make_room();
    tokio::time::sleep(AGAIN).await;
}

/// Admission of connections, on all ports of a process together.
#[derive(Debug)]
struct Admission {
    connections: Arc<ConnectionSet>,
    most: usize,
}

impl Admission {
    fn of(ctx: &Ctx) -> Self {
        Self { connections: ctx.world().common(), most: life::most() }
    }

    /// Admits a connection; `None` if there is no room and no idle connection to close.
    fn enter(&self, life: &Arc<Life>) -> Option<Membership> {
        let room = self.connections.len() < self.most || self.connections.make_room();
        let room = room && !self.connections.is_dismissed();
        room.then(|| self.connections.enter(life))
    }
}

async fn turn_away(mut stream: TcpStream, plain: bool) {
    if plain {
        // A client that does not read the answer is gone.
        let message = async {
            let _ = stream.write_all(BUSY).await;
            let _ = stream.shutdown().await;
            // If bytes were left unread, closing would reset the connection before the client has read the answer.
            let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
        };
        let _ = tokio::time::timeout(FAREWELL, message).await;
    }
}

/// Any stream of bytes. A trait object, because HTTP over it is large code that should be compiled once.
trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

async fn served(
    ctx: Ctx,
    stream: Box<dyn Stream>,
    service: HttpService,
    certificate: Option<PeerCertificate>,
    life: Arc<Life>,
) {
    let io = TokioIo::new(ObservedStream { stream, life: life.clone() });
    let incoming = Incoming { service, certificate, life: Some(life.clone()) };
    let mut builder = Builder::new(Tasks(ctx));
    builder.http1().max_buf_size(HEAD_BYTES).max_headers(HEADERS);
    builder.http2().max_header_list_size(HEAD_LIST_BYTES);
    let mut connection = std::pin::pin!(builder.serve_connection_with_upgrades(io, TowerToHyperService::new(incoming)));
    tokio::select! { biased;
        // A broken connection is not an event of the domain.
        _ = connection.as_mut() => return,
        () = life.evicted() => return,
        () = life.over() => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = tokio::time::timeout(FAREWELL, connection).await;
}
