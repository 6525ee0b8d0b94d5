//! Reaches admission webhooks over TLS: the only connections that this server makes.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use http::{Request, Response, Uri};
use hyper_util::rt::TokioIo;
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use substrate::Ctx;
use substrate::body::{Body, BoxError, HttpService, boxed};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::service::{Dial, Endpoint};

/// Dials webhooks by sockets, each call a connection of its own.
pub fn webhooks() -> Dial {
    Arc::new(|ctx: &Ctx, endpoint: &Endpoint| {
        let uri: Uri = endpoint.url.parse()?;
        if uri.scheme_str() != Some("https") {
            return Err(format!("{}: must be https", endpoint.url).into());
        }
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(&endpoint.ca_pem) {
            roots.add(certificate.map_err(|error| format!("caBundle: {error}"))?)?;
        }
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let port = uri.port_u16().unwrap_or(443);
        let name = ServerName::try_from(endpoint.server_name.clone().unwrap_or_else(|| host.clone()))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let (ctx, connector) = (ctx.clone(), TlsConnector::from(Arc::new(config)));
        Ok(HttpService::new(tower::service_fn(move |request: Request<Body>| {
            call(ctx.clone(), connector.clone(), name.clone(), (host.clone(), port), request)
        })))
    })
}

type Answer = Pin<Box<dyn Future<Output = Result<Response<Body>, BoxError>> + Send>>;

fn call(
    ctx: Ctx,
    connector: TlsConnector,
    name: ServerName<'static>,
    address: (String, u16),
    mut request: Request<Body>,
) -> Answer {
    Box::pin(async move {
        let stream = TcpStream::connect((address.0.as_str(), address.1)).await?;
        let stream = connector.connect(name, stream).await?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        ctx.spawn(async move {
            // Whatever ends the connection ends the call as well, which tells of it.
            let _ = connection.await;
        });
        let host = format!("{}:{}", address.0, address.1);
        request.headers_mut().insert(http::header::HOST, host.parse()?);
        let path = request.uri().path_and_query().map_or("/", |p| p.as_str()).to_owned();
        *request.uri_mut() = path.parse()?;
        Ok(sender.send_request(request).await?.map(boxed))
    })
}
