//! The verdict on a trial.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use super::call::What;
use super::faults::OUTAGE;
use super::kind::Kind;
use super::plan::Trial;
use super::recorded::Recorded;
use crate::program::ProgramReport;
use crate::search::judge;

/// Number of additional exits that count as a crash loop; a container may exit a few times.
const ENDS: u32 = 3;
/// Maximum number of tries of a failing call within an outage; a backoff that doubles needs at most ten.
const TRIES: u64 = 25;
/// Calls a second that a program may make in a cluster at rest, in addition to four times those of the unbroken run.
const IDLE: f64 = 50.0;
/// Minimum number of calls for a rate.
const FEW: u64 = 20;
/// Time after an outage in which the error may be reported.
const TELLING: Duration = Duration::from_secs(1);

/// The class of a result. The order is that of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// The final state is correct.
    Survived,
    /// It shares a declared bug of upstream.
    Declared,
    /// The call was not made, so the fault never fired.
    NotReached,
    /// An invariant did not hold.
    Violated,
    /// Something was left behind.
    Leaked,
    /// A step did not finish in time.
    Stuck,
    /// The final state differs from that of the unbroken run.
    EndDiffers,
    /// The program exits again and again.
    CrashLoop,
    /// The program makes many calls while the cluster is at rest.
    HotLoop,
    /// The program repeats a failing call without a pause.
    NoBackoff,
    /// A call failed for a while, and the program reported it in no object and no Event.
    Unreported,
}

impl Class {
    /// Returns its name in reports.
    pub fn word(self) -> &'static str {
        match self {
            Self::Survived => "survived",
            Self::Declared => "declared",
            Self::NotReached => "not reached",
            Self::Violated => "violated",
            Self::Leaked => "leaked",
            Self::Stuck => "stuck",
            Self::EndDiffers => "end differs",
            Self::CrashLoop => "crash loop",
            Self::HotLoop => "hot loop",
            Self::NoBackoff => "no backoff",
            Self::Unreported => "unsaid",
        }
    }

    /// Returns true if the class is a finding.
    pub fn is_finding(self) -> bool {
        self > Self::NotReached
    }
}

/// The result of a trial with its message.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Verdict {
    /// Its class.
    pub class: Class,
    /// Signature: equal for findings of the same bug; empty if there is no finding.
    pub signature: String,
    /// The message.
    pub message: String,
    /// Declared deviations of upstream that occurred.
    pub declared: Vec<String>,
}

/// The values of the unbroken run that a verdict needs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Norm {
    /// Calls of each program while the cluster is at rest.
    pub idle: BTreeMap<String, u64>,
    /// Number of exits of each program by itself.
    pub ends: BTreeMap<String, u32>,
}

impl Norm {
    /// Returns the larger value of each of two runs.
    pub fn most(self, other: Self) -> Self {
        fn join<T: Ord + Copy>(mut one: BTreeMap<String, T>, other: BTreeMap<String, T>) -> BTreeMap<String, T> {
            for (name, value) in other {
                one.entry(name).and_modify(|known| *known = (*known).max(value)).or_insert(value);
            }
            one
        }
        Self { idle: join(self.idle, other.idle), ends: join(self.ends, other.ends) }
    }
}

/// The facts of a trial.
#[derive(Clone, Debug)]
pub struct Facts<'a> {
    /// The verdict of the search on steps, invariants, leaks and the final state.
    pub judged: &'a judge::Verdict,
    /// The record of the run.
    pub recorded: &'a Recorded,
    /// The programs at the end of the workload.
    pub programs: &'a [ProgramReport],
    /// Number of calls of each program while the cluster is at rest.
    pub idle: &'a BTreeMap<String, u64>,
    /// Length of that time window.
    pub window: Duration,
}

impl Facts<'_> {
    /// Returns true if the run ended before it started its programs.
    fn never_started(&self) -> bool {
        let tried = |program: &ProgramReport| program.starts > 0 || program.last_end.is_some();
        self.recorded.steps.is_empty() && !self.programs.iter().any(tried)
    }
}

/// Judges a trial.
pub fn of(trial: &Trial, facts: &Facts<'_>, norm: &Norm) -> Verdict {
    let declared = facts.judged.declared.clone();
    let found = |class: Class, message: String| Verdict {
        class,
        signature: format!("{}: {}", class.word(), crate::search::signature(&message)),
        message,
        declared: declared.clone(),
    };
    if let Some(message) = crash_loop(facts, norm) {
        return found(Class::CrashLoop, message);
    }
    if let Some(class) = not_well(facts) {
        let judged = facts.judged;
        // The flag for the limit of a run has another name here.
        let (signature, message) = (judged.signature.clone(), judged.message.replace("--timeout", "--within"));
        return Verdict { class, signature, message, declared };
    }
    if let Some(message) = hot_loop(facts, norm) {
        return found(Class::HotLoop, message);
    }
    if trial.kind == Kind::Outage {
        if let Some(message) = no_backoff(trial, facts.recorded) {
            return found(Class::NoBackoff, message);
        }
        if let Some(message) = unreported(trial, facts.recorded) {
            return found(Class::Unreported, message);
        }
    }
    let class = match facts.recorded.fired {
        None => Class::NotReached,
        Some(_) if facts.judged.class == judge::Class::Declared => Class::Declared,
        Some(_) => Class::Survived,
    };
    Verdict { class, signature: String::new(), message: String::new(), declared }
}

/// Expectation of a step that waits for the fault of the trial.
pub(super) const NEVER_FIRED: &str = "the fault perturb has fired";

fn not_well(facts: &Facts<'_>) -> Option<Class> {
    match facts.judged.class {
        judge::Class::Survived | judge::Class::Declared => None,
        // The cluster did not start in time, and no program was started.
        judge::Class::Stuck | judge::Class::Hung if facts.never_started() => Some(Class::NotReached),
        // The workload waits for its own fault, and the call was not made.
        judge::Class::Stuck if facts.recorded.fired.is_none() && facts.judged.message.contains(NEVER_FIRED) => {
            Some(Class::NotReached)
        }
        judge::Class::Violated => Some(Class::Violated),
        judge::Class::Leaked => Some(Class::Leaked),
        judge::Class::EndDiffers => Some(Class::EndDiffers),
        _ => Some(Class::Stuck),
    }
}

fn crash_loop(facts: &Facts<'_>, norm: &Norm) -> Option<String> {
    let usual = |name: &str| norm.ends.get(name).copied().unwrap_or(0);
    let program = facts.programs.iter().find(|program| program.ends >= usual(&program.name) + ENDS)?;
    let last = program.last_end.as_deref().unwrap_or("ended");
    Some(format!("{} ended by itself {} times; last it {last}", program.name, program.ends))
}

fn hot_loop(facts: &Facts<'_>, norm: &Norm) -> Option<String> {
    let seconds = facts.window.as_secs_f64().max(0.001);
    facts.idle.iter().find_map(|(name, calls)| {
        let usual = norm.idle.get(name).copied().unwrap_or(0);
        let rate = |calls: u64| calls as f64 / seconds;
        let hot = *calls >= FEW && rate(*calls) > 4.0 * rate(usual) + IDLE;
        hot.then(|| {
            format!(
                "{name} makes {:.0} calls a second when the cluster is at rest, and {:.0} in the unbroken run",
                rate(*calls),
                rate(usual)
            )
        })
    })
}

fn no_backoff(trial: &Trial, recorded: &Recorded) -> Option<String> {
    let tries = recorded.hits;
    let message = || {
        format!("{} was tried {tries} times within {}ms in which each try failed", trial.call.key, OUTAGE.as_millis())
    };
    (tries > TRIES).then(message)
}

/// Returns a message if a sidecar did not report that its driver fails: it must write to an object or create an Event.
/// A driver reports an error to its caller.
fn unreported(trial: &Trial, recorded: &Recorded) -> Option<String> {
    let (Some(fired), What::Csi) = (recorded.fired, trial.call.key.what) else { return None };
    let end = fired + (OUTAGE + TELLING).as_millis() as u64;
    let program = &trial.call.key.program;
    let is_write = |text: &str| {
        let rest = text.strip_prefix(program.as_str()).and_then(|rest| rest.strip_prefix(": "));
        rest.is_some_and(|rest| ["create ", "update ", "patch "].iter().any(|verb| rest.starts_with(verb)))
    };
    let has_reported = recorded.journal.iter().any(|line| (fired..=end).contains(&line.ms) && is_write(&line.text));
    (!has_reported)
        .then(|| format!("{program} wrote to no object and made no Event while {} failed", trial.call.key.op))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perturb::call::{Call, Key};
    use crate::perturb::recorded::Line;

    fn trial(kind: Kind, what: What) -> Trial {
        let key = Key { what, program: "mine".to_owned(), op: "patch".to_owned(), attributes: BTreeMap::new() };
        Trial { kind, call: Call { key, nth: 1, ms: 0, step: None } }
    }

    fn judged(class: judge::Class) -> judge::Verdict {
        let mut judged = judge::Verdict::without_outcome(class, "what was seen");
        judged.declared = if class == judge::Class::Declared { vec!["known".to_owned()] } else { Vec::new() };
        judged
    }

    fn verdict(kind: Kind, what: What, class: judge::Class, change: impl FnOnce(&mut Recorded)) -> Verdict {
        let mut recorded = Recorded { fired: Some(10), hits: 1, steps: vec![1], ..Recorded::default() };
        change(&mut recorded);
        let (idle, judged) = (BTreeMap::new(), judged(class));
        let facts =
            Facts { judged: &judged, recorded: &recorded, programs: &[], idle: &idle, window: Duration::from_secs(1) };
        of(&trial(kind, what), &facts, &Norm::default())
    }

    #[test]
    fn the_search_decides_on_steps_invariants_and_ends() {
        for (class, is) in [
            (judge::Class::Survived, Class::Survived),
            (judge::Class::Declared, Class::Declared),
            (judge::Class::Violated, Class::Violated),
            (judge::Class::Leaked, Class::Leaked),
            (judge::Class::Stuck, Class::Stuck),
            (judge::Class::EndDiffers, Class::EndDiffers),
            (judge::Class::Hung, Class::Stuck),
        ] {
            let verdict = verdict(Kind::CrashAfter, What::Write, class, |_| {});
            assert_eq!(verdict.class, is);
            assert_eq!(is.is_finding(), !verdict.signature.is_empty(), "{is:?}");
        }
    }

    #[test]
    fn a_fault_that_did_not_fire_proves_nothing() {
        let never = |recorded: &mut Recorded| recorded.fired = None;
        assert_eq!(verdict(Kind::Lag, What::Event, judge::Class::Survived, never).class, Class::NotReached);
        assert_eq!(verdict(Kind::Lag, What::Event, judge::Class::Stuck, never).class, Class::Stuck);
    }

    #[test]
    fn a_cluster_that_was_not_up_in_time_says_nothing_of_the_program() {
        let of = |steps: Vec<u64>, last_end: Option<&str>| {
            let recorded = Recorded { steps, ..Recorded::default() };
            let (idle, judged) = (BTreeMap::new(), judged(judge::Class::Stuck));
            let last_end = last_end.map(str::to_owned);
            let programs = [ProgramReport { name: "mine".to_owned(), last_end, ..ProgramReport::default() }];
            let window = Duration::from_secs(1);
            let facts = Facts { judged: &judged, recorded: &recorded, programs: &programs, idle: &idle, window };
            super::of(&trial(Kind::Lag, What::Event), &facts, &Norm::default()).class
        };
        assert_eq!(of(Vec::new(), None), Class::NotReached);
        assert_eq!(of(vec![5], None), Class::Stuck);
        assert_eq!(of(Vec::new(), Some("Permission denied")), Class::Stuck);
    }

    #[test]
    fn a_call_that_fails_and_is_made_again_at_once_is_found() {
        let tries = |n| move |recorded: &mut Recorded| recorded.hits = n;
        let of = |n| verdict(Kind::Outage, What::Write, judge::Class::Survived, tries(n)).class;
        assert_eq!((of(TRIES), of(TRIES + 1)), (Class::Survived, Class::NoBackoff));
        let other = verdict(Kind::Throttle, What::Write, judge::Class::Survived, tries(1_000));
        assert_eq!(other.class, Class::Survived, "it is asked of outages alone");
    }

    #[test]
    fn an_error_of_the_driver_must_be_reported() {
        let journal_line = |ms: u64, text: &str| {
            let line = Line { ms, text: text.to_owned() };
            move |recorded: &mut Recorded| recorded.journal.push(line)
        };
        let of = |ms, text| verdict(Kind::Outage, What::Csi, judge::Class::Survived, journal_line(ms, text)).class;
        assert_eq!(of(20, "mine: create events default/: 201"), Class::Survived);
        assert_eq!(of(20, "mine: patch volumeattachments csi-1 status: 200"), Class::Survived);
        assert_eq!(of(5, "mine: create events default/: 201"), Class::Unreported, "before it failed");
        assert_eq!(of(20, "other: create events default/: 201"), Class::Unreported);
        assert_eq!(of(20, "mine: ControllerPublishVolume: INTERNAL"), Class::Unreported);
    }

    #[test]
    fn rates_and_ends_are_measured_against_the_unbroken_run() {
        let recorded = Recorded { fired: Some(1), ..Recorded::default() };
        let well = judged(judge::Class::Survived);
        let of = |calls: u64, usual: u64, ends: u32, usual_ends: u32| {
            let report = ProgramReport { name: "mine".to_owned(), ends, ..ProgramReport::default() };
            let idle = BTreeMap::from([("mine".to_owned(), calls)]);
            let norm = Norm {
                idle: BTreeMap::from([("mine".to_owned(), usual)]),
                ends: BTreeMap::from([("mine".to_owned(), usual_ends)]),
            };
            let programs = [report];
            let window = Duration::from_millis(200);
            let facts = Facts { judged: &well, recorded: &recorded, programs: &programs, idle: &idle, window };
            super::of(&trial(Kind::Lag, What::Event), &facts, &norm).class
        };
        assert_eq!(of(19, 0, 0, 0), Class::Survived, "few calls say nothing");
        assert_eq!(of(60, 0, 0, 0), Class::HotLoop);
        assert_eq!(of(60, 20, 0, 0), Class::Survived, "it polls");
        assert_eq!(
            (of(0, 0, 2, 0), of(0, 0, 3, 0), of(0, 0, 3, 1)),
            (Class::Survived, Class::CrashLoop, Class::Survived)
        );
    }
}
