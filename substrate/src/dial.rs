//! Connections to peers over sockets: HTTP over TCP with or without TLS, gRPC (HTTP/2) over a unix socket or TCP.

mod tls;

use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::BoxFuture;
use http::Uri;
use http::header::{AUTHORIZATION, HeaderValue};
use http::uri::PathAndQuery;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tower::Service;

use crate::body::{Body, BoxError, HttpService, boxed, call};
pub use tls::{PlainHttp, any_certificate};

/// Size of the read buffer of a connection in bytes.
const READ_BUFFER: usize = 16 << 10;

/// Creates a pooled HTTP client of the server at `endpoint` (`http://127.0.0.1:4566`).
///
/// # Errors
/// If the endpoint is not an `http://` address.
pub fn http(endpoint: &str) -> Result<HttpService, BoxError> {
    let base: Uri = endpoint.parse()?;
    if base.scheme_str() != Some("http") || base.authority().is_none() {
        return Err(format!("endpoint `{endpoint}`: must be http://HOST:PORT").into());
    }
    // A watch stays open for hours, and an adaptive buffer would keep the size of its largest burst.
    let client =
        Client::builder(TokioExecutor::new()).http1_read_buf_exact_size(READ_BUFFER).build(Connector::Tcp(connector()));
    Ok(based(client, base))
}

/// Creates a pooled HTTP client of the TLS server at `endpoint` (`https://127.0.0.1:8443`). It accepts every certificate,
/// and uses HTTP/2 if the server offers it. If the server answers without TLS, a call fails with [`PlainHttp`].
///
/// # Errors
/// If the endpoint is not an `https://` address.
pub fn https(endpoint: &str) -> Result<HttpService, BoxError> {
    let base: Uri = endpoint.parse()?;
    if base.scheme_str() != Some("https") || base.authority().is_none() {
        return Err(format!("endpoint `{endpoint}`: must be https://HOST:PORT").into());
    }
    let mut config = any_certificate()?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let mut tcp = connector();
    tcp.enforce_http(false);
    let connector = Connector::Tls(tcp, TlsConnector::from(Arc::new(config)));
    let client = Client::builder(TokioExecutor::new()).http1_read_buf_exact_size(READ_BUFFER).build(connector);
    Ok(based(client, base))
}

/// TCP keepalive: time of silence before the kernel probes the other end, and interval of the probes.
const ASK: Duration = Duration::from_secs(10);
/// Time after which unacknowledged data break the connection. client-go gives up after 45 s, too.
#[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
const DEAD: Duration = Duration::from_secs(45);

fn connector() -> HttpConnector {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    // A peer that was cut off sends nothing, so a watch would wait for it forever.
    connector.set_keepalive(Some(ASK));
    connector.set_keepalive_interval(Some(ASK));
    connector.set_keepalive_retries(Some(3));
    #[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
    connector.set_tcp_user_timeout(Some(DEAD));
    connector
}

/// Returns a peer that receives `token` as bearer token with every request.
///
/// # Errors
/// If the token has characters that a header cannot carry.
pub fn bearing(peer: HttpService, token: &str) -> Result<HttpService, BoxError> {
    let mut value = HeaderValue::from_str(&format!("Bearer {token}"))?;
    value.set_sensitive(true);
    Ok(HttpService::new(move |mut request| {
        request.headers_mut().insert(AUTHORIZATION, value.clone());
        call(peer.clone(), request)
    }))
}

/// Creates a pooled gRPC (HTTP/2) client of the server at `endpoint`: `unix:///PATH`, or `tcp://HOST:PORT` without TLS.
///
/// # Errors
/// If the endpoint is neither.
pub fn grpc(endpoint: &str) -> Result<HttpService, BoxError> {
    let wrong = || format!("endpoint `{endpoint}`: must be unix:///ABSOLUTE/PATH or tcp://HOST:PORT");
    if let Some(path) = endpoint.strip_prefix("unix://") {
        return if path.starts_with('/') { Ok(unix(path)) } else { Err(wrong().into()) };
    }
    let authority = endpoint.strip_prefix("tcp://").ok_or_else(wrong)?;
    let base: Uri = format!("http://{authority}").parse().map_err(|_| wrong())?;
    if base.port_u16().is_none() || base.path() != "/" {
        return Err(wrong().into());
    }
    let client = Client::builder(TokioExecutor::new()).http2_only(true).build(Connector::Tcp(connector()));
    Ok(based(client, base))
}

/// Creates a pooled gRPC (HTTP/2) client of the socket at `path`. Reconnects when the socket is re-created.
pub fn unix(path: impl Into<PathBuf>) -> HttpService {
    let client = Client::builder(TokioExecutor::new()).http2_only(true).build(Connector::Unix(path.into()));
    based(client, Uri::from_static("http://localhost"))
}

/// Sends each request to `base`, regardless of the host that it names.
fn based(client: Client<Connector, Body>, base: Uri) -> HttpService {
    HttpService::new(move |mut request| {
        let mut parts = base.clone().into_parts();
        parts.path_and_query = Some(request.uri().path_and_query().cloned().unwrap_or(PathAndQuery::from_static("/")));
        let client = client.clone();
        Box::pin(async move {
            *request.uri_mut() = Uri::from_parts(parts)?;
            Ok(client.request(request).await?.map(boxed))
        })
    })
}

/// Connects over TCP, TLS or a unix socket. One type for all, because the client is large code.
#[derive(Clone)]
enum Connector {
    Tcp(HttpConnector),
    Tls(HttpConnector, TlsConnector),
    Unix(PathBuf),
}

impl Service<Uri> for Connector {
    type Response = Io;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Io, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        match self {
            Self::Tcp(connector) | Self::Tls(connector, _) => connector.poll_ready(cx).map_err(Into::into),
            Self::Unix(_) => Poll::Ready(Ok(())),
        }
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        match self {
            Self::Tcp(connector) => {
                let connected = connector.call(uri);
                Box::pin(async move { Ok(Io::Tcp(connected.await?)) })
            }
            Self::Tls(connector, tls) => {
                let host = uri.host().unwrap_or_default().to_owned();
                let (connected, tls) = (connector.call(uri), tls.clone());
                Box::pin(async move {
                    let stream = tls::handshake(tls, &host, connected.await?.into_inner()).await?;
                    Ok(Io::Tls(Box::new(TokioIo::new(stream))))
                })
            }
            Self::Unix(path) => {
                let path = path.clone();
                Box::pin(async move { Ok(Io::Unix(TokioIo::new(UnixStream::connect(path).await?))) })
            }
        }
    }
}

enum Io {
    Tcp(TokioIo<TcpStream>),
    Tls(Box<TokioIo<TlsStream<tls::FirstBytes>>>),
    Unix(TokioIo<UnixStream>),
}

impl Connection for Io {
    fn connected(&self) -> Connected {
        match self {
            Self::Tcp(stream) => stream.connected(),
            Self::Tls(stream) if stream.inner().get_ref().1.alpn_protocol() == Some(&b"h2"[..]) => {
                Connected::new().negotiated_h2()
            }
            Self::Tls(_) => Connected::new(),
            Self::Unix(_) => Connected::new(),
        }
    }
}

impl hyper::rt::Read for Io {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: hyper::rt::ReadBufCursor<'_>,
    ) -> Poll<std::io::Result<()>> {
        match &mut *self {
            Self::Tcp(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Tls(stream) => Pin::new(&mut **stream).poll_read(cx, buf),
            Self::Unix(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl hyper::rt::Write for Io {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<std::io::Result<usize>> {
        match &mut *self {
            Self::Tcp(stream) => Pin::new(stream).poll_write(cx, buf),
            Self::Tls(stream) => Pin::new(&mut **stream).poll_write(cx, buf),
            Self::Unix(stream) => Pin::new(stream).poll_write(cx, buf),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        match &mut *self {
            Self::Tcp(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tls(stream) => Pin::new(&mut **stream).poll_flush(cx),
            Self::Unix(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        match &mut *self {
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(&mut **stream).poll_shutdown(cx),
            Self::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        match &mut *self {
            Self::Tcp(stream) => Pin::new(stream).poll_write_vectored(cx, pieces),
            Self::Tls(stream) => Pin::new(&mut **stream).poll_write_vectored(cx, pieces),
            Self::Unix(stream) => Pin::new(stream).poll_write_vectored(cx, pieces),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Tcp(stream) => stream.is_write_vectored(),
            Self::Tls(stream) => stream.is_write_vectored(),
            Self::Unix(stream) => stream.is_write_vectored(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_request_carries_the_token_and_no_other() {
        let echo = HttpService::new(|request| {
            let message = request.headers().get(AUTHORIZATION).and_then(|v| v.to_str().ok()).map(str::to_owned);
            Box::pin(async move { Ok(http::Response::new(crate::body::full(message.unwrap_or_default()))) })
        });
        let peer = bearing(echo, "word-of-eight").unwrap();
        let request = http::Request::get("/").header(AUTHORIZATION, "Bearer other").body(crate::body::empty()).unwrap();
        let body = http_body_util::BodyExt::collect(call(peer, request).await.unwrap().into_body()).await.unwrap();
        assert_eq!(body.to_bytes(), "Bearer word-of-eight");
        assert!(bearing(HttpService::new(|_| unreachable!()), "two\nlines").is_err());
    }

    #[test]
    fn an_endpoint_with_tls_is_an_https_address() {
        assert!(https("https://127.0.0.1:8443").is_ok() && https("https://[::1]:8443").is_ok());
        for bad in ["", "http://127.0.0.1:80", "/path"] {
            assert!(https(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_grpc_endpoint_is_a_unix_socket_or_a_tcp_port() {
        for good in ["unix:///run/csi.sock", "tcp://127.0.0.1:9000", "tcp://localhost:9000", "tcp://[::1]:9000"] {
            assert!(grpc(good).is_ok(), "{good}");
        }
        for bad in ["", "/run/csi.sock", "unix://csi.sock", "tcp://", "tcp://localhost", "tcp://h:1/x", "http://h:1"] {
            let error = grpc(bad).err().map(|e| e.to_string()).unwrap_or_default();
            assert!(error.contains(&format!("`{bad}`")), "{bad}: {error}");
        }
    }
}
