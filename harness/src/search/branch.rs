//! Runs that differ in one point share their prefix: everything before the first point is simulated once.
//!
//! The unbroken run plays the scenario. At each point it forks. In the copy, the point's fault fires, and the copy runs
//! to its own end and reports its verdict. The verdict is the same as that of a run from the start.

use parking_lot::{Mutex, MutexGuard};
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
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

/// Placeholder for the faults of all points in the order of faults. It never fires.
const MARKER: &str = "swept";

/// Common part of all branches: the scenario with a placeholder for their faults.
pub fn trunk(document: &Document) -> Document {
    let fault = json!({
        "name": MARKER,
        "match": { "plane": "link", "op": "request" },
        "when": { "nth": u32::MAX },
        "effect": { "count": true },
    });
    // Built-in data, valid against the catalogue.
    let fault: Option<Fault> = serde_json::from_value(fault).ok();
    document.clone().with_faults(fault)
}

/// Pipe for the verdict, if this process is a copy.
#[derive(Debug, Default)]
struct Mine(Option<std::io::PipeWriter>);

/// State shared with the run.
struct Shared<T> {
    mine: Mutex<Mine>,
    on_verdict: Mutex<T>,
    limit: Duration,
    /// Digest of the events before the copies, so that each copy hashes only the events after its fork.
    past: Mutex<(Option<Trace>, Digest)>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

/// Runs the branches of `task`, whose scenario is a [`trunk`], and calls `on_verdict` with each verdict. A copy that writes
/// nothing for `limit` is killed. Branches that could not be forked are not reported.
///
/// # Errors
/// If this process cannot fork; no branch has run then.
pub fn run(
    task: &Task,
    faults: Vec<(usize, Fault)>,
    limit: Duration,
    panicked: impl Fn() -> String,
    on_verdict: impl FnMut(usize, Verdict) + Send + 'static,
) -> Result<(), ForkError> {
    fork::check()?;
    // Read once here instead of in each copy.
    let _ = (declared::all(), end_state::allowed());
    let past = Mutex::default();
    let shared = Arc::new(Shared { mine: Mutex::default(), on_verdict: Mutex::new(on_verdict), limit, past });
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
    // The parent reads, or it is gone.
    let _ = serde_json::to_writer(&mut pipe, &verdict);
    let _ = pipe.flush();
    drop(pipe);
    std::process::exit(0)
}

/// Runs `task` without freeing its memory at the end. A copy exits soon afterwards, and freeing would take almost as
/// long as the run and copy each touched page.
fn run_and_leave(task: &Task, opens: impl FnOnce(&World), past: impl FnOnce() -> Digest) -> Verdict {
    let scenario = match scenario::parse("search.yaml", &task.text) {
        Ok(scenario) => scenario,
        Err(error) => return Verdict::without_outcome(Class::Unreadable, &error.to_string()),
    };
    // No watchdog here, because it would be a second thread. The parent enforces the time limit of each copy.
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
    /// Forks for the branch `number`. Returns true in the copy.
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
                let (message, end) = child.output(from, self.limit);
                let verdict = serde_json::from_slice(&message).unwrap_or_else(|_| epitaph(end, self.limit));
                (lock(&self.on_verdict))(number, verdict);
                false
            }
            Err(_) => false,
        }
    }

    /// Hashes the events since the previous copy.
    fn remember(&self) {
        let (trace, digest) = &mut *lock(&self.past);
        if let Some(trace) = trace {
            digest.catch_up(&trace.events());
        }
    }
}

/// Verdict for a copy that reported none.
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
