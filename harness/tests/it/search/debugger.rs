//! The debugger: steps, breakpoints, the way back, and changed faults.

use std::io::Write;
use std::process::Command;

use super::{MOVE, file};

/// Returns the output of the debugger for these lines.
fn step(scenario: &str, more: &[&str], lines: &str) -> String {
    let mut child = Command::new(env!("CARGO_BIN_EXE_mooring"))
        .args(["replay", scenario, "--step"])
        .args(more)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_debugger_goes_forward_and_back_and_on_with_another_fault() {
    let folder = tempfile::tempdir().unwrap();
    let scenario = file(folder.path(), MOVE);
    let lines = "step 3\nbreak kind disk.staged\ncontinue\nback\nback kind csi.call\ngo #20\n\nreverse\ncontinue\n\
        continue\nunbreak 1\ngo #240\nback 130\nstate\nknows kube-controller-manager\n\
        go 'pvc/data Bound'\nadd {name: f, match: {plane: csi, op: NodeStageVolume}, effect: {error: INTERNAL}}\n\
        faults\nstep kind fault.fired\ndrop f\nstep kind disk.staged\nback\ngo #2\ncontinue\nstpe\nback 2\nquit\n";
    let wording = step(&scenario, &[], lines);
    let all: Vec<&str> = wording.lines().collect();
    let place =
        |text: &str| all.iter().position(|line| line.contains(text)).unwrap_or_else(|| panic!("{text}:\n{wording}"));
    assert!(all[0].contains("#1 ") && all[1].contains("#4 "), "{wording}");
    let stopped = place("breakpoint 1: kind disk.staged");
    assert!(all[stopped + 1].contains(" disk.staged ") && all[stopped + 2].contains(" csi.call "), "{wording}");
    for wanted in [
        "#20 ",
        "desired",
        "behind: the known state is older than the stored state",
        "kube-controller-manager attach-detach",
        "wants",
        "f is in force",
        "f fired 0 times",
        "fault=f op=NodeStageVolume",
        "f is over; it fired 1 times",
        "taken back: 2 of your changes",
        "the end of the run: survived",
        "`stpe` is not a command; did you mean step?",
    ] {
        place(wanted);
    }
    assert_eq!(step(&scenario, &["--from-start"], lines), wording, "without copies it is the same");
}

#[test]
fn a_debugger_knows_the_letters_of_gdb() {
    let folder = tempfile::tempdir().unwrap();
    let scenario = file(folder.path(), MOVE);
    let lines = "s\nn\nb disk.staged\nb pvc/data\ni b\nd 2\nc\np event.kind\np volume\np event.ms > 0\np pvc/data\np nothing\n\
                 rs\nrc\nb 3\nq\n";
    let wording = step(&scenario, &[], lines);
    for wanted in [
        "#2 ",
        "#3 ",
        "1  kind disk.staged",
        "2  object pvc/data",
        "breakpoint 1: kind disk.staged",
        "\ndisk.staged\n",
        "\nvol-",
        "\ntrue\n",
        "persistentvolumeclaims/default/data  Bound",
        "print: `nothing` is not known here",
        "`rs 3` goes back",
    ] {
        assert!(wording.contains(wanted), "{wanted:?} is missing in\n{wording}");
    }
}
