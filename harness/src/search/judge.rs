//! One run, and what it comes to.

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
use crate::runner::{self, Attendant, Failure, Outcome};
use crate::scenario::{self, Scenario};

/// What is to be run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// The scenario, as text.
    pub text: String,
    /// The seed.
    pub seed: u64,
    /// Planted defects that are switched on.
    #[serde(default)]
    pub mutants: Vec<String>,
    /// Where the run must end: after the story, and after its teardown.
    #[serde(default)]
    pub ends: Option<Vec<EndState>>,
    /// Also tell where it ended.
    #[serde(default)]
    pub tell_ends: bool,
    /// Also tell what it came by.
    #[serde(default)]
    pub tell_coverage: bool,
}

/// What a run came to. The order is that of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// All is well in the end.
    #[default]
    Survived,
    /// It does what upstream does wrong, and that is declared.
    Declared,
    /// An invariant did not hold.
    Violated,
    /// Something was left behind.
    Leaked,
    /// A step did not do what it says.
    Stuck,
    /// All invariants hold, and the end is another one.
    EndDiffers,
    /// The program broke: it panicked, or ran out of memory.
    Broke,
    /// It did not end in its time.
    Hung,
    /// The same run in another process was another one.
    Diverged,
    /// The scenario cannot be read.
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

    /// A word or two for it.
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

    /// Whether it is a finding.
    pub fn is_finding(self) -> bool {
        !matches!(self, Self::Survived | Self::Declared | Self::Unreadable)
    }
}

/// What a run came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Verdict {
    /// In a word.
    pub class: Class,
    /// The same for the same bug; empty when there is none.
    pub signature: String,
    /// What was seen.
    pub message: String,
    /// Declared deviations of upstream that occurred.
    pub declared: Vec<String>,
    /// Faults that never fired.
    pub silent: Vec<String>,
    /// How many events the trace has.
    pub events: u64,
    /// SHA-256 of its lines, in hexadecimal.
    pub digest: String,
    /// Time that passed in the world, in milliseconds.
    pub world_ms: u64,
    /// Where it ended, if that was asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ends: Vec<EndState>,
    /// What it came by, if that was asked.
    #[serde(default, skip_serializing_if = "Coverage::is_empty")]
    pub coverage: Coverage,
}

impl Verdict {
    /// A run that panicked, and what it said.
    pub fn panicked(said: &str) -> Self {
        Self::without_outcome(Class::Broke, &format!("the run panicked: {said}"))
    }

    /// A run that has no outcome.
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
}

/// The world of a run.
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

/// How `document` is run again: with where its run must end, when its finding is that it ends elsewhere.
pub fn task_of(document: &Document, record: &Record, limit: Option<Duration>) -> Task {
    let task = |document: &Document| Task {
        text: document.text(),
        seed: record.seed,
        mutants: record.mutants.clone(),
        ends: None,
        tell_ends: true,
        tell_coverage: false,
    };
    let ends = (record.class == Class::EndDiffers).then(|| {
        let unbroken = document.clone().without_faults(&record.breaks);
        judge(&task(&unbroken), limit).ends
    });
    Task { ends, ..task(document) }
}

/// Runs `task` in this process.
pub fn judge(task: &Task, limit: Option<Duration>) -> Verdict {
    judge_and_tell(task, limit).0
}

/// Runs `task` in this process, and gives the lines of its trace, too.
pub fn judge_and_trace(task: &Task, limit: Option<Duration>) -> (Verdict, Vec<String>) {
    let (verdict, events) = judge_and_tell(task, limit);
    (verdict, events.iter().map(|event| event.line().text()).collect())
}

/// Runs `task` in this process, and gives how it ended where it has an end.
pub fn judge_and_keep(task: &Task, limit: Option<Duration>) -> (Verdict, Option<Outcome>) {
    judge_with(task, limit, |_| {})
}

/// Runs `task` in this process, heard by `listener`, and gives how it ended where it has an end.
pub fn judge_and_show(task: &Task, limit: Option<Duration>, listener: &Listener) -> (Verdict, Option<Outcome>) {
    judge_with(task, limit, |world| listener.attach(world.trace()))
}

fn judge_and_tell(task: &Task, limit: Option<Duration>) -> (Verdict, Vec<Arc<Event>>) {
    let (verdict, outcome) = judge_with(task, limit, |_| {});
    (verdict, outcome.map(|outcome| outcome.events).unwrap_or_default())
}

/// Runs `task` in this process; `opens` is called with its world before anything happens there.
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
            if task.tell_coverage {
                verdict.coverage = Coverage::of(&scenario, &outcome.events);
            }
            (verdict, Some(outcome))
        }
        Err(why) => (Verdict::without_outcome(Class::Broke, &why), None),
    }
}

/// Whether somebody asks where `task` ends.
pub(super) fn compares(task: &Task) -> bool {
    task.ends.is_some() || task.tell_ends
}

/// Runs `scenario` in `world`, and looks where it ends if `compare` says so.
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
    let outcome = runner::run_watched(scenario, &cluster, |_| {}, &Attendant::nobody(), rests).await;
    Ok((outcome, ends.into_inner()))
}

/// What `outcome` comes to, the first events of which are in `digest`.
pub(crate) fn verdict(task: &Task, outcome: &Outcome, ends: Vec<EndState>, mut digest: Digest) -> Verdict {
    digest.catch_up(&outcome.events);
    let mut violations = outcome.violations.clone();
    // A test excludes that the declarations cannot be read.
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
    let (class, signature, message) = if let Some(first) = own.iter().find(|v| v.id != "I5").or(own.first()) {
        let class = if first.id == "I5" { Class::Leaked } else { Class::Violated };
        let at = format!("{} {} {}", first.id, signature::of(&first.process), signature::of(&first.operation));
        let said = signature::of(&first.message);
        (class, format!("{}: {said}", at.trim_end()), first.message.clone())
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
        ends: if task.tell_ends { ends } else { Vec::new() },
        coverage: Coverage::default(),
    }
}

fn differences(ends: &[EndState], usual: &[EndState]) -> Vec<String> {
    let when = ["", "after the teardown: "];
    let mut all = Vec::new();
    for (at, (end, usual)) in ends.iter().zip(usual).enumerate() {
        let when = when.get(at).copied().unwrap_or_default();
        match end.differences(usual) {
            Ok(told) => all.extend(told.into_iter().map(|told| format!("{when}{told}"))),
            Err(why) => all.push(why),
        }
    }
    all
}

/// SHA-256 of the lines of the first events of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Digest {
    hash: Sha256,
    events: usize,
}

impl Digest {
    /// Takes in what is new in `events`, all of the run until now.
    pub fn catch_up(&mut self, events: &[Arc<Event>]) {
        for event in events.iter().skip(self.events) {
            self.hash.update(event.line().text());
            self.hash.update("\n");
        }
        self.events = self.events.max(events.len());
    }

    /// It, in hexadecimal.
    fn text(self) -> String {
        self.hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}
