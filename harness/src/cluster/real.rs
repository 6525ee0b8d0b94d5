//! A real API server behind that of a cluster: the user's own `etcd` and `kube-apiserver`, on free ports of this machine.
//!
//! Mooring's API server stays in front: it applies faults and keeps the trace ([`fake_apiserver::Origin`]).

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use fake_apiserver::{Origin, dial, tls};
use http::Request;
use substrate::Ctx;
use substrate::body::{collect, empty};
use substrate::host::unused_port;
use tokio::process::{Child, ChildStdin, Command};

use crate::program::guard;

/// The programs, which a directory must have.
pub const PROGRAMS: [&str; 2] = ["etcd", "kube-apiserver"];
/// Time limit of the two to become ready.
const READY: Duration = Duration::from_secs(90);
/// Pause between two requests for readiness.
const LOOK: Duration = Duration::from_millis(200);
/// Time limit of the two to end.
const END: Duration = Duration::from_secs(10);
/// Bytes of a log that an error shows.
const SHOWN: u64 = 2_000;
/// Largest document that is read from the server, in bytes.
const DOCUMENT: usize = 1 << 20;
const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Checks that `directory` has both programs.
///
/// # Errors
/// Names the first file that is not a program.
pub fn check(directory: &Path) -> Result<(), String> {
    for name in PROGRAMS {
        let path = directory.join(name);
        let is_program = path.metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0);
        if !is_program {
            return Err(format!("{} is not a program: the directory needs etcd and kube-apiserver", path.display()));
        }
    }
    Ok(())
}

/// A running etcd and kube-apiserver. Both end when it is dropped, and when this process is killed.
pub struct RealServer {
    origin: Origin,
    version: String,
    programs: Vec<Running>,
}

/// A program under a guard, which ends it when `_input` is closed.
struct Running {
    name: &'static str,
    log: PathBuf,
    guard: Child,
    _input: ChildStdin,
}

impl RealServer {
    /// Starts the programs of `binaries` with an empty state in `directory`, and waits until they are ready.
    ///
    /// # Errors
    /// If a program does not start, ends, or is not ready within 90 seconds; with the end of its log.
    pub async fn start(ctx: &Ctx, binaries: &Path, directory: &Path) -> Result<Self, String> {
        let failed = |what: &str, e: &dyn std::fmt::Display| format!("the real API server: {what}: {e}");
        std::fs::create_dir_all(directory).map_err(|e| failed(&directory.display().to_string(), &e))?;
        let port = || unused_port().map_err(|e| failed("its ports", &e));
        let (clients, peers, secure) = (port()?, port()?, port()?);
        let authority = tls::Authority::new().map_err(|e| failed("its CA", &e))?;
        let ca = authority.credentials();
        let serving = authority.server(&[]).map_err(|e| failed("its certificate", &e))?;
        let client = authority.client("mooring", "system:masters").map_err(|e| failed("a client certificate", &e))?;
        let file = |name: &str, text: &str| -> Result<String, String> {
            let path = directory.join(name);
            std::fs::write(&path, text).map_err(|e| failed(&path.display().to_string(), &e))?;
            Ok(path.display().to_string())
        };
        let (ca_file, certificate) = (file("ca.crt", &ca.certificate)?, file("apiserver.crt", &serving.certificate)?);
        let (key, accounts) = (file("apiserver.key", &serving.key)?, file("accounts.key", &client.key)?);
        // Of a private key on a curve in PKCS #8, kube-apiserver does not take the public half.
        let accounts_public = file("accounts.crt", &client.certificate)?;
        let etcd = [
            format!("--data-dir={}", directory.join("etcd").display()),
            format!("--listen-client-urls=http://127.0.0.1:{clients}"),
            format!("--advertise-client-urls=http://127.0.0.1:{clients}"),
            format!("--listen-peer-urls=http://127.0.0.1:{peers}"),
        ];
        let apiserver = [
            format!("--etcd-servers=http://127.0.0.1:{clients}"),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--secure-port={secure}"),
            format!("--client-ca-file={ca_file}"),
            format!("--tls-cert-file={certificate}"),
            format!("--tls-private-key-file={key}"),
            "--authorization-mode=AlwaysAllow".to_owned(),
            // No controller creates service accounts in time for the first pods; envtest leaves it out, too.
            "--disable-admission-plugins=ServiceAccount".to_owned(),
            "--allow-privileged=true".to_owned(),
            "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
            "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
            format!("--service-account-key-file={accounts_public}"),
            format!("--service-account-signing-key-file={accounts}"),
        ];
        let start = |name, arguments: &[String]| Running::start(name, binaries, directory, arguments);
        let programs = vec![start(PROGRAMS[0], &etcd)?, start(PROGRAMS[1], &apiserver)?];
        let origin = dial::origin((LOOPBACK, secure), ca.certificate.as_bytes(), &client);
        let mut server =
            Self { origin: origin.map_err(|e| failed("its client", &e))?, version: String::new(), programs };
        server.wait_until_ready(ctx).await?;
        Ok(server)
    }

    /// Returns the connection for an API server in front.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Returns the version that the server reports, as `v1.36.2`.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Ends both programs, and waits for them.
    pub async fn stop(self) {
        for Running { mut guard, _input, .. } in self.programs.into_iter().rev() {
            drop(_input);
            // A guard that does not end in time ends by itself later.
            let _ = tokio::time::timeout(END, guard.wait()).await;
        }
    }

    async fn wait_until_ready(&mut self, ctx: &Ctx) -> Result<(), String> {
        let deadline = tokio::time::Instant::now() + READY;
        while self.get(ctx, "/readyz").await.is_none() {
            for program in &mut self.programs {
                if let Ok(Some(_)) = program.guard.try_wait() {
                    return Err(format!("{} ended: {}", program.name, program.last_lines()));
                }
            }
            if tokio::time::Instant::now() >= deadline {
                let logs: Vec<String> =
                    self.programs.iter().map(|program| format!("{}: {}", program.name, program.last_lines())).collect();
                let seconds = READY.as_secs();
                return Err(format!("the real API server is not ready after {seconds} s\n{}", logs.join("\n")));
            }
            tokio::time::sleep(LOOK).await;
        }
        let document = self.get(ctx, "/version").await;
        let version: Option<serde_json::Value> = document.and_then(|text| serde_json::from_slice(&text).ok());
        let version = version.as_ref().and_then(|version| version["gitVersion"].as_str());
        self.version = version.ok_or("the real API server does not report its version")?.to_owned();
        Ok(())
    }

    /// Returns a document; `None` if it is not there.
    async fn get(&self, ctx: &Ctx, path: &str) -> Option<bytes::Bytes> {
        let request = Request::get(path).body(empty()).ok()?;
        let response = self.origin.call(ctx, request).await.ok()?;
        if !response.status().is_success() {
            return None;
        }
        collect(response.into_body(), DOCUMENT).await.ok()
    }
}

impl Running {
    fn start(name: &'static str, binaries: &Path, directory: &Path, arguments: &[String]) -> Result<Self, String> {
        let failed = |e: std::io::Error| format!("{name} does not start: {e}");
        let log = directory.join(format!("{name}.log"));
        let output = File::create(&log).map_err(failed)?;
        let mut guard = Command::new(std::env::current_exe().map_err(failed)?)
            .arg(guard::COMMAND)
            .arg("--")
            .arg(binaries.join(name))
            .args(arguments)
            .current_dir(directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(output)
            .spawn()
            .map_err(failed)?;
        let input = guard.stdin.take().ok_or_else(|| failed(std::io::Error::other("the guard has no input")))?;
        Ok(Self { name, log, guard, _input: input })
    }

    /// Returns the end of its log.
    fn last_lines(&self) -> String {
        let read = || -> std::io::Result<String> {
            let mut file = File::open(&self.log)?;
            let length = file.metadata()?.len();
            file.seek(SeekFrom::Start(length.saturating_sub(SHOWN)))?;
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            Ok(String::from_utf8_lossy(&bytes).trim_end().to_owned())
        };
        read().unwrap_or_else(|e| format!("{}: {e}", self.log.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_without_both_programs_is_refused_with_the_name_of_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let etcd = directory.path().join("etcd");
        assert!(check(directory.path()).unwrap_err().starts_with(&etcd.display().to_string()));
        std::fs::write(&etcd, "").unwrap();
        assert!(check(directory.path()).unwrap_err().contains("/etcd is not a program"), "it is not executable");
        std::fs::set_permissions(&etcd, std::fs::Permissions::from_mode(0o755)).unwrap();
        let missing = directory.path().join("kube-apiserver");
        assert!(check(directory.path()).unwrap_err().starts_with(&missing.display().to_string()));
    }
}
