//! The same seed in two processes gives a byte-identical trace, over any transport.

#![expect(clippy::unwrap_used, reason = "a test ends where it goes wrong")]

use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the scenarios of the repository: the files that have steps.
fn scenarios() -> Vec<String> {
    let dir = e2e::scenario("first-volume.yaml").parent().unwrap().to_owned();
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let steps = |path: &PathBuf| std::fs::read_to_string(path).unwrap().lines().any(|line| line.starts_with("steps:"));
    let files = entries.filter(|path| path.extension().is_some_and(|has| has == "yaml")).filter(steps);
    let mut names: Vec<String> = files.map(|path| path.file_name().unwrap().to_str().unwrap().to_owned()).collect();
    names.sort();
    assert!(names.len() >= 7 && names.iter().any(|name| name == "migration.yaml"), "{names:?}");
    names
}

/// Returns the trace of a run in its own process, at trace level.
fn trace(scenario: &str, seed: u64, more: &[&str]) -> Vec<u8> {
    trace_of(&e2e::scenario(scenario), seed, more)
}

fn trace_of(scenario: &Path, seed: u64, more: &[&str]) -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace.jsonl");
    let output = Command::new(env!("CARGO_BIN_EXE_mooring-under-test"))
        .arg("run")
        .arg(scenario)
        .args(["--seed", &seed.to_string(), "--trace"])
        .arg(&path)
        .args(more)
        .output()
        .unwrap();
    assert!(output.status.success(), "{scenario:?}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    let trace = std::fs::read(&path).unwrap();
    let requests = trace.windows(14).filter(|w| w == b"\"link.request\"").count();
    assert!(requests > 50, "{scenario:?}: the trace is at trace level: {requests} requests");
    trace
}

/// On a difference, reports where two traces diverge instead of printing both.
fn assert_same(what: &str, one: &[u8], other: &[u8]) {
    let lines = |t: &[u8]| String::from_utf8_lossy(t).lines().map(str::to_owned).collect::<Vec<_>>();
    let (one, other) = (lines(one), lines(other));
    for (n, (a, b)) in one.iter().zip(&other).enumerate() {
        assert_eq!(a, b, "{what}: line {} is the first that differs", n + 1);
    }
    assert_eq!(one.len(), other.len(), "{what}: one trace is longer");
}

/// Each trace of a scenario is compared with the first one, so that it is made once.
#[test]
fn a_trace_depends_on_the_seed_and_not_on_the_process_or_the_transport() {
    for scenario in &scenarios() {
        let first = trace(scenario, 7, &[]);
        assert_same(scenario, &first, &trace(scenario, 7, &[]));
        assert_same(scenario, &first, &trace(scenario, 7, &["--transport", "duplex"]));
    }
    let migration = |seed| trace("migration.yaml", seed, &[]);
    assert!(migration(7) != migration(8), "seeds 7 and 8 give one trace");
}

/// Replicas wait for each other's leases, and one of them takes over: more processes, and more random draws.
#[test]
fn replicas_and_their_leases_replay_in_another_process_and_over_pipes() {
    let dir = tempfile::tempdir().unwrap();
    let scenario = dir.path().join("replicas.yaml");
    let text = std::fs::read_to_string(e2e::scenario("migration.yaml")).unwrap();
    let text = text.replacen("\nsteps:\n", "\nreplicas: 2\nsteps:\n", 1);
    std::fs::write(&scenario, text).unwrap();
    for latency in ["instant", "aws"] {
        let run = |transport| trace_of(&scenario, 5, &["--latency", latency, "--transport", transport]);
        let first = run("direct");
        let elected = first.windows(16).filter(|w| w == b"\"leader.elected\"").count();
        assert!(elected > 3, "each component has a leader: {elected}");
        assert_same(latency, &first, &run("direct"));
        assert_same(latency, &first, &run("duplex"));
    }
}

/// Ties within a millisecond are rare in a small cluster and happen all the time in a large one.
#[test]
fn thirty_nodes_replay_in_another_process_and_over_pipes() {
    let dir = tempfile::tempdir().unwrap();
    let scenario = dir.path().join("crowd.yaml");
    std::fs::write(&scenario, harness::scenario::large::crash_of_many(30, 60)).unwrap();
    let run = |transport| trace_of(&scenario, 3, &["--timeout", "10m", "--transport", transport]);
    let (first, second, piped) = std::thread::scope(|threads| {
        let runs = ["direct", "direct", "duplex"].map(|transport| threads.spawn(|| run(transport)));
        let [first, second, piped] = runs.map(|run| run.join().unwrap());
        (first, second, piped)
    });
    assert_same("second run", &first, &second);
    assert_same("over pipes", &first, &piped);
}
