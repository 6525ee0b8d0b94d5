//! One story in one world, whoever looks at it.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use substrate::World;
use substrate::clock::TimeScale;
use substrate::fault::Span;
use substrate::world::Options;
use substrate::{Level, WorldKind};

use super::args::Args;
use super::is_stdout;
use crate::cluster::{Cluster, ClusterSpec};
use crate::output::{Exit, Failure};
use crate::report::Report;
use crate::runner::{self, Outcome};
use crate::scenario::model::Scenario;

/// What went by before there was an outcome.
pub(super) enum Trouble {
    /// The machine lacks something.
    Environment(String),
    /// The machine lacks what the file needs, and what to do then.
    Lacking(Failure),
    /// The story was over, and the cluster did not come to rest in this time.
    Timeout(Duration),
    /// The user ended it.
    Interrupted,
}

impl Trouble {
    /// The exit code, and what is said of it.
    pub fn failure(self) -> (Exit, Failure) {
        match self {
            Self::Environment(e) => (
                Exit::Environment,
                Failure::new("environment", e).action("run `mooring doctor` to see what this machine can do"),
            ),
            Self::Lacking(failure) => (Exit::Environment, failure),
            Self::Timeout(limit) => {
                let message = format!(
                    "the run did not end within --timeout {} of wall time: all steps were done, and the cluster did not come to rest",
                    Span(limit)
                );
                let look = "look with --trace FILE at what still happens at the end";
                let failure = Failure::new("timeout", message).action(look);
                (Exit::Timeout, failure.action("give a run that only needs longer more with --timeout"))
            }
            Self::Interrupted => {
                (Exit::Interrupted, Failure::new("interrupted", "interrupted; everything was taken down"))
            }
        }
    }
}

/// A place in a scenario file or in a fragment of it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub(super) struct Position {
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: u64,
    /// The column, from 1.
    pub column: u64,
}

impl Position {
    /// Where the step stands that `report` is about.
    pub fn of(report: &Report) -> Option<Self> {
        let (line, column) = report.failed.as_ref()?.position?;
        Some(Self { file: report.source.clone(), line, column })
    }
}

/// How a run ended, without its trace.
#[derive(Clone, Debug)]
pub(super) struct Ended {
    /// How it ended.
    pub exit: Exit,
    /// What failed, if anything did.
    pub failure: Option<Failure>,
    /// Where the step stands that failed.
    pub position: Option<Position>,
    /// On how many occasions each invariant was looked at.
    pub checked: Value,
    /// What carried the bytes; nothing when there was no cluster.
    pub backend: Option<String>,
    /// Time that passed in the world, in milliseconds.
    pub elapsed_ms: u64,
    /// Wall time, in milliseconds.
    pub wall_ms: u64,
}

impl Ended {
    /// A run that has an outcome.
    pub fn of(scenario: &Scenario, outcome: &Outcome, wall: Duration) -> Self {
        let report = Report::of(scenario, outcome);
        let exit = report.exit();
        Self {
            exit,
            position: Position::of(&report),
            failure: (exit != Exit::Passed).then(|| report.failure()),
            checked: serde_json::to_value(&outcome.checked).unwrap_or_default(),
            backend: Some(outcome.backend.clone()),
            elapsed_ms: millis(outcome.elapsed),
            wall_ms: millis(wall),
        }
    }

    /// A run that has none.
    pub fn without_outcome(exit: Exit, failure: Failure, wall: Duration) -> Self {
        Self {
            exit,
            failure: Some(failure),
            position: None,
            checked: Value::Null,
            backend: None,
            elapsed_ms: 0,
            wall_ms: millis(wall),
        }
    }
}

/// Whole milliseconds.
pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The world that a run is in.
pub(super) fn options(args: &Args, scenario: &Scenario, seed: u64) -> Options {
    let scale = match args.world() {
        // Containers take their time.
        WorldKind::Live if args.target.is_some() => 1.0,
        WorldKind::Live => scenario.time_scale.live,
        WorldKind::Simulated => scenario.time_scale.simulated,
    };
    Options {
        seed,
        level: if args.trace.is_some() { Level::Trace } else { Level::Info },
        scale: TimeScale::new(args.time_scale.unwrap_or(scale)),
        latency: scenario.link,
        transport: args.transport.into(),
        watchdog: None,
        mutants: args.mutant.iter().cloned().collect(),
        ..Options::default()
    }
}

/// Writes the trace of `world` to `path` as it goes.
pub(super) fn open_trace(path: Option<&Path>, world: &World) -> Result<(), Trouble> {
    let Some(path) = path else { return Ok(()) };
    if is_stdout(path) {
        let failed = |e: std::io::Error| Trouble::Environment(format!("--trace -: {e}"));
        world.trace().write_to(substrate::host::sink(path).map_err(failed)?);
        return Ok(());
    }
    let file =
        std::fs::File::create(path).map_err(|e| Trouble::Environment(format!("--trace {}: {e}", path.display())))?;
    world.trace().write_to(Box::new(std::io::BufWriter::with_capacity(1 << 20, file)));
    Ok(())
}

/// Writes what is not yet written of the trace, and nothing of what comes after the run.
pub(super) fn close_trace(path: Option<&Path>, world: &World) -> Result<(), Trouble> {
    let Some(path) = path else { return Ok(()) };
    let written = world.trace().flush();
    // As a world is taken apart, its streams close.
    world.trace().write_to(Box::new(std::io::sink()));
    // Who reads along may have seen enough, as `head` has.
    let written = if is_stdout(path) { Ok(()) } else { written };
    written.map_err(|e| Trouble::Environment(format!("--trace {}: {e}", path.display())))
}

/// Runs `scenario` in the simulated `world`.
pub(super) async fn simulated(scenario: &Scenario, trace: Option<&Path>, world: World) -> Result<Outcome, Trouble> {
    open_trace(trace, &world)?;
    let cluster = Cluster::simulate(&world, ClusterSpec::of_scenario(scenario))
        .map_err(|e| Trouble::Environment(e.to_string()))?;
    let outcome = runner::run(scenario, &cluster, |_| {}).await;
    close_trace(trace, &world)?;
    Ok(outcome)
}
