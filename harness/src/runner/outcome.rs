//! Outcomes of runs.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use substrate::Event;
use substrate::fault::{Report, Span};

use crate::events::ScenarioStep;
use crate::invariants::{Checked, Leftovers, Violation};
use crate::program::ProgramReport;

/// Outcome of a run.
#[derive(Debug)]
pub struct Outcome {
    /// Failed step or check, if any.
    pub failure: Option<Failure>,
    /// Volume of the failed step.
    pub waits_for: Option<String>,
    /// Violations in order; those that the scenario expects are marked.
    pub violations: Vec<Violation>,
    /// Number of checks of each invariant.
    pub checked: Checked,
    /// Resources left behind after the teardown.
    pub leftovers: Leftovers,
    /// Faults that were declared but never fired.
    pub silent_faults: Vec<SilentFault>,
    /// Complete trace.
    pub events: Vec<Arc<Event>>,
    /// Time that passed in the world.
    pub elapsed: Duration,
    /// End of the steps, since the start of the world. Convergence and teardown follow.
    pub steps_over: Duration,
    /// Backend of the disks: `memory`, `directory` or `loop`.
    pub backend: String,
    /// Wall-clock limit at which the run was abandoned, if it was.
    pub given_up: Option<Duration>,
    /// Programs of the user at the end of the steps.
    pub programs: Vec<ProgramReport>,
}

impl Outcome {
    /// Returns true if everything went as the scenario says.
    pub fn passed(&self) -> bool {
        self.failure.is_none() && self.violations.iter().all(|v| v.declared.is_some()) && self.silent_faults.is_empty()
    }
}

impl Outcome {
    /// Creates the outcome of a run that was abandoned from outside after `limit` of wall-clock time, from the events
    /// so far.
    pub fn given_up(events: Vec<Arc<Event>>, limit: Duration) -> Self {
        let step = events.iter().rev().find_map(|event| event.get::<ScenarioStep>().map(|reported| reported.step));
        let elapsed = Duration::from_millis(events.last().map_or(0, |event| event.ms));
        let at = if step.is_some() { "it was at work" } else { "no step had begun" };
        Self {
            failure: Some(Failure {
                step,
                expected: format!("the run ends within --timeout {} of wall time", Span(limit)),
                seen: format!("{at} {}.{:03}s into its own time", elapsed.as_secs(), elapsed.subsec_millis()),
            }),
            waits_for: None,
            violations: Vec::new(),
            checked: Checked::default(),
            leftovers: Leftovers::default(),
            silent_faults: Vec::new(),
            events,
            elapsed,
            steps_over: elapsed,
            backend: "memory".to_owned(),
            given_up: Some(limit),
            programs: Vec::new(),
        }
    }
}

/// A fault that was declared but never fired. Without it a passed run proves nothing.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SilentFault {
    /// Name of the fault.
    pub name: String,
    /// Number of near misses.
    pub near_misses: u64,
    /// Latest distinct near misses, one sentence each.
    pub near: Vec<String>,
}

impl SilentFault {
    pub(super) fn of(report: Report) -> Self {
        Self { name: report.fault.name, near_misses: report.near_misses, near: report.near }
    }
}

/// A failed step or check.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Index of the step.
    pub step: Option<usize>,
    /// Expected state.
    pub expected: String,
    /// State that was seen instead.
    pub seen: String,
}
