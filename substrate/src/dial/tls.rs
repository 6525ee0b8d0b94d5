//! Clients of TLS servers whose certificates are not verified.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::body::BoxError;

/// Beginning of an answer by HTTP/1.
const HTTP: &[u8] = b"HTTP/";

/// http: server gave HTTP response to HTTPS client
#[derive(Clone, Copy, Debug, PartialEq, Eq, displaydoc::Display, thiserror::Error)]
pub struct PlainHttp;

/// Returns the configuration of a client that accepts every certificate whose key the server holds
/// (`InsecureSkipVerify`).
///
/// # Errors
/// If no version of TLS is available.
pub fn any_certificate() -> Result<ClientConfig, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = Arc::new(AnyCertificate(provider.clone()));
    Ok(ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth())
}

/// Accepts every certificate whose key the server holds.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// Makes the handshake with the server `host` on a new connection.
///
/// # Errors
/// [`PlainHttp`] if the server answers by HTTP without TLS; other errors of the handshake.
pub(super) async fn handshake(
    connector: TlsConnector,
    host: &str,
    stream: TcpStream,
) -> Result<TlsStream<FirstBytes>, BoxError> {
    let name = ServerName::try_from(host.trim_matches(['[', ']']).to_owned())?;
    let kept = FirstBytes { stream, first: Vec::new() };
    match connector.connect(name, kept).into_fallible().await {
        Ok(stream) => Ok(stream),
        Err((_, kept)) if kept.first == HTTP => Err(PlainHttp.into()),
        Err((error, _)) => Err(error.into()),
    }
}

/// Connection that keeps the first bytes from the peer.
pub(super) struct FirstBytes {
    stream: TcpStream,
    first: Vec<u8>,
}

impl AsyncRead for FirstBytes {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<std::io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buf);
        let missing = HTTP.len().saturating_sub(self.first.len());
        self.first.extend(buf.filled().iter().skip(before).take(missing));
        polled
    }
}

impl AsyncWrite for FirstBytes {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
