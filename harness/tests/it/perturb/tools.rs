//! A folder for one test, and `mooring perturb` in it.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::programs::tools::write_script;

/// A folder for one test. Processes of its programs have its path in their arguments, so that the test finds them.
pub struct Folder(tempfile::TempDir);

/// The result of a command.
pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
    pub data: Value,
}

impl Ran {
    /// Returns the error's text.
    pub fn error(&self) -> &str {
        self.data["error"]["message"].as_str().unwrap_or_default()
    }

    /// Returns the findings: class and message of each.
    pub fn findings(&self) -> Vec<(&str, &str)> {
        let list = self.data["data"]["findings"].as_array();
        let list = list.unwrap_or_else(|| panic!("there is no report: {}{}", self.out, self.err));
        list.iter().map(|f| (f["class"].as_str().unwrap(), f["message"].as_str().unwrap())).collect()
    }

    /// Returns all trials.
    pub fn trials(&self) -> &[Value] {
        self.data["data"]["trials"].as_array().unwrap()
    }

    /// Returns the number of trials with this result.
    pub fn count(&self, class: &str) -> usize {
        self.trials().iter().filter(|trial| trial["class"] == class).count()
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
    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path().join(name), text).unwrap();
    }

    /// Writes a shell script.
    pub fn script(&self, name: &str, text: &str) {
        write_script(&self.path().join(name), text);
    }

    /// Returns the text of a file; an empty text if there is none.
    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path().join(name)).unwrap_or_default()
    }

    /// Returns the command `mooring` with `args`, which runs in this folder and has its temporary files there.
    pub fn mooring(&self, args: &[&str]) -> Command {
        let temporary = self.path().join("t");
        std::fs::create_dir_all(&temporary).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_mooring"));
        command.args(args).current_dir(self.path()).env("TMPDIR", temporary).env("NO_COLOR", "1");
        command.env("HOME", self.path()).env_remove("GITHUB_ACTIONS").stdin(Stdio::null());
        command
    }

    /// Runs `mooring perturb` with `args`.
    pub fn perturb(&self, args: &[&str]) -> Ran {
        let output = self.mooring(&[&["perturb", "--output", "json"], args].concat()).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        let data = serde_json::from_str(&out).unwrap_or_default();
        Ran { code: output.status.code().unwrap(), out, err, data }
    }

    /// Returns the processes that have the path of this folder in their arguments, and have not ended within 90 seconds.
    pub fn left(&self) -> Vec<String> {
        for _ in 0..900 {
            if self.processes().is_empty() {
                break;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        self.processes()
    }

    /// Returns the processes that have the path of this folder in their arguments.
    pub fn processes(&self) -> Vec<String> {
        let own = std::process::id().to_string();
        let mark = self.path().display().to_string();
        let entries = std::fs::read_dir("/proc").unwrap().flatten();
        let pids = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        let line = |pid: &String| std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let pids = pids.filter(|pid| pid.chars().all(|c| c.is_ascii_digit()) && *pid != own);
        let lines = pids.map(|pid| format!("{pid}: {}", String::from_utf8_lossy(&line(&pid)).replace('\0', " ")));
        lines.filter(|line| line.contains(&mark)).collect()
    }
}

/// Returns a file of this test.
pub fn file(name: &str) -> String {
    format!("{}/tests/it/perturb/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// Returns a file of `examples/perturb/`.
pub fn example(name: &str) -> String {
    format!("{}/../examples/perturb/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// Returns true if the program `tool` is there, without which a test is skipped unless MOORING_REQUIRE names it.
pub fn have(tool: &str) -> bool {
    let found = Command::new(tool).arg("--version").stdout(Stdio::null()).status().is_ok_and(|s| s.success());
    let required = std::env::var("MOORING_REQUIRE").unwrap_or_default();
    assert!(found || !required.split(',').any(|r| r == tool), "MOORING_REQUIRE names {tool}, and it is missing");
    if !found {
        eprintln!("skipped: this machine has no {tool}");
    }
    found
}

/// Waits until `holds`, at least 90 seconds.
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..1800 {
        if holds() {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("not within 90 s: {what}");
}

/// Returns true if Python has `module`, without which a test is skipped unless MOORING_REQUIRE names it.
pub fn python_has(module: &str) -> bool {
    let probe = format!("import importlib.util as u; u.find_spec('{module}') or 1/0");
    let found = Command::new("python3").args(["-c", &probe]).stderr(Stdio::null()).status().is_ok_and(|s| s.success());
    let required = std::env::var("MOORING_REQUIRE").unwrap_or_default();
    assert!(found || !required.split(',').any(|r| r == module), "MOORING_REQUIRE names {module}, and it is missing");
    if !found {
        eprintln!("skipped: this machine has no python3 with {module}");
    }
    found
}
