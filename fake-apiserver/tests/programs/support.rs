//! Runs the binary for a test, with its own HOME.

use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use substrate::json::Value;
use tempfile::TempDir;

/// A running `fake-apiserver`; killed when the test ends.
pub struct Server {
    folder: TempDir,
    child: Child,
    ready: Value,
}

impl Server {
    /// Starts the binary on free ports and waits until it is ready.
    pub fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let ready_file = folder.path().join("ready.json");
        let child = Command::new(env!("CARGO_BIN_EXE_fake-apiserver"))
            .args(["--listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0", "--ready-file"])
            .arg(&ready_file)
            .arg("--kubeconfig")
            .arg(folder.path().join("kubeconfig"))
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut server = Self { folder, child, ready: Value::Null };
        for _ in 0..9_000 {
            if let Ok(text) = std::fs::read(&ready_file) {
                server.ready = serde_json::from_slice(&text).unwrap();
                return server;
            }
            assert!(server.child.try_wait().unwrap().is_none(), "the server ended before it was ready");
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("the server was not ready within 90 s");
    }

    /// Returns a field of the ready file.
    pub fn ready(&self, field: &str) -> &str {
        self.ready[field].as_str().unwrap()
    }

    /// Writes a file that is removed after the test.
    pub fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    }

    /// Runs kubectl with its own HOME.
    pub fn kubectl(&self, args: &[&str]) -> Output {
        Command::new("kubectl")
            .args(args)
            .current_dir(self.folder.path())
            .env("HOME", self.folder.path())
            .env("KUBECONFIG", self.ready("kubeconfig"))
            .output()
            .unwrap()
    }

    /// Waits for the end. Returns the exit code.
    pub fn wait(&mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }

    /// Sends a signal and waits for the end. Returns the exit code.
    pub fn end(&mut self, signal: &str) -> Option<i32> {
        let sent = Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
        self.child.wait().unwrap().code()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns true if `tool` is available. If it is missing, the test is skipped with a visible line, unless
/// `MOORING_REQUIRE` names the tool: then it fails.
pub fn available(tool: &str) -> bool {
    let found = Command::new(tool).arg("version").arg("--client").output().is_ok_and(|o| o.status.success());
    let required = std::env::var("MOORING_REQUIRE").is_ok_and(|list| list.split(',').any(|t| t.trim() == tool));
    assert!(found || !required, "MOORING_REQUIRE names {tool}, which is not installed");
    if !found {
        eprintln!("skipped: {tool} is not installed");
    }
    found
}
