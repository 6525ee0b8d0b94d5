//! Files of `scenarios/golden`: the writes of upstream's programs to the API server, in order and field by field. Mooring
//! must make the same writes.
//!
//! A file is written from the source of upstream; each line names the function that makes the write. See `README.md` in
//! this directory.

#![expect(clippy::unwrap_used, reason = "a test ends where it goes wrong")]

mod flow;
mod recorded;

use flow::{flows, lines};
use harness::cluster::{Cluster, ClusterSpec};
use harness::runner;
use harness::scenario;
use substrate::world::{Options, simulate};

/// Seeds of each flow. The seed determines the latencies of all messages, so that writes that upstream does not order
/// come in more than one order.
const SEEDS: [u64; 2] = [1, 2];

#[test]
fn each_flow_makes_the_writes_of_upstream() {
    for flow in flows() {
        let scenario = scenario::parse(&flow.name, &flow.text).unwrap_or_else(|e| panic!("{}", e.render(false, 100)));
        for seed in SEEDS {
            let outcome = simulate(Options { seed, latency: scenario.link, ..Options::default() }, async |world| {
                let cluster = Cluster::simulate(&world, ClusterSpec::of_scenario(&scenario)).unwrap();
                runner::run(&scenario, &cluster, |_| ()).await
            });
            if let Some(failure) = &outcome.failure {
                panic!("{}, seed {seed}: {}\n{}", flow.name, failure.expected, failure.seen);
            }
        }
    }
}

#[test]
fn each_line_cites_a_function_of_upstream() {
    for flow in flows() {
        for line in lines(&flow) {
            let words: Vec<&str> = line.from.split(' ').collect();
            let [repository, file, function] = words[..] else { panic!("{}: `from: {}`", flow.name, line.from) };
            assert!(flow::SOURCES.contains(&repository), "{}: {repository} is not read here", flow.name);
            assert!(file.ends_with(".go") && file.contains('/'), "{}: {file} is not a Go file by its path", flow.name);
            assert!(!function.is_empty(), "{}: {file} has no function", flow.name);
        }
    }
}

#[test]
fn writes_left_to_other_files_exist() {
    let flows = flows();
    for flow in &flows {
        for left in &flow.writes.elsewhere {
            let other = flows.iter().find(|other| other.name == left.scenario);
            let other =
                other.unwrap_or_else(|| panic!("{} leaves writes to {}, which is none", flow.name, left.scenario));
            let held = lines(other).iter().any(|line| line.by == left.by && line.does.starts_with(&left.does));
            assert!(
                held,
                "{} leaves {} {} to {}, which has no such line",
                flow.name, left.by, left.does, left.scenario
            );
        }
    }
}

#[test]
fn every_line_of_a_recorded_client_agrees_with_what_was_recorded() {
    let recorded = recorded::rows();
    let mut unused: Vec<&recorded::Row> = recorded.iter().collect();
    for flow in flows() {
        for line in lines(&flow) {
            let rows: Vec<_> = recorded.iter().filter(|row| row.is(&line)).collect();
            unused.retain(|row| !row.is(&line));
            let known = recorded.iter().any(|row| row.client == line.by);
            let is_excused = |(name, client, what, _): &(&str, &str, &str, &str)| {
                *name == flow.name && *client == line.by && line.does.starts_with(what)
            };
            let excused = recorded::UNRECORDED.iter().any(is_excused);
            assert!(
                !known || excused == rows.is_empty(),
                "{}: {} {} was never recorded, or is and stands in UNRECORDED",
                flow.name,
                line.by,
                line.does
            );
        }
    }
    unused.retain(|row| recorded::OUTSIDE.iter().all(|(client, what, _)| row.client != *client || row.what() != *what));
    let unused: Vec<String> = unused.iter().map(|row| format!("{} {}", row.client, row.what())).collect();
    assert_eq!(unused, Vec::<String>::new(), "recorded, and in no file");
}
