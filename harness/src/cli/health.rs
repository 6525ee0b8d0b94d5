//! `mooring health`: whether components answer.

use std::process::ExitCode;
use std::time::Duration;

use substrate::fault::Span;

use crate::cluster::compose::health;
use crate::output::Exit;

/// Arguments of `mooring health`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Who is asked: http://HOST:PORT/PATH, unix:///PATH of a driver, or /PATH of a ready file.
    #[arg(required = true, value_name = "TARGET")]
    targets: Vec<String>,
    /// Waits so long first, in a container that has run for half a minute: a health check that comes often sees soon that
    /// it is well, and then looks seldom.
    #[arg(long, value_name = "DURATION")]
    rest: Option<Span>,
}

/// How long a container is young.
const YOUNG: Duration = Duration::from_secs(30);

/// For how long the first process of this container has run; nothing where the system does not say.
fn age() -> Option<Duration> {
    age_in(&std::fs::read_to_string("/proc/1/stat").ok()?, &std::fs::read_to_string("/proc/uptime").ok()?)
}

/// Reads the 22nd field of `stat`, hundredths of a second since the machine started (Linux shows no others to programs),
/// and the first of `uptime`, seconds.
fn age_in(stat: &str, uptime: &str) -> Option<Duration> {
    // The second field is a name, which may hold blanks.
    let (_, rest) = stat.rsplit_once(')')?;
    let started: f64 = rest.split_whitespace().nth(19)?.parse().ok()?;
    let now: f64 = uptime.split_whitespace().next()?.parse().ok()?;
    Duration::try_from_secs_f64(now - started / 100.0).ok()
}

pub(super) fn main(args: &Args) -> ExitCode {
    if let Some(rest) = args.rest
        && age().is_some_and(|age| age > YOUNG)
    {
        std::thread::sleep(rest.0);
    }
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(e) => {
            eprintln!("error: the runtime does not start: {e}");
            return Exit::Environment.into();
        }
    };
    let mut exit = Exit::Passed;
    for target in &args.targets {
        if let Err(why) = crate::block_on(&runtime, Box::pin(health::check(target))) {
            eprintln!("error: {why}");
            exit = Exit::Failed;
        }
    }
    exit.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_age_of_a_container_is_that_of_its_first_process() {
        let stat =
            "1 (docker init) S 0 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 6870012 1150976 1 18446744073709551615";
        assert_eq!(age_in(stat, "68731.12 100.00\n"), Some(Duration::from_secs(31)));
        assert_eq!(age_in("1 (sh", "1.00 1.00"), None);
        // A clock that is set back.
        assert_eq!(age_in(stat, "1.00 1.00"), None);
    }
}
