//! `mooring health`: checks that components answer.

use std::process::ExitCode;
use std::time::Duration;

use substrate::fault::Span;

use crate::cluster::compose::health;
use crate::output::Exit;

/// Arguments of `mooring health`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The target: http://HOST:PORT/PATH, unix:///PATH of a driver, or /PATH of a ready file.
    #[arg(required = true, value_name = "TARGET")]
    targets: Vec<String>,
    /// In a container that has run for half a minute, wait this long first. So a frequent health check soon sees that a
    /// new container is healthy, and later runs rarely.
    #[arg(long, value_name = "DURATION")]
    rest: Option<Span>,
}

/// Age at which a container is no longer new.
const YOUNG: Duration = Duration::from_secs(30);

/// Age of the first process of this container. None if the system does not report it.
fn age() -> Option<Duration> {
    age_in(&std::fs::read_to_string("/proc/1/stat").ok()?, &std::fs::read_to_string("/proc/uptime").ok()?)
}

/// Computes the age from the 22nd field of `stat`, in hundredths of a second since boot (Linux always reports this unit
/// to programs), and the first field of `uptime`, in seconds.
fn age_in(stat: &str, uptime: &str) -> Option<Duration> {
    // The second field is a name, which may contain blanks.
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
            eprintln!("error: cannot start the runtime: {e}");
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
        // The clock was set back.
        assert_eq!(age_in(stat, "1.00 1.00"), None);
    }
}
