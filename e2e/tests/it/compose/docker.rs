//! Docker of the tests with containers: the daemon, one of their own if none answers, and the image under test.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Weak};

use anyhow::{Context, Result, bail, ensure};
use e2e::{alone_with, eventually, root};
use parking_lot::Mutex;

use super::{MOORING, image};

/// A docker daemon for this test, stopped when dropped.
struct Daemon {
    child: Child,
    home: tempfile::TempDir,
}

impl Daemon {
    fn start() -> Result<Self> {
        let home = tempfile::Builder::new().prefix("mooring-docker-").tempdir()?;
        let at = |name: &str| home.path().join(name);
        let log = std::fs::File::create(at("log"))?;
        let mut child = Command::new("dockerd")
            .arg("--data-root")
            .arg(at("data"))
            .arg("--exec-root")
            .arg(at("exec"))
            .arg("--pidfile")
            .arg(at("pid"))
            .arg("--host")
            .arg(host(home.path()))
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("dockerd (Debian package docker.io)")?;
        let answers = eventually(|| {
            if let Some(status) = child.try_wait()? {
                bail!("dockerd ended with {status}");
            }
            ensure!(docker_answers(&host(home.path())), "dockerd does not answer");
            Ok(())
        });
        if let Err(error) = answers {
            let _ = child.kill();
            let _ = child.wait();
            let message = std::fs::read_to_string(home.path().join("log"))?;
            return Err(error.context(message));
        }
        Ok(Self { child, home })
    }

    fn host(&self) -> String {
        host(self.home.path())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // SIGTERM first, so that it unmounts its mounts.
        let _ = Command::new("kill").arg(self.child.id().to_string()).status();
        let ended = eventually(|| {
            ensure!(self.child.try_wait()?.is_some(), "dockerd still runs");
            Ok(())
        });
        if ended.is_err() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

fn host(home: &Path) -> String {
    format!("unix://{}", home.join("sock").display())
}

fn docker_answers(host: &str) -> bool {
    let mut command = Command::new("docker");
    command.args(["version", "--format", "{{.Server.Version}}"]).stdout(Stdio::null()).stderr(Stdio::null());
    if !host.is_empty() {
        command.env("DOCKER_HOST", host);
    }
    command.status().is_ok_and(|status| status.success())
}

/// Docker with an image of the program under test. The tests of this process share it; those of other processes wait
/// for it.
pub(super) struct Docker {
    /// Docker's address; taken from the environment if empty.
    host: String,
    pub(super) image: String,
    // The daemon must outlive the image, and the lock the daemon.
    _daemon: Option<Daemon>,
    _alone: std::fs::File,
}

impl Docker {
    pub(super) fn shared() -> Result<Arc<Self>> {
        static SHARED: Mutex<Weak<Docker>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock();
        if let Some(docker) = shared.upgrade() {
            return Ok(docker);
        }
        let docker = Arc::new(Self::prepare()?);
        *shared = Arc::downgrade(&docker);
        Ok(docker)
    }

    fn prepare() -> Result<Self> {
        let alone = alone_with("docker")?;
        let daemon = if docker_answers("") { None } else { Some(Daemon::start()?) };
        let host = daemon.as_ref().map(Daemon::host).unwrap_or_default();
        let docker =
            Self { host, image: format!("mooring-e2e-{}", std::process::id()), _daemon: daemon, _alone: alone };
        let home = tempfile::tempdir()?;
        let context = home.path().join("context");
        let size = image::gather(&root().join("Dockerfile"), Path::new(MOORING), &context)?;
        eprintln!("image: {size}");
        image::build(&mut docker.command("docker", home.path()), &context, &docker.image)?;
        Ok(docker)
    }

    pub(super) fn command(&self, program: &str, home: &Path) -> Command {
        let mut command = Command::new(program);
        if !self.host.is_empty() {
            command.env("DOCKER_HOST", &self.host);
        }
        command.env("HOME", home).current_dir(root()).stdin(Stdio::null());
        command
    }
}

impl Drop for Docker {
    fn drop(&mut self) {
        let removed = self.command("docker", &std::env::temp_dir()).args(["rmi", "--force", &self.image]).output();
        match removed {
            Ok(output) if output.status.success() => {}
            other => eprintln!("docker rmi {}: {other:?}", self.image),
        }
    }
}
