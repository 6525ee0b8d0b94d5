//! The folders of `examples/`: each runs as a user would run it, and prints that it ran, or why not.

#![expect(clippy::unwrap_used, reason = "a test ends where it goes wrong")]

use std::path::{Path, PathBuf};
use std::process::Command;

use e2e::{have, root, seat};

#[path = "../../../examples/rust/tests/lost_reply.rs"]
mod lost_reply;

const MOORING: &str = env!("CARGO_BIN_EXE_mooring-under-test");
/// The longest example, in lines.
const LONGEST: usize = 40;

fn example(name: &str) -> PathBuf {
    root().join("examples").join(name).canonicalize().unwrap()
}

/// Returns true if everything that an example needs is installed.
fn needs(folder: &str, all: &[&str]) -> bool {
    let missing: Vec<&str> = all.iter().copied().filter(|what| !have(what)).collect();
    match missing.as_slice() {
        [] => println!("examples/{folder}: run"),
        _ => println!("examples/{folder}: skipped, as this machine has no {}", missing.join(", ")),
    }
    missing.is_empty()
}

/// Runs a command that must succeed, with its own home directory.
fn succeeds(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let (out, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?} ended with {}:\n{out}\n{error}", output.status);
    out.into_owned()
}

/// Asserts that an example is short.
fn is_short(file: &Path) {
    let lines = std::fs::read_to_string(file).unwrap().lines().count();
    assert!(lines < LONGEST, "{} has {lines} lines, and an example has less than {LONGEST}", file.display());
}

#[test]
fn every_folder_has_a_test() {
    let tests = std::fs::read_dir(root().join("e2e/tests/it")).unwrap().map(|entry| entry.unwrap().path());
    let ours = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("examples"));
    let perturb = root().join("harness/tests/it/perturb/tools.rs");
    let text: String = tests.filter(ours).chain([perturb]).map(|path| std::fs::read_to_string(path).unwrap()).collect();
    let entries = std::fs::read_dir(example("")).unwrap().map(|entry| entry.unwrap());
    for folder in entries.filter(|entry| entry.file_type().unwrap().is_dir()) {
        let name = folder.file_name().into_string().unwrap();
        let is_run = text.contains(&format!("\"{name}")) || text.contains(&format!("examples/{name}"));
        assert!(is_run, "no test in e2e/tests/it/examples*.rs or harness/tests/it/perturb runs examples/{name}");
    }
}

#[test]
fn bash() {
    let script = example("bash/lost-reply");
    is_short(&script);
    if !needs("bash", &["curl"]) {
        return;
    }
    let _seat = seat().unwrap();
    let home = tempfile::tempdir().unwrap();
    let mut command = Command::new("bash");
    let out =
        succeeds(command.arg(script).env("MOORING", MOORING).env("HOME", home.path()).env_remove("XDG_STATE_HOME"));
    assert!(out.contains("records, verified"), "{out}");
}

#[test]
fn python_pytest() {
    let file = example("python-pytest/test_lost_reply.py");
    is_short(&file);
    if !needs("python-pytest", &["pytest", "boto3", "kubernetes"]) {
        return;
    }
    let _seat = seat().unwrap();
    let home = tempfile::tempdir().unwrap();
    let mut command = Command::new("python3");
    command.args(["-B", "-m", "pytest", "-q", "-p", "no:cacheprovider"]).arg(file);
    let out = succeeds(command.env("MOORING", MOORING).env("HOME", home.path()).env_remove("XDG_STATE_HOME"));
    assert!(out.contains("1 passed"), "{out}");
}

/// The test of the example itself runs as a part of this program, as its module. Nightly runs it in its own crate, which
/// compiles the library again, without the seeded bugs.
#[test]
fn rust() {
    is_short(&example("rust/tests/lost_reply.rs"));
    println!("examples/rust: run");
}
