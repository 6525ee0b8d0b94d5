//! A run that passed is right: whole runs and scenario files in which an error had once gone unnoticed.

#![expect(clippy::unwrap_used, reason = "a test ends where it goes wrong")]

use harness::cluster::{Cluster, ClusterSpec};
use harness::invariants::{Id, Violation};
use harness::output::Exit;
use harness::report;
use harness::runner::{self, Outcome};
use harness::scenario::{self, LatencyProfile, Scenario, ScenarioError};
use substrate::events::FaultFired;
use substrate::world::{Options, simulate};
use substrate::{Level, Line};

mod judged;
mod lasting;
mod latencies;
mod processes;
mod refused;

const FIRST_VOLUME: &str = include_str!("../../../../scenarios/first-volume.yaml");
const MIGRATION: &str = include_str!("../../../../scenarios/migration.yaml");
const OUT_OF_SERVICE: &str = include_str!("../../../../scenarios/out-of-service.yaml");

/// Reads a scenario text.
fn read(text: &str) -> Scenario {
    scenario::parse("test.yaml", text).unwrap_or_else(|e| panic!("{}", e.render(false, 100)))
}

/// Runs a scenario in virtual time.
fn run_at(scenario: &Scenario, seed: u64, level: Level) -> (Outcome, Exit) {
    let outcome = simulate(Options { seed, level, latency: scenario.link, ..Options::default() }, async |world| {
        let cluster = Cluster::simulate(&world, ClusterSpec::of_scenario(scenario)).unwrap();
        runner::run(scenario, &cluster, |_| {}).await
    });
    let exit = report::failure(scenario, &outcome).map_or(Exit::Passed, |(exit, _)| exit);
    (outcome, exit)
}

/// Runs a scenario text.
fn run(text: &str, seed: u64) -> (Outcome, Exit) {
    run_at(&read(text), seed, Level::Info)
}

/// Describes the problems of a run.
fn why(outcome: &Outcome) -> String {
    format!("{:?} {:?} {:?} {:?}", outcome.failure, outcome.violations, outcome.silent_faults, outcome.leftovers)
}

/// Returns `text` with `more` before its steps.
fn with(text: &str, more: &str) -> String {
    let all = text.replacen("\nsteps:", &format!("\n{more}\nsteps:"), 1);
    assert_ne!(all, text, "the file has steps");
    all
}

/// Returns `text` with these active faults.
fn with_faults(text: &str, faults: &[&str]) -> String {
    let list: String = faults.iter().map(|fault| format!("  - {fault}\n")).collect();
    with(text, &format!("faults:\n{list}"))
}

/// Returns the lines of a run of this kind.
fn lines(outcome: &Outcome, kind: &str) -> Vec<Line> {
    outcome.events.iter().filter(|e| e.kind() == kind).map(|e| e.line()).collect()
}

/// Returns the calls of an RPC in order.
fn calls(outcome: &Outcome, rpc: &str) -> Vec<Line> {
    lines(outcome, "csi.call").into_iter().filter(|line| line.str("rpc") == Some(rpc)).collect()
}

fn of<'a>(outcome: &'a Outcome, id: &str) -> Vec<&'a Violation> {
    outcome.violations.iter().filter(|v| v.id == id).collect()
}
