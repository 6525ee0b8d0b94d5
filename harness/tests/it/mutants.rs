//! Every invariant detects a seeded bug of a component in a whole run. The bug is compiled into the component and
//! switched on by name; without it the same scenario passes.

#![expect(clippy::unwrap_used, reason = "a test ends where it goes wrong")]

use std::collections::BTreeSet;

use harness::cluster::{Cluster, ClusterSpec};
use harness::invariants::{Id, declared};
use harness::output::Exit;
use harness::runner::{self, Outcome};
use harness::scenario;
use substrate::world::{Options, simulate};

mod cases;
mod elsewhere;
mod ephemeral;
mod more;
mod pods_and_nodes;
mod requirements;
mod scenarios;
mod shipped;
mod snapshots;
mod steps;

use elsewhere::ELSEWHERE;
use scenarios::{kubelet_down, leaves, lost_kubelet, moved, scenario_text};

/// Seed of each run.
const SEED: u64 = 1;

/// Seeded bugs, a scenario in which they show, and the invariant that they break in it.
struct Case {
    mutants: &'static [&'static str],
    text: fn() -> String,
    breaks: Id,
    /// Part of the message of the violation.
    expected: &'static str,
}

const fn case(mutants: &'static [&'static str], text: fn() -> String, breaks: Id, expected: &'static str) -> Case {
    Case { mutants, text, breaks, expected }
}

/// A seeded bug that fails a step, the scenario with that step, and a part of the failure's text.
struct Slip {
    mutant: &'static str,
    text: fn() -> String,
    expected: &'static str,
}

const fn slip(mutant: &'static str, text: fn() -> String, expected: &'static str) -> Slip {
    Slip { mutant, text, expected }
}

/// Returns all seeded bugs that break an invariant.
fn cases() -> impl Iterator<Item = &'static Case> {
    cases::CASES.iter().chain(more::CASES)
}

fn run(text: &str, seed: u64, mutants: &[&str]) -> (Outcome, Exit) {
    let scenario = scenario::parse("planted.yaml", text).unwrap_or_else(|e| panic!("{}", e.render(false, 100)));
    let mutants = mutants.iter().map(|name| (*name).to_owned()).collect();
    let outcome = simulate(Options { seed, mutants, ..Options::default() }, async |world| {
        let cluster = Cluster::simulate(&world, ClusterSpec::of_scenario(&scenario)).unwrap();
        runner::run(&scenario, &cluster, |_| {}).await
    });
    let exit = harness::report::failure(&scenario, &outcome).map_or(Exit::Passed, |(exit, _)| exit);
    (outcome, exit)
}

/// Environment variable that selects the seeded bugs to try.
const WHICH: &str = "MOORING_MUTANTS";
/// An ordinary run tries one of this many seeded bugs of each list.
const SAMPLE: usize = 4;

/// Returns the seeded bugs of a list to try: all, or a sample with at least one.
fn sample<T>(list: impl Iterator<Item = T>) -> impl Iterator<Item = T> {
    list.step_by(match std::env::var(WHICH).as_deref() {
        Ok("whole") => 1,
        Ok(other) => panic!("{WHICH}={other}: it may be `whole`, or not set"),
        Err(_) => SAMPLE,
    })
}

/// Checks for a sample of the cases of `id` that the scenario passes and the invariant had something to check, and that
/// with the seeded bugs the invariant is violated.
fn all_show(id: Id) {
    let mut passed = BTreeSet::new();
    for Case { mutants, text, breaks, expected } in sample(cases().filter(|case| case.breaks == id)) {
        let text = text();
        let what = format!("{mutants:?}, {breaks}");
        // A scenario shows several bugs.
        if !passed.contains(&text) {
            let (right, exit) = run(&text, SEED, &[]);
            let found = format!("{:?} {:?} {:?}", right.failure, right.violations, right.silent_faults);
            assert_eq!(exit, Exit::Passed, "without {what}: {found}");
            assert!(right.checked.get(*breaks) > 0, "without {what}: nothing to see in {}", right.checked);
        }
        let (wrong, exit) = run(&text, SEED, mutants);
        let seen = wrong.violations.iter().any(|v| v.id == breaks.name() && v.message.contains(expected));
        assert!(seen, "{what}: {:?} {:?}", wrong.failure, wrong.violations);
        assert_ne!(exit, Exit::Passed, "{what}");
        passed.insert(text);
    }
}

#[test]
fn i1_stops_a_second_writer() {
    all_show(Id::I1);
}

#[test]
fn i2_stops_a_detach_of_what_is_staged() {
    all_show(Id::I2);
}

#[test]
fn i3_stops_what_is_out_of_order() {
    all_show(Id::I3);
}

#[test]
fn i4_stops_what_does_not_agree() {
    all_show(Id::I4);
}

#[test]
fn i5_stops_what_leaks() {
    all_show(Id::I5);
}

#[test]
fn i6_stops_the_loss_of_bytes() {
    all_show(Id::I6);
}

#[test]
fn i7_stops_a_watch_that_lies() {
    all_show(Id::I7);
}

#[test]
fn i8_stops_what_never_ends() {
    all_show(Id::I8);
}

#[test]
fn i10_stops_what_is_made_or_placed_otherwise() {
    all_show(Id::I10);
}

#[test]
fn i9_stops_a_mount_that_is_another() {
    all_show(Id::I9);
}

#[test]
fn i11_stops_the_deletion_of_what_is_kept() {
    all_show(Id::I11);
}

#[test]
fn a_step_stops_what_breaks_its_expectation() {
    for Slip { mutant, text, expected } in sample(more::SLIPS.iter()) {
        let (right, exit) = run(&text(), SEED, &[]);
        assert_eq!(exit, Exit::Passed, "without {mutant}: {:?} {:?}", right.failure, right.violations);
        let (wrong, exit) = run(&text(), SEED, &[mutant]);
        let seen = wrong.failure.as_ref().is_some_and(|failure| format!("{failure:?}").contains(expected));
        assert!(seen && exit != Exit::Passed, "{mutant}: {:?} {:?}", wrong.failure, wrong.violations);
    }
}

#[test]
fn i12_stops_an_end_that_is_not_as_asked() {
    all_show(Id::I12);
}

#[test]
fn i13_stops_an_api_server_that_breaks_its_contract() {
    all_show(Id::I13);
}

#[test]
fn every_planted_defect_and_every_invariant_is_here() {
    let planted: BTreeSet<&str> = harness::mutants::all().iter().map(|mutant| mutant.name).collect();
    let stopped: BTreeSet<&str> = cases().flat_map(|case| case.mutants).copied().collect();
    let slips: BTreeSet<&str> = more::SLIPS.iter().map(|slip| slip.mutant).collect();
    assert_eq!(stopped.intersection(&slips).next(), None, "a defect that breaks an invariant needs no step");
    let files: BTreeSet<&str> = shipped::FILES.iter().map(|(_, mutant)| *mutant).collect();
    let stopped = &(&stopped | &slips) | &files;
    let elsewhere: BTreeSet<&str> = ELSEWHERE.iter().map(|(name, _)| *name).collect();
    assert_eq!(stopped.intersection(&elsewhere).next(), None, "a defect that is stopped needs no reason");
    let reported: BTreeSet<&str> = stopped.union(&elsewhere).copied().collect();
    assert_eq!(reported, planted);
    for id in Id::ALL {
        assert!(cases().any(|case| case.breaks == *id), "no defect shows that {id} is checked");
    }
}

/// A seeded bug of [`ELSEWHERE`] that one of these scenarios shows belongs in [`cases`].
#[test]
fn harmless_bugs_pass_these_runs() {
    for (name, why) in sample(ELSEWHERE.iter()) {
        for text in [moved, kubelet_down, lost_kubelet] {
            let (outcome, exit) = run(&text(), SEED, &[name]);
            let found = format!("{:?} {:?}", outcome.failure, outcome.violations);
            assert_eq!(exit, Exit::Passed, "{name} ({why}): {found}");
        }
    }
}

/// The declaration of a known upstream bug covers only its own cause, and no seeded bug with the same symptom.
#[test]
fn a_known_bug_does_not_excuse_a_defect_with_its_symptom() {
    // An event of a node was late once, long before the detach: attach-detach knows the node when it detaches.
    let late = "{name: late, match: {plane: k8s, op: watch-event, where: {resource: nodes}}, when: {first: 1}, \
                effect: {delay: 1s}}";
    let (outcome, _) = run(&scenario_text(late, &leaves()), SEED, &["volumes-attached-not-updated"]);
    let mut found = outcome.violations;
    declared::mark_known(&mut found).unwrap();
    found.retain(|violation| violation.message.contains("is in status.volumesAttached of the node"));
    assert!(!found.is_empty());
    assert!(found.iter().all(|violation| violation.declared.is_none()), "{found:?}");
}

#[test]
fn a_shipped_file_fails_with_the_defect_that_it_is_about() {
    let mut passed = BTreeSet::new();
    let mut wrong = Vec::new();
    for (name, mutant) in sample(shipped::FILES.iter()) {
        let file = format!("{}/../scenarios/{name}.yaml", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(&file).unwrap();
        // A file is about several defects.
        if passed.insert(name) {
            let (outcome, exit) = run(&text, SEED, &[]);
            if exit != Exit::Passed {
                wrong.push(format!("{name}: {:?} {:?}", outcome.failure, outcome.violations));
            }
        }
        if run(&text, SEED, &[mutant]).1 == Exit::Passed {
            wrong.push(format!("{name} passes with {mutant}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
