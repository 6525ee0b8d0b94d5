//! A Python process that runs one case after the other: to start one takes longer than most cases.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// Idle workers by their script. They exit with this process, at the end of their standard input.
static IDLE: Mutex<BTreeMap<PathBuf, Vec<Worker>>> = Mutex::new(BTreeMap::new());

/// A worker: a Python program that reads names of cases line by line and answers each with a line of JSON.
#[derive(Debug)]
pub struct Worker {
    child: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
    home: tempfile::TempDir,
}

impl Worker {
    /// Starts `script` with `argument`, with its own HOME and none of the user's AWS settings.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(script: &Path, argument: &str) -> Result<Self> {
        let home = tempfile::tempdir()?;
        let mut command = Command::new("python3");
        crate::without_aws_settings(&mut command);
        let mut child = command
            .arg("-B")
            .arg(script)
            .arg(argument)
            .env("HOME", home.path())
            .env("AWS_EC2_METADATA_DISABLED", "true")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("start python3 {}", script.display()))?;
        let (requests, answers) = (child.stdin.take(), child.stdout.take());
        let (Some(requests), Some(answers)) = (requests, answers) else { bail!("the worker has no pipes") };
        Ok(Self { child, requests, answers: BufReader::new(answers), home })
    }

    /// Sends one line and reads the answer.
    ///
    /// # Errors
    /// If the worker has exited, as it does when a case hangs; its standard error shows where.
    pub fn ask(&mut self, line: &str) -> Result<Value> {
        writeln!(self.requests, "{line}").context("the worker has ended")?;
        let mut answer = String::new();
        if self.answers.read_line(&mut answer)? == 0 {
            let status = self.child.wait()?;
            bail!("the worker ended with {status}; its standard error says why ({})", self.home.path().display());
        }
        serde_json::from_str(&answer).with_context(|| format!("not an answer: {answer}"))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Lets a worker of `script` run the case `name`; tests of one process share workers.
///
/// # Errors
/// If the case fails; with Python's traceback.
pub fn run(script: &Path, argument: &str, name: &str) -> Result<Value> {
    let idle = IDLE.lock().get_mut(script).and_then(Vec::pop);
    let mut worker = match idle {
        Some(worker) => worker,
        None => Worker::start(script, argument)?,
    };
    let answer = worker.ask(name)?;
    // Under a runner with a process per test, no worker must outlive its test.
    if std::env::var_os("NEXTEST").is_none() {
        IDLE.lock().entry(script.to_owned()).or_default().push(worker);
    }
    match answer["error"].as_str() {
        Some(error) => bail!("{error}"),
        None => Ok(answer),
    }
}
