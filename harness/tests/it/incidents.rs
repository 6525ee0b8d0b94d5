//! The incidents of `scenarios/incidents/`. Each passes with several seeds, fails without each of its parts, and
//! describes the incident and cites its report.

#![expect(clippy::unwrap_used, reason = "a test ends where it goes wrong")]

use parking_lot::Mutex;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use harness::cluster::{Cluster, ClusterSpec};
use harness::output::{Exit, Style};
use harness::report::Report;
use harness::runner;
use harness::scenario::{self, Scenario};
use substrate::WorldKind;
use substrate::clock::TimeScale;
use substrate::world::{Options, simulate};

/// Seeds of each file. `mooring run scenarios/incidents --seeds 1..100` tries a hundred.
const SEEDS: std::ops::RangeInclusive<u64> = 1..=5;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("scenarios/incidents")
}

fn files() -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|e| e == "yaml"));
    files.sort();
    files
}

fn all() -> Vec<Scenario> {
    let read = |path: PathBuf| scenario::load(&path).unwrap_or_else(|e| panic!("{}", e.render(false, 100)));
    files().into_iter().map(read).filter(|scenario| scenario.runs_in(WorldKind::Simulated)).collect()
}

/// Returns the report of a run that did not pass, or none.
fn failed(scenario: &Scenario, seed: u64) -> Option<String> {
    let scale = TimeScale::new(scenario.time_scale.simulated);
    let options = Options { seed, latency: scenario.link, scale, ..Options::default() };
    simulate(options, async |world| {
        let cluster = Cluster::simulate(&world, ClusterSpec::of_scenario(scenario)).unwrap();
        let outcome = runner::run(scenario, &cluster, |_| {}).await;
        let report = Report::of(scenario, &outcome);
        (report.exit() != Exit::Passed).then(|| report.render(Style::PLAIN))
    })
}

/// Calls `of` for each item of `work` on two threads, and collects the results. Each run has its own world.
fn each<T: Sync>(work: &[T], of: impl Fn(&T) -> Option<String> + Sync) -> Vec<String> {
    let (next, message) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(item) = work.get(next.fetch_add(1, Ordering::SeqCst)) {
                    message.lock().extend(of(item));
                }
            });
        }
    });
    message.into_inner()
}

/// Two seeds; nightly runs a hundred.
#[test]
fn each_incident_passes_with_two_seeds() {
    let all = all();
    let two = SEEDS.take(2);
    let work: Vec<(&Scenario, u64)> = two.flat_map(|seed| all.iter().map(move |scenario| (scenario, seed))).collect();
    assert!(work.len() >= 20 * 2, "there are {} runs", work.len());
    let wrong = each(&work, |(scenario, seed)| {
        failed(scenario, *seed).map(|why| format!("{} with seed {seed}:\n{why}", scenario.source))
    });
    assert!(wrong.is_empty(), "{} runs failed:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn each_fault_and_step_of_an_incident_is_needed() {
    let work: Vec<_> = all().into_iter().flat_map(|scenario| scenario.lacking_one()).collect();
    let wrong = each(&work, |lacking| {
        // Chance may replace a part: the part is needed if at least one seed fails without it.
        let passes = SEEDS.into_iter().all(|seed| failed(&lacking.scenario, seed).is_none());
        passes.then(|| format!("{} passes without {}", lacking.scenario.source, lacking.part))
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn each_incident_says_what_happened_and_where_that_was_reported() {
    for path in files() {
        let text = std::fs::read_to_string(&path).unwrap();
        let head: Vec<&str> = text.lines().take_while(|line| line.starts_with('#')).collect();
        let name = path.display();
        assert_eq!(head[0], "# yaml-language-server: $schema=../../docs/schema/scenario.json", "{name}");
        assert!(head.len() >= 3, "{name} says what happened, and where that was reported");
        let cites = |line: &&str| line.contains('#') && line[1..].contains('#') || line.contains("https://");
        assert!(head[1..].iter().any(cites), "{name} cites an issue: owner/repository#number");
    }
}
