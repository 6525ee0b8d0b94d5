//! Timeline and figures of one run.

use std::time::Duration;

use super::args::Args;
use super::play::{millis, options};
use crate::output::Exit;
use crate::runner::Outcome;
use crate::scenario::model::Scenario;
use crate::timeline::{Summary, Timeline};

/// Timeline and figures of a run with the result `exit`, for the terminal and the report.
pub(super) fn judged(
    args: &Args,
    scenario: &Scenario,
    seed: u64,
    outcome: &Outcome,
    wall: Duration,
    exit: Exit,
) -> (Timeline, Summary) {
    let timeline = Timeline::build(&outcome.events).steps_over(millis(outcome.steps_over));
    let summary = Summary {
        time_scale: options(args, scenario, seed).scale.factor(),
        seed,
        events: outcome.events.len() as u64,
        backend: outcome.backend.clone(),
        torn_down_ms: timeline.steps_end_ms.map(|_| timeline.end_ms),
        checked: outcome.checked.clone(),
        ..Summary::new(&scenario.name, args.world(), exit).times(outcome.elapsed, wall)
    };
    (timeline, summary)
}
