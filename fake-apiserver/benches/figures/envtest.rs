//! Start of envtest's two programs, from the start of etcd to the first healthy answer of the API server.

use std::io::Write;
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use substrate::host::unused_port;

use super::server::ask;
use super::{Bound, Figure, median};

/// Interval of the health checks; envtest's is 100 ms.
const POLL: Duration = Duration::from_micros(500);

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn spawn(folder: &Path, program: &str, args: &[String]) -> Running {
    let path = folder.join(program);
    if !path.exists() {
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_fake-apiserver"), &path).unwrap();
    }
    let mut command = Command::new(path);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    Running(command.spawn().unwrap())
}

/// Starts both in `folder`, like envtest. Returns the time of each until its health check.
async fn pair(folder: &Path, ca: &CertifiedIssuer<'static, KeyPair>) -> (Duration, Duration, [Running; 2]) {
    let (etcd_port, port) = (unused_port().unwrap(), unused_port().unwrap());
    let url = format!("http://127.0.0.1:{etcd_port}");
    let begun = Instant::now();
    let args = [
        format!("--data-dir={}", folder.join("data").display()),
        format!("--listen-client-urls={url}"),
        "--unsafe-no-fsync=true".to_owned(),
    ];
    let etcd = spawn(folder, "etcd", &args);
    loop {
        if let Ok(mut stream) = TcpStream::connect(("127.0.0.1", etcd_port)) {
            stream.write_all(b"GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").unwrap();
            break;
        }
        tokio::time::sleep(POLL).await;
    }
    let etcd_ready = begun.elapsed();
    let file = |name: &str| folder.join(name).display().to_string();
    let args = [
        "--authorization-mode=RBAC".to_owned(),
        "--bind-address=127.0.0.1".to_owned(),
        format!("--cert-dir={}", folder.display()),
        format!("--client-ca-file={}", file("ca.crt")),
        "--disable-admission-plugins=ServiceAccount".to_owned(),
        format!("--etcd-servers={url}"),
        format!("--secure-port={port}"),
        format!("--service-account-issuer=https://127.0.0.1:{port}/"),
        format!("--service-account-key-file={}", file("ca.crt")),
        format!("--service-account-signing-key-file={}", file("ca.key")),
        "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
    ];
    let apiserver = spawn(folder, "kube-apiserver", &args);
    while ask(&format!("127.0.0.1:{port}"), ca.pem().as_bytes(), "/healthz").await != Some(200) {
        tokio::time::sleep(POLL).await;
    }
    (etcd_ready, begun.elapsed(), [apiserver, etcd])
}

/// Prints the times with a new data directory and with a used one.
pub async fn run() {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let mut first: Vec<Duration> = Vec::new();
    let mut again: Vec<Duration> = Vec::new();
    for _ in 0..11 {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("ca.crt"), ca.pem()).unwrap();
        std::fs::write(folder.path().join("ca.key"), ca.key().serialize_pem()).unwrap();
        // envtest creates the serving certificate before it starts the programs.
        let key = KeyPair::generate().unwrap();
        let serving = CertificateParams::new(vec!["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap();
        let serving = serving.signed_by(&key, &ca).unwrap();
        std::fs::write(folder.path().join("apiserver.crt"), serving.pem()).unwrap();
        std::fs::write(folder.path().join("apiserver.key"), key.serialize_pem()).unwrap();
        let (_, took, running) = pair(folder.path(), &ca).await;
        first.push(took);
        drop(running);
        let (_, took, _running) = pair(folder.path(), &ca).await;
        again.push(took);
    }
    for (what, times, real) in [
        ("envtest: start of the pair to its health check", &mut first, Some(2400.0)),
        ("the same with the data directory of an earlier one", &mut again, None),
    ] {
        let found = median(times).as_secs_f64() * 1e3;
        Figure { what, found, unit: "ms", bound: Bound::AtMost(30.0), real }.print();
    }
}
