//! A server as a separate process.

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::client::Connection;
use super::echo;

/// A running server, killed on drop.
pub struct Server {
    child: Child,
    connector: TlsConnector,
    address: String,
    _folder: tempfile::TempDir,
}

/// Raises this process's limit of open files to the maximum, also for its children: a thousand watchers need two files
/// each.
pub fn open_files() {
    let limit = getrlimit(Resource::Nofile);
    // Fails only if the limit was at the maximum before.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

impl Server {
    /// Starts the binary and waits until it is ready.
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts the binary with more arguments.
    pub fn start_with(more: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let [ready, kubeconfig] = ["ready.json", "kubeconfig"].map(|name| folder.path().join(name));
        let child = Command::new(env!("CARGO_BIN_EXE_fake-apiserver"))
            .args(["--listen", "127.0.0.1:0", "--ready-file"])
            .arg(&ready)
            .arg("--kubeconfig")
            .arg(&kubeconfig)
            .args(more)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        while !ready.exists() {
            std::thread::sleep(Duration::from_micros(200));
        }
        let config: Value = serde_json::from_slice(&std::fs::read(kubeconfig).unwrap()).unwrap();
        let cluster = &config["clusters"][0]["cluster"];
        let address = cluster["server"].as_str().unwrap().trim_start_matches("https://").to_owned();
        let pem = STANDARD.decode(cluster["certificate-authority-data"].as_str().unwrap()).unwrap();
        Self { child, connector: trusting(&pem), address, _folder: folder }
    }

    /// Starts this program as the echo server.
    pub fn echo() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let ready = folder.path().join("ready.json");
        let child = Command::new(std::env::current_exe().unwrap())
            .env(echo::READY, &ready)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        while !ready.exists() {
            std::thread::sleep(Duration::from_micros(200));
        }
        let found: Value = serde_json::from_slice(&std::fs::read(ready).unwrap()).unwrap();
        let connector = trusting(found["ca"].as_str().unwrap().as_bytes());
        Self { child, connector, address: found["address"].as_str().unwrap().to_owned(), _folder: folder }
    }

    /// Opens a connection, HTTP/1.1 over TLS.
    pub async fn connect(&self) -> Connection {
        let stream = TcpStream::connect(&self.address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        Connection::new(self.connector.connect(name, stream).await.unwrap())
    }

    /// Opens several connections.
    pub async fn connections(&self, count: usize) -> Vec<Connection> {
        let mut connections = Vec::with_capacity(count);
        for _ in 0..count {
            connections.push(self.connect().await);
        }
        connections
    }

    /// Returns the resident memory in MiB.
    pub fn resident_mib(&self) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:")).unwrap();
        line.split_whitespace().next().unwrap().parse::<f64>().unwrap() / 1024.0
    }

    /// Returns the processor time so far.
    pub fn cpu(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
        // Fields 14 and 15 of proc(5), in ticks of a hundredth of a second.
        let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
        Duration::from_millis(ticks * 10)
    }
}

/// Returns the status of an answer of the server at `address`, whose certificate `ca` signed; `None` if it does not
/// answer.
pub async fn ask(address: &str, ca: &[u8], path: &str) -> Option<u16> {
    let stream = TcpStream::connect(address).await.ok()?;
    let stream = trusting(ca).connect(ServerName::try_from("localhost").unwrap(), stream).await.ok()?;
    Some(Connection::new(stream).get(path).await.0)
}

/// Returns a TLS client that trusts a CA certificate, PEM.
fn trusting(pem: &[u8]) -> TlsConnector {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(pem).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    Arc::new(tls).into()
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
