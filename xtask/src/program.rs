//! The `mooring` program that tasks run, and its runs.

use std::env;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

/// The program.
#[derive(Debug)]
pub struct Mooring(PathBuf);

/// One run of a scenario.
#[derive(Clone, Copy, Debug, Default)]
pub struct Run<'a> {
    /// Its seed.
    pub seed: u64,
    /// The cloud's latency profile, instead of the file's.
    pub latency: Option<&'a str>,
    /// The transport of calls.
    pub transport: Option<&'a str>,
    /// The file for its trace.
    pub trace: Option<&'a Path>,
}

/// The end of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The exit code; none after a signal.
    pub code: Option<i32>,
    /// The first line of its failure message.
    pub message: String,
}

impl Ended {
    /// Returns true if it passed.
    pub fn passed(&self) -> bool {
        self.code == Some(0)
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.code {
            Some(code) => write!(f, "exit {code}")?,
            None => f.write_str("ended by a signal")?,
        }
        if self.message.is_empty() { Ok(()) } else { write!(f, ": {}", self.message) }
    }
}

impl Mooring {
    /// Returns the program that the variable `MOORING` names; without it, a release build of the repository.
    ///
    /// # Errors
    /// If it does not exist and cannot be built.
    pub fn find(repository: &Path) -> Result<Self, anyhow::Error> {
        if let Some(named) = env::var_os("MOORING") {
            let path = PathBuf::from(named);
            if !path.is_file() {
                bail!("MOORING: {} is not a file", path.display());
            }
            return Ok(Self(path.canonicalize()?));
        }
        let mut build = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        build.args(["build", "--locked", "--release", "--package", "harness", "--bin", "mooring"]);
        build.args(["--message-format", "json-render-diagnostics"]);
        let output = build.current_dir(repository).stderr(Stdio::inherit()).output().context("cargo build")?;
        if !output.status.success() {
            bail!("{build:?}: {}", output.status);
        }
        let built = String::from_utf8_lossy(&output.stdout).lines().filter_map(executable).next_back();
        Ok(Self(built.context("cargo names no executable of mooring")?))
    }

    /// Returns the program at `path`.
    #[cfg(test)]
    pub fn at(path: &Path) -> Self {
        Self(path.to_owned())
    }

    /// Runs `scenario` to its end.
    ///
    /// # Errors
    /// If the program does not start.
    pub fn run(&self, scenario: &Path, run: Run<'_>) -> Result<Ended, anyhow::Error> {
        let mut command = Command::new(&self.0);
        command.arg("run").arg(scenario).args(["--seed", &run.seed.to_string()]);
        if let Some(latency) = run.latency {
            command.args(["--latency", latency]);
        }
        if let Some(transport) = run.transport {
            command.args(["--transport", transport]);
        }
        if let Some(trace) = run.trace {
            command.arg("--trace").arg(trace);
        }
        command.env("NO_COLOR", "1").stdin(Stdio::null()).stdout(Stdio::null());
        let output = command.output().with_context(|| format!("{}", self.0.display()))?;
        let text = String::from_utf8_lossy(&output.stderr);
        let message = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
        let message = message.strip_prefix("error:").unwrap_or(message).trim().to_owned();
        Ok(Ended { code: output.status.code(), message })
    }
}

/// Returns the executable that a cargo message names.
fn executable(message: &str) -> Option<PathBuf> {
    let message: serde_json::Value = serde_json::from_str(message).ok()?;
    message["executable"].as_str().map(PathBuf::from)
}

/// Returns the scenarios of the repository, by name: the files of `scenarios/` that have steps.
///
/// # Errors
/// If they cannot be read.
pub fn scenarios(repository: &Path) -> Result<Vec<PathBuf>, anyhow::Error> {
    let dir = repository.join("scenarios");
    let mut all = Vec::new();
    for entry in fs::read_dir(&dir).with_context(|| dir.display().to_string())? {
        let path = entry?.path();
        if path.extension().is_some_and(|has| has == "yaml") {
            let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
            if text.lines().any(|line| line.starts_with("steps:")) {
                all.push(path);
            }
        }
    }
    all.sort();
    if all.is_empty() {
        bail!("{} has no scenarios", dir.display());
    }
    Ok(all)
}

/// Returns a path for messages: relative to the working directory when that is shorter.
pub fn shown(path: &Path) -> String {
    let here = env::current_dir().ok().and_then(|here| path.strip_prefix(here).ok().map(Path::to_owned));
    here.unwrap_or_else(|| path.to_owned()).display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_deviations_is_no_scenario() {
        let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let all = scenarios(&repository).unwrap();
        let names: Vec<_> = all.iter().filter_map(|path| path.file_stem()?.to_str()).collect();
        assert!(names.contains(&"first-volume") && names.contains(&"migration"), "{names:?}");
        assert!(repository.join("scenarios/upstream-bugs.yaml").exists() && !names.contains(&"upstream-bugs"));
    }
}
