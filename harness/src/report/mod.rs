//! Report of a failed run: the expectation, the state that was seen, the last events of the object in question, and the
//! faults that fired.

mod about;

use std::sync::Arc;

use serde::Serialize;
use substrate::events::FaultFired;
use substrate::fault::Span;
use substrate::json::Value;
use substrate::{Event, Line};

use about::About;

use crate::invariants::Violation;
use crate::output::{Exit, Failure, Style, Tone, cut};
use crate::program::ProgramReport;
use crate::runner::{Failure as StepFailure, Outcome, SilentFault};
use crate::scenario::model::{Scenario, Step};

/// Number of trace lines at the end of a report.
pub const TAIL: usize = 20;
/// Maximum length of a field's value in a trace line.
const VALUE: usize = 90;

/// Report of a failed run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Name of the scenario.
    pub scenario: String,
    /// Its file as the user named it, or the fragment with the failed step.
    pub source: String,
    /// Failed step.
    pub failed: Option<FailedStep>,
    /// Violated invariants.
    pub violations: Vec<Violation>,
    /// Faults that were declared but never fired. Without them a passed run proves nothing.
    pub silent_faults: Vec<SilentFault>,
    /// Object or volume of the trace lines; none if they are not filtered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    /// Last trace lines about it, oldest first.
    pub trace: Vec<String>,
    /// Faults that fired.
    pub fired: Vec<Fired>,
    /// Wall time limit at which the run was given up, if it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub given_up: Option<Span>,
    /// Programs of the user, with their last lines.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<ProgramReport>,
}

/// A fault that fired.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Fired {
    /// Name of the fault.
    pub fault: String,
    /// Number of firings.
    pub times: u64,
    /// Time of the last firing, in milliseconds since the start of the world.
    pub last_ms: u64,
    /// Operation of the last firing.
    pub op: String,
}

impl Fired {
    /// All faults that fired in a run, in the order of their first firing.
    pub(crate) fn all(events: &[Arc<Event>]) -> Vec<Self> {
        let mut all: Vec<Self> = Vec::new();
        for event in events {
            let Some(FaultFired { fault, op, .. }) = event.get() else { continue };
            let known = all.iter().position(|fired| fired.fault == *fault);
            let at = known.unwrap_or_else(|| {
                all.push(Self { fault: fault.clone(), ..Self::default() });
                all.len() - 1
            });
            all[at].times += 1;
            all[at].last_ms = event.ms;
            all[at].op = op.to_string();
        }
        all
    }
}

/// A failed step.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FailedStep {
    /// Description; empty if no single step failed.
    pub step: String,
    /// Line and column in the file.
    pub position: Option<(u64, u64)>,
    /// Expected state.
    pub expected: String,
    /// State that was seen instead.
    pub seen: String,
}

/// Exit code and failure of a run that did not pass; none if it passed.
pub fn failure(scenario: &Scenario, outcome: &Outcome) -> Option<(Exit, Failure)> {
    let report = Report::of(scenario, outcome);
    let exit = report.exit();
    (exit != Exit::Passed).then(|| (exit, report.failure()))
}

impl Report {
    /// Report of a run of `scenario`.
    pub fn of(scenario: &Scenario, outcome: &Outcome) -> Self {
        let failed = outcome.failure.as_ref().map(|failure| FailedStep {
            step: step_of(scenario, failure).map(ToString::to_string).unwrap_or_default(),
            position: step_of(scenario, failure).map(|step| (step.line, step.column)),
            expected: failure.expected.clone(),
            seen: failure.seen.clone(),
        });
        let step = outcome.failure.as_ref().and_then(|failure| step_of(scenario, failure));
        let object = step.and_then(|step| step.action.object());
        let volume = outcome.violations.iter().find(|v| v.declared.is_none()).and_then(|v| v.volume.clone());
        let (about, lines) = match (&object, volume) {
            (Some(object), _) => (Some(object.to_string()), Some(About::object(&outcome.events, object))),
            (None, Some(volume)) => (Some(volume.clone()), Some(About::handle(&outcome.events, &volume))),
            (None, None) => (None, None),
        };
        let failed = failed.map(|failed| {
            let warnings = object.as_ref().map(|object| about::warnings(&outcome.events, object)).unwrap_or_default();
            let seen = std::iter::once(failed.seen.clone()).chain(warnings).collect::<Vec<_>>().join("\n");
            FailedStep { seen, ..failed }
        });
        let all = Self::new(&scenario.name, &scenario.source, &outcome.events);
        let source = step.map_or(scenario.source.as_str(), |step| &step.source);
        Self {
            failed,
            violations: outcome.violations.iter().filter(|v| v.declared.is_none()).cloned().collect(),
            silent_faults: outcome.silent_faults.clone(),
            source: source.to_owned(),
            about,
            trace: lines.map_or(all.trace, |lines| lines.last_lines(&outcome.events, TAIL)),
            fired: Fired::all(&outcome.events),
            given_up: outcome.given_up.map(Span),
            programs: outcome.programs.clone(),
            ..Self::new(&scenario.name, source, &[])
        }
    }

    /// Report of a run, with the end of its trace.
    pub fn new(scenario: &str, source: &str, events: &[Arc<Event>]) -> Self {
        let trace = events[events.len().saturating_sub(TAIL)..].iter().map(|event| trace_line(&event.line())).collect();
        Self { scenario: scenario.to_owned(), source: source.to_owned(), trace, ..Self::default() }
    }

    /// Exit code for the causes in the report.
    pub fn exit(&self) -> Exit {
        let leaked = |v: &Violation| if v.id == "I5" { Exit::Leaked } else { Exit::Failed };
        if self.given_up.is_some() {
            let causes = self.violations.iter().map(leaked);
            return Exit::of(causes.chain([Exit::Timeout]));
        }
        let failed = (self.failed.is_some() || !self.silent_faults.is_empty()).then_some(Exit::Failed);
        Exit::of(self.violations.iter().map(leaked).chain(failed))
    }

    /// Failure for the JSON envelope and for stderr: the report without colours, and the next actions.
    pub fn failure(&self) -> Failure {
        if let Some(limit) = self.given_up {
            let text =
                format!("the run did not end within --timeout {limit} of wall time\n\n{}", self.render(Style::PLAIN));
            return Failure::new("timeout", text.trim_end())
                .action("see in the lines above what the step waits for; with --trace FILE every message is there")
                .action("give a run that only needs longer more with --timeout");
        }
        let code = match (&self.failed, self.violations.first(), self.silent_faults.is_empty()) {
            (Some(_), _, _) => "expectation-failed",
            (None, _, _) if self.exit() == Exit::Leaked => "leaked",
            (None, Some(_), _) => "invariant-violated",
            (None, None, false) => "fault-never-fired",
            (None, None, true) => "failed",
        };
        let action =
            "run it again with --trace FILE to see every message; in simulation the same --seed gives the same run";
        Failure::new(code, self.render(Style::PLAIN).trim_end()).action(action)
    }

    fn at(&self) -> String {
        let position = self.failed.as_ref().and_then(|f| f.position);
        position.map(|(line, column)| format!(":{line}:{column}")).unwrap_or_default()
    }

    /// Formats the report for people.
    pub fn render(&self, style: Style) -> String {
        let mut out = String::new();
        let title = |text: &str| style.paint(Tone::Faint, &format!("{text:<10}"));
        if let Some(failed) = &self.failed {
            let step = if failed.step.is_empty() { String::new() } else { format!("  {}", failed.step) };
            let place = style.paint(Tone::Title, &format!("{}{}", self.source, self.at()));
            out += &format!("{place}{step}\n");
            out += &format!("  {} {}\n", title("expected"), indented(&failed.expected));
            out += &format!("  {} {}\n", title("seen"), style.paint(Tone::Bad, &indented(&failed.seen)));
            out.push('\n');
        }
        for violation in &self.violations {
            let when = format!("at {}.{:03}s, event {}", violation.ms / 1000, violation.ms % 1000, violation.n);
            let id = style.paint(Tone::Bad, &format!("invariant {}", violation.id));
            out += &format!("{id} {}\n  {}\n", style.paint(Tone::Faint, &when), violation.message);
            if let Some(missing) = &violation.missing {
                out += &format!("  {}\n", missing.text);
            }
        }
        for fault in &self.silent_faults {
            out += &format!(
                "{} never fired, so the run proves nothing about it; near misses: {}\n",
                style.paint(Tone::Bad, &format!("fault {}", fault.name)),
                fault.near_misses
            );
            for near in &fault.near {
                out += &format!("  {near}\n");
            }
        }
        if !self.violations.is_empty() || !self.silent_faults.is_empty() {
            out.push('\n');
        }
        for program in &self.programs {
            out += &format!("{}\n", program.paragraph(TAIL));
        }
        let heading = match (self.trace.len(), &self.about) {
            (0, None) => "the trace is empty".to_owned(),
            (0, Some(about)) => format!("the trace has no event about {about}"),
            (1, about) => {
                format!(
                    "the last trace line{}",
                    about.as_ref().map_or(String::new(), |about| format!(" about {about}"))
                )
            }
            (n, None) => format!("the last {n} trace lines"),
            (n, Some(about)) => format!("the last {n} trace lines about {about}"),
        };
        out += &format!("{}\n", style.paint(Tone::Faint, &heading));
        for line in &self.trace {
            out += &format!("  {line}\n");
        }
        if !self.fired.is_empty() {
            out += &format!("{}\n", style.paint(Tone::Faint, "faults that fired"));
        }
        for Fired { fault, times, last_ms, op } in &self.fired {
            let times = if *times == 1 { "once".to_owned() } else { format!("{times} times") };
            out += &format!("  {fault}: {times}, last at {}.{:03}s ({op})\n", last_ms / 1000, last_ms % 1000);
        }
        out
    }
}

/// The step that failed.
fn step_of<'a>(scenario: &'a Scenario, failure: &StepFailure) -> Option<&'a Step> {
    failure.step.and_then(|index| scenario.steps.get(index))
}

/// Indents further lines of a text to its column.
fn indented(text: &str) -> String {
    text.trim_end().replace('\n', "\n             ")
}

/// Formats an event as one line: time, ordinal, process, kind, fields.
pub fn trace_line(event: &Line) -> String {
    let mut line = format!(
        "{:>4}.{:03}s #{:<5} {:<14} {:<18}",
        event.ms / 1000,
        event.ms % 1000,
        event.n,
        event.process,
        event.kind
    );
    for (key, value) in event.fields.iter() {
        let text = match value {
            Value::String(text) if !text.is_empty() && !text.contains([' ', '"', '\n']) => text.to_string(),
            other => other.to_string(),
        };
        line += &format!(" {key}={}", cut(&text, VALUE));
    }
    line.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use substrate::events::ProcessStarted;
    use substrate::{Clock, Level, Trace};

    use super::*;

    fn events(count: u64) -> Vec<Arc<Event>> {
        let trace = Trace::new(Clock::live(), Level::Info);
        for n in 1..=count {
            let started = ProcessStarted { incarnation: u32::try_from(n).expect("few") };
            trace.info(&"fake-apiserver".into(), started);
        }
        trace.events()
    }

    fn report() -> Report {
        let step = FailedStep {
            step: "evicted: expect that the time since step 4 began is 5m35s to 6m10s".into(),
            position: Some((51, 5)),
            expected: "5m35s to 6m10s since \"power loss\"".into(),
            seen: "7m0s\nand counting".into(),
        };
        let all = Report::new("node-crash", "scenarios/node-crash.yaml", &events(30));
        Report { failed: Some(step), ..all }
    }

    #[test]
    fn a_failed_expectation_shows_both_sides_and_the_last_20_trace_lines() {
        let text = report().render(Style::PLAIN);
        let head = "\
scenarios/node-crash.yaml:51:5  evicted: expect that the time since step 4 began is 5m35s to 6m10s
  expected   5m35s to 6m10s since \"power loss\"
  seen       7m0s
             and counting

the last 20 trace lines
";
        assert!(text.starts_with(head), "{text}");
        assert!(text.contains("s #11    fake-apiserver process.started    incarnation=11\n"), "{text}");
        assert_eq!(text.lines().count(), 6 + TAIL);
    }

    #[test]
    fn a_failure_for_programs_has_the_whole_text() {
        let report = report();
        let failure = report.failure();
        assert_eq!(failure.code, "expectation-failed");
        assert_eq!(failure.message, report.render(Style::PLAIN).trim_end());
        assert_eq!(failure.actions.len(), 1);
    }

    #[test]
    fn causes_come_to_one_exit_code() {
        let violation = |id| Violation { id, message: "m".into(), ms: 1_500, n: 3, ..Violation::default() };
        let with = |violations| Report { violations, ..Report::new("t", "t.yaml", &[]) };
        assert_eq!(with(vec![]).exit(), Exit::Passed);
        assert_eq!(
            (with(vec![violation("I5")]).exit(), with(vec![violation("I5")]).failure().code),
            (Exit::Leaked, "leaked".into())
        );
        assert_eq!(with(vec![violation("I5"), violation("I1")]).exit(), Exit::Failed);
        assert_eq!(with(vec![violation("I1")]).failure().code, "invariant-violated");
        assert!(
            with(vec![violation("I1")])
                .render(Style::PLAIN)
                .starts_with("invariant I1 at 1.500s, event 3\n  m\n\nthe trace is empty\n")
        );
        let silent = Report {
            silent_faults: vec![SilentFault { name: "f".into(), near_misses: 0, near: Vec::new() }],
            ..with(vec![])
        };
        assert_eq!((silent.exit(), silent.failure().code), (Exit::Failed, "fault-never-fired".into()));
        assert_eq!(report().exit(), Exit::Failed);
    }
}
