//! The only place that names listeners: TLS, plain HTTP beside it, and who may call.
//!
//! Every listener has the Host and Origin guard as its outermost layer. On a listener that is not bound to loopback
//! every request, the admin endpoints included, needs the bearer token.

mod access;
pub mod clients;
mod gzip;
mod head;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use substrate::body::HttpService;
use substrate::{Ctx, guard, listen};
use tokio::net::TcpListener;

pub use self::access::require_token;
use crate::tls::Authority;
use crate::{kubeconfig, tls};

/// Who holds the kubeconfig that the server writes, as kubeadm names that user, and a group that may do everything.
pub const ADMIN: &str = "kubernetes-admin";
const MASTERS: &str = "system:masters";

/// Where and how to listen.
#[derive(Clone, Debug)]
pub struct ServeConfig {
    /// The TLS listener's address; port 0 picks one.
    pub listen: SocketAddr,
    /// The plain HTTP listener's address, if there is to be one.
    pub http_listen: Option<SocketAddr>,
    /// Host names that requests may be for, beside IP addresses and localhost; also names of the certificate. The first
    /// one stands in the kubeconfig when the TLS listener is bound to all addresses.
    pub allow_hosts: Vec<String>,
    /// The bearer token; a random one when absent.
    pub token: Option<String>,
    /// Where the kubeconfig is written.
    pub kubeconfig: PathBuf,
    /// What signs the certificates; a new one when absent.
    pub authority: Option<Arc<Authority>>,
    /// Certificates of other authorities whose clients are trusted, beside those of `authority`.
    pub client_authorities: Vec<CertificateDer<'static>>,
}

/// Where it listens.
#[derive(Clone)]
pub struct Served {
    /// `https://127.0.0.1:6443`, as the kubeconfig has it.
    pub endpoint: String,
    /// `http://127.0.0.1:8001`, when plain HTTP was asked for.
    pub http_endpoint: Option<String>,
    /// The kubeconfig's absolute path.
    pub kubeconfig: PathBuf,
    /// The bearer token that the kubeconfig holds.
    pub token: String,
    /// The CA's certificate, PEM.
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

/// Why nothing is served.
#[derive(Debug, displaydoc::Display, thiserror::Error)]
pub enum ServeError {
    /// cannot listen on {address}: {source}; is another API server running there? choose another port, or 0 for any
    Listen {
        /// What was asked for.
        address: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
    /// {0}
    Tls(#[from] tls::TlsError),
    /// cannot write the kubeconfig {path}: {source}
    Kubeconfig {
        /// Where it was to be.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// --token: must not be empty, and may hold visible ASCII characters only
    Token,
}

/// Listens, writes the kubeconfig, and serves `service` within process `ctx` until the process ends.
///
/// # Errors
/// See [`ServeError`]; nothing is served then.
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
        .map_err(|source| ServeError::Kubeconfig { path: path.clone(), source })?;

    let layered = |address: SocketAddr| {
        let service = service.clone();
        let service = if address.ip().is_loopback() { service } else { require_token(service, &token) };
        outermost(service, &config.allow_hosts)
    };
    ctx.spawn(listen::tcp(ctx.clone(), listener, layered(bound), Some(tls.server)));
    let http_endpoint = plain.map(|(listener, bound)| {
        ctx.spawn(listen::tcp(ctx.clone(), listener, layered(bound), None));
        format!("http://{}", reachable(bound, &config.allow_hosts))
    });
    Ok(Served { endpoint, http_endpoint, kubeconfig: path, token, ca_pem: tls.ca_pem })
}

/// Wraps `service` in what every listener has outermost: the guard, compression, and answers to HEAD without a body.
pub(crate) fn outermost(service: HttpService, hosts: &[String]) -> HttpService {
    head::without_body(guard::guard(gzip::compress(service), hosts))
}

async fn bind(address: SocketAddr) -> Result<(TcpListener, SocketAddr), ServeError> {
    let failed = |source| ServeError::Listen { address, source };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    Ok((listener, bound))
}

/// The host and port by which a client reaches `bound`.
fn reachable(bound: SocketAddr, names: &[String]) -> String {
    match names.first() {
        _ if !bound.ip().is_unspecified() => bound.to_string(),
        Some(name) => format!("{name}:{}", bound.port()),
        None => SocketAddr::new(Ipv4Addr::LOCALHOST.into(), bound.port()).to_string(),
    }
}

#[cfg(test)]
mod tests;
