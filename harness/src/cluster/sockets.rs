//! Sockets of the live world: TCP for the API server and the cloud, unix sockets for CSI. The only file of the
//! harness that names listeners.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fake_apiserver::envtest::Front;
use substrate::guard::guard;
use substrate::link::Link;
use substrate::{Ctx, HttpService, dial, listen};

use super::Secret;
use crate::program::{Endpoint as Own, ProgramSpec};
use crate::wiring::Wiring;

/// Name of the driver's controller service.
const CONTROLLER: &str = "csi-controller";
/// Name of the admin API of the whole cluster.
pub(super) const ADMIN: &str = "admin";

/// Listen addresses of the servers of a live cluster.
#[derive(Debug, Default)]
pub struct Addresses {
    /// The cloud.
    pub ec2: Option<SocketAddr>,
    /// The metadata service of the first instance; each further one listens on the next port.
    pub imds: Option<SocketAddr>,
    /// The API server with TLS, for users.
    pub kubernetes: Option<SocketAddr>,
    /// The API server without TLS, for users.
    pub kubernetes_http: Option<SocketAddr>,
    /// Address of the admin API of the whole cluster. If absent, it is not served.
    pub admin: Option<SocketAddr>,
    /// Host names that requests may carry beside localhost and IP addresses.
    pub allowed_hosts: Vec<String>,
    /// Token that users of the API server with TLS must send. If none, anyone may call.
    pub kubernetes_token: Option<Secret>,
    /// Controller service of the user's driver, `unix:///PATH` or `tcp://HOST:PORT`.
    pub csi: Option<String>,
    /// Bound listener for users of the API server with TLS, used instead of `kubernetes`. It authenticates its clients
    /// itself.
    pub front: Option<Arc<Front>>,
}

/// Bound listener of a server, with its TLS and authentication.
struct Listener {
    socket: TcpListener,
    tls: Option<Arc<rustls::ServerConfig>>,
    token: Option<Secret>,
    front: Option<Arc<Front>>,
}

impl Listener {
    fn open(socket: TcpListener) -> Self {
        Self { socket, tls: None, token: None, front: None }
    }
}

/// Listeners that outlive the processes behind them, so that a restarted process has the same port.
pub struct Sockets {
    listeners: BTreeMap<String, Vec<Listener>>,
    endpoints: BTreeMap<String, String>,
    directory: PathBuf,
    allowed_hosts: Vec<String>,
    csi: Option<String>,
}

/// An error when a socket is opened.
#[derive(Debug, displaydoc::Display, thiserror::Error)]
pub enum SocketError {
    /// {what} cannot listen on {address}: {error}; choose another address, port 0 picks a free one
    Bind {
        /// Server that listens.
        what: &'static str,
        /// Address of the listener.
        address: SocketAddr,
        /// Error of the system.
        error: std::io::Error,
    },
}

impl SocketError {
    /// Returns true if another socket listens on the address.
    pub fn is_taken(&self) -> bool {
        let Self::Bind { error, .. } = self;
        error.kind() == std::io::ErrorKind::AddrInUse
    }
}

impl Sockets {
    /// Binds all TCP listeners, including those of `programs` and, if they have an address, the metadata services of
    /// `nodes`. `directory` contains the unix sockets. Its path may have about 70 bytes, because the kernel limits a
    /// whole socket path to 107.
    ///
    /// # Errors
    /// If an address cannot be bound.
    pub fn open(
        addresses: &Addresses,
        (nodes, programs): (&[&str], &[ProgramSpec]),
        directory: &Path,
        tls: Arc<rustls::ServerConfig>,
    ) -> Result<Self, SocketError> {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut listeners = BTreeMap::new();
        let mut endpoints = BTreeMap::new();
        let ec2 = bind("the cloud", addresses.ec2.unwrap_or(any))?;
        endpoints.insert("ec2".to_owned(), format!("http://{}", reachable(&ec2, &[])));
        listeners.insert("ec2".to_owned(), vec![Listener::open(ec2)]);
        // Components use the API server without TLS; users have their own port.
        let inner = bind("the API server", addresses.kubernetes_http.unwrap_or(any))?;
        let outer = match &addresses.front {
            Some(front) => front.listener.try_clone().map_err(|error| {
                let address = front.listener.local_addr().unwrap_or(any);
                SocketError::Bind { what: "the API server", address, error }
            })?,
            None => bind("the API server", addresses.kubernetes.unwrap_or(any))?,
        };
        endpoints.insert("apiserver".to_owned(), format!("http://{}", reachable(&inner, &[])));
        let users = reachable(&outer, &addresses.allowed_hosts);
        endpoints.insert("apiserver-tls".to_owned(), format!("https://{users}"));
        let (token, front) = (addresses.kubernetes_token.clone(), addresses.front.clone());
        let shown = front.as_ref().map_or_else(|| tls.clone(), |front| front.tls.clone());
        let outer = Listener { socket: outer, tls: Some(shown), token, front };
        listeners.insert("apiserver".to_owned(), vec![Listener::open(inner), outer]);
        for number in 0..programs.len() {
            let endpoints_of_program =
                [(Own::Kubernetes, "https", Some(tls.clone())), (Own::Plain, "http", None), (Own::Cloud, "http", None)];
            for (endpoint, scheme, tls) in endpoints_of_program {
                let listener = bind("an endpoint of a program", any)?;
                endpoints.insert(endpoint.name(number), format!("{scheme}://{}", reachable(&listener, &[])));
                listeners.insert(endpoint.name(number), vec![Listener { tls, ..Listener::open(listener) }]);
            }
        }
        if let Some(address) = addresses.admin {
            let listener = bind("the admin API", address)?;
            endpoints.insert(ADMIN.to_owned(), format!("http://{}", reachable(&listener, &[])));
            listeners.insert(ADMIN.to_owned(), vec![Listener::open(listener)]);
        }
        for (node, ordinal) in nodes.iter().zip(0u16..).take_while(|_| addresses.imds.is_some()) {
            let first = addresses.imds.unwrap_or(any);
            // Past port 65535 the addition saturates; binding that port a second time fails.
            let port = if first.port() == 0 { 0 } else { first.port().saturating_add(ordinal) };
            let listener = bind("the metadata service", SocketAddr::new(first.ip(), port))?;
            endpoints.insert(format!("imds-{node}"), format!("http://{}", reachable(&listener, &[])));
            listeners.insert(format!("imds-{node}"), vec![Listener::open(listener)]);
        }
        let allowed_hosts = addresses.allowed_hosts.clone();
        let mut sockets =
            Self { listeners, endpoints, directory: directory.to_owned(), allowed_hosts, csi: addresses.csi.clone() };
        // A user's program that is the driver listens at the endpoint that other programs use for the driver.
        let driver = programs.iter().position(ProgramSpec::is_driver);
        let of_driver = driver.map(|number| format!("unix://{}", sockets.program_socket(number).display()));
        sockets.csi = sockets.csi.or(of_driver);
        Ok(sockets)
    }

    /// Endpoint of the driver's controller service, Mooring's or the user's.
    pub fn csi_endpoint(&self) -> String {
        self.csi.clone().unwrap_or_else(|| format!("unix://{}", self.unix_path(CONTROLLER).display()))
    }

    /// Endpoint of the admin API of the whole cluster, if it is served.
    pub fn admin(&self) -> Option<&str> {
        self.endpoints.get(ADMIN).map(String::as_str)
    }

    /// Endpoint of `ec2`, `apiserver` (without TLS), `apiserver-tls` or `imds-<node>`.
    pub fn endpoint(&self, name: &str) -> &str {
        self.endpoints.get(name).map_or("", String::as_str)
    }

    /// CSI socket of the `number`th program.
    pub(super) fn program_socket(&self, number: usize) -> PathBuf {
        self.unix_path(&Own::Driver.name(number))
    }

    /// Unix socket of a CSI name.
    pub fn unix_path(&self, name: &str) -> PathBuf {
        self.directory.join(format!("{name}.sock"))
    }
}

fn bind(what: &'static str, address: SocketAddr) -> Result<TcpListener, SocketError> {
    let listener = TcpListener::bind(address).and_then(|l| l.set_nonblocking(true).map(|()| l));
    listener.map_err(|error| SocketError::Bind { what, address, error })
}

/// Host and port by which clients reach `listener`. If it is bound to all addresses, the host is the first of `names`,
/// or loopback.
fn reachable(listener: &TcpListener, names: &[String]) -> String {
    // A bound socket has an address. With the fallback (port 0) a client fails clearly.
    let bound = listener.local_addr().unwrap_or_else(|_| SocketAddr::from(([0, 0, 0, 0], 0)));
    match names.first() {
        _ if !bound.ip().is_unspecified() => bound.to_string(),
        Some(name) => format!("{name}:{}", bound.port()),
        None => SocketAddr::from(([127, 0, 0, 1], bound.port())).to_string(),
    }
}

impl Wiring for Sockets {
    fn publish(&self, ctx: &Ctx, name: &str, service: HttpService) -> Result<(), String> {
        if let Some(listeners) = self.listeners.get(name) {
            for listener in listeners {
                let service = match &listener.token {
                    Some(token) => fake_apiserver::serve::require_token(service.clone(), token.reveal()),
                    None => service.clone(),
                };
                let service = if name == "apiserver" { fake_apiserver::serve::identify(ctx, service) } else { service };
                let service = match &listener.front {
                    Some(front) => front.layered(ctx, service),
                    None => guard(service, &self.allowed_hosts),
                };
                let socket = listener.socket.try_clone().and_then(tokio::net::TcpListener::from_std);
                let socket = socket.map_err(|e| format!("{name}: {e}"))?;
                ctx.spawn(listen::tcp(ctx.clone(), socket, service, listener.tls.clone()));
            }
            return Ok(());
        }
        let path = self.unix_path(name);
        // A socket file of an earlier incarnation would make bind fail. A missing one is fine.
        let _ = std::fs::remove_file(&path);
        let listener = UnixListener::bind(&path)
            .and_then(|l| l.set_nonblocking(true).map(|()| l))
            .and_then(tokio::net::UnixListener::from_std)
            .map_err(|e| format!("{name} cannot listen on {}: {e}", path.display()))?;
        ctx.spawn(listen::accept_unix(ctx.clone(), listener, service));
        Ok(())
    }

    fn connect(&self, ctx: &Ctx, name: &str) -> Result<HttpService, String> {
        let wire = match self.endpoints.get(name) {
            Some(endpoint) => dial::http(endpoint).map_err(|e| e.to_string())?,
            None if name == CONTROLLER => dial::grpc(&self.csi_endpoint()).map_err(|e| e.to_string())?,
            None => dial::unix(self.unix_path(name)),
        };
        Ok(Link::over(ctx, name, wire))
    }
}
