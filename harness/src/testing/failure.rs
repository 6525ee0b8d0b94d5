//! Errors of the library, and what a failed test prints: the seed, the timeline, and the command that runs it again.

use std::fmt;
use std::panic::Location;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use substrate::fault::Span;
use substrate::{World, WorldKind};

use crate::cluster::ObjectError;
use crate::invariants::Violation;
use crate::output::Style;
use crate::report::{Fired, Report};
use crate::timeline::Timeline;

/// Maximum number of volumes that are drawn in full.
const VOLUMES: usize = 4;

/// The result of a cluster's methods.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Reason of a failed command.
///
/// `{}` shows the reason. `{:?}` shows the seed, the timeline, the last lines of the trace and the command that runs the
/// test again, too; so `?` in a test that returns `Result<(), Error>`, and `unwrap`, print all of it.
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    message: String,
    /// Report of the run until then.
    report: Option<String>,
    /// The HTTP code of the API server's answer.
    code: Option<u16>,
    /// Records that the report was shown, with its number of events.
    shown: Option<(Arc<AtomicU64>, u64)>,
}

/// The kinds of [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The test used an invalid name, manifest, condition or fault.
    Usage,
    /// A server refused a request, or did not answer.
    Refused,
    /// A condition did not hold in time.
    TimedOut,
    /// An invariant was broken, or bytes were lost.
    Broken,
    /// The cluster took longer than its limit of wall time, or ended by itself.
    GivenUp,
    /// This machine does not support the request.
    Environment,
}

impl Error {
    pub(super) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner { kind, message: message.into(), report: None, code: None, shown: None }))
    }

    pub(super) fn usage(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Usage, message)
    }

    /// Creates the error of a request that the API server refused.
    pub(super) fn refused(what: &str, error: &ObjectError) -> Self {
        let mut refused = Self::new(ErrorKind::Refused, format!("{what}: {error}"));
        if let ObjectError::Status { code, .. } = error {
            refused.0.code = Some(*code);
        }
        refused
    }

    /// Returns the kind of the error.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns the HTTP code with which the API server refused a request, if it did.
    pub fn code(&self) -> Option<u16> {
        self.0.code
    }

    pub(super) fn with(mut self, report: String, shown: &Arc<AtomicU64>, events: u64) -> Self {
        self.0.report = Some(report);
        self.0.shown = Some((shown.clone(), events));
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)?;
        if let Some((shown, events)) = &self.0.shown {
            shown.store(*events, Ordering::Relaxed);
        }
        match &self.0.report {
            Some(report) => write!(f, "\n\n{report}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {}

/// The place of a cluster in the test's code, and the test.
#[derive(Clone, Debug)]
pub(super) struct TestLocation {
    at: String,
    test: Option<String>,
}

impl TestLocation {
    /// Returns the place at which a test calls.
    pub(super) fn of(at: &Location<'_>) -> Self {
        Self { at: format!("{}:{}", at.file(), at.line()), test: test_name() }
    }

    /// Returns the command that runs the test again with `seed`.
    pub(super) fn again(&self, seed: u64) -> String {
        let exe = std::env::current_exe().ok();
        let stem = exe.as_deref().and_then(Path::file_stem).and_then(|stem| stem.to_str()).unwrap_or_default();
        let package = std::env::var("CARGO_PKG_NAME").ok();
        format!("MOORING_SEED={seed} {}", command(package.as_deref(), stem, self.test.as_deref()))
    }
}

/// Returns the name of the test that runs on this thread: libtest uses it as the thread's name, and nextest as an
/// argument.
fn test_name() -> Option<String> {
    let thread = std::thread::current();
    let own = thread.name().filter(|name| !matches!(*name, "main" | "tokio-runtime-worker" | "tokio-rt-worker"));
    named_by_runner().or_else(|| own.map(str::to_owned))
}

/// Returns the test that a runner with one process per test has named.
fn named_by_runner() -> Option<String> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    words.iter().any(|word| word == "--exact").then(|| words.iter().find(|word| !word.starts_with('-')).cloned())?
}

fn command(package: Option<&str>, stem: &str, test: Option<&str>) -> String {
    let Some(package) = package else { return format!("cargo test{}", named(test)) };
    // The program of a test has its name, with a hash.
    let target = match stem.rsplit_once('-') {
        Some((name, hash)) if hash.len() == 16 && hash.bytes().all(|b| b.is_ascii_hexdigit()) => {
            if name == package.replace('-', "_") { " --lib".to_owned() } else { format!(" --test {name}") }
        }
        _ => " --doc".to_owned(),
    };
    format!("cargo test -p {package}{target}{}", named(test))
}

fn named(test: Option<&str>) -> String {
    test.map(|test| format!(" -- --exact {test}")).unwrap_or_default()
}

/// Returns the report of `world` so far.
pub(super) fn report(world: &World, place: &TestLocation, violations: Vec<Violation>) -> String {
    let (events, seed) = (world.trace().events(), world.options().seed);
    let kind = if world.kind() == WorldKind::Simulated { "virtual" } else { "wall" };
    // The clock cannot be used here: only the threads of the cluster may read it.
    let ms = events.last().map_or(0, |event| event.ms);
    let mut text = format!(
        "seed {seed}, {}.{:03}s of {kind} time, {} events; the cluster of {}\n",
        ms / 1_000,
        ms % 1_000,
        events.len(),
        place.at
    );
    let timeline = Timeline::build(&events);
    if !timeline.volumes.is_empty() {
        text += &format!("\n{}", timeline.render(Style::PLAIN, VOLUMES));
    }
    let reported = Report { violations, fired: Fired::all(&events), ..Report::new("", "", &events) };
    text += &format!("\n{}\n", reported.render(Style::PLAIN));
    text + &match world.kind() {
        WorldKind::Simulated => format!("run it again: {}", place.again(seed)),
        WorldKind::Live => format!("run it again: {} (a live run is not the same twice)", place.again(seed)),
    }
}

/// Reason why a command has no result.
#[derive(Clone, Debug)]
pub(super) enum Lost {
    /// It was called from a process of the cluster, so it would wait for itself.
    Within,
    /// The wall time limit was exceeded.
    TooLong {
        limit: Duration,
        /// True if the thread does not end: code on it neither waits nor returns.
        is_stuck: bool,
        /// The last lines of the trace.
        tail: Vec<String>,
    },
    /// The thread has ended.
    Over(String),
}

/// Creates the error of a command without a result.
pub(super) fn lost(lost: &Lost) -> Error {
    let message = match lost {
        Lost::Within => {
            return Error::usage(
                "a process of the cluster called the cluster: it would wait for itself; use its own context, \
                 `ctx.kubernetes()` and `ctx.ec2()`",
            );
        }
        Lost::TooLong { limit, is_stuck, tail } => {
            let stuck = if *is_stuck {
                "\nIts thread does not end, either: a process on it neither awaits nor returns. It stays until the tests end"
            } else {
                ""
            };
            let tail = tail.iter().fold(String::new(), |text, line| text + "\n  " + line);
            format!(
                "the command took longer than {} of wall time, and the cluster was given up{stuck}\nthe last lines of its trace:{tail}",
                Span(*limit)
            )
        }
        Lost::Over(panic) if panic.is_empty() => "the cluster has ended".to_owned(),
        Lost::Over(panic) => format!("the cluster has ended: {panic}"),
    };
    Error::new(ErrorKind::GivenUp, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_names_package_target_and_test() {
        let of = |stem: &str, test| command(Some("my-driver"), stem, test);
        assert_eq!(
            of("attach-0123456789abcdef", Some("a_reply_is_lost")),
            "cargo test -p my-driver --test attach -- --exact a_reply_is_lost"
        );
        assert_eq!(of("my_driver-0123456789abcdef", Some("m::t")), "cargo test -p my-driver --lib -- --exact m::t");
        assert_eq!(of("rust_out", None), "cargo test -p my-driver --doc");
        assert_eq!(command(None, "attach", None), "cargo test");
    }
}
