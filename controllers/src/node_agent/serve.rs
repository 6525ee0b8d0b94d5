//! Listeners of the programs `node-agent` and `controllers`, and connections of TCP probes. The only file that names
//! sockets.
//!
//! Like kubelet, a node agent uses TLS and a self-signed certificate, which the API server verifies only if it has a CA.
//! Metrics of control loops are served without TLS, like those of sidecars.

use std::net::SocketAddr;
use std::sync::Arc;

use rcgen::{CertificateParams, DnType, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use substrate::guard::guard;
use substrate::{Ctx, HttpService, listen};
use tokio::net::{TcpListener, TcpStream};

/// Error of the listener.
#[derive(Debug, displaydoc::Display, thiserror::Error)]
pub enum ServeError {
    /// cannot listen on {address}: {error}; choose another address, port 0 picks a free one
    Listen {
        /// Requested address.
        address: SocketAddr,
        /// Error of the operating system.
        error: std::io::Error,
    },
    /// the certificate cannot be made: {0}
    Certificate(#[from] rcgen::Error),
    /// the certificate cannot be served: {0}
    Tls(#[from] rustls::Error),
}

/// Connects to a port and closes the connection.
///
/// # Errors
/// If nothing listens there.
pub(super) async fn connects(host: &str, port: u16) -> std::io::Result<()> {
    TcpStream::connect((host, port)).await.map(drop)
}

/// Bound listener that does not serve yet.
#[derive(Debug)]
pub struct Listener {
    listener: TcpListener,
    address: SocketAddr,
    tls: Option<Arc<rustls::ServerConfig>>,
}

impl Listener {
    /// Binds `address` without TLS; port 0 picks a free port.
    ///
    /// # Errors
    /// If it cannot listen on the address.
    pub async fn plain(address: SocketAddr) -> Result<Self, ServeError> {
        let failed = |error| ServeError::Listen { address, error };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self { listener, address, tls: None })
    }

    /// Binds `address` for `node`; port 0 picks a free port.
    ///
    /// # Errors
    /// See [`ServeError`].
    pub async fn open(address: SocketAddr, node: &str) -> Result<Self, ServeError> {
        let failed = |error| ServeError::Listen { address, error };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let mut certificate = CertificateParams::new(vec![node.to_owned(), address.ip().to_string()])?;
        certificate.distinguished_name.push(DnType::CommonName, format!("system:node:{node}"));
        let key = KeyPair::generate()?;
        let certificate = certificate.self_signed(&key)?;
        let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
        let mut tls = rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)?;
        tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self { listener, address, tls: Some(Arc::new(tls)) })
    }

    /// Returns the bound address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves `service` within process `ctx`, behind the Host and Origin guard.
    pub fn serve(self, ctx: &Ctx, service: HttpService) {
        ctx.spawn(listen::tcp(ctx.clone(), self.listener, guard(service, &[]), self.tls));
    }
}
