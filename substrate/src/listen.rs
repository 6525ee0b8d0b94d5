//! Serves a peer on sockets: TCP with or without TLS, and whatever stream somebody accepted. Each server's `serve`
//! chooses addresses.

mod exchange;
mod life;
#[cfg(test)]
mod tests;

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
pub use life::Patience;
use life::{Crowd, Heard, Life, Place};

/// The certificate by which a client proved who it is, DER, and those that it sent with it: an extension of every request
/// on its connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerCertificate(pub Arc<[u8]>, pub Arc<[Vec<u8>]>);

impl PeerCertificate {
    /// A certificate without others.
    pub fn of(certificate: impl Into<Arc<[u8]>>) -> Self {
        Self(certificate.into(), Arc::default())
    }
}

/// Bytes of a request line with its headers that are read, as by Go's net/http (`DefaultMaxHeaderBytes`). A path with its
/// query has 65,534 bytes at most, which the `http` crate fixes.
const HEAD_BYTES: usize = 1 << 20;
/// The same for HTTP/2.
const HEAD_LIST_BYTES: u32 = 1 << 20;
/// Headers of a request over HTTP/1.1: Go sets no limit, and a user can be impersonated with hundreds of groups.
const HEADERS: usize = 512;

/// How long an accept that failed waits: out of descriptors, the next one would fail at once too.
const AGAIN: Duration = Duration::from_millis(50);
/// How long a connection that is told to end may take for it.
const FAREWELL: Duration = Duration::from_secs(1);
/// What a client gets when there is no room and nobody idle: it asks again.
const BUSY: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: text/plain\r\nretry-after: 1\r\n\
                      connection: close\r\ncontent-length: 21\r\n\r\ntoo many connections\n";

/// Accepts TCP connections for ever and serves HTTP/1.1 and HTTP/2 on them, within process `ctx`.
pub async fn tcp(ctx: Ctx, listener: TcpListener, service: HttpService, tls: Option<Arc<rustls::ServerConfig>>) {
    tcp_with(ctx, listener, service, tls, Patience::API).await;
}

/// As [`tcp`], with `patience` of its own.
pub async fn tcp_with(
    ctx: Ctx,
    listener: TcpListener,
    service: HttpService,
    tls: Option<Arc<rustls::ServerConfig>>,
    patience: Patience,
) {
    let doors = Doors::of(&ctx);
    accept(ctx, listener, service, tls, patience, doors).await;
}

async fn accept(
    ctx: Ctx,
    listener: TcpListener,
    service: HttpService,
    tls: Option<Arc<rustls::ServerConfig>>,
    patience: Patience,
    doors: Doors,
) {
    let acceptor = tls.map(tokio_rustls::TlsAcceptor::from);
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            doors.crowd.make_room();
            tokio::time::sleep(AGAIN).await;
            continue;
        };
        let life = Life::begin(patience);
        let Some(place) = doors.enter(&life) else {
            // Over TLS, nothing can be said before the handshake, which costs more than an answer.
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
                    // A failed handshake is the client's to report.
                    if let Ok(Ok(stream)) = tokio::time::timeout(patience.head, acceptor.accept(stream)).await {
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

/// Serves HTTP on a stream that somebody accepted, within process `ctx`, until it ends.
pub async fn stream(
    ctx: Ctx,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    service: HttpService,
    patience: Patience,
) {
    let life = Life::begin(patience);
    // Nothing can be said to a client whose protocol is not known.
    let Some(_place) = Doors::of(&ctx).enter(&life) else { return };
    served(ctx, Box::new(stream), service, None, life).await;
}

/// Ends all connections of the world of `ctx`: none begins any more, and requests under way have a second to end. Over
/// HTTP/2 clients are told so by GOAWAY.
pub async fn farewell(ctx: &Ctx) {
    let crowd: Arc<Crowd> = ctx.world().common();
    crowd.dismiss();
    let _ = tokio::time::timeout(2 * FAREWELL, crowd.emptied()).await;
}

/// Lets an idle connection make room, after an accept failed, and waits until another one makes sense.
pub async fn make_room(ctx: &Ctx) {
    Doors::of(ctx).crowd.make_room();
    tokio::time::sleep(AGAIN).await;
}

/// Where connections come in: all of a process, whichever port they come to.
#[derive(Debug)]
struct Doors {
    crowd: Arc<Crowd>,
    most: usize,
}

impl Doors {
    fn of(ctx: &Ctx) -> Self {
        Self { crowd: ctx.world().common(), most: life::most() }
    }

    /// Lets a connection in; nothing when there is no room and none that could make it.
    fn enter(&self, life: &Arc<Life>) -> Option<Place> {
        let room = self.crowd.len() < self.most || self.crowd.make_room();
        let room = room && !self.crowd.is_dismissed();
        room.then(|| self.crowd.enter(life))
    }
}

async fn turn_away(mut stream: TcpStream, plain: bool) {
    if plain {
        // Who does not read it is gone.
        let said = async {
            let _ = stream.write_all(BUSY).await;
            let _ = stream.shutdown().await;
            // Closed with bytes unread, it would be reset before the client has read the answer.
            let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
        };
        let _ = tokio::time::timeout(FAREWELL, said).await;
    }
}

/// Any stream of bytes: HTTP over it is large, and is compiled once.
trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

async fn served(
    ctx: Ctx,
    stream: Box<dyn Stream>,
    service: HttpService,
    certificate: Option<PeerCertificate>,
    life: Arc<Life>,
) {
    let io = TokioIo::new(Heard { stream, life: life.clone() });
    let incoming = Incoming { service, certificate, life: Some(life.clone()) };
    let mut builder = Builder::new(Tasks(ctx));
    builder.http1().max_buf_size(HEAD_BYTES).max_headers(HEADERS);
    builder.http2().max_header_list_size(HEAD_LIST_BYTES);
    let mut connection = std::pin::pin!(builder.serve_connection_with_upgrades(io, TowerToHyperService::new(incoming)));
    tokio::select! { biased;
        // A connection that breaks is not an event of the domain.
        _ = connection.as_mut() => return,
        () = life.evicted() => return,
        () = life.over() => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = tokio::time::timeout(FAREWELL, connection).await;
}
