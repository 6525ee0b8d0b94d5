//! What a failed run says: what was expected, what was seen, the last trace lines.

use std::fmt::Write;

use crate::output::{Exit, Failure};
use crate::runner::Outcome;
use crate::scenario::model::Scenario;

/// Trace lines that a failure shows.
const TAIL: usize = 20;

/// The exit code and the report of a run that did not pass; nothing when it passed.
pub fn failure(scenario: &Scenario, outcome: &Outcome) -> Option<(Exit, Failure)> {
    let mut causes = Vec::new();
    let mut text = String::new();
    if let Some(failure) = &outcome.failure {
        causes.push(Exit::Failed);
        if let Some((line, column)) = failure.position {
            let _ = writeln!(text, "{}:{line}:{column}: the step failed", scenario.source);
        }
        let _ = writeln!(text, "  expected: {}\n  seen:     {}", failure.expected, failure.seen);
    }
    for violation in &outcome.violations {
        causes.push(if violation.id == "I5" { Exit::Leaked } else { Exit::Failed });
        let _ = writeln!(text, "invariant {} at {} ms (event {}): {}", violation.id, violation.ms, violation.n, violation.message);
    }
    for fault in &outcome.silent_faults {
        causes.push(Exit::Failed);
        let _ = writeln!(text, "fault {fault} was declared and never fired: the run shows nothing about it");
    }
    if causes.is_empty() {
        return None;
    }
    let _ = writeln!(text, "the last {TAIL} trace lines:");
    for event in outcome.events.iter().skip(outcome.events.len().saturating_sub(TAIL)) {
        let _ = writeln!(text, "  {}", event.line());
    }
    let exit = Exit::of(causes);
    let failure = Failure::new(exit.word(), text.trim_end().to_owned())
        .action("run it again with --trace FILE to see every message; the same --seed gives the same run");
    Some((exit, failure))
}
