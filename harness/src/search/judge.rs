//! Runs a scenario and judges the result.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use substrate::clock::TimeScale;
use substrate::world::{Options, simulate};
use substrate::{Event, World};

use super::bundle::Record;
use super::coverage::Coverage;
use super::document::Document;
use super::end_state::EndState;
use super::signature;
use crate::cluster::{Cluster, ClusterSpec};
use crate::invariants::{Violation, declared};
use crate::report_html::Listener;
use crate::runner::{self, Failure, Outcome, PauseHook};
use crate::scenario::{self, Scenario};

/// A run to carry out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// Text of the scenario.
    pub text: String,
    /// Seed.
    pub seed: u64,
    /// Seeded bugs that are enabled.
    #[serde(default)]
    pub mutants: Vec<String>,
    /// Expected end states: after the steps, and after the teardown.
    #[serde(default)]
    pub ends: Option<Vec<EndState>>,
    /// If set, report the end states.
    #[serde(default)]
    pub report_ends: bool,
    /// If set, report the coverage.
    #[serde(default)]
    pub report_coverage: bool,
}

/// Class of a run's result, in the order of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// The run passed.
    #[default]
    Survived,
    /// Only declared deviations of upstream occurred.
    Declared,
    /// An invariant was violated.
    Violated,
    /// Objects or resources were left behind.
    Leaked,
    /// A step or an expectation failed.
    Stuck,
    /// All invariants hold, but the end state differs.
    EndDiffers,
    /// The program panicked or ran out of memory.
    Broke,
    /// The run exceeded its time limit.
    Hung,
    /// A repetition in another process gave another trace.
    Diverged,
    /// The scenario cannot be parsed.
    Unreadable,
}

impl Class {
    /// All classes.
    pub const ALL: &'static [Self] = &[
        Self::Survived,
        Self::Declared,
        Self::Violated,
        Self::Leaked,
        Self::Stuck,
        Self::EndDiffers,
        Self::Broke,
        Self::Hung,
        Self::Diverged,
        Self::Unreadable,
    ];

    /// Label of the class.
    pub fn word(self) -> &'static str {
        match self {
            Self::Survived => "survived",
            Self::Declared => "declared",
            Self::Violated => "violated",
            Self::Leaked => "leaked",
            Self::Stuck => "stuck",
            Self::EndDiffers => "end differs",
            Self::Broke => "broke",
            Self::Hung => "hung",
            Self::Diverged => "diverged",
            Self::Unreadable => "unreadable",
        }
    }

    /// Returns true if the class is a finding.
    pub fn is_finding(self) -> bool {
        !matches!(self, Self::Survived | Self::Declared | Self::Unreadable)
    }
}

/// Result of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Verdict {
    /// Class of the result.
    pub class: Class,
    /// Signature, equal for equal bugs; empty if there is none.
    pub signature: String,
    /// Description of the failure.
    pub message: String,
    /// Declared deviations of upstream that occurred.
    pub declared: Vec<String>,
    /// Faults that never fired.
    pub silent: Vec<String>,
    /// Number of events of the trace.
    pub events: u64,
    /// SHA-256 of the lines of the trace, in hexadecimal.
    pub digest: String,
    /// Virtual time of the run, in milliseconds.
    pub world_ms: u64,
    /// End states, if requested.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ends: Vec<EndState>,
    /// Coverage, if requested.
    #[serde(default, skip_serializing_if = "Coverage::is_empty")]
    pub coverage: Coverage,
}

impl Verdict {
    /// Verdict for a run that panicked with the message `wording`.
    pub fn panicked(wording: &str) -> Self {
        Self::without_outcome(Class::Broke, &format!("the run panicked: {wording}"))
    }

    /// Verdict for a run without an outcome.
    pub fn without_outcome(class: Class, message: &str) -> Self {
        let line = message.lines().next().unwrap_or_default();
        Self {
            class,
            signature: format!("{}: {}", class.word(), signature::of(line)),
            message: message.to_owned(),
            declared: Vec::new(),
            silent: Vec::new(),
            events: 0,
            digest: String::new(),
            world_ms: 0,
            ends: Vec::new(),
            coverage: Coverage::default(),
        }
    }

    /// Returns the failure of a run without a finding in which a fault never fired, as in `mooring run`.
    pub fn never_fired(&self) -> Option<String> {
        let faults: Vec<String> = self.silent.iter().map(|name| format!("fault {name}")).collect();
        let failed = !faults.is_empty() && !self.class.is_finding();
        failed.then(|| format!("{} never fired, so the run proves nothing about it", faults.join(", ")))
    }
}

/// Options for the world of a run.
pub fn options(scenario: &Scenario, seed: u64, mutants: &[String], limit: Option<Duration>) -> Options {
    Options {
        seed,
        scale: TimeScale::new(scenario.time_scale.simulated),
        latency: scenario.link,
        watchdog: limit,
        mutants: mutants.iter().cloned().collect(),
        ..Options::default()
    }
}

/// Task that repeats the run of `document`. If its finding is a different end state, the task includes the expected
/// one.
pub fn task_of(document: &Document, record: &Record, limit: Option<Duration>) -> Task {
    let task = |document: &Document| Task {
        text: document.text(),
        seed: record.seed,
        mutants: record.mutants.clone(),
        ends: None,
        report_ends: true,
        report_coverage: false,
    };
    let ends = (record.class == Class::EndDiffers).then(|| {
        let unbroken = document.clone().without_faults(&record.breaks);
        judge(&task(&unbroken), limit).ends
    });
    Task { ends, ..task(document) }
}

/// Runs `task` in this process.
pub fn judge(task: &Task, limit: Option<Duration>) -> Verdict {
    judge_with_events(task, limit).0
}

/// Runs `task` in this process, and returns the lines of its trace, too.
pub fn judge_and_trace(task: &Task, limit: Option<Duration>) -> (Verdict, Vec<String>) {
    let (verdict, events) = judge_with_events(task, limit);
    (verdict, events.iter().map(|event| event.line().text()).collect())
}

/// Runs `task` in this process, and returns its outcome if it has one.
pub fn judge_and_keep(task: &Task, limit: Option<Duration>) -> (Verdict, Option<Outcome>) {
    judge_with(task, limit, |_| {})
}

/// Runs `task` in this process with `listener` attached, and returns its outcome if it has one.
pub fn judge_and_show(task: &Task, limit: Option<Duration>, listener: &Listener) -> (Verdict, Option<Outcome>) {
    judge_with(task, limit, |world| listener.attach(world.trace()))
}

fn judge_with_events(task: &Task, limit: Option<Duration>) -> (Verdict, Vec<Arc<Event>>) {
    let (verdict, outcome) = judge_with(task, limit, |_| {});
    (verdict, outcome.map(|outcome| outcome.events).unwrap_or_default())
}

/// Runs `task` in this process. `opens` is called with its world before the first event.
pub(super) fn judge_with(
    task: &Task,
    limit: Option<Duration>,
    opens: impl FnOnce(&World),
) -> (Verdict, Option<Outcome>) {
    let scenario = match scenario::parse("search.yaml", &task.text) {
        Ok(scenario) => scenario,
        Err(error) => return (Verdict::without_outcome(Class::Unreadable, &error.to_string()), None),
    };
    let run = simulate(options(&scenario, task.seed, &task.mutants, limit), async |world| {
        opens(&world);
        play(&scenario, &world, compares(task)).await
    });
    match run {
        Ok((outcome, ends)) => {
            let mut verdict = verdict(task, &outcome, ends, Digest::default());
            if task.report_coverage {
                verdict.coverage = Coverage::of(&scenario, &outcome.events);
            }
            (verdict, Some(outcome))
        }
        Err(why) => (Verdict::without_outcome(Class::Broke, &why), None),
    }
}

/// Returns true if the end states of `task` are needed.
pub(super) fn compares(task: &Task) -> bool {
    task.ends.is_some() || task.report_ends
}

/// Runs `scenario` in `world`, and reads the end states if `compare` is set.
pub(super) async fn play(
    scenario: &Scenario,
    world: &World,
    compare: bool,
) -> Result<(Outcome, Vec<EndState>), String> {
    let cluster = Cluster::simulate(world, ClusterSpec::of_scenario(scenario)).map_err(|e| e.to_string())?;
    let ends = RefCell::new(Vec::new());
    let rests = async || {
        if compare {
            let end = EndState::of(&cluster).await;
            ends.borrow_mut().push(end);
        }
    };
    let outcome = runner::run_watched(scenario, &cluster, |_| {}, &PauseHook::none(), rests).await;
    Ok((outcome, ends.into_inner()))
}

/// Verdict on `outcome`. `digest` already contains its first events.
pub(crate) fn verdict(task: &Task, outcome: &Outcome, ends: Vec<EndState>, mut digest: Digest) -> Verdict {
    digest.catch_up(&outcome.events);
    let mut violations = outcome.violations.clone();
    // A test ensures that the declarations are readable.
    let held = declared::mark_known(&mut violations).and_then(|()| declared::held(&violations)).unwrap_or_default();
    let own: Vec<&Violation> = violations.iter().filter(|violation| violation.declared.is_none()).collect();
    let mut declared: Vec<String> = Vec::new();
    for id in violations.iter().filter_map(|violation| violation.declared.as_ref()) {
        if !declared.contains(id) {
            declared.push(id.clone());
        }
    }
    let waits_for_held = |failure: &Failure| {
        let object = failure.expected.split(' ').next();
        let named = object.into_iter().chain(outcome.waits_for.as_deref()).any(|name| held.contains_key(name));
        named || held.keys().any(|volume| failure.seen.contains(volume))
    };
    let differences = match (&task.ends, outcome.failure.is_none()) {
        (Some(usual), true) => differences(&ends, usual),
        _ => Vec::new(),
    };
    let (class, signature, message) = if let Some((first, signature)) = signature::of_violations(&own) {
        let class = if own.iter().all(|violation| violation.id == "I5") { Class::Leaked } else { Class::Violated };
        let missing = first.missing.as_ref().map(|missing| format!("\n{}", missing.text)).unwrap_or_default();
        (class, signature, first.message.clone() + &missing)
    } else if let Some(failure) = outcome.failure.as_ref().filter(|failure| !waits_for_held(failure)) {
        let text = format!("expected {}; seen {}", failure.expected, failure.seen);
        let seen = failure.seen.lines().next().unwrap_or_default();
        (Class::Stuck, format!("step: {}; seen {}", signature::of(&failure.expected), signature::of(seen)), text)
    } else if let Some(first) = differences.first().filter(|_| declared.is_empty()) {
        let place = first.split(" is ").next().unwrap_or_default();
        (Class::EndDiffers, format!("end: {}", signature::of(place)), differences.join("\n"))
    } else if let Some(id) = declared.first() {
        (Class::Declared, format!("declared: {id}"), format!("{id}, a declared deviation of upstream"))
    } else {
        (Class::Survived, String::new(), String::new())
    };
    Verdict {
        class,
        signature,
        message,
        declared,
        silent: outcome.silent_faults.iter().map(|silent| silent.name.clone()).collect(),
        events: outcome.events.len() as u64,
        digest: digest.text(),
        world_ms: u64::try_from(outcome.elapsed.as_millis()).unwrap_or(u64::MAX),
        ends: if task.report_ends { ends } else { Vec::new() },
        coverage: Coverage::default(),
    }
}

fn differences(ends: &[EndState], usual: &[EndState]) -> Vec<String> {
    let when = ["", "after the teardown: "];
    let mut all = Vec::new();
    for (at, (end, usual)) in ends.iter().zip(usual).enumerate() {
        let when = when.get(at).copied().unwrap_or_default();
        match end.differences(usual) {
            Ok(reported) => all.extend(reported.into_iter().map(|reported| format!("{when}{reported}"))),
            Err(why) => all.push(why),
        }
    }
    all
}

/// SHA-256 of the lines of a run's first events.
#[derive(Clone, Debug, Default)]
pub(crate) struct Digest {
    hash: Sha256,
    events: usize,
}

impl Digest {
    /// Adds the new events of `events`, which are all events of the run so far.
    pub fn catch_up(&mut self, events: &[Arc<Event>]) {
        for event in events.iter().skip(self.events) {
            self.hash.update(event.line().text());
            self.hash.update("\n");
        }
        self.events = self.events.max(events.len());
    }

    /// Digest in hexadecimal.
    fn text(self) -> String {
        self.hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}
