//! The committed files equal the generators' output.

#![expect(clippy::unwrap_used, reason = "a test ends where it goes wrong")]

use std::process::Command;

fn check(task: &str) {
    let output = Command::new(env!("CARGO_BIN_EXE_xtask")).args([task, "--check"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let message = String::from_utf8(output.stdout).unwrap();
    assert!(!message.is_empty() && message.lines().all(|line| line.ends_with(": as generated")), "{message}");
}

#[test]
fn docs() {
    check("docs");
}

#[test]
fn kinds() {
    check("kinds");
}
