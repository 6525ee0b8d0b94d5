//! Searches, run as processes: a sweep of every point, exploration, replay and shrinking; and their parts in this
//! process.

#![expect(clippy::unwrap_used, reason = "a test ends where it goes wrong")]

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use harness::search::document::Document;
use harness::search::judge::{Class, Task, Verdict, judge, judge_and_trace};
use harness::search::points;
use harness::search::sweep::{Plan, Sweep};
use harness::search::tolerance::tolerant;
use serde_json::Value;

mod debugger;
mod end_states;
#[cfg(target_os = "linux")]
mod interrupted;
#[cfg(any(debug_assertions, feature = "mutants"))]
mod planted;
mod replays;

/// A volume is created, written to, and moves.
const MOVE: &str = "name: small
nodes: {count: 2}
steps:
  - claim: {name: data}
  - pod: {name: web, claim: data, node: node-a, grace: 1s}
  - wait: {object: pod/web, records: 2}
  - delete: {object: pod/web}
  - wait: {object: pod/web, is: gone}
  - pod: {name: web-2, claim: data, node: node-b, grace: 1s}
  - wait: {object: pod/web-2, is: Running}
  - expect: {bytes-intact: pod/web-2, records: 2}
";

const LIMIT: Option<Duration> = Some(Duration::from_secs(120));

fn mooring(args: &[&str]) -> (Option<i32>, Value, Output) {
    let output = Command::new(env!("CARGO_BIN_EXE_mooring")).args(["--output", "json"]).args(args).output().unwrap();
    let wording = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&output.stderr)));
    (output.status.code(), wording, output)
}

fn file(folder: &Path, text: &str) -> String {
    let path = folder.join("scenario.yaml");
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

/// Faults of the effect `count` add nothing to the trace but their own events.
#[test]
fn the_run_in_which_points_are_found_is_the_unbroken_run() {
    let (document, _) = tolerant(&Document::of_text("t", MOVE).unwrap());
    let task = |document: &Document| Task { text: document.text(), seed: 3, ..Task::default() };
    let lines = |document: &Document| -> Vec<Value> {
        let (verdict, lines) = judge_and_trace(&task(document), LIMIT);
        assert_eq!(verdict.class, Class::Survived, "{}", verdict.message);
        let parse = |line: &String| -> Value { serde_json::from_str(line).unwrap() };
        let bare = |mut event: Value| {
            event.as_object_mut().unwrap().remove("n");
            event
        };
        lines.iter().map(parse).filter(|event| event["kind"] != "fault.fired").map(bare).collect()
    };
    let (unbroken, probed) = (lines(&document), lines(&document.clone().with_faults(points::probes())));
    let differs = unbroken.iter().zip(&probed).find(|(one, other)| one != other);
    assert_eq!(differs, None);
    assert_eq!(unbroken.len(), probed.len());
}

#[test]
fn a_sweep_is_the_same_with_one_job_and_with_two() {
    let folder = tempfile::tempdir().unwrap();
    let file = file(folder.path(), MOVE);
    let sweep = |jobs: &str| {
        let (code, wording, output) = mooring(&["sweep", &file, "--points", "7", "--pairs", "1", "--jobs", jobs]);
        assert_eq!(code, Some(i32::from(wording["status"] == "failed")), "{wording}");
        assert_eq!(wording["data"]["ended"], 8, "{wording}");
        output.stdout
    };
    assert_eq!(sweep("1"), sweep("2"));
}

#[test]
fn branches_of_one_run_come_to_what_runs_from_the_start_come_to() {
    let folder = tempfile::tempdir().unwrap();
    let file = file(folder.path(), MOVE);
    let sweep = |more: &[&str]| {
        let (code, wording, output) = mooring(&[&["sweep", &file, "--points", "16", "--jobs", "2"][..], more].concat());
        assert_eq!(code, Some(i32::from(wording["status"] == "failed")), "{wording}");
        assert_eq!(wording["data"]["ended"], 16, "{wording}");
        output.stdout
    };
    assert_eq!(sweep(&[]), sweep(&["--from-start"]));
    // Each verdict, including the digest of its events, is the same in this process and as a branch.
    let document = Document::of_text("t", MOVE).unwrap();
    let plan = Plan { seed: 2, sample: Some(9), ..Plan::default() };
    let sweep = Sweep::prepare(&document, plan, LIMIT).unwrap();
    let branches = (0..sweep.len()).map(|run| (run, sweep.branch(run).unwrap())).collect();
    let late: Vec<_> = (0..2).map(|run| (run, sweep.branch(run).unwrap())).collect();
    let verdicts = branches_of(&sweep.trunk(), branches, "60000");
    assert_eq!(verdicts.len(), sweep.len());
    for (run, verdict) in verdicts {
        assert_eq!(verdict, judge(&sweep.task(run), LIMIT), "{}", sweep.about(run));
    }
    // A copy that does not end within a millisecond is killed, and its parent continues with the next point.
    let verdicts = branches_of(&sweep.trunk(), late, "1");
    assert_eq!(
        verdicts.iter().map(|(run, verdict)| (*run, verdict.class)).collect::<Vec<_>>(),
        [(0, Class::Hung), (1, Class::Hung)]
    );
}

/// Returns the verdicts of branches that run in a process of `mooring`.
fn branches_of(trunk: &Task, branches: Vec<(usize, substrate::fault::Fault)>, limit: &str) -> Vec<(usize, Verdict)> {
    let mut child = Command::new(env!("CARGO_BIN_EXE_mooring"))
        .args(["search-worker", "--limit-ms", limit, "--memory", "4294967296"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let order = serde_json::json!({ "branches": [trunk, branches] });
    writeln!(child.stdin.take().unwrap(), "{order}").unwrap();
    let output = child.wait_with_output().unwrap();
    let lines = String::from_utf8(output.stdout).unwrap();
    let news = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let verdicts = news.filter_map(|news| serde_json::from_value(news["ended"].clone()).ok()).collect();
    assert!(lines.ends_with("\"over\"\n"), "{lines}");
    verdicts
}

#[test]
fn an_exploration_is_the_same_with_one_job_and_with_two_and_its_parts_are_the_whole() {
    let explore = |more: &[&str]| mooring(&[&["explore"][..], more].concat()).1;
    let one = explore(&["--runs", "6", "--jobs", "1"]);
    assert_eq!(one, explore(&["--runs", "6", "--jobs", "2"]));
    let events = |wording: &Value| wording["data"]["events"].as_u64().unwrap();
    let parts = ["1/2", "2/2"].map(|part| events(&explore(&["--runs", "3", "--shard", part])));
    assert_eq!(parts.iter().sum::<u64>(), events(&one));
}

#[test]
fn a_run_that_takes_too_long_is_a_finding_and_the_search_goes_on() {
    let (code, wording, _) = mooring(&["explore", "--runs", "2", "--jobs", "1", "--timeout", "1ms"]);
    assert_eq!(code, Some(1), "{wording}");
    assert_eq!(wording["data"]["outcomes"]["hung"], 2, "{wording}");
    assert_eq!(wording["data"]["findings"].as_array().unwrap().len(), 1, "one bug is one line: {wording}");
}

/// The driver ends after the mount and before the event of it. The next NodeStageVolume finds the mount, and publishing
/// after that is in order.
#[test]
fn a_driver_that_ends_between_mounting_and_telling_breaks_nothing() {
    let (document, _) = tolerant(&Document::of_text("t", MOVE).unwrap());
    let fault = r#"{"name": "end", "match": {"plane": "disk", "op": "stage", "where": {"process": "node-a/csi-node"}},
        "when": {"nth": 1}, "effect": {"crash": "node-a/csi-node"}, "at": "after_effect"}"#;
    let broken = document.with_faults([serde_json::from_str(fault).unwrap()]);
    let verdict = judge(&Task { text: broken.text(), seed: 1, ..Task::default() }, LIMIT);
    assert_eq!((verdict.class, verdict.message.as_str()), (Class::Survived, ""));
    assert!(verdict.silent.is_empty());
}

/// Earlier findings of searches stay fixed, or are declared as deviations of upstream.
#[test]
fn findings_are_fixed_or_declared() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios/found");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 2);
    for file in files {
        let document = Document::load(&file).unwrap();
        let declares = ["violations", "possible-violations"].iter().any(|key| document.tree().get(key).is_some());
        // Some depend on chance, and list the seeds that show them. `.ci/nightly scenarios` runs all with ten seeds.
        let text = std::fs::read_to_string(&file).unwrap();
        let wording = text.lines().find_map(|line| line.strip_prefix("# Seeds: ")).unwrap_or("1");
        for seed in wording.split(' ').map(|seed| seed.parse().unwrap()) {
            let verdict = judge(&Task { text: document.text(), seed, ..Task::default() }, LIMIT);
            let right = if declares { Class::Declared } else { Class::Survived };
            assert_eq!(verdict.class, right, "{}, seed {seed}: {}", file.display(), verdict.message);
            assert!(verdict.silent.is_empty(), "{}, seed {seed}: {:?}", file.display(), verdict.silent);
        }
    }
}

#[test]
fn drawn_runs_are_the_same_in_two_processes() {
    let (code, wording, _) = mooring(&["explore", "--runs", "4", "--twice"]);
    assert_eq!(code, Some(i32::from(wording["status"] == "failed")), "{wording}");
    assert_eq!(wording["data"]["outcomes"]["diverged"], Value::Null, "{wording}");
    assert_eq!(wording["data"]["runs"], 4, "{wording}");
    // Compared with another program: here the same one, and one that prints nothing.
    let by = |program: &str| mooring(&["explore", "--runs", "2", "--twice", "--by", program]);
    let (_, wording, _) = by(env!("CARGO_BIN_EXE_mooring"));
    assert_eq!(wording["data"]["outcomes"]["diverged"], Value::Null, "{wording}");
    let (code, wording, _) = by("/bin/true");
    assert_eq!((code, &wording["data"]["outcomes"]["diverged"]), (Some(1), &2.into()), "{wording}");
    let (code, wording, _) = by("/nothing/is/here");
    assert_eq!((code, &wording["error"]["code"]), (Some(3), &"environment".into()), "{wording}");
}

/// A step that waits in vain because of a declared deviation counts as that deviation, not as another finding.
#[test]
fn a_step_that_a_declared_deviation_keeps_waiting_is_that_deviation() {
    let verdict = |folder: &str, file: &str, change: &dyn Fn(String) -> String| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios").join(folder).join(file);
        let text = change(std::fs::read_to_string(path).unwrap());
        let verdict = judge(&Task { text, seed: 1, ..Task::default() }, LIMIT);
        (verdict.class, verdict.signature)
    };
    let waits = |text: String| text + "  - wait: {object: pod/web-2, is: Running, within: 20m}\n";
    let declared = |id: &str| (Class::Declared, format!("declared: {id}"));
    let placed = "pod-placed-by-a-claim-that-is-gone.yaml";
    assert_eq!(verdict("found", placed, &waits), declared("scheduler-trusts-former-claim"));
    // The same step waits in vain for another reason.
    let other = |text: String| {
        waits(text).replace("delay: 1m", "delay: 1ms").replace("claim: data}\n  - sleep", "claim: none}\n  - sleep")
    };
    assert_eq!(verdict("found", placed, &other).0, Class::Stuck);
    // The leftovers of the volume are consequences of the deviation that keeps it.
    let as_it_is = |text: String| text;
    let mounted = "mount-that-was-done-and-answered-with-an-error.yaml";
    assert_eq!(verdict("found", mounted, &as_it_is), declared("kubelet-trusts-failed-mount"));
    // The next pod of the claim waits for the volume on another node.
    let moves = |text: String| {
        let other = "  - pod: {name: web-2, claim: data, node: node-b}\n";
        waits(
            text.replace("nodes: {count: 1}", "nodes: {count: 2}")
                .replace("claim: data, ", "claim: data, node: node-a, ")
                + other,
        )
    };
    assert_eq!(verdict("found", mounted, &moves), declared("kubelet-trusts-failed-mount"));
}
