//! `mooring run`: a scenario, its timeline, its verdict.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::ValueEnum;
use serde_json::json;
use substrate::clock::TimeScale;
use substrate::fault::Span;
use substrate::host::Stop;
use substrate::world::{Options, Transport, simulate_and_leave};
use substrate::{Level, World, WorldKind};

use super::pause;
use crate::cluster::{Cluster, ClusterSpec, live};
use crate::output::{self, Envelope, Exit, Failure, Format, Progress, Style};
use crate::runner::{self, Attendant, Outcome};
use crate::scenario::model::{Action, LatencyProfile, Scenario, Step};
use crate::timeline::{Summary, Timeline};
use crate::{mutants, report, scenario};

/// Volumes whose timeline is drawn in full.
const VOLUMES_SHOWN: usize = 4;

/// What carries calls in a simulation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Carrier {
    /// The server's service is called directly.
    #[default]
    Direct,
    /// HTTP and gRPC bytes over in-memory pipes; the trace is the same.
    Duplex,
}

/// A latency profile of the cloud.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Profile {
    /// No waiting; intermediate states last until the next look.
    Instant,
    /// What operators see.
    Aws,
    /// What the driver's authors have measured recently.
    AwsRecent,
}

impl From<Profile> for LatencyProfile {
    fn from(profile: Profile) -> Self {
        match profile {
            Profile::Instant => Self::Instant,
            Profile::Aws => Self::Aws,
            Profile::AwsRecent => Self::AwsRecent,
        }
    }
}

/// Arguments of `mooring run`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The scenario file.
    file: PathBuf,
    /// The seed of all randomness.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Run over real sockets, on loop devices with ext4 when root on Linux, on directories otherwise.
    #[arg(long)]
    live: bool,
    /// In the live world: every component is an OS process of its own.
    #[arg(long, requires = "live")]
    processes: bool,
    /// The backend of the disks in the live world; what works here when absent.
    #[arg(long, value_name = "BACKEND", requires = "live")]
    backend: Option<live::BackendChoice>,
    /// The latency profile of the cloud, instead of the file's.
    #[arg(long, value_enum, value_name = "PROFILE")]
    latency: Option<Profile>,
    /// Divides the durations that loops wait and mocks take, instead of the file's `time-scale`.
    #[arg(long, value_name = "FACTOR")]
    time_scale: Option<f64>,
    /// Write the trace to this file as JSON lines, with every message of every link.
    #[arg(long, value_name = "PATH")]
    trace: Option<PathBuf>,
    /// What carries calls in a simulation.
    #[arg(long, value_enum, default_value_t, conflicts_with = "live")]
    transport: Carrier,
    /// Switch on planted defects by name, separated by commas: for builds with the feature `mutants`.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', hide = !cfg!(feature = "mutants"))]
    mutant: Vec<String>,
    /// Wall-clock limit of the run; exceeding it is exit code 4. A simulation prints its last trace lines.
    #[arg(long, value_name = "DURATION", default_value = "5m")]
    timeout: Span,
}

/// What went by before there was an outcome.
enum Trouble {
    Environment(String),
    Timeout,
    Interrupted,
}

pub(super) fn main(args: &Args, format: Format) -> ExitCode {
    let mut scenario = match scenario::load(&args.file) {
        Ok(scenario) => scenario,
        Err(error) => return refuse(format, &error),
    };
    let kind = if args.live { WorldKind::Live } else { WorldKind::Simulated };
    if !scenario.runs_in(kind) {
        return done(format, &Envelope::failed("run", Exit::Usage, foreign(&scenario, kind)), "");
    }
    if let Some(profile) = args.latency {
        scenario.latency = profile.into();
    }
    if args.time_scale.is_some_and(|f| !f.is_finite() || f <= 0.0) {
        let failure = Failure::new("usage", "--time-scale: must be a number above zero");
        return done(format, &Envelope::failed("run", Exit::Usage, failure), "");
    }
    if let Err(message) = mutants::check(&args.mutant) {
        return done(format, &Envelope::failed("run", Exit::Usage, Failure::new("usage", message)), "");
    }
    let wall = jiff::Timestamp::now();
    let result = if args.live { run_live(args, &scenario, format) } else { run_simulated(args, &scenario) };
    let outcome = match result {
        Ok(outcome) => outcome,
        Err(trouble) => return give_up(format, args, trouble),
    };
    let wall = Duration::try_from(jiff::Timestamp::now().duration_since(wall)).unwrap_or_default();
    judge(args, &scenario, &outcome, wall, format)
}

fn options(args: &Args, scenario: &Scenario) -> Options {
    let scale = if args.live { scenario.time_scale.live } else { scenario.time_scale.simulated };
    Options {
        seed: args.seed,
        level: if args.trace.is_some() { Level::Trace } else { Level::Info },
        scale: TimeScale::new(args.time_scale.unwrap_or(scale)),
        latency: scenario.link,
        transport: match args.transport {
            Carrier::Direct => Transport::Direct,
            Carrier::Duplex => Transport::Duplex,
        },
        watchdog: Some(args.timeout.0),
        mutants: args.mutant.iter().cloned().collect(),
        ..Options::default()
    }
}

fn open_trace(args: &Args, world: &World) -> Result<(), Trouble> {
    let Some(path) = &args.trace else { return Ok(()) };
    let file =
        std::fs::File::create(path).map_err(|e| Trouble::Environment(format!("--trace {}: {e}", path.display())))?;
    world.trace().write_to(Box::new(std::io::BufWriter::with_capacity(1 << 20, file)));
    Ok(())
}

fn close_trace(args: &Args, world: &World) -> Result<(), Trouble> {
    let path = args.trace.as_deref().unwrap_or(std::path::Path::new("-"));
    world.trace().flush().map_err(|e| Trouble::Environment(format!("--trace {}: {e}", path.display())))
}

fn run_simulated(args: &Args, scenario: &Scenario) -> Result<Outcome, Trouble> {
    simulate_and_leave(options(args, scenario), async |world| {
        open_trace(args, &world)?;
        let cluster = Cluster::simulate(&world, ClusterSpec::of_scenario(scenario))
            .map_err(|e| Trouble::Environment(e.to_string()))?;
        let outcome = runner::run(scenario, &cluster, |_| {}).await;
        close_trace(args, &world)?;
        Ok(outcome)
    })
}

fn run_live(args: &Args, scenario: &Scenario, format: Format) -> Result<Outcome, Trouble> {
    let progress = if format == Format::Json { Progress::silent() } else { Progress::stderr() };
    let site = live::Site::prepare(args.backend, None).map_err(|e| Trouble::Environment(e.to_string()))?;
    progress.note(&site.describe());
    let runtime = live::runtime().map_err(|e| Trouble::Environment(format!("the runtime does not start: {e}")))?;
    let result = runtime.block_on(async {
        let mut stop =
            Stop::install().map_err(|e| Trouble::Environment(format!("signals cannot be waited for: {e}")))?;
        let world = World::live(options(args, scenario));
        open_trace(args, &world)?;
        let spec = ClusterSpec::of_scenario(scenario);
        let cluster = if args.processes {
            Cluster::processes(&world, spec, &site).await
        } else {
            Cluster::live(&world, spec, &site, &live::Addresses::default())
        };
        let cluster = cluster.map_err(|e| Trouble::Environment(e.to_string()))?;
        let attendant = pause::attendant(&site, &progress, format);
        let note = |step: &Step| {
            progress.note(&format!("  {step}"));
            if let (Action::Pause(text), Err(why)) = (&step.action, &attendant) {
                // Where progress is silent too: who wrote the step waits for it.
                eprintln!("note: the pause \"{text}\" is passed over: {why}");
            }
        };
        let nobody = Attendant::nobody();
        let attendant = attendant.as_ref().unwrap_or(&nobody);
        let begin = tokio::time::Instant::now();
        let story = runner::run_attended(scenario, &cluster, note, attendant);
        let outcome = tokio::select! { biased;
            outcome = story => Ok(outcome),
            _ = stop.wait() => Err(Trouble::Interrupted),
            () = attendant.outlast(begin, args.timeout.0) => Err(Trouble::Timeout),
        };
        cluster.stop().await;
        close_trace(args, &world)?;
        outcome
    });
    runtime.shutdown_timeout(Duration::from_millis(500));
    result
}

/// Prints the timeline and what failed, and gives the exit code.
fn judge(args: &Args, scenario: &Scenario, outcome: &Outcome, wall: Duration, format: Format) -> ExitCode {
    let style = Style::stdout();
    let timeline = Timeline::build(&outcome.events);
    let failure = report::failure(scenario, outcome);
    let exit = failure.as_ref().map_or(Exit::Passed, |(exit, _)| *exit);
    let kind = if args.live { WorldKind::Live } else { WorldKind::Simulated };
    let summary = Summary {
        time_scale: options(args, scenario).scale.factor(),
        seed: args.seed,
        events: outcome.events.len() as u64,
        backend: outcome.backend.clone(),
        checked: outcome.checked.clone(),
        ..Summary::new(&scenario.name, kind, exit).times(outcome.elapsed, wall)
    };
    let text = format!("{}\n{}", timeline.render(style, VOLUMES_SHOWN), summary.render(style));
    let data = json!({
        "summary": summary,
        "timeline": timeline,
        "violations": outcome.violations,
        "checked": outcome.checked,
        "leftovers": outcome.leftovers,
        "silentFaults": outcome.silent_faults,
    });
    let envelope = match failure {
        None => Envelope::passed("run", data),
        Some((exit, failure)) => Envelope::failed("run", exit, failure).with_data(data),
    };
    done(format, &envelope, &text)
}

fn refuse(format: Format, error: &scenario::ScenarioError) -> ExitCode {
    if format == Format::Human {
        eprintln!("{}", error.render(Style::stderr().color, 100));
        return Exit::Usage.into();
    }
    let failure =
        Failure::new("scenario", error.to_string()).action("correct the scenario file at the place that is named");
    done(format, &Envelope::failed("run", Exit::Usage, failure), "")
}

/// Why a scenario does not run in a world of this kind.
fn foreign(scenario: &Scenario, kind: WorldKind) -> Failure {
    let (this, instead) = match kind {
        WorldKind::Simulated => ("in simulation", "run it with --live"),
        WorldKind::Live => ("live", "run it without --live"),
    };
    Failure::new("scenario", format!("{}: `worlds` says that it does not run {this}", scenario.source)).action(instead)
}

fn give_up(format: Format, args: &Args, trouble: Trouble) -> ExitCode {
    let (exit, failure) = match trouble {
        Trouble::Environment(e) => (
            Exit::Environment,
            Failure::new("environment", e).action("run `mooring doctor` to see what this machine can do"),
        ),
        Trouble::Timeout => {
            let message = format!("the run did not end within --timeout {}", args.timeout);
            (
                Exit::Timeout,
                Failure::new("timeout", message)
                    .action("give it more with --timeout, or look into the trace with --trace"),
            )
        }
        Trouble::Interrupted => {
            (Exit::Interrupted, Failure::new("interrupted", "interrupted; everything was taken down"))
        }
    };
    done(format, &Envelope::failed("run", exit, failure), "")
}

fn done(format: Format, envelope: &Envelope, text: &str) -> ExitCode {
    output::finish(format, envelope, text, Style::stderr()).into()
}
