//! Shared parts of the suites: paths, the programs that this machine has, starting and stopping Mooring.

pub mod ec2;
pub mod http;
pub mod python;

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use harness::testing::Cluster;
use serde_json::Value;

/// A claim and a pod that writes to it, as a user would apply them.
pub const CLAIM_AND_POD: &str = include_str!("../../docs/pod-with-claim.yaml");

/// Returns the repository's root.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Returns a scenario of the repository.
pub fn scenario(name: &str) -> PathBuf {
    root().join("scenarios").join(name)
}

/// Returns true if this machine has `what` (`root`, `kubectl`, `aws`, `curl`, `cargo`, `boto3`, `pytest`, the Python
/// package `kubernetes`, `ansible` with its collections, `c7n`, `libcloud`). A test that needs it calls this first and
/// returns when it is false; standard error then names the missing program. If `MOORING_REQUIRE` lists it, its absence
/// is a failure instead.
///
/// # Panics
/// If it is required and missing.
pub fn have(what: &str) -> bool {
    static FOUND: Mutex<BTreeMap<String, bool>> = Mutex::new(BTreeMap::new());
    let found = *FOUND.lock().entry(what.to_owned()).or_insert_with(|| find(what));
    let required = std::env::var("MOORING_REQUIRE").unwrap_or_default();
    assert!(found || !required.split(',').any(|r| r == what), "MOORING_REQUIRE names {what}, and it is missing");
    if !found {
        eprintln!("skipped: this machine has no {what}");
    }
    found
}

fn find(what: &str) -> bool {
    match what {
        "root" => rustix_is_root() && Path::new("/dev/loop-control").exists(),
        // Searched for but not imported: an import takes as long as a test.
        "boto3" | "kubernetes" | "libcloud" | "pytest" => {
            let probe = format!("import importlib.util as u; u.find_spec('{what}') or 1/0");
            succeeds(Command::new("python3").args(["-c", &probe]))
        }
        "c7n" => succeeds(Command::new("custodian").arg("version")),
        "ansible" => {
            let probe = "import importlib.util as u; u.find_spec('ansible_collections.amazon.aws') or 1/0";
            succeeds(Command::new("python3").args(["-c", probe]))
        }
        "kubectl" => succeeds(Command::new("kubectl").args(["version", "--client"])),
        "aws" => succeeds(Command::new("aws").arg("--version")),
        other => succeeds(Command::new(other).arg("--version")),
    }
}

/// Removes from `command` every AWS setting in this process's environment.
pub(crate) fn without_aws_settings(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("AWS_") {
            command.env_remove(name);
        }
    }
}

fn rustix_is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|o| o.stdout == b"0\n")
}

fn succeeds(command: &mut Command) -> bool {
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|s| s.success())
}

/// Live clusters that run at the same time. They mostly wait, so four share two cores.
const SEATS: usize = 4;

/// Takes one of the machine's seats for live clusters, and waits for one if all are taken. A file lock works under any test
/// runner, and the kernel releases it.
///
/// # Errors
/// If the lock file cannot be created.
pub fn seat() -> Result<std::fs::File> {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let first = NEXT.fetch_add(1, Ordering::Relaxed);
    let free = (0..SEATS).find_map(|at| match opened(&format!("live-{}", (first + at) % SEATS)) {
        Ok(file) => file.try_lock().is_ok().then_some(Ok(file)),
        Err(error) => Some(Err(error)),
    });
    match free {
        Some(seat) => seat,
        None => locked(&format!("live-{}", first % SEATS)),
    }
}

/// Waits until no other test holds `thing`, a resource that this machine has once, such as a container engine.
///
/// # Errors
/// If the lock file cannot be created.
pub fn alone_with(thing: &str) -> Result<std::fs::File> {
    locked(thing)
}

fn locked(name: &str) -> Result<std::fs::File> {
    let file = opened(name)?;
    file.lock().with_context(|| name.to_owned())?;
    Ok(file)
}

fn opened(name: &str) -> Result<std::fs::File> {
    let path = std::env::temp_dir().join(format!("mooring-tests-{name}.lock"));
    std::fs::File::create(&path).with_context(|| path.display().to_string())
}

/// A live Mooring, stopped when dropped.
pub struct Up {
    _seat: std::fs::File,
    child: Child,
    ready: Value,
    home: tempfile::TempDir,
}

impl Up {
    /// Starts `binary up` with `args` and waits until it is ready, at most two minutes.
    ///
    /// # Errors
    /// If it does not become ready; with its output.
    pub fn start(binary: &str, args: &[&str]) -> Result<Self> {
        let seat = seat()?;
        let home = tempfile::tempdir()?;
        let ready_file = home.path().join("ready.json");
        let log = std::fs::File::create(home.path().join("mooring.log"))?;
        let mut child = Command::new(binary)
            .arg("up")
            .args(unless_given(args, ["--ec2-listen", "--imds-listen", "--kubernetes-listen"]))
            .arg("--ready-file")
            .arg(&ready_file)
            .args(args)
            .env("HOME", home.path())
            .env_remove("XDG_STATE_HOME")
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("start {binary}"))?;
        for _ in 0..2_400 {
            if let Ok(text) = std::fs::read(&ready_file) {
                let ready = serde_json::from_slice(&text)?;
                return Ok(Self { _seat: seat, child, ready, home });
            }
            if let Some(status) = child.try_wait()? {
                let log = std::fs::read_to_string(home.path().join("mooring.log"))?;
                bail!("mooring up ended with {status}:\n{log}");
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let _ = child.kill();
        bail!(
            "mooring up was not ready within two minutes:\n{}",
            std::fs::read_to_string(home.path().join("mooring.log"))?
        )
    }

    /// Returns the whole ready file.
    pub fn all_ready(&self) -> &Value {
        &self.ready
    }

    /// Returns a value of the ready file, such as `ec2` or `kubeconfig`.
    pub fn ready(&self, key: &str) -> &str {
        self.ready[key].as_str().unwrap_or_default()
    }

    /// Returns the process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns its output so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.home.path().join("mooring.log")).unwrap_or_default()
    }

    /// Returns a command with this cluster's environment and its own HOME, so that it reads and writes none of the
    /// user's files.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command
            .env("HOME", self.home.path())
            .env("KUBECONFIG", self.ready("kubeconfig"))
            .env("AWS_ENDPOINT_URL", self.ready("ec2"))
            .env("AWS_ACCESS_KEY_ID", "mooring")
            .env("AWS_SECRET_ACCESS_KEY", "mooring")
            .env("AWS_DEFAULT_REGION", "us-east-1")
            .env("AWS_EC2_METADATA_DISABLED", "true")
            .env_remove("AWS_PROFILE");
        command
    }

    /// Runs a command with this cluster's environment and returns its output.
    ///
    /// # Errors
    /// If it cannot be started or fails; with all its output.
    pub fn run(&self, program: &str, args: &[&str]) -> Result<String> {
        let output = self.command(program).args(args).output().with_context(|| format!("start {program}"))?;
        text(program, args, output)
    }

    /// Kills it as `kill -9` does.
    ///
    /// # Errors
    /// If it has already exited.
    pub fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

/// Runs a program that finds `cluster` through its environment, with its own HOME, and returns its output.
///
/// # Errors
/// If it cannot be started or fails; with all its output.
pub fn outside(cluster: &Cluster, program: &str, args: &[&str]) -> Result<String> {
    let home = tempfile::tempdir()?;
    let mut command = Command::new(program);
    without_aws_settings(&mut command);
    command.args(args).env("HOME", home.path()).envs(cluster.env()?);
    text(program, args, command.output().with_context(|| format!("start {program}"))?)
}

/// Returns free loopback ports for those of `flags` that `args` does not set.
fn unless_given<'a, const N: usize>(args: &[&str], flags: [&'a str; N]) -> Vec<&'a str> {
    flags.into_iter().filter(|flag| !args.contains(flag)).flat_map(|flag| [flag, "127.0.0.1:0"]).collect()
}

impl Drop for Up {
    fn drop(&mut self) {
        // SIGTERM first, so that it takes everything down; it may also have exited already.
        let asked = succeeds(Command::new("kill").arg(self.child.id().to_string()));
        for _ in 0..300 {
            if !asked || self.child.try_wait().is_ok_and(|s| s.is_some()) {
                break;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn text(program: &str, args: &[&str], output: Output) -> Result<String> {
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(out);
    }
    bail!(
        "{program} {} ended with {}:\n{out}{}",
        args.join(" "),
        output.status,
        String::from_utf8_lossy(&output.stderr)
    )
}

/// Calls `probe` every 100 ms until it returns a value. Gives up after 900 calls, which take a busy machine far longer than
/// 90 seconds if `probe` starts a program.
///
/// # Errors
/// The last error of `probe`.
pub fn eventually<T>(mut probe: impl FnMut() -> Result<T>) -> Result<T> {
    let mut last = None;
    for _ in 0..900 {
        match probe() {
            Ok(value) => return Ok(value),
            Err(e) => last = Some(e),
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    Err(last.unwrap_or_else(|| anyhow::anyhow!("nothing was tried")))
}
