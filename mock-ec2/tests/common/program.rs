//! The `mock-ec2` program as a child, over real sockets.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};

use serde_json::Value;
use substrate::{body, dial};

use super::{Answer, read, signed};

pub fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_mock-ec2"))
}

/// Child that ends with the test. Its stderr is dropped after the start.
pub struct Running(pub Child, pub BufReader<ChildStderr>);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    /// Sends the signal `name` and returns the exit code, if there is one.
    pub fn end(&mut self, name: &str) -> Option<i32> {
        let reported = Command::new("kill").args([&format!("-{name}"), &self.0.id().to_string()]).status().unwrap();
        assert!(reported.success());
        self.0.wait().unwrap().code()
    }
}

/// Starts the program on a free port and waits until it is ready.
pub fn start(dir: &Path, flags: &[&str]) -> (Running, String) {
    start_by(program(), dir, flags)
}

/// Starts it by `command`, which is the program or execs it.
pub fn start_by(mut command: Command, dir: &Path, flags: &[&str]) -> (Running, String) {
    let ready = dir.join("ready.json");
    let mut child = command
        .args(["--listen", "127.0.0.1:0", "--ready-file"])
        .arg(&ready)
        .args(flags)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    stderr.read_line(&mut line).unwrap();
    assert!(line.contains("serves http://127.0.0.1:"), "{line}");
    let content: Value = serde_json::from_slice(&std::fs::read(&ready).unwrap()).unwrap();
    (Running(child, stderr), content["endpoint"].as_str().unwrap().to_owned())
}

pub fn run<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

/// Posts a signed form on its own connection.
pub async fn ask(endpoint: &str, form: &str) -> Answer {
    let form = format!("Version=2016-11-15&{form}");
    read(body::call(dial::http(endpoint).unwrap(), signed(&form)).await.unwrap()).await
}
