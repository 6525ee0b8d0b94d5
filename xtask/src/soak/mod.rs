//! Half an hour of `mooring up` with a load and faults: whether the invariants hold, whether memory stays flat, and
//! whether anything is left behind.
//!
//! Rounds follow each other. In each, faults, crashes and partitions that `mooring explore` would draw are in force
//! while pods and claims come, go, move and grow. Then all faults end, the cluster must come to rest, and `mooring
//! check` compares what the cloud, Kubernetes and the nodes say.

mod breaks;
mod load;
mod report;
mod running;
mod sample;

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};
use substrate::Seed;
use tokio::time::Instant;

use self::breaks::Breaks;
use self::load::Load;
use self::report::Report;
use self::running::{Running, Start};
use self::sample::Sample;

/// How long faults are in force in a round.
const STORM: Duration = Duration::from_secs(45);
/// How often the load does something.
const TICK: Duration = Duration::from_secs(1);
/// How often is looked at the process.
const LOOK: Duration = Duration::from_secs(3);
/// How long the load may take to run again once faults are over, and the cluster to come to rest.
const PATIENCE: Duration = Duration::from_secs(5 * 60);

/// How long connections that nobody uses may stay open.
const IDLE: Duration = Duration::from_secs(2 * 60);

/// How long, and what.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// How long load and faults go on
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=1440))]
    minutes: u64,
    /// What load and faults follow from
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Divides the durations that loops wait and mocks take, so that forced detaches after six minutes come to pass
    #[arg(long, value_name = "FACTOR", default_value_t = 5)]
    time_scale: u32,
    /// Replicas of the set, each with a claim
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=50))]
    replicas: u64,
    /// What carries the volumes' bytes, as `mooring up --backend`; loop devices where they work when absent
    #[arg(long, value_name = "BACKEND")]
    backend: Option<String>,
    /// The program; target/release/mooring when absent
    #[arg(long, value_name = "PATH")]
    mooring: Option<std::path::PathBuf>,
}

/// Starts a Mooring, shakes it, takes it down, and says whether all was well.
///
/// # Errors
/// Where it does not start, or cannot be asked.
pub fn run(target: &Path, args: &Args) -> Result<bool, anyhow::Error> {
    let program = args.mooring.clone().unwrap_or_else(|| target.join("release/mooring"));
    if !program.is_file() {
        bail!("{}: is not there; build it with `cargo build --release -p harness`", program.display());
    }
    let start = Start { program, seed: args.seed, time_scale: args.time_scale, backend: args.backend.clone() };
    let running = Running::start(start)?;
    println!("{}", running.describe());
    let mut report = Report::begin(running.sample()?);
    let shaken = shake(&running, args, &mut report);
    if let Err(why) = &shaken {
        report.fails(format!("{why:#}"));
    }
    let left = running.down()?;
    left.into_iter().for_each(|what| report.fails(what));
    Ok(report.conclude())
}

/// All rounds, and the end: nothing may be left.
fn shake(running: &Running, args: &Args, report: &mut Report) -> Result<(), anyhow::Error> {
    let seed = Seed::root(args.seed).child("soak");
    let mut load = Load::begin(running, &seed, args.replicas)?;
    let mut breaks = Breaks::begin(args.seed);
    let end = Instant::now() + Duration::from_secs(args.minutes * 60);
    let mut looked = Looker { running, next: Instant::now(), said: 0 };
    let mut until = |until: Instant, load: &mut Load<'_>, report: &mut Report, acts: bool| {
        while Instant::now() < until && (acts || !load.runs()) {
            load.tick(acts);
            looked.look(load, report)?;
            std::thread::sleep(TICK);
        }
        Ok::<_, anyhow::Error>(())
    };
    while Instant::now() < end {
        let pauses = breaks.storm(running)?;
        for pause in pauses {
            // Between two steps of the drawn run.
            until(Instant::now() + pause, &mut load, report, true)?;
            breaks.step(running)?;
        }
        report.hits += breaks.end(running)?;
        load.uncordon();
        until(Instant::now() + PATIENCE, &mut load, report, false)?;
        if !load.runs() {
            bail!("{PATIENCE:?} after the last fault {}", load.missing());
        }
        load.forget_events();
        let checked = running.check(&["--rest"], PATIENCE).context("mooring check --rest")?;
        report.rests(running.sample()?, checked);
        report.rounds += 1;
        report.breaks = breaks.done();
    }
    load.end()?;
    let checked = running.check(&["--rest", "--empty"], PATIENCE).context("mooring check --rest --empty")?;
    let patience = Instant::now() + IDLE;
    let mut sample = running.sample()?;
    while !report.leaks(&sample).is_empty() && Instant::now() < patience {
        std::thread::sleep(LOOK);
        sample = running.sample()?;
    }
    report.ends(sample, checked, load.done());
    Ok(())
}

/// Looks at the process every few seconds, and says a line each minute.
struct Looker<'a> {
    running: &'a Running,
    next: Instant,
    said: u64,
}

impl Looker<'_> {
    fn look(&mut self, load: &Load<'_>, report: &mut Report) -> Result<(), anyhow::Error> {
        if Instant::now() < self.next {
            return Ok(());
        }
        self.next = Instant::now() + LOOK;
        let sample: Sample = self.running.sample()?;
        let minute = report.minutes();
        report.samples += 1;
        if minute > self.said {
            self.said = minute;
            println!("{}", report.line(&sample, &load.done()));
        }
        Ok(())
    }
}
