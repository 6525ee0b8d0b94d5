//! The two processes, started like controller-runtime's `pkg/internal/testing/controlplane` does.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair,
};
use substrate::host::unused_port;
use tempfile::TempDir;

use crate::client::Client;

/// A CA like envtest's tiny CA.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub fn new() -> Self {
        let mut params = CertificateParams::new(vec!["envtest-environment".to_owned()]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "envtest-environment");
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub fn pem(&self) -> String {
        self.0.pem()
    }

    pub fn key(&self) -> String {
        self.0.key().serialize_pem()
    }

    fn certificate(
        &self,
        name: &str,
        groups: &[&str],
        names: &[&str],
        use_for: ExtendedKeyUsagePurpose,
    ) -> (String, String) {
        let mut params = CertificateParams::new(names.iter().map(ToString::to_string).collect::<Vec<_>>()).unwrap();
        params.distinguished_name = DistinguishedName::new();
        for (i, group) in groups.iter().enumerate() {
            // The library keeps one value per type; the same type by its number counts as another one.
            let organization = if i == 0 { DnType::OrganizationName } else { DnType::CustomDnType(vec![2, 5, 4, 10]) };
            params.distinguished_name.push(organization, *group);
        }
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![use_for];
        let key = KeyPair::generate().unwrap();
        (params.signed_by(&key, &self.0).unwrap().pem(), key.serialize_pem())
    }

    /// Returns the certificate of a user, and its key.
    pub fn user(&self, name: &str, groups: &[&str]) -> (String, String) {
        self.certificate(name, groups, &[], ExtendedKeyUsagePurpose::ClientAuth)
    }

    /// Returns a serving certificate for loopback, and its key.
    pub fn server(&self) -> (String, String) {
        self.certificate("localhost", &["envtest"], &["localhost", "127.0.0.1"], ExtendedKeyUsagePurpose::ServerAuth)
    }
}

/// A process that is killed when the test ends.
pub struct Running(pub Child);

impl Running {
    /// Sends a signal and waits for the end. Returns the exit code.
    pub fn end(mut self, signal: &str) -> Option<i32> {
        let sent = Command::new("kill").args([signal, &self.0.id().to_string()]).status().unwrap();
        assert!(sent.success());
        self.0.wait().unwrap().code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Directory of the programs, the certificates and the data.
pub struct Assets {
    folder: TempDir,
    pub servers: Authority,
    pub clients: Authority,
    pub etcd_port: u16,
    pub port: u16,
    pub variables: Vec<(String, String)>,
}

impl Assets {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for program in ["etcd", "kube-apiserver"] {
            std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_fake-apiserver"), folder.path().join(program)).unwrap();
        }
        std::fs::create_dir(folder.path().join("certs")).unwrap();
        let assets = Self {
            folder,
            servers: Authority::new(),
            clients: Authority::new(),
            etcd_port: unused_port().unwrap(),
            port: unused_port().unwrap(),
            variables: Vec::new(),
        };
        let (certificate, key) = assets.servers.server();
        assets.write("apiserver.crt", &certificate);
        assets.write("apiserver.key", &key);
        let signer = Authority::new();
        assets.write("sa-signer.crt", &signer.pem());
        assets.write("sa-signer.key", &signer.key());
        assets.write("client-cert-auth-ca.crt", &assets.clients.pem());
        assets
    }

    pub fn certs(&self) -> PathBuf {
        self.folder.path().join("certs")
    }

    pub fn data(&self) -> PathBuf {
        self.folder.path().join("etcd-data")
    }

    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.certs().join(name), text).unwrap();
    }

    /// Runs a program until it exits.
    pub fn run(&self, program: &str, args: &[&str]) -> Output {
        let mut command = self.command(program);
        command.args(args).output().unwrap()
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.folder.path().join(program));
        command.current_dir(self.folder.path()).env_remove("MOORING_ENVTEST").stdin(Stdio::null());
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Returns envtest's flags for etcd.
    pub fn etcd_args(&self) -> Vec<String> {
        let url = format!("http://127.0.0.1:{}", self.etcd_port);
        vec![
            format!("--advertise-client-urls={url}"),
            format!("--data-dir={}", self.data().display()),
            format!("--listen-client-urls={url}"),
            format!("--listen-peer-urls=http://127.0.0.1:{}", unused_port().unwrap()),
            "--unsafe-no-fsync=true".to_owned(),
        ]
    }

    /// Returns envtest's flags for kube-apiserver.
    pub fn args(&self) -> Vec<String> {
        let certs = self.certs().display().to_string();
        vec![
            "--allow-privileged=true".to_owned(),
            "--authorization-mode=RBAC".to_owned(),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--cert-dir={certs}"),
            format!("--client-ca-file={certs}/client-cert-auth-ca.crt"),
            "--disable-admission-plugins=ServiceAccount".to_owned(),
            format!("--etcd-servers=http://127.0.0.1:{}", self.etcd_port),
            format!("--secure-port={}", self.port),
            format!("--service-account-issuer=https://127.0.0.1:{}/", self.port),
            format!("--service-account-key-file={certs}/sa-signer.crt"),
            format!("--service-account-signing-key-file={certs}/sa-signer.key"),
            "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
        ]
    }

    fn spawn(&self, program: &str, args: &[String]) -> Running {
        let log = std::fs::File::create(self.folder.path().join(format!("{program}.log"))).unwrap();
        Running(self.command(program).args(args).stdout(Stdio::null()).stderr(log).spawn().unwrap())
    }

    pub fn log(&self, program: &str) -> String {
        std::fs::read_to_string(self.folder.path().join(format!("{program}.log"))).unwrap()
    }

    /// Starts etcd and waits for its health check.
    pub fn start_etcd(&self) -> Running {
        let mut etcd = self.spawn("etcd", &self.etcd_args());
        self.wait("etcd", &mut etcd, || {
            let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.etcd_port)) else { return false };
            let request = "GET /health HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n";
            let mut answer = String::new();
            stream.write_all(request.as_bytes()).is_ok()
                && stream.read_to_string(&mut answer).is_ok()
                && answer.starts_with("HTTP/1.1 200")
                && answer.contains(r#"{"health":"true","#)
        });
        etcd
    }

    /// Starts kube-apiserver with envtest's flags and `more`, and waits for its health check.
    pub fn start_apiserver(&self, more: &[&str]) -> Running {
        let mut args = self.args();
        args.extend(more.iter().map(ToString::to_string));
        let mut apiserver = self.spawn("kube-apiserver", &args);
        // envtest's check sends no certificate and verifies none.
        let anyone = self.anyone();
        self.wait("kube-apiserver", &mut apiserver, || {
            anyone.open("GET", "/healthz", "").is_ok_and(|answer| answer.status == 200)
        });
        apiserver
    }

    /// Starts kube-apiserver with `args` without waiting for it.
    pub fn spawn_with(&self, args: &[String]) -> Running {
        self.spawn("kube-apiserver", args)
    }

    /// Waits until a condition holds.
    pub fn wait_until(&self, is_so: impl Fn() -> bool) {
        for _ in 0..9_000 {
            if is_so() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("it is not so after 90 s: {}", self.log("kube-apiserver"));
    }

    fn wait(&self, program: &str, running: &mut Running, is_ready: impl Fn() -> bool) {
        for _ in 0..9_000 {
            if is_ready() {
                return;
            }
            assert!(running.0.try_wait().unwrap().is_none(), "{program} ended: {}", self.log(program));
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("{program} was not ready within 90 s: {}", self.log(program));
    }

    /// Returns a client without a certificate.
    pub fn anyone(&self) -> Client {
        Client::new(self.port, &self.servers.pem(), None)
    }

    /// Returns a client for envtest's `AddUser`.
    pub fn user(&self, name: &str, groups: &[&str]) -> Client {
        let (certificate, key) = self.clients.user(name, groups);
        Client::new(self.port, &self.servers.pem(), Some((&certificate, &key)))
    }

    pub fn admin(&self) -> Client {
        self.user("admin", &["system:masters"])
    }
}

/// Both processes.
pub struct Pair {
    pub assets: Assets,
    pub apiserver: Option<Running>,
    pub etcd: Option<Running>,
}

impl Pair {
    /// Starts both like envtest.
    pub fn start() -> Self {
        Self::start_in(Assets::new(), &[])
    }

    /// Starts both with `more` flags of kube-apiserver.
    pub fn start_in(assets: Assets, more: &[&str]) -> Self {
        let etcd = assets.start_etcd();
        let apiserver = assets.start_apiserver(more);
        Self { assets, apiserver: Some(apiserver), etcd: Some(etcd) }
    }

    /// Starts both with `MOORING_ENVTEST`.
    pub fn start_as(mode: &str) -> Self {
        let mut assets = Assets::new();
        assets.variables.push(("MOORING_ENVTEST".to_owned(), mode.to_owned()));
        Self::start_in(assets, &[])
    }

    pub fn admin(&self) -> Client {
        self.assets.admin()
    }

    /// Ends the API server. Returns its exit code.
    pub fn end_apiserver(&mut self, signal: &str) -> Option<i32> {
        self.apiserver.take().unwrap().end(signal)
    }

    /// Ends etcd. Returns its exit code.
    pub fn end_etcd(&mut self, signal: &str) -> Option<i32> {
        self.etcd.take().unwrap().end(signal)
    }
}

/// Returns the names of the files in a directory.
pub fn names_in(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}
