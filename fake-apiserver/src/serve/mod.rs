//! Listeners: TLS, plain HTTP beside it, and access to them. No other module opens listeners.
//!
//! Every listener has the Host and Origin guard as its outermost layer. On a listener that is not bound to loopback
//! every request, including the admin endpoints, needs the bearer token.

mod access;
mod audit_id;
pub mod clients;
mod gzip;
mod head;
pub(crate) mod lenient;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use substrate::body::HttpService;
use substrate::{Ctx, guard, listen};
use tokio::net::TcpListener;

pub use self::access::require_token;
pub use self::audit_id::identify;
use crate::tls::Authority;
use crate::{kubeconfig, tls};

/// User of the kubeconfig that the server writes, named as in kubeadm, in a group that may do everything.
pub const ADMIN: &str = "kubernetes-admin";
const MASTERS: &str = "system:masters";

/// Configuration of the listeners.
#[derive(Clone, Debug)]
pub struct ServeConfig {
    /// Address of the TLS listener; port 0 picks one.
    pub listen: SocketAddr,
    /// Address of the plain HTTP listener, if there is one.
    pub http_listen: Option<SocketAddr>,
    /// Host names that requests may use, besides IP addresses and localhost; also names of the certificate. The first
    /// one is in the kubeconfig if the TLS listener is bound to all addresses.
    pub allow_hosts: Vec<String>,
    /// Bearer token; random if `None`.
    pub token: Option<String>,
    /// Path of the kubeconfig.
    pub kubeconfig: PathBuf,
    /// CA that signs the certificates; a new one if `None`.
    pub authority: Option<Arc<Authority>>,
    /// Certificates of other CAs whose clients are trusted, besides `authority`.
    pub client_authorities: Vec<CertificateDer<'static>>,
}

/// Result of starting the listeners.
#[derive(Clone)]
pub struct Served {
    /// `https://127.0.0.1:6443`, as in the kubeconfig.
    pub endpoint: String,
    /// `http://127.0.0.1:8001`, if plain HTTP is on.
    pub http_endpoint: Option<String>,
    /// Absolute path of the kubeconfig.
    pub kubeconfig: PathBuf,
    /// Bearer token in the kubeconfig.
    pub token: String,
    /// CA certificate, PEM.
    pub ca_pem: String,
}

impl std::fmt::Debug for Served {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Served")
            .field("endpoint", &self.endpoint)
            .field("http_endpoint", &self.http_endpoint)
            .field("kubeconfig", &self.kubeconfig)
            .field("token", &"<redacted>")
            .finish()
    }
}

/// Reason why the listeners cannot start.
#[derive(Debug, displaydoc::Display, thiserror::Error)]
pub enum ServeError {
    /// cannot listen on {address}: {error}; is another API server running there? choose another port, or 0 for any
    Listen {
        /// Requested address.
        address: SocketAddr,
        /// Error of the system.
        error: std::io::Error,
    },
    /// {0}
    Tls(#[from] tls::TlsError),
    /// cannot write the kubeconfig {path}: {error}
    Kubeconfig {
        /// Requested path.
        path: PathBuf,
        /// Error of the system.
        error: std::io::Error,
    },
    /// --token: must not be empty, and may hold visible ASCII characters only
    Token,
}

/// Listens, writes the kubeconfig, and serves `service` within process `ctx` until the process ends.
///
/// # Errors
/// See [`ServeError`]; no request is served then.
pub async fn serve(ctx: &Ctx, service: HttpService, config: &ServeConfig) -> Result<Served, ServeError> {
    let token = match &config.token {
        Some(token) if token.is_empty() || !token.bytes().all(|b| b.is_ascii_graphic()) => {
            return Err(ServeError::Token);
        }
        Some(token) => token.clone(),
        None => tls::random_token()?,
    };
    let (listener, bound) = bind(config.listen).await?;
    let plain = match config.http_listen {
        Some(address) => Some(bind(address).await?),
        None => None,
    };
    let mut names = config.allow_hosts.clone();
    if !bound.ip().is_unspecified() {
        names.push(bound.ip().to_string());
    }
    let authority = match &config.authority {
        Some(authority) => authority.clone(),
        None => Arc::new(Authority::new()?),
    };
    let tls = tls::serving(&authority, &names, &config.client_authorities)?;
    let client = authority.client(ADMIN, MASTERS)?;
    let endpoint = format!("https://{}", reachable(bound, &config.allow_hosts));
    let path = std::path::absolute(&config.kubeconfig).unwrap_or_else(|_| config.kubeconfig.clone());
    kubeconfig::write(&path, &kubeconfig::render(&endpoint, &tls.ca_pem, &token, Some(&client)))
        .map_err(|error| ServeError::Kubeconfig { path: path.clone(), error })?;

    let layered = |address: SocketAddr| {
        let service = service.clone();
        let service = if address.ip().is_loopback() { service } else { require_token(service, &token) };
        outermost(ctx, service, &config.allow_hosts)
    };
    ctx.spawn(listen::tcp(ctx.clone(), listener, layered(bound), Some(tls.server)));
    let http_endpoint = plain.map(|(listener, bound)| {
        ctx.spawn(listen::tcp(ctx.clone(), listener, layered(bound), None));
        format!("http://{}", reachable(bound, &config.allow_hosts))
    });
    Ok(Served { endpoint, http_endpoint, kubeconfig: path, token, ca_pem: tls.ca_pem })
}

/// Wraps `service` in the outermost layers of every listener: the guard, ids of requests, compression, and answers to HEAD
/// without a body.
pub(crate) fn outermost(ctx: &Ctx, service: HttpService, hosts: &[String]) -> HttpService {
    head::without_body(guard::guard(identify(ctx, gzip::compress(service)), hosts))
}

async fn bind(address: SocketAddr) -> Result<(TcpListener, SocketAddr), ServeError> {
    let failed = |error| ServeError::Listen { address, error };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    Ok((listener, bound))
}

/// Returns host and port at which a client reaches `bound`.
fn reachable(bound: SocketAddr, names: &[String]) -> String {
    match names.first() {
        _ if !bound.ip().is_unspecified() => bound.to_string(),
        Some(name) => format!("{name}:{}", bound.port()),
        None => SocketAddr::new(Ipv4Addr::LOCALHOST.into(), bound.port()).to_string(),
    }
}

#[cfg(test)]
mod tests;
