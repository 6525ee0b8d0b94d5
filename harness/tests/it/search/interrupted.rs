//! Explorations that a signal interrupts.

use std::process::Command;
use std::time::Duration;

use serde_json::Value;

/// Counts the processes that have this text among their arguments.
fn running(with: &str) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let commands = processes.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    commands.filter(|line| String::from_utf8_lossy(line).contains(with)).count()
}

/// Waits until `count` processes have this text among their arguments, at least 90 seconds.
fn until_running(with: &str, count: usize) {
    for _ in 0..900 {
        if running(with) == count {
            return;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("{} processes run, not {count}", running(with));
}

/// Returns the output of an exploration that is interrupted after `seconds`.
fn interrupted(seconds: u64) -> Value {
    use std::io::Read;
    // The unusual limit of wall time identifies its workers.
    let mut child = Command::new(env!("CARGO_BIN_EXE_mooring"))
        .args(["--output", "json", "explore", "--runs", "100000", "--jobs", "2", "--timeout", "98765ms"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    until_running("98765\0", 2);
    std::thread::sleep(Duration::from_secs(seconds));
    // A worker may have ended just now, and its successor begins.
    until_running("98765\0", 2);
    let pid = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let mut wording = String::new();
    child.stdout.take().unwrap().read_to_string(&mut wording).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(running("98765\0"), 0);
    serde_json::from_str(&wording).unwrap()
}

#[test]
fn an_exploration_that_is_interrupted_prints_what_it_has_and_leaves_nothing_running() {
    // On a slow machine no run has ended after the first delay.
    let all = [5, 30, 90].into_iter().map(interrupted);
    let runs = |wording: &Value| wording["data"]["runs"].as_u64().unwrap();
    let wording = all.into_iter().find(|wording| runs(wording) > 0).unwrap();
    let begins = format!("interrupted after {} of 100000 runs", runs(&wording));
    assert!(wording["error"]["message"].as_str().unwrap().starts_with(&begins), "{wording}");
    assert!(!wording["data"]["coverage"]["transitions"].as_array().unwrap().is_empty(), "{wording}");
}

#[test]
fn an_exploration_that_is_interrupted_does_not_say_that_it_passed() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_mooring"));
    child.args(["explore", "--runs", "500", "--jobs", "2", "--timeout", "87654ms"]).env("NO_COLOR", "1");
    let child = child.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    // Its workers start after its signal handlers are installed.
    until_running("87654\0", 2);
    let pid = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    let wording = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{wording}");
    assert!(
        wording.starts_with("– explore  ") && wording.contains(" of 500 runs in ") && !wording.contains('✓'),
        "{wording}"
    );
}
