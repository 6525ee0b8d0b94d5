//! Checks that a seed replays: the trace of a run is the same, byte for byte, in another OS process and over pipes.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, bail};
use harness::seeds::Seeds;

use crate::lots;
use crate::program::{self, Ended, Mooring, Run};

/// The most bytes of a line that are printed.
const SHOWN: usize = 200;
/// The most differing seeds per file that are printed.
const LISTED: usize = 10;

/// The files and seeds to replay.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Scenario files; all of the repository when there are none
    files: Vec<PathBuf>,
    /// Seeds as for `mooring run`: 7, 1..100 with its end, 1,5,9
    #[arg(long, value_name = "SEEDS", conflicts_with = "random")]
    seeds: Option<Seeds>,
    /// Number of random seeds for each file instead
    #[arg(long, value_name = "N")]
    random: Option<usize>,
    /// Seed of the random seeds; a new one each time when absent
    #[arg(long, value_name = "SEED", requires = "random")]
    from: Option<u64>,
    /// Runs at a time; one for each processor when absent
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// The cloud's latency profile, instead of the files'
    #[arg(long, value_name = "PROFILE")]
    latency: Option<String>,
}

/// Replays, prints a line for each file, and returns true if all traces were the same.
///
/// # Errors
/// If the program or a file is missing.
pub fn run(repository: &Path, args: &Args) -> Result<bool, anyhow::Error> {
    let files = if args.files.is_empty() { program::scenarios(repository)? } else { args.files.clone() };
    let seeds = match (args.random, &args.seeds) {
        (Some(0), _) => bail!("--random 0 replays nothing"),
        (Some(count), _) => {
            let from = args.from.unwrap_or_else(fresh);
            println!("{count} random seeds for each file: --random {count} --from {from}");
            lots::random(count, from)
        }
        (None, Some(seeds)) => seeds.all().to_vec(),
        (None, None) => vec![1, 2, 3],
    };
    let mooring = Mooring::find(repository)?;
    let jobs = args.jobs.unwrap_or_else(lots::processors);
    let latency = args.latency.as_deref();
    let mut same = true;
    for file in &files {
        same &= replay(&mooring, file, &seeds, jobs, latency)?;
    }
    Ok(same)
}

/// Returns a number that differs each time.
fn fresh() -> u64 {
    #[expect(clippy::disallowed_methods, reason = "the user is shown it, and can give it back")]
    let now = SystemTime::now();
    let since = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    since.as_secs().wrapping_mul(1_000_000_007) ^ u64::from(since.subsec_nanos())
}

fn replay(
    mooring: &Mooring,
    file: &Path,
    seeds: &[u64],
    jobs: usize,
    latency: Option<&str>,
) -> Result<bool, anyhow::Error> {
    let found = lots::each(seeds, jobs, |seed| Ok((*seed, part(mooring, file, *seed, latency)?)))?;
    let bad: Vec<(u64, String)> = found.into_iter().filter_map(|(seed, part)| Some((seed, part?))).collect();
    let (name, count) = (program::shown(file), seeds.len());
    if bad.is_empty() {
        println!("{name}: {count} seeds, each the same in two processes and over pipes");
    } else {
        println!("{name}: {count} seeds, {} of them not the same or not passed", bad.len());
        for (seed, what) in bad.iter().take(LISTED) {
            println!("  seed {seed}: {what}");
        }
        if bad.len() > LISTED {
            let rest: Vec<String> = bad[LISTED..].iter().map(|(seed, _)| seed.to_string()).collect();
            println!("  and seeds {}", rest.join(", "));
        }
    }
    Ok(bad.is_empty())
}

/// Runs a seed three times and returns how a later run differs from the first, if it does.
fn part(mooring: &Mooring, file: &Path, seed: u64, latency: Option<&str>) -> Result<Option<String>, anyhow::Error> {
    // It contains the traces, which are removed with it.
    let dir = tempfile::tempdir()?;
    let [first, again] = ["first", "again"].map(|name| dir.path().join(name));
    let run = |transport, trace: &Path| mooring.run(file, Run { seed, latency, transport, trace: Some(trace) });
    let ended = run(None, &first)?;
    if !ended.passed() {
        return Ok(Some(ended.to_string()));
    }
    for (how, transport) in [("in another process", None), ("over pipes", Some("duplex"))] {
        let other = run(transport, &again)?;
        if let Some(what) = differ(&ended, &other, &first, &again)? {
            return Ok(Some(format!("{how}: {what}")));
        }
    }
    Ok(None)
}

fn differ(one: &Ended, other: &Ended, first: &Path, again: &Path) -> Result<Option<String>, anyhow::Error> {
    if one.code != other.code {
        return Ok(Some(other.to_string()));
    }
    first_difference(open(first)?, open(again)?)
}

fn open(path: &Path) -> Result<BufReader<File>, anyhow::Error> {
    let file = File::open(path).with_context(|| format!("no trace at {}", path.display()))?;
    if file.metadata()?.len() == 0 {
        bail!("the trace at {} is empty", path.display());
    }
    Ok(BufReader::with_capacity(1 << 16, file))
}

/// Returns the first line in which two traces differ, with both versions of it.
fn first_difference(mut one: impl BufRead, mut other: impl BufRead) -> Result<Option<String>, anyhow::Error> {
    let (mut a, mut b) = (Vec::new(), Vec::new());
    for line in 1u64.. {
        a.clear();
        b.clear();
        one.read_until(b'\n', &mut a)?;
        other.read_until(b'\n', &mut b)?;
        if a != b {
            let (a, b) = (cut(&a), cut(&b));
            return Ok(Some(format!("line {line} is the first that differs\n    {a}\n    {b}")));
        }
        if a.is_empty() {
            break;
        }
    }
    Ok(None)
}

fn cut(line: &[u8]) -> String {
    if line.is_empty() {
        return "(the trace has ended)".to_owned();
    }
    let text = String::from_utf8_lossy(line);
    let text = text.trim_end_matches('\n');
    match text.char_indices().nth(SHOWN) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_first_line_that_differs_is_shown_from_both() {
        let part = |a: &str, b: &str| first_difference(a.as_bytes(), b.as_bytes()).unwrap();
        assert_eq!(part("a\nb\n", "a\nb\n"), None);
        assert_eq!(part("a\nb\n", "a\nc\n").unwrap(), "line 2 is the first that differs\n    b\n    c");
        assert_eq!(
            part("a\n", "a\nc\n").unwrap(),
            "line 2 is the first that differs\n    (the trace has ended)\n    c"
        );
        assert_eq!(part("a\n", "a").unwrap(), "line 1 is the first that differs\n    a\n    a");
    }

    /// Creates a shell script that replaces the program; its arguments are `run FILE --seed N … --trace PATH`.
    fn stand_in(dir: &Path, body: &str) -> Mooring {
        let path = dir.join("mooring");
        fs::write(&path, format!("#!/bin/sh\nfor trace; do :; done\n{body}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        Mooring::at(&path)
    }

    #[test]
    fn a_run_that_differs_over_pipes_or_fails_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let reported = |body: &str| part(&stand_in(dir.path(), body), Path::new("f.yaml"), 7, None).unwrap();
        assert_eq!(reported("echo $4 > $trace"), None);
        let carried = "case $* in *duplex*) echo pipe ;; *) echo call ;; esac > $trace";
        assert_eq!(reported(carried).unwrap(), "over pipes: line 1 is the first that differs\n    call\n    pipe");
        assert_eq!(
            reported("echo $$ > $trace").unwrap().lines().next(),
            Some("in another process: line 1 is the first that differs")
        );
        assert_eq!(reported("echo x > $trace; echo 'error: no' >&2; exit 1").unwrap(), "exit 1: no");
        assert_eq!(reported("echo x > $trace; case $* in *duplex*) exit 4 ;; esac").unwrap(), "over pipes: exit 4");
    }
}
