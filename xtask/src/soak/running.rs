//! The Mooring that is shaken: started in the background with a home directory of its own, asked by its own commands.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use serde_json::Value;

use super::sample::{Sample, loops, mounts};

/// Its name.
const NAME: &str = "soak";

/// How it is started.
pub struct Start {
    /// The program.
    pub program: PathBuf,
    /// Its seed.
    pub seed: u64,
    /// Divides the durations that loops wait.
    pub time_scale: u32,
    /// The backend of its disks.
    pub backend: Option<String>,
}

/// A Mooring that is up; taken down when dropped.
pub struct Running {
    program: PathBuf,
    home: tempfile::TempDir,
    ready: Value,
    pid: u32,
    directory: PathBuf,
}

/// What a command said: its exit code, and its envelope.
pub struct Said {
    /// Whether the exit code is 0.
    pub passed: bool,
    /// What it says with `--output json`.
    pub envelope: Value,
}

impl Running {
    /// Starts one, with its invariants checked.
    ///
    /// # Errors
    /// What it says when it does not become ready.
    pub fn start(start: Start) -> Result<Self, anyhow::Error> {
        let home = tempfile::Builder::new().prefix("mooring-soak-").tempdir()?;
        let mut running = Self { program: start.program, home, ready: Value::Null, pid: 0, directory: PathBuf::new() };
        let (seed, scale) = (start.seed.to_string(), start.time_scale.to_string());
        let mut args = vec!["up", "--detach", "--check", "--quiet", "--nodes", "4", "--seed", &seed];
        args.extend(["--time-scale", &scale]);
        for flag in ["--ec2-listen", "--imds-listen", "--kubernetes-listen"] {
            args.extend([flag, "127.0.0.1:0"]);
        }
        if let Some(backend) = &start.backend {
            args.extend(["--backend", backend]);
        }
        running.ready = running.asks(&args, None)?["data"].take();
        running.pid = running.ready["pid"].as_u64().and_then(|pid| pid.try_into().ok()).context("no pid")?;
        let volumes = Path::new(running.says("volumeDir"));
        running.directory = volumes.parent().context("no directory")?.to_owned();
        Ok(running)
    }

    /// Where it is, and how somebody ends it whose patience is over.
    pub fn describe(&self) -> String {
        let (home, program) = (self.home.path().display(), self.program.display());
        format!("process {} serves; HOME={home} {program} down --name {NAME} ends it early", self.pid)
    }

    /// A text of its ready file.
    pub fn says(&self, key: &str) -> &str {
        self.ready[key].as_str().unwrap_or_default()
    }

    /// Its nodes.
    pub fn nodes(&self) -> Vec<String> {
        let nodes = self.ready["nodes"].as_array().into_iter().flatten();
        nodes.filter_map(|node| node["node"].as_str().map(str::to_owned)).collect()
    }

    /// What it has of this machine.
    ///
    /// # Errors
    /// When it is gone.
    pub fn sample(&self) -> Result<Sample, anyhow::Error> {
        Sample::of(self.pid, &self.directory).with_context(|| self.last_words())
    }

    /// Runs a command that may fail, with `input` as its standard input.
    ///
    /// # Errors
    /// When it does not start, or says nothing that can be read.
    pub fn tries(&self, args: &[&str], input: Option<&Value>) -> Result<Said, anyhow::Error> {
        let mut command = Command::new(&self.program);
        command.args(["--output", "json"]).args(args).args(["--name", NAME]);
        command.env("HOME", self.home.path()).env_remove("XDG_STATE_HOME").env_remove("MOORING_NAME");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().with_context(|| self.program.display().to_string())?;
        let stdin = child.stdin.take();
        if let (Some(mut stdin), Some(input)) = (stdin, input) {
            // Who does not read it says why.
            let _ = stdin.write_all(input.to_string().as_bytes());
        }
        let output = child.wait_with_output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let envelope = serde_json::from_str(text.trim_end()).with_context(|| {
            format!("mooring {}: {}{}", args.join(" "), text, String::from_utf8_lossy(&output.stderr))
        })?;
        Ok(Said { passed: output.status.success(), envelope })
    }

    /// Runs a command that must pass, and gives its envelope.
    ///
    /// # Errors
    /// What it says when it fails.
    pub fn asks(&self, args: &[&str], input: Option<&Value>) -> Result<Value, anyhow::Error> {
        let said = self.tries(args, input)?;
        ensure!(said.passed, "mooring {}: {}", args.join(" "), said.envelope["error"]["message"]);
        Ok(said.envelope)
    }

    /// What the invariants have seen, by `mooring check`.
    ///
    /// # Errors
    /// When they cannot be asked; not when they have seen something.
    pub fn check(&self, args: &[&str], within: Duration) -> Result<Value, anyhow::Error> {
        let within = format!("{}s", within.as_secs());
        let mut said = self.tries(&[&["check", "--timeout", &within], args].concat(), None)?;
        if said.envelope["data"].is_null() {
            bail!("{}", said.envelope["error"]["message"]);
        }
        Ok(said.envelope["data"].take())
    }

    /// Takes it down, and says what is left of it.
    ///
    /// # Errors
    /// When it cannot be asked to go.
    pub fn down(&self) -> Result<Vec<String>, anyhow::Error> {
        let said = self.tries(&["down"], None)?;
        let mut left = Vec::new();
        if !said.passed {
            left.push(format!("`mooring down` says {}", said.envelope["error"]["message"]));
        }
        if Sample::of(self.pid, &self.directory).is_ok() {
            left.push(format!("process {} is there after `down`", self.pid));
        }
        let devices = loops(&self.directory)?;
        if !devices.is_empty() {
            left.push(format!("loop devices are there after `down`: {}", devices.join(", ")));
        }
        match mounts(&fs::read_to_string("/proc/self/mountinfo").unwrap_or_default(), &self.directory) {
            0 => {}
            many => left.push(format!("{many} mounts are there after `down`")),
        }
        let state = self.home.path().join(".local/state/mooring").join(NAME);
        for directory in [&self.directory, &state] {
            if directory.exists() {
                left.push(format!("{} is there after `down`", directory.display()));
            }
        }
        Ok(left)
    }

    /// The end of what it said before it was gone.
    fn last_words(&self) -> String {
        let log = self.home.path().join(".local/state/mooring").join(NAME).join("log");
        let text = fs::read_to_string(log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        format!("it said:\n{}", lines[lines.len().saturating_sub(20)..].join("\n"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It is down by now, unless something went wrong before.
        if self.pid != 0 && Sample::of(self.pid, &self.directory).is_ok() {
            let _ = self.tries(&["down", "--force"], None);
        }
    }
}
