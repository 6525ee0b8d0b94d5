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
use substrate::world::simulate_and_leave;
use substrate::{Trace, World};

use super::document::Document;
use super::end_state;
use super::fork::{self, End, ForkError, Side};
use super::judge::{self, Class, Digest, Task, Verdict};
use crate::invariants::declared;
use crate::scenario;

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
    /// What has happened before the copies, so that each hashes only what follows.
    past: Mutex<(Option<Trace>, Digest)>,
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
    // What each copy would read for itself is read once.
    let _ = (declared::all(), end_state::allowed());
    let past = Mutex::default();
    let shared = Arc::new(Shared { mine: Mutex::default(), told: Mutex::new(told), limit, past });
    let asked = shared.clone();
    let parts: substrate::fault::Parts = Arc::new(move |number| asked.part(number));
    let branches = Branches { instead_of: MARKER.to_owned(), faults, parts };
    let run = AssertUnwindSafe(|| {
        let open = |world: &World| {
            world.faults().branch(branches);
            lock(&shared.past).0 = Some(world.trace().clone());
        };
        run_and_leave(task, open, || std::mem::take(&mut lock(&shared.past).1))
    });
    let verdict = catch_unwind(run);
    let Some(mut pipe) = lock(&shared.mine).0.take() else { return Ok(()) };
    let verdict = verdict.unwrap_or_else(|_| Verdict::panicked(&panicked()));
    // Whoever waits for it is gone, or reads.
    let _ = serde_json::to_writer(&mut pipe, &verdict);
    let _ = pipe.flush();
    drop(pipe);
    std::process::exit(0)
}

/// Runs `task`. Whoever is a copy ends soon after, so nothing is taken apart: that would take as long as much of the run,
/// and copy each page of memory that it touches.
fn run_and_leave(task: &Task, opens: impl FnOnce(&World), past: impl FnOnce() -> Digest) -> Verdict {
    let scenario = match scenario::parse("search.yaml", &task.text) {
        Ok(scenario) => scenario,
        Err(error) => return Verdict::without_outcome(Class::Unreadable, &error.to_string()),
    };
    // The limit of time is that of each copy: a thread that looked after it would be a second one.
    let options = judge::options(&scenario, task.seed, &task.mutants, None);
    let run = simulate_and_leave(options, async |world| {
        opens(&world);
        judge::play(&scenario, &world, judge::compares(task)).await
    });
    match run {
        Ok((outcome, ends)) => {
            let verdict = judge::verdict(task, &outcome, ends, past());
            std::mem::forget(outcome);
            verdict
        }
        Err(why) => Verdict::without_outcome(Class::Broke, &why),
    }
}

impl<T: FnMut(usize, Verdict)> Shared<T> {
    /// Whether this process is the copy for the branch `number`.
    fn part(&self, number: usize) -> bool {
        let Ok((from, to)) = std::io::pipe() else { return false };
        self.remember();
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

    /// Takes in what has happened since the copy before.
    fn remember(&self) {
        let (trace, digest) = &mut *lock(&self.past);
        if let Some(trace) = trace {
            digest.catch_up(&trace.events());
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
