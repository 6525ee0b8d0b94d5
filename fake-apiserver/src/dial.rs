//! Connections to admission webhooks and to the servers of nodes over TLS: the only ones that this server opens.

use std::future::Future;
use std::net::{IpAddr, Ipv6Addr};
use std::pin::Pin;
use std::sync::Arc;

use http::{Request, Response, Uri};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use substrate::Ctx;
use substrate::body::{Body, BoxError, HttpService, boxed};
use substrate::dial::any_certificate;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::service::{Dial, Endpoint, NodeDial, NodeEndpoint, Origin};
use crate::tls::Credentials;
use crate::trust::Bundle;

/// Dials webhooks over sockets, with a connection per call.
pub fn webhooks() -> Dial {
    Arc::new(|ctx: &Ctx, endpoint: &Endpoint| {
        let uri: Uri = endpoint.url.parse()?;
        if uri.scheme_str() != Some("https") {
            return Err(format!("{}: must be https", endpoint.url).into());
        }
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let port = uri.port_u16().unwrap_or(443);
        let name = ServerName::try_from(endpoint.server_name.clone().unwrap_or_else(|| host.clone()))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let bundle = Arc::new(Bundle::parse(&endpoint.ca_pem, provider.clone())?);
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .dangerous()
            .with_custom_certificate_verifier(bundle)
            .with_no_client_auth();
        let (ctx, connector) = (ctx.clone(), TlsConnector::from(Arc::new(config)));
        Ok(HttpService::new(move |request| {
            Box::pin(call(ctx.clone(), connector.clone(), name.clone(), (host.clone(), port), request))
        }))
    })
}

/// Connects to another API server at `host:port` with a client certificate, with a connection per call. `ca_pem` is the
/// authority of its certificate.
///
/// # Errors
/// If a certificate or the key is not PEM, or they do not belong together.
pub fn origin(address: (IpAddr, u16), ca_pem: &[u8], client: &Credentials) -> Result<Origin, BoxError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let bundle = Arc::new(Bundle::parse(ca_pem, provider.clone())?);
    let certificates = CertificateDer::pem_slice_iter(client.certificate.as_bytes()).collect::<Result<Vec<_>, _>>()?;
    let key = PrivateKeyDer::from_pem_slice(client.key.as_bytes())?;
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(bundle)
        .with_client_auth_cert(certificates, key)?;
    let (connector, name) = (TlsConnector::from(Arc::new(config)), ServerName::from(address.0));
    Ok(Origin::new(move |ctx| {
        let (ctx, connector, name) = (ctx.clone(), connector.clone(), name.clone());
        let target = (address.0.to_string(), address.1);
        Ok(HttpService::new(move |request| {
            Box::pin(call(ctx.clone(), connector.clone(), name.clone(), target.clone(), request))
        }))
    }))
}

/// Dials the servers of nodes over sockets, with a connection per call. Their certificates are self-signed and not
/// verified, as by an API server without a kubelet CA.
///
/// A client that may write a node's status sets its address. So only loopback and private addresses are dialled: no
/// names, no link-local addresses (the metadata services of clouds), and no public ones.
pub fn nodes() -> NodeDial {
    Arc::new(|ctx: &Ctx, place: &NodeEndpoint| {
        let address: IpAddr = place.host.parse().map_err(|_| format!("{:?} is not an IP address", place.host))?;
        if !may_be_a_node(address) {
            return Err(format!("{address} is neither a loopback nor a private address: it is not dialled").into());
        }
        let (ctx, connector) = (ctx.clone(), TlsConnector::from(Arc::new(any_certificate()?)));
        let (name, target) = (ServerName::from(address), (address.to_string(), place.port));
        Ok(HttpService::new(move |request| {
            Box::pin(call(ctx.clone(), connector.clone(), name.clone(), target.clone(), request))
        }))
    })
}

fn may_be_a_node(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_loopback() || v4.is_private(),
        IpAddr::V6(v6) => v6 == Ipv6Addr::LOCALHOST || v6.is_unique_local(),
    }
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
            // An error of the connection also ends the call, which reports it.
            let _ = connection.await;
        });
        let bare = address.0.as_str();
        let host = if bare.contains(':') { format!("[{bare}]:{}", address.1) } else { format!("{bare}:{}", address.1) };
        request.headers_mut().insert(http::header::HOST, host.parse()?);
        let path = request.uri().path_and_query().map_or("/", |p| p.as_str()).to_owned();
        *request.uri_mut() = path.parse()?;
        Ok(sender.send_request(request).await?.map(boxed))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_and_private_addresses_are_nodes() {
        for (address, may) in [
            ("127.0.0.1", true),
            ("::1", true),
            ("10.1.2.3", true),
            ("172.31.0.1", true),
            ("192.168.0.1", true),
            ("fd00::1", true),
            ("169.254.169.254", false),
            ("8.8.8.8", false),
            ("0.0.0.0", false),
            ("fe80::1", false),
            ("::ffff:169.254.169.254", false),
            ("2001:db8::1", false),
        ] {
            assert_eq!(may_be_a_node(address.parse().unwrap()), may, "{address}");
        }
    }
}
