//! Runs `mooring up` for half an hour with a load and faults: checks that the invariants hold, that memory stays flat,
//! and that nothing leaks.
//!
//! In each round, faults, crashes and partitions that `mooring explore` would draw are active while pods and claims are
//! created, deleted, moved and grown. Then all faults end, the cluster must come to rest, and `mooring check` compares
//! the state of the cloud, Kubernetes and the nodes.

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

/// Duration of the faults in a round.
const STORM: Duration = Duration::from_secs(45);
/// Interval of the load's actions.
const TICK: Duration = Duration::from_secs(1);
/// Interval between samples of the process.
const LOOK: Duration = Duration::from_secs(3);
/// Time limit for the load to run again once faults are over, and for the cluster to come to rest.
const TIMEOUT: Duration = Duration::from_secs(5 * 60);

/// Time after which unused connections must be closed.
const IDLE: Duration = Duration::from_secs(2 * 60);

/// Duration, seed, and the Mooring to test.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Minutes of load and faults
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=1440))]
    minutes: u64,
    /// Seed of the load and the faults
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Divides the durations that loops wait and mocks take, so that forced detaches after six minutes come to pass
    #[arg(long, value_name = "FACTOR", default_value_t = 5)]
    time_scale: u32,
    /// Replicas of the set, each with a claim
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=50))]
    replicas: u64,
    /// Backend of the volumes, as `mooring up --backend`; loop devices where they work when absent
    #[arg(long, value_name = "BACKEND")]
    backend: Option<String>,
    /// Path of the program; target/release/mooring when absent
    #[arg(long, value_name = "PATH")]
    mooring: Option<std::path::PathBuf>,
}

/// Starts a Mooring, runs the load and the faults, stops it, and returns true if nothing failed.
///
/// # Errors
/// If it does not start, or does not answer.
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

/// Runs all rounds, and the end, at which nothing may be left.
fn shake(running: &Running, args: &Args, report: &mut Report) -> Result<(), anyhow::Error> {
    let seed = Seed::root(args.seed).child("soak");
    let mut load = Load::begin(running, &seed, args.replicas)?;
    let mut breaks = Breaks::begin(args.seed);
    let end = Instant::now() + Duration::from_secs(args.minutes * 60);
    let mut looked = Looker { running, next: Instant::now(), printed_minute: 0 };
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
            // The pause between two steps of the drawn run.
            until(Instant::now() + pause, &mut load, report, true)?;
            breaks.step(running)?;
        }
        report.hits += breaks.end(running)?;
        load.uncordon();
        until(Instant::now() + TIMEOUT, &mut load, report, false)?;
        if !load.runs() {
            bail!("{TIMEOUT:?} after the last fault {}", load.missing());
        }
        load.forget_events();
        let checked = running.check(&["--rest"], TIMEOUT).context("mooring check --rest")?;
        report.rests(running.sample()?, checked);
        report.rounds += 1;
        report.breaks = breaks.done();
    }
    load.end()?;
    let checked = running.check(&["--rest", "--empty"], TIMEOUT).context("mooring check --rest --empty")?;
    let deadline = Instant::now() + IDLE;
    let mut sample = running.sample()?;
    while !report.leaks(&sample).is_empty() && Instant::now() < deadline {
        std::thread::sleep(LOOK);
        sample = running.sample()?;
    }
    report.ends(sample, checked, load.done());
    Ok(())
}

/// Takes samples of the process every few seconds, and prints a line each minute.
struct Looker<'a> {
    running: &'a Running,
    next: Instant,
    printed_minute: u64,
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
        if minute > self.printed_minute {
            self.printed_minute = minute;
            println!("{}", report.line(&sample, &load.done()));
        }
        Ok(())
    }
}
