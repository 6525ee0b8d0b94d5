//! The Mooring under test: started in the background with its own home directory, controlled by its own commands.

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

/// The parameters of a start.
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

/// A running Mooring, stopped when dropped.
pub struct Running {
    program: PathBuf,
    home: tempfile::TempDir,
    ready: Value,
    pid: u32,
    directory: PathBuf,
}

/// The result of a command: its exit code and its envelope.
pub struct CommandResult {
    /// True for exit code 0.
    pub passed: bool,
    /// Its output with `--output json`.
    pub envelope: Value,
}

impl Running {
    /// Starts a Mooring that checks its invariants.
    ///
    /// # Errors
    /// If it does not become ready; with its output.
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
        let volumes = Path::new(running.text("volumeDir"));
        running.directory = volumes.parent().context("no directory")?.to_owned();
        Ok(running)
    }

    /// Describes its process, and the command that ends it early.
    pub fn describe(&self) -> String {
        let (home, program) = (self.home.path().display(), self.program.display());
        format!("process {} serves; HOME={home} {program} down --name {NAME} ends it early", self.pid)
    }

    /// Returns a string of its ready file.
    pub fn text(&self, key: &str) -> &str {
        self.ready[key].as_str().unwrap_or_default()
    }

    /// Returns the names of its nodes.
    pub fn nodes(&self) -> Vec<String> {
        let nodes = self.ready["nodes"].as_array().into_iter().flatten();
        nodes.filter_map(|node| node["node"].as_str().map(str::to_owned)).collect()
    }

    /// Returns a sample of the resources that it holds.
    ///
    /// # Errors
    /// If it is gone.
    pub fn sample(&self) -> Result<Sample, anyhow::Error> {
        Sample::of(self.pid, &self.directory).with_context(|| self.last_words())
    }

    /// Runs a command that may fail, with `input` as its standard input.
    ///
    /// # Errors
    /// If it does not start, or its output cannot be parsed.
    pub fn tries(&self, args: &[&str], input: Option<&Value>) -> Result<CommandResult, anyhow::Error> {
        let mut command = Command::new(&self.program);
        command.args(["--output", "json"]).args(args).args(["--name", NAME]);
        command.env("HOME", self.home.path()).env_remove("XDG_STATE_HOME").env_remove("MOORING_NAME");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().with_context(|| self.program.display().to_string())?;
        let stdin = child.stdin.take();
        if let (Some(mut stdin), Some(input)) = (stdin, input) {
            // A command that does not read its input reports why itself.
            let _ = stdin.write_all(input.to_string().as_bytes());
        }
        let output = child.wait_with_output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let envelope = serde_json::from_str(text.trim_end()).with_context(|| {
            format!("mooring {}: {}{}", args.join(" "), text, String::from_utf8_lossy(&output.stderr))
        })?;
        Ok(CommandResult { passed: output.status.success(), envelope })
    }

    /// Runs a command that must pass, and returns its envelope.
    ///
    /// # Errors
    /// If it fails; with its message.
    pub fn asks(&self, args: &[&str], input: Option<&Value>) -> Result<Value, anyhow::Error> {
        let message = self.tries(args, input)?;
        ensure!(message.passed, "mooring {}: {}", args.join(" "), message.envelope["error"]["message"]);
        Ok(message.envelope)
    }

    /// Returns the violations that `mooring check` finds.
    ///
    /// # Errors
    /// If the command does not work; violations are not an error here.
    pub fn check(&self, args: &[&str], within: Duration) -> Result<Value, anyhow::Error> {
        let within = format!("{}s", within.as_secs());
        let mut message = self.tries(&[&["check", "--timeout", &within], args].concat(), None)?;
        if message.envelope["data"].is_null() {
            bail!("{}", message.envelope["error"]["message"]);
        }
        Ok(message.envelope["data"].take())
    }

    /// Stops it, and returns what is left of it.
    ///
    /// # Errors
    /// If the command does not work.
    pub fn down(&self) -> Result<Vec<String>, anyhow::Error> {
        let message = self.tries(&["down"], None)?;
        let mut left = Vec::new();
        if !message.passed {
            left.push(format!("`mooring down` says {}", message.envelope["error"]["message"]));
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

    /// Returns the end of its log, after it has ended.
    fn last_words(&self) -> String {
        let log = self.home.path().join(".local/state/mooring").join(NAME).join("log");
        let text = fs::read_to_string(log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        format!("it said:\n{}", lines[lines.len().saturating_sub(20)..].join("\n"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It is normally stopped by now, but not after a failure.
        if self.pid != 0 && Sample::of(self.pid, &self.directory).is_ok() {
            let _ = self.tries(&["down", "--force"], None);
        }
    }
}
