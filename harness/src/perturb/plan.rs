//! The calls of three unbroken runs, and the trials that follow from them.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::call::{Call, Key, ObservedCall, What};
use super::kind::Kind;
use super::{faults, names};

/// Maximum number of perturbed events of one object and type; further events are like these.
const EVENTS: u64 = 3;
/// Maximum number of perturbed reads of one kind from the cloud.
const LOOKS: u64 = 4;

/// Calls that the unbroken runs have in common.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Calls {
    /// The calls in the order of the first run. Writes come first, events last.
    pub all: Vec<Call>,
    /// Calls that some runs make more often than others: minimum and maximum number.
    pub varying: BTreeMap<Key, (u64, u64)>,
    /// Programs that read from the API server's cache.
    pub cached: BTreeSet<String>,
}

/// An unbroken run: its calls, and the start of each step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Unbroken {
    /// The calls, in order.
    pub observed: Vec<ObservedCall>,
    /// Start of each step in milliseconds.
    pub steps: Vec<u64>,
}

impl Unbroken {
    /// Returns the step that was in progress at `ms`.
    fn step_at(&self, ms: u64) -> Option<usize> {
        self.steps.iter().rposition(|began| *began <= ms)
    }
}

/// Learns the calls of `runs`; there is at least one run.
pub fn learn(runs: &[Unbroken]) -> Calls {
    let Some(first) = runs.first() else { return Calls::default() };
    let known = known(runs);
    let counts: Vec<BTreeMap<Key, u64>> = runs.iter().map(|run| count(run, &known)).collect();
    let keys: BTreeSet<&Key> = counts.iter().flat_map(BTreeMap::keys).collect();
    let of = |key: &Key, run: &BTreeMap<Key, u64>| run.get(key).copied().unwrap_or(0);
    let mut calls = Calls::default();
    let mut stable: BTreeMap<Key, u64> = BTreeMap::new();
    for key in keys {
        let least = counts.iter().map(|run| of(key, run)).min().unwrap_or(0);
        let most = counts.iter().map(|run| of(key, run)).max().unwrap_or(0);
        if key.what == What::Read {
            if least > 0 && key.attributes.get("reads").is_some_and(|reads| reads == "cache") {
                calls.cached.insert(key.program.clone());
            }
            continue;
        }
        if least < most {
            calls.varying.insert(key.clone(), (least, most));
        }
        let limit = match key.what {
            What::Event => EVENTS,
            What::CloudRead => LOOKS,
            _ => u64::MAX,
        };
        stable.insert(key.clone(), least.min(limit));
    }
    let mut turns: BTreeMap<Key, u64> = BTreeMap::new();
    for observed in &first.observed {
        let key = key(observed, &known);
        let nth = turns.entry(key.clone()).or_default();
        *nth += 1;
        if *nth <= stable.get(&key).copied().unwrap_or(0) {
            calls.all.push(Call { nth: *nth, ms: observed.ms, step: first.step_at(observed.ms), key });
        }
    }
    // Writes first, events last; within these the order of the run.
    calls.all.sort_by_key(|call| call.key.what);
    calls
}

/// Returns the names of objects that occur in all runs, and in the next one, too.
fn known(runs: &[Unbroken]) -> BTreeSet<String> {
    let of = |run: &Unbroken| -> BTreeSet<String> {
        let objects = run.observed.iter().filter_map(ObservedCall::object);
        objects.filter(|object| !names::has_uuid(object)).map(str::to_owned).collect()
    };
    let mut all = runs.iter().map(of);
    let first = all.next().unwrap_or_default();
    all.fold(first, |known, run| known.intersection(&run).cloned().collect())
}

fn key(observed: &ObservedCall, known: &BTreeSet<String>) -> Key {
    let mut attributes = observed.attributes.clone();
    if let Some(object) = observed.object().filter(|object| !known.contains(*object)) {
        match names::pattern(object) {
            Some(pattern) => attributes.insert("object".to_owned(), pattern),
            // No part of the name occurs in the next run.
            None => attributes.remove("object"),
        };
    }
    Key { what: observed.what, program: observed.program.clone(), op: observed.op.clone(), attributes }
}

fn count(run: &Unbroken, known: &BTreeSet<String>) -> BTreeMap<Key, u64> {
    let mut counts = BTreeMap::new();
    for observed in &run.observed {
        *counts.entry(key(observed, known)).or_default() += 1;
    }
    counts
}

/// A trial: one perturbation at one call.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Trial {
    /// The perturbation.
    pub kind: Kind,
    /// The call.
    pub call: Call,
}

impl std::fmt::Display for Trial {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} at {}", self.kind, self.call)
    }
}

/// Returns the perturbations of a call.
pub fn kinds(key: &Key, cached: &BTreeSet<String>) -> Vec<Kind> {
    use Kind::*;
    let mut kinds = match key.what {
        What::Write => {
            vec![CrashBefore, CrashAfter, NextStep, Delete, Slow, LostRequest, LostReply, Timeout, Throttle, Outage]
        }
        What::CloudWrite => {
            vec![CrashBefore, CrashAfter, NextStep, Delete, Slow, LostReply, Throttle, Outage]
        }
        What::CloudRead => vec![Throttle, StaleDescribe],
        What::Csi => {
            vec![CrashBefore, CrashAfter, NextStep, Delete, Slow, LostReply, Outage, Aborted, Deadline, Unavailable]
        }
        What::Served => vec![CrashBefore, CrashAfter, LostRequest, LostReply],
        What::Event => vec![Lag, Gone, Unobserved, Stall, Gap],
        What::Read => Vec::new(),
    };
    if key.what == What::Write {
        if cached.contains(&key.program) {
            kinds.push(StaleList);
        }
        // A create or a delete that conflicts with another writer gets a different answer.
        if ["update", "patch"].contains(&key.op.as_str()) {
            kinds.push(Conflict);
        }
    }
    if key.what == What::CloudWrite && faults::transition(&key.op).is_some() {
        kinds.push(Stuck);
    }
    if key.what == What::CloudWrite && faults::names_volume(&key.op) {
        kinds.push(Vanish);
    }
    kinds.sort_unstable();
    kinds
}

/// Returns all trials of `calls`. `only` selects kinds (if empty, all that a real server can cause), `at` calls whose name
/// contains it.
pub fn trials(calls: &Calls, only: &[Kind], at: Option<&str>) -> Vec<Trial> {
    let wanted = |kind: &Kind| only.contains(kind) || only.is_empty() && kind.is_possible();
    let here = |call: &&Call| at.is_none_or(|at| call.to_string().contains(at));
    let mut all: Vec<Trial> = Vec::new();
    for call in calls.all.iter().filter(here) {
        for kind in kinds(&call.key, &calls.cached).into_iter().filter(wanted) {
            // An outage begins at the first of its calls, and also affects the following ones.
            if kind != Kind::Outage || call.nth == 1 {
                all.push(Trial { kind, call: call.clone() });
            }
        }
    }
    all
}

/// Returns at most `most` of `all`: as many of each kind as possible, and those of a kind evenly spread.
pub fn spread(all: Vec<Trial>, most: Option<usize>) -> Vec<Trial> {
    let Some(most) = most.filter(|most| *most < all.len()) else { return all };
    let mut kinds: BTreeMap<Kind, Vec<usize>> = BTreeMap::new();
    for (at, trial) in all.iter().enumerate() {
        kinds.entry(trial.kind).or_default().push(at);
    }
    // One more of each kind in turn, until there are enough.
    let mut shares: BTreeMap<Kind, usize> = BTreeMap::new();
    let mut left = most;
    while left > 0 {
        for (kind, places) in &kinds {
            let share = shares.entry(*kind).or_default();
            if left > 0 && *share < places.len() {
                *share += 1;
                left -= 1;
            }
        }
    }
    let chosen = kinds.iter().flat_map(|(kind, places)| {
        let share = shares[kind];
        (0..share).map(move |nth| places[nth * places.len() / share])
    });
    let chosen: BTreeSet<usize> = chosen.collect();
    all.into_iter().enumerate().filter(|(at, _)| chosen.contains(at)).map(|(_, trial)| trial).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observed(ms: u64, what: What, op: &str, attributes: &[(&str, &str)]) -> ObservedCall {
        let attributes = attributes.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        ObservedCall { ms, program: "mine".to_owned(), what, op: op.to_owned(), attributes }
    }

    fn write(ms: u64, object: &str) -> ObservedCall {
        observed(ms, What::Write, "patch", &[("resource", "pvs"), ("object", object), ("subresource", "")])
    }

    fn run(observed: Vec<ObservedCall>) -> Unbroken {
        Unbroken { observed, steps: vec![0, 10, 20] }
    }

    fn named(calls: &Calls) -> Vec<String> {
        calls.all.iter().map(Call::to_string).collect()
    }

    #[test]
    fn names_that_each_run_draws_are_loose_and_those_that_stay_are_exact() {
        let one = run(vec![write(5, "data"), write(12, "pvc-11111111-0000"), write(25, "pvc-22222222-0000")]);
        let other = run(vec![write(1, "pvc-33333333-0000"), write(2, "data"), write(3, "pvc-44444444-0000")]);
        let calls = learn(&[one.clone(), other, one]);
        assert_eq!(named(&calls), ["mine patch pvs data #1", "mine patch pvs pvc-* #1", "mine patch pvs pvc-* #2"]);
        assert_eq!(calls.all.iter().map(|call| call.step).collect::<Vec<_>>(), [Some(0), Some(1), Some(2)]);
        assert!(calls.varying.is_empty());
        // The runs may agree on a uuid by chance.
        let agreed = run(vec![write(5, "pvc-eba50c61-fd7d-41f0-b198-ed549529db16")]);
        assert_eq!(named(&learn(&[agreed.clone(), agreed])), ["mine patch pvs pvc-* #1"]);
    }

    #[test]
    fn calls_whose_number_varies_are_dropped_and_listed() {
        let calls =
            learn(&[run(vec![write(1, "a"), write(2, "a"), write(3, "b")]), run(vec![write(1, "a"), write(3, "b")])]);
        assert_eq!(named(&calls), ["mine patch pvs a #1", "mine patch pvs b #1"]);
        assert_eq!(calls.varying.values().collect::<Vec<_>>(), [&(1, 2)]);
    }

    #[test]
    fn many_events_of_one_object_are_a_few() {
        let event = |ms| observed(ms, What::Event, "watch-event", &[("object", "a"), ("type", "MODIFIED")]);
        let events = run((0..20).map(event).collect());
        assert_eq!(learn(&[events]).all.len(), EVENTS as usize);
    }

    #[test]
    fn each_call_has_the_perturbations_that_a_real_server_can_do_there() {
        let list = observed(0, What::Read, "list", &[("reads", "cache")]);
        let calls = learn(&[run(vec![
            list,
            write(1, "a"),
            write(2, "a"),
            observed(3, What::Write, "create", &[("resource", "pods"), ("object", "x/")]),
            observed(4, What::CloudWrite, "AttachVolume", &[]),
            observed(5, What::Csi, "CreateVolume", &[]),
            observed(6, What::Event, "watch-event", &[("object", "a")]),
        ])]);
        let all = trials(&calls, &[], None);
        let has =
            |kind, part: &str| all.iter().any(|trial| trial.kind == kind && trial.call.to_string().contains(part));
        assert!(has(Kind::Conflict, "patch pvs a #2") && !has(Kind::Conflict, "create"));
        assert!(has(Kind::Outage, "a #1") && !has(Kind::Outage, "a #2"));
        assert!(
            has(Kind::StaleList, "create")
                && has(Kind::Stuck, "AttachVolume")
                && has(Kind::Vanish, "AttachVolume")
                && has(Kind::Aborted, "CreateVolume")
        );
        assert!(has(Kind::Gone, "sees an event") && !has(Kind::Gone, "patch"));
        assert!(!has(Kind::Gap, "sees an event"), "no real server leaves out an event");
        assert_eq!(trials(&calls, &[Kind::Gap], None).len(), 1);
        let only = trials(&calls, &[Kind::Conflict], Some("a #2"));
        assert_eq!(only.iter().map(Trial::to_string).collect::<Vec<_>>(), ["conflict at mine patch pvs a #2"]);
        assert_eq!(spread(all.clone(), Some(3)).len(), 3);
        let kinds = |some: &[Trial]| some.iter().map(|trial| trial.kind).collect::<BTreeSet<_>>();
        let few = spread(all.clone(), Some(kinds(&all).len()));
        assert_eq!(kinds(&few), kinds(&all), "each kind has its part");
        assert_eq!(spread(all.clone(), None), all);
    }
}
