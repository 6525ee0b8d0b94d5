//! Many seeds of one scenario: which of them fail, and with what.

use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::lots::{self, Seeds};
use crate::program::{self, Mooring, Run};

/// What to run.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The scenario file
    file: PathBuf,
    /// Seeds: `1..100`, `1..=100`, or one
    #[arg(long, value_name = "A..B")]
    seeds: Seeds,
    /// Runs at a time; one for each processor when absent
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// The cloud's latency profile, instead of the file's
    #[arg(long, value_name = "PROFILE")]
    latency: Option<String>,
}

/// Runs all seeds, prints those that fail, and says whether all passed.
///
/// # Errors
/// Where the program is missing.
pub fn run(repository: &Path, args: &Args) -> Result<bool, anyhow::Error> {
    let mooring = Mooring::find(repository)?;
    let seeds: Vec<u64> = args.seeds.all().collect();
    let latency = args.latency.as_deref();
    #[expect(clippy::disallowed_methods, reason = "the user is told how fast it was")]
    let began = Instant::now();
    let failed = lots::each(&seeds, args.jobs.unwrap_or_else(lots::processors), |&seed| {
        let ended = mooring.run(&args.file, Run { seed, latency, ..Run::default() })?;
        if ended.passed() {
            return Ok(0);
        }
        println!("seed {seed}: {ended}");
        Ok(1)
    })?;
    let (failed, count) = (failed.into_iter().sum::<usize>(), seeds.len());
    let rate = f64::from(u32::try_from(count).unwrap_or(u32::MAX)) / began.elapsed().as_secs_f64();
    println!("{}: {count} seeds, {failed} failed, {rate:.1} runs/s", program::shown(&args.file));
    Ok(failed == 0)
}
