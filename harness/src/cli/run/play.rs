//! Runs one scenario in one world.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use substrate::World;
use substrate::clock::TimeScale;
use substrate::fault::Span;
use substrate::world::Options;
use substrate::{Level, WorldKind};

use super::args::Args;
use crate::cluster::{Cluster, ClusterSpec};
use crate::output::{Exit, Failure};
use crate::report::Report;
use crate::runner::{self, Outcome};
use crate::scenario::model::Scenario;

/// Reason for which a run has no outcome.
pub(super) enum Trouble {
    /// The machine lacks something.
    Environment(String),
    /// The machine lacks something that the file needs; with a suggestion.
    Lacking(Failure),
    /// All steps were done, and the cluster did not converge within this time.
    Timeout(Duration),
    /// The user interrupted it.
    Interrupted,
}

impl Trouble {
    /// Exit code and message.
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

/// A position in a scenario file or in an included file.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub(super) struct Position {
    /// Path of the file.
    pub file: String,
    /// Line, from 1.
    pub line: u64,
    /// Column, from 1.
    pub column: u64,
}

impl Position {
    /// Position of the step that failed in `report`.
    pub fn of(report: &Report) -> Option<Self> {
        let (line, column) = report.failed.as_ref()?.position?;
        Some(Self { file: report.source.clone(), line, column })
    }
}

/// Result of a run, without its trace.
#[derive(Clone, Debug)]
pub(super) struct Ended {
    /// Exit code.
    pub exit: Exit,
    /// Failure, if any.
    pub failure: Option<Failure>,
    /// Position of the failed step.
    pub position: Option<Position>,
    /// Number of checks of each invariant.
    pub checked: Value,
    /// Backend of the disks; none if there was no cluster.
    pub backend: Option<String>,
    /// Virtual or scaled time of the run, in milliseconds.
    pub elapsed_ms: u64,
    /// Wall time in milliseconds.
    pub wall_ms: u64,
}

impl Ended {
    /// Result of a run with an outcome.
    pub fn of(scenario: &Scenario, outcome: &Outcome, wall: Duration) -> Self {
        let report = Report::of(scenario, outcome);
        let exit = report.exit();
        Self {
            exit,
            position: Position::of(&report),
            failure: (exit != Exit::Passed).then(|| report.failure()),
            checked: substrate::encode::tree(&outcome.checked),
            backend: Some(outcome.backend.clone()),
            elapsed_ms: millis(outcome.elapsed),
            wall_ms: millis(wall),
        }
    }

    /// Result of a run without an outcome.
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

/// Duration in whole milliseconds.
pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Options for the world of a run.
pub(super) fn options(args: &Args, scenario: &Scenario, seed: u64) -> Options {
    let scale = match args.world() {
        // Containers run in real time.
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

/// Returns true if a trace goes to standard output.
pub(super) fn is_stdout(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Writes the trace of `world` to `path` continuously.
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

/// Flushes the trace, and discards all later events.
pub(super) fn close_trace(path: Option<&Path>, world: &World) -> Result<(), Trouble> {
    let Some(path) = path else { return Ok(()) };
    let written = world.trace().flush();
    // Streams close while a world is torn down.
    world.trace().write_to(Box::new(std::io::sink()));
    // The reader of a pipe may have closed it, as `head` does.
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
