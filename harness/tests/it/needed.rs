//! `mooring run --needed`, as a process.

#![expect(clippy::unwrap_used, reason = "a test ends where it goes wrong")]

use std::process::Command;

use serde_json::Value;

/// A file in which a delay and one of two pods have no effect on the checks.
const LOOSE: &str = "name: loose
nodes: {count: 1}
faults:
  - {name: slow, match: {plane: ec2, op: AttachVolume}, effect: {delay: 1s}}
steps:
  - claim: {name: data}
  - pod: {name: web, claim: data}
  - pod: {name: idle}
  - wait: {object: pod/web, is: Running}
  - wait: {object: pvc/data, is: Bound}
";

fn needed(text: &str) -> (Option<i32>, Value) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("loose.yaml");
    std::fs::write(&file, text).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_mooring"));
    let output = command.args(["--output", "json", "run", "--needed", "--seeds", "1..2"]).arg(&file).output().unwrap();
    (output.status.code(), serde_json::from_slice(&output.stdout).unwrap())
}

#[test]
fn parts_without_which_a_file_still_passes_are_named() {
    let (code, message) = needed(LOOSE);
    assert_eq!(code, Some(1), "{message}");
    assert_eq!(message["error"]["message"], "2 parts are not needed: the scenario passes without");
    let parts: Vec<(&str, u64, u64)> = message["data"]["files"][0]["parts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|part| {
            (part["part"].as_str().unwrap(), part["passed"].as_u64().unwrap(), part["line"].as_u64().unwrap_or(0))
        })
        .collect();
    let expected = [("fault slow", 2, 0), ("apply pvc/data", 0, 6), ("apply pod/web", 0, 7), ("apply pod/idle", 2, 8)];
    assert_eq!(parts, expected);
}

#[test]
fn a_file_that_looks_at_what_all_of_its_parts_do_passes() {
    let tight = LOOSE.replace("  - pod: {name: idle}\n", "").replace(
        "  - wait: {object: pvc/data, is: Bound}\n",
        "  - expect: {call: {plane: csi, op: ControllerPublishVolume}, since: pod}\n  - expect: {elapsed: {at-least: 15s}}\n",
    );
    let slow = tight
        .replace("delay: 1s", "delay: 9s")
        .replace("  - pod: {name: web", "  - {name: pod, pod: {name: web")
        .replace("claim: data}\n  - wait", "claim: data}}\n  - wait");
    let (code, message) = needed(&slow);
    assert_eq!(code, Some(0), "{slow}{message:#}");
}
