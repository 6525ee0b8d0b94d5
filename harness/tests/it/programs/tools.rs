//! A folder with a scenario and its programs, and a list of the processes of this machine.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

/// A folder for one test. Processes of its programs have its path in their arguments, so that the test finds them.
pub struct Folder(tempfile::TempDir);

/// The result of a run.
pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
    pub data: Value,
}

impl Ran {
    /// Returns the report on the `number`th program.
    pub fn program(&self, number: usize) -> &Value {
        &self.data["data"]["programs"][number]
    }

    /// Returns the message of the error.
    pub fn error(&self) -> &str {
        self.data["error"]["message"].as_str().unwrap_or_default()
    }
}

impl Folder {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Writes a file.
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Writes a shell script.
    pub fn script(&self, name: &str, text: &str) {
        write_script(&self.path().join(name), text);
    }

    /// Returns the text of a file, or an empty text.
    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path().join(name)).unwrap_or_default()
    }

    /// Writes the scenario `s.yaml` with this header, these steps and one node. An hour takes a minute, and the
    /// deadline is long enough for a slow machine.
    pub fn scenario(&self, header: &str, steps: &str) {
        let text = format!("name: s\nnodes: {{count: 1}}\ntime-scale: 60\ndeadline: 200h\n{header}\nsteps:\n{steps}\n");
        self.write("s.yaml", &text);
    }

    /// Returns the command `mooring` with `args`, which runs in this folder and has its temporary files there.
    pub fn mooring(&self, args: &[&str]) -> Command {
        let temporary = self.path().join("t");
        std::fs::create_dir_all(&temporary).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_mooring"));
        command.args(args).current_dir(self.path()).env("TMPDIR", temporary).env("NO_COLOR", "1");
        command.env("HOME", self.path()).env_remove("GITHUB_ACTIONS").env_remove("XDG_STATE_HOME");
        command.stdin(Stdio::null());
        command
    }

    /// Arguments of a live run of the scenario.
    const LIVE: [&str; 6] = ["run", "s.yaml", "--live", "--allow-exec", "--backend", "directory"];

    /// Runs the scenario live.
    pub fn run(&self, more: &[&str]) -> Ran {
        self.ran(&[&Self::LIVE[..], more, &["--output", "json"]].concat())
    }

    /// Runs `mooring` with `args`.
    pub fn ran(&self, args: &[&str]) -> Ran {
        let output = self.mooring(args).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        let data = serde_json::from_str(&out).unwrap_or_default();
        Ran { code: output.status.code().unwrap(), out, err, data }
    }

    /// Starts the live run of the scenario in the background.
    pub fn start(&self) -> Child {
        self.mooring(&Self::LIVE).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    /// Sends a GET to the API server of a ready file.
    pub fn get(&self, ready: &Value, path: &str) -> Value {
        let url = format!("{}{path}", ready["kubernetesHttp"].as_str().unwrap());
        let output = Command::new("curl").args(["-sf", &url]).output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap_or_default()
    }

    /// Creates an object.
    pub fn post(&self, ready: &Value, path: &str, object: &Value) {
        let url = format!("{}{path}", ready["kubernetesHttp"].as_str().unwrap());
        let object = object.to_string();
        let mut made = Command::new("curl");
        made.args(["-sf", "-o", "/dev/null", "-H", "content-type: application/json"]);
        assert!(made.args(["-d", &object, &url]).status().unwrap().success(), "{object}");
    }

    /// Returns the processes that have the path of this folder in their arguments.
    pub fn left(&self) -> Vec<String> {
        let own = std::process::id().to_string();
        let mark = self.path().display().to_string();
        let entries = std::fs::read_dir("/proc").unwrap().flatten();
        let pids = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        let line = |pid: &String| std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let pids = pids.filter(|pid| pid.chars().all(|c| c.is_ascii_digit()) && *pid != own);
        let lines = pids.map(|pid| format!("{pid}: {}", String::from_utf8_lossy(&line(&pid)).replace('\0', " ")));
        lines.filter(|line| line.contains(&mark)).collect()
    }

    /// Waits until no such process is left.
    pub fn no_process_left(&self) {
        eventually("no process of the program is left", || self.left().is_empty());
    }
}

/// Writes a shell script. A child process writes it: if this process did, a child that a parallel test just forked could
/// hold the file open for writing, and executing it would fail (ETXTBSY).
pub fn write_script(path: &Path, text: &str) {
    let mut writer = Command::new("sh")
        .args(["-c", "cat > \"$0\" && chmod 755 \"$0\""])
        .arg(path)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    writer.stdin.take().unwrap().write_all(format!("#!/bin/sh\n{text}").as_bytes()).unwrap();
    assert!(writer.wait().unwrap().success(), "{} was not written", path.display());
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A failed test leaves a cluster up.
        let _ = self.mooring(&["down", "--all", "--force", "--timeout", "10s"]).output();
    }
}

/// Waits until `holds` returns true, at least 90 seconds.
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..1_800 {
        if holds() {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("not within 90 s: {what}");
}

/// A step that waits until the program has created the ConfigMap `done`.
pub const DONE: &str = "  - wait: {object: configmap/done, that: \"self.metadata.name == 'done'\", within: 100h}";

/// A step that lets the program continue, after the faults of the header are active.
pub const GO: &str = "  - apply: {apiVersion: v1, kind: ConfigMap, metadata: {name: go}}\n";

/// Shell lines that wait for [`GO`].
pub const WAITS: &str = r#"
until curl -sf -o /dev/null "$MOORING_KUBERNETES_HTTP/api/v1/namespaces/default/configmaps/go"; do sleep 0.1; done
"#;

/// Shell lines that create the ConfigMap `done`, and retry until that succeeds.
pub const SAYS_DONE: &str = r#"
until curl -sf -o /dev/null "$MOORING_KUBERNETES_HTTP/api/v1/namespaces/default/configmaps" \
  -H 'content-type: application/json' -d '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"done"}}'; do
  sleep 0.1
done
"#;
