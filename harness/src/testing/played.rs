//! Scenario files in tests.

use std::panic::Location;
use std::path::Path;
use std::time::Duration;

use substrate::fault::Span;
use substrate::{Line as Event, WorldKind};

use super::builder::Builder;
use super::failure::{self, Error, ErrorKind, Result};
use super::stage::Stage;
use super::{seeds, wait};
use crate::output::Style;
use crate::report::Report;
use crate::runner;
use crate::scenario::{self, Scenario};
use crate::spec::ClusterSpec;

/// A scenario that passed.
#[derive(Clone, Debug)]
pub struct Played {
    /// The seed.
    pub seed: u64,
    /// Everything that was recorded, in order.
    pub events: Vec<Event>,
    /// Virtual time that the run took.
    pub elapsed: Duration,
}

/// Runs a scenario file in simulation, with the seed of `MOORING_SEED` or 1, as `mooring run FILE` does.
///
/// # Errors
/// Mistakes in the file with their places, and the report of a run that did not pass.
#[track_caller]
pub fn play(file: impl AsRef<Path>) -> Result<Played> {
    let seed = seeds::seed().map_err(Error::usage)?;
    let scenario = scenario::load_all(file.as_ref()).map_err(|errors| error_of(&errors))?;
    run(scenario, seed, Location::caller())
}

/// The same of a text; `name` is the file name that errors and reports show.
///
/// # Errors
/// As [`play`].
#[track_caller]
pub fn play_text(name: &str, text: &str) -> Result<Played> {
    let seed = seeds::seed().map_err(Error::usage)?;
    let scenario = scenario::parse_all(name, text).map_err(|errors| error_of(&errors))?;
    run(scenario, seed, Location::caller())
}

fn error_of(errors: &[scenario::ScenarioError]) -> Error {
    let all: Vec<String> = errors.iter().map(|error| error.render(false, Style::PLAIN.width)).collect();
    Error::usage(all.join("\n"))
}

fn run(scenario: Scenario, seed: u64, at: &Location<'_>) -> Result<Played> {
    if !scenario.runs_in(WorldKind::Simulated) {
        return Err(Error::usage(format!("{}: `worlds` says that it does not run in simulation", scenario.source)));
    }
    let mut plan = Builder::new(WorldKind::Simulated).plan;
    plan.spec = ClusterSpec::of_scenario(&scenario);
    (plan.seed, plan.scale, plan.link) = (seed, scenario.time_scale.simulated, scenario.link);
    // A run makes its StorageClass itself.
    plan.is_bare = true;
    let source = scenario.source.clone();
    let stage = wait::block_on(Stage::start(plan)).map_err(|why| Error::new(ErrorKind::GivenUp, why))?;
    let (scenario, outcome) = wait::block_on(stage.ask(async move |scene| {
        let outcome = runner::run(&scenario, &scene.cluster, |_| {}).await;
        (scenario, outcome)
    }))
    .map_err(|lost| failure::lost(&lost))?;
    let report = Report::of(&scenario, &outcome);
    if report.exit() == crate::output::Exit::Passed {
        let events = outcome.events.iter().map(|event| event.line()).collect();
        return Ok(Played { seed, events, elapsed: outcome.elapsed });
    }
    let timeline = crate::timeline::Timeline::build(&outcome.events).render(Style::PLAIN, 4);
    let message = format!("{source} did not pass with seed {seed}, after {}", Span(millis(outcome.elapsed)));
    let again =
        format!("run it again: mooring run {source} --seed {seed}; or {}", failure::TestLocation::of(at).again(seed));
    let text = format!("{message}\n\n{timeline}\n{}\n{again}", report.render(Style::PLAIN));
    Err(Error::new(ErrorKind::Broken, text))
}

/// Whole milliseconds, which are enough for people.
fn millis(duration: Duration) -> Duration {
    Duration::from_millis(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}
