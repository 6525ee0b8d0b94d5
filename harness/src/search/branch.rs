//! The runs of many points with one past: what happens before the first of them happens once.
//!
//! The unbroken run goes through the story. At each point it copies itself; in the copy the point breaks, and the copy
//! goes on to its own end and tells what it came to. What comes of a point is what comes of it from the start.

use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::json;
use substrate::fault::{Branches, Fault};

use super::document::Document;
use super::fork::{self, End, ForkError, Side};
use super::judge::{Class, Task, Verdict, judge_with};

/// The fault that stands where the points are, in the order of faults. It never fires.
const MARKER: &str = "swept";

/// What all branches have in common: the scenario with a place for their faults.
pub fn trunk(document: &Document) -> Document {
    let fault = json!({
        "name": MARKER,
        "match": { "plane": "link", "op": "request" },
        "when": { "nth": u32::MAX },
        "effect": { "count": true },
    });
    // It is data of ours, and the catalogue has it.
    let fault: Option<Fault> = serde_json::from_value(fault).ok();
    document.clone().with_faults(fault)
}

/// The copy that this process is, and where it tells what it came to.
#[derive(Debug, Default)]
struct Mine(Option<std::io::PipeWriter>);

/// What is shared with the run.
struct Shared<T> {
    mine: Mutex<Mine>,
    told: Mutex<T>,
    limit: Duration,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs the branches of `task`, whose scenario is a [`trunk`], and tells of each that has ended. A copy that says nothing
/// for `limit` is ended. What could not be copied is not told.
///
/// # Errors
/// When this process cannot be copied; then nothing has run.
pub fn run(
    task: &Task,
    faults: Vec<(usize, Fault)>,
    limit: Duration,
    panicked: impl Fn() -> String,
    told: impl FnMut(usize, Verdict) + Send + 'static,
) -> Result<(), ForkError> {
    fork::check()?;
    let shared = Arc::new(Shared { mine: Mutex::default(), told: Mutex::new(told), limit });
    let asked = shared.clone();
    let parts: substrate::fault::Parts = Arc::new(move |number| asked.part(number));
    let branches = Branches { instead_of: MARKER.to_owned(), faults, parts };
    let run = AssertUnwindSafe(|| {
        // The limit of time is that of each copy: a thread that looked after it would be a second one.
        judge_with(task, None, |world| world.faults().branch(branches))
    });
    let verdict = catch_unwind(run).map(|(verdict, _)| verdict);
    let Some(mut pipe) = lock(&shared.mine).0.take() else { return Ok(()) };
    let verdict = verdict.unwrap_or_else(|_| Verdict::panicked(&panicked()));
    // Whoever waits for it is gone, or reads.
    let _ = serde_json::to_writer(&mut pipe, &verdict);
    let _ = pipe.flush();
    drop(pipe);
    std::process::exit(0)
}

impl<T: FnMut(usize, Verdict)> Shared<T> {
    /// Whether this process is the copy for the branch `number`.
    fn part(&self, number: usize) -> bool {
        let Ok((from, to)) = std::io::pipe() else { return false };
        match fork::fork() {
            Ok(Side::Child) => {
                drop(from);
                lock(&self.mine).0 = Some(to);
                true
            }
            Ok(Side::Parent(child)) => {
                drop(to);
                let (said, end) = child.output(from, self.limit);
                let verdict = serde_json::from_slice(&said).unwrap_or_else(|_| epitaph(end, self.limit));
                (lock(&self.told))(number, verdict);
                false
            }
            Err(_) => false,
        }
    }
}

/// Why a copy told nothing.
fn epitaph(end: End, limit: Duration) -> Verdict {
    match end {
        End::Silent => {
            Verdict::without_outcome(Class::Hung, &format!("the run did not end within {limit:?} of wall time"))
        }
        End::Exited(code) => broke(&format!("exit status: {code}")),
        End::Killed(signal) => broke(&format!("signal: {signal}")),
    }
}

fn broke(how: &str) -> Verdict {
    Verdict::without_outcome(Class::Broke, &format!("the process of the run ended without a result: {how}"))
}
