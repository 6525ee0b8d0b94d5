//! `mooring down`: ends a Mooring and waits until it has removed everything.

use std::time::Duration;

use jiff::Timestamp;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::json;
use substrate::fault::Span;

use super::Done;
use super::state_directory::{self, State, StateDirectory, Which};
use crate::cli::refusal::{Refusal, lacking, late, next, usage};

/// Interval between two checks.
const LOOK: Duration = Duration::from_millis(20);

/// Arguments of `mooring down`.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    #[command(flatten)]
    which: Which,
    /// End all Moorings of this user.
    #[arg(long, conflicts_with = "name")]
    all: bool,
    /// Kill a Mooring that does not end in time.
    #[arg(long)]
    force: bool,
    /// Time limit for each.
    #[arg(long, value_name = "DURATION", default_value = "30s")]
    timeout: Span,
}

pub(super) fn main(args: &Args) -> Result<Done, Refusal> {
    if args.timeout.0.is_zero() {
        return Err(usage("--timeout: must be longer than 0s"));
    }
    let places = if args.all { state_directory::all()? } else { vec![args.which.place()?] };
    let (mut ended, mut text) = (Vec::new(), String::new());
    for place in &places {
        if end(place, args)? {
            text.push_str(&format!("{} is down\n", place.name()));
            ended.push(place.name());
        }
    }
    if ended.is_empty() && !args.all {
        let name = args.which.place()?.name().to_owned();
        return Err(next(lacking(format!("no Mooring called {name} is up")), "`mooring ls` lists those that are"));
    }
    if ended.is_empty() {
        text = "no Mooring is up\n".to_owned();
    }
    Ok(Done::new(json!({ "down": ended }), text))
}

/// Ends a Mooring, and returns whether there was one. Also removes the files of a killed one.
fn end(place: &StateDirectory, args: &Args) -> Result<bool, Refusal> {
    match place.state() {
        None => return Ok(false),
        Some(State::Killed) => return place.clean().map(|_| true),
        Some(State::Up(_) | State::Starting) => {}
    }
    // The process that holds the name wrote this record.
    let since = Timestamp::now();
    let pid = loop {
        match i32::try_from(place.record().pid).ok().and_then(Pid::from_raw) {
            Some(pid) => break pid,
            // The process has only just started.
            None if !is_over(since, args.timeout.0) && place.is_held() => std::thread::sleep(LOOK),
            None => return Err(late(format!("cannot find the process of the Mooring called {}", place.name()))),
        }
    };
    kill(pid, Signal::TERM, place)?;
    if gone(place, args.timeout.0) && ended(pid, args.timeout.0) {
        return Ok(true);
    }
    if !args.force {
        let message =
            format!("the Mooring called {} (pid {}) has not ended within {}", place.name(), pid, args.timeout);
        return Err(next(late(message), "`mooring down --force` kills it and removes what it leaves behind"));
    }
    kill(pid, Signal::KILL, place)?;
    if !gone(place, args.timeout.0) && place.is_held() || !ended(pid, args.timeout.0) {
        return Err(late(format!("process {pid} does not end, although it was killed")));
    }
    if place.is_there() {
        place.clean()?;
    }
    Ok(true)
}

fn kill(pid: Pid, signal: Signal, place: &StateDirectory) -> Result<(), Refusal> {
    match kill_process(pid, signal) {
        // It may have ended just now.
        Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(e) => Err(lacking(format!("the Mooring called {} (pid {pid}) cannot be ended: {e}", place.name()))),
    }
}

fn is_over(since: Timestamp, within: Duration) -> bool {
    Timestamp::now().duration_since(since).unsigned_abs() > within
}

/// Waits until the name is free, and returns whether that happened in time.
fn gone(place: &StateDirectory, within: Duration) -> bool {
    let since = Timestamp::now();
    while place.is_held() {
        if is_over(since, within) {
            return false;
        }
        std::thread::sleep(LOOK);
    }
    // A Mooring removes its files before its lock. If it was killed meanwhile, they are still there.
    !place.is_there() || place.clean().is_ok()
}

/// Waits until the process has ended, which happens a moment after it releases its name. Returns whether that happened
/// in time.
fn ended(pid: Pid, within: Duration) -> bool {
    let since = Timestamp::now();
    while test_kill_process(pid).is_ok() && !is_zombie(pid) {
        if is_over(since, within) {
            return false;
        }
        std::thread::sleep(LOOK);
    }
    true
}

/// Returns true if the process has ended and only waits for its parent.
fn is_zombie(pid: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
    // The name before it may contain spaces and parentheses.
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('Z'))
}
