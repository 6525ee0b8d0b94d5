//! A temporary home directory for one test.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

/// Free ports: other clusters may run on this machine.
pub const ANY_PORTS: [&str; 6] =
    ["--ec2-listen", "127.0.0.1:0", "--imds-listen", "127.0.0.1:0", "--kubernetes-listen", "127.0.0.1:0"];

/// A home directory. Every Mooring that is up in it is killed on drop.
pub struct Home {
    directory: tempfile::TempDir,
}

impl Home {
    pub fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Returns the state directory of the Mooring called `name`.
    pub fn place(&self, name: &str) -> PathBuf {
        self.path().join(".local/state/mooring").join(name)
    }

    /// Returns the program with `args`, without the environment variables of the user who runs the test.
    pub fn mooring(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mooring"));
        command.args(args).env("HOME", self.path()).env("NO_COLOR", "1").stdin(Stdio::null());
        for variable in ["XDG_STATE_HOME", "KUBECONFIG", "MOORING_NAME", "SHELL"] {
            command.env_remove(variable);
        }
        command.current_dir(self.path());
        command
    }

    pub fn run(&self, args: &[&str]) -> Output {
        self.mooring(args).output().unwrap()
    }

    /// Returns the output. The command must pass.
    pub fn ok(&self, args: &[&str]) -> String {
        let output = self.run(args);
        let (out, error) = texts(&output);
        assert!(output.status.success(), "mooring {} ended with {}:\n{out}{error}", args.join(" "), output.status);
        out
    }

    /// Returns the error output. The exit code must be `code`.
    pub fn fails(&self, code: i32, args: &[&str]) -> String {
        let output = self.run(args);
        let (out, error) = texts(&output);
        assert_eq!(output.status.code(), Some(code), "mooring {}:\n{out}{error}", args.join(" "));
        error
    }

    /// Returns the data of the JSON output.
    pub fn json(&self, args: &[&str]) -> Value {
        let text = self.ok(&[args, &["--output", "json"]].concat());
        serde_json::from_str::<Value>(&text).unwrap()["data"].clone()
    }

    /// Starts a Mooring in the background on free ports.
    pub fn up(&self, name: &str, more: &[&str]) -> Value {
        let start = ["up", "--detach", "--name", name, "--backend", "directory", "--time-scale", "10"];
        self.json(&[&start[..], &ANY_PORTS, more].concat())
    }

    /// Returns the log of a Mooring in the background.
    pub fn log(&self, name: &str) -> String {
        std::fs::read_to_string(self.place(name).join("log")).unwrap_or_default()
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        // A failed test may leave some up.
        let _ = self.run(&["down", "--all", "--force", "--timeout", "5s"]);
    }
}

pub fn texts(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

/// Kills a process as `kill -9` does and waits until it is gone.
pub fn kill(pid: &Value) {
    let killed = Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap();
    assert!(killed.success());
    // The first thread may be a zombie while others still hold files of the process.
    let gone = || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
        let threads = std::fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
        !stat.is_ok_and(|stat| threads > 1 || !stat.contains(") Z "))
    };
    eventually("the process is gone", gone);
}

/// Waits until `holds` returns true, at least 90 seconds.
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..900 {
        if holds() {
            return;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("not within 90 s: {what}");
}

/// Sends a request and returns status and body.
pub fn http(endpoint: &str, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> (u16, String) {
    let address = endpoint.trim_start_matches("http://").split('/').next().unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    let host = headers.iter().find(|(name, _)| *name == "host").map_or(address, |(_, host)| host);
    let mut head = format!("{method} {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n");
    for (name, value) in headers.iter().filter(|(name, _)| *name != "host") {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    write!(stream, "{head}content-length: {}\r\n\r\n{body}", body.len()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    (status, answer.split_once("\r\n\r\n").unwrap().1.to_owned())
}

/// Creates an object.
pub fn create(ready: &Value, path: &str, object: &Value) {
    let endpoint = ready["kubernetesHttp"].as_str().unwrap();
    let (status, answer) = http(endpoint, "POST", path, &[("content-type", "application/json")], &object.to_string());
    assert_eq!(status, 201, "{answer}");
}

/// Applies the claim `data` and the pod `web` that writes to it.
pub fn claim_and_pod(ready: &Value) {
    create(
        ready,
        "/api/v1/namespaces/default/persistentvolumeclaims",
        &json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": "data" },
            "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } },
        }),
    );
    create(
        ready,
        "/api/v1/namespaces/default/pods",
        &json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "web" },
            "spec": {
                "containers": [{
                    "name": "writer", "image": "mooring/writer",
                    "env": [{ "name": "DB_PASSWORD", "value": "canary-in-env" }],
                    "volumeMounts": [{ "name": "data", "mountPath": "/data" }],
                }],
                "volumes": [{ "name": "data", "persistentVolumeClaim": { "claimName": "data" } }],
            },
        }),
    );
}
