//! Runs many simulations on threads. Each thread takes the next run, creates a world for it and frees its memory.
//!
//! A run that panics counts as failed. A run that exceeds its time is abandoned: a thread cannot be killed from
//! outside, so it continues until the process ends, and a new thread replaces it.

use std::any::Any;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use substrate::Trace;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::play::Ended;
use crate::output::{Exit, Failure};

/// Stack size of a thread, as of the main thread of a process.
const STACK: usize = 8 << 20;

/// Cell for the trace of a run, for the report of a run that does not end.
pub(super) type Watched = Arc<OnceLock<Trace>>;

/// Carries out a run by its number.
pub(super) type Work = dyn Fn(usize, &Watched) -> Ended + Send + Sync;

/// Number of runs, and their settings.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    /// Number of runs; they are numbered from 0.
    pub runs: usize,
    /// Number of threads.
    pub jobs: usize,
    /// Wall time limit of one run.
    pub limit: Duration,
    /// If set, no run starts after one has failed.
    pub fail_fast: bool,
}

/// State shared by the threads.
struct Shared {
    next: AtomicUsize,
    plan: Plan,
    closed: AtomicBool,
    work: Box<Work>,
}

impl Shared {
    /// With `fail_fast`, closes the pool after a failed run.
    fn ended(&self, ended: Ended) -> Ended {
        if self.plan.fail_fast && ended.exit != Exit::Passed {
            self.closed.store(true, Ordering::SeqCst);
        }
        ended
    }
}

/// Message of a thread, by its number.
enum Note {
    Began { thread: usize, run: usize, claim: Arc<AtomicBool>, trace: Watched },
    Ended { thread: usize, run: usize, ended: Box<Ended> },
    Left,
}

/// A run in progress.
struct Running {
    run: usize,
    since: Instant,
    /// Set by the side that reports the end of the run first.
    claim: Arc<AtomicBool>,
    trace: Watched,
}

/// Does all runs of `plan`, and calls `on_end` with each result. Returns false if `stop` came first; runs in progress are
/// not awaited then. `late` makes the failure for a run that does not end, from its number and its trace.
///
/// # Errors
/// If the system cannot start the first thread.
pub(super) async fn run(
    plan: Plan,
    work: Box<Work>,
    stop: impl Future<Output = ()>,
    late: &dyn Fn(usize, Option<&Trace>) -> Failure,
    mut on_end: impl FnMut(usize, Ended),
) -> std::io::Result<bool> {
    let next = AtomicUsize::new(0);
    let shared = Arc::new(Shared { next, plan, closed: AtomicBool::new(false), work });
    let (notes, mut recorded) = mpsc::unbounded_channel();
    let mut threads = 0;
    let mut at_work = 0usize;
    let mut start = |at_work: &mut usize| {
        let thread = threads;
        threads += 1;
        let (shared, notes) = (shared.clone(), notes.clone());
        let body = move || take_runs(thread, &shared, &notes);
        std::thread::Builder::new().name(format!("run-{thread}")).stack_size(STACK).spawn(body)?;
        *at_work += 1;
        Ok::<_, std::io::Error>(())
    };
    for thread in 0..plan.jobs.min(plan.runs) {
        // With fewer threads it takes longer.
        if let Err(error) = start(&mut at_work)
            && thread == 0
        {
            return Err(error);
        }
    }
    let mut running: BTreeMap<usize, Running> = BTreeMap::new();
    tokio::pin!(stop);
    while at_work > 0 {
        let due = running.values().map(|r| r.since + plan.limit).min();
        tokio::select! { biased;
            () = &mut stop => {
                shared.closed.store(true, Ordering::SeqCst);
                return Ok(false);
            }
            note = recorded.recv() => match note {
                Some(Note::Began { thread, run, claim, trace }) => {
                    running.insert(thread, Running { run, since: Instant::now(), claim, trace });
                }
                Some(Note::Ended { thread, run, ended }) => {
                    running.remove(&thread);
                    on_end(run, *ended);
                }
                Some(Note::Left) => at_work -= 1,
                // Unreachable: this function holds a sender itself.
                None => break,
            },
            () = tokio::time::sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                let overdue = running.iter().filter(|(_, r)| r.since.elapsed() >= plan.limit);
                let overdue: Vec<usize> = overdue.map(|(thread, _)| *thread).collect();
                for thread in overdue {
                    let Some(run) = running.remove(&thread) else { continue };
                    if run.claim.swap(true, Ordering::SeqCst) {
                        // It has just ended; its note is on its way.
                        continue;
                    }
                    at_work -= 1;
                    let failure = late(run.run, run.trace.get());
                    on_end(run.run, shared.ended(Ended::without_outcome(Exit::Timeout, failure, run.since.elapsed())));
                    // If no thread can be started, the others do the remaining runs.
                    let _ = start(&mut at_work);
                }
            }
        }
    }
    Ok(true)
}

/// Body of a thread: one run after the other.
fn take_runs(thread: usize, shared: &Shared, notes: &mpsc::UnboundedSender<Note>) {
    PANIC.with(|last| *last.borrow_mut() = Some(String::new()));
    while !shared.closed.load(Ordering::SeqCst) {
        let run = shared.next.fetch_add(1, Ordering::SeqCst);
        if run >= shared.plan.runs {
            break;
        }
        let (claim, trace) = (Arc::new(AtomicBool::new(false)), Watched::default());
        // If the batch was interrupted, the receiver is gone.
        let _ = notes.send(Note::Began { thread, run, claim: claim.clone(), trace: trace.clone() });
        let since = Instant::now();
        let result = catch_unwind(AssertUnwindSafe(|| (shared.work)(run, &trace)));
        let ended = shared.ended(result.unwrap_or_else(|panic| panicked(panic.as_ref(), since.elapsed())));
        if claim.swap(true, Ordering::SeqCst) {
            // The run was abandoned, and another thread has replaced this one.
            return;
        }
        let _ = notes.send(Note::Ended { thread, run, ended: Box::new(ended) });
    }
    let _ = notes.send(Note::Left);
}

thread_local! {
    /// Message and location of the last panic of this thread; none on threads that do no runs.
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Keeps the panic messages of runs for their reports, instead of printing them between other lines.
pub(super) fn keep_panics() {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let place = info.location().map(|l| format!(" ({}:{})", l.file(), l.line())).unwrap_or_default();
        let kept = PANIC.with(|last| {
            // A panic during access to the cell is printed as usual.
            let Ok(mut last) = last.try_borrow_mut() else { return false };
            last.as_mut().map(|last| *last = format!("{}{place}", panic_text(info.payload()))).is_some()
        });
        if !kept {
            print(info);
        }
    }));
}

/// Message of a panic.
fn panic_text(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "without a message".to_owned())
}

fn panicked(payload: &(dyn Any + Send), wall: Duration) -> Ended {
    let kept = PANIC.with(|last| last.borrow_mut().as_mut().map(std::mem::take)).unwrap_or_default();
    let panic_text = if kept.is_empty() { panic_text(payload) } else { kept };
    let failure = Failure::new("panicked", format!("the run panicked: {panic_text}"))
        .action("this is a bug of Mooring, not of what it tests: report it with the file and the seed");
    Ended::without_outcome(Exit::Failed, failure, wall)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    fn passed() -> Ended {
        Ended {
            exit: Exit::Passed,
            failure: None,
            position: None,
            checked: serde_json::Value::Null,
            backend: None,
            elapsed_ms: 0,
            wall_ms: 0,
        }
    }

    /// Results of the runs of a plan, by number.
    fn all(plan: Plan, work: Box<Work>, stop: impl Future<Output = ()>) -> (bool, BTreeMap<usize, Ended>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let mut seen = BTreeMap::new();
        let late = |run, trace: Option<&Trace>| Failure::new("timeout", format!("run {run}: {}", trace.is_some()));
        let whole = runtime.block_on(run(plan, work, stop, &late, |run, ended| {
            assert!(seen.insert(run, ended).is_none(), "run {run} ended twice");
        }));
        (whole.unwrap(), seen)
    }

    const PLAN: Plan = Plan { runs: 20, jobs: 3, limit: Duration::from_secs(60), fail_fast: false };

    #[test]
    fn a_run_that_panics_is_a_failed_run_and_the_others_go_on() {
        keep_panics();
        let work = |run, _: &Watched| if run == 7 { panic!("the {run}th run") } else { passed() };
        let (whole, seen) = all(PLAN, Box::new(work), std::future::pending());
        assert!(whole && seen.len() == 20);
        for (run, ended) in seen {
            let expected = if run == 7 { Exit::Failed } else { Exit::Passed };
            assert_eq!(ended.exit, expected, "{run}");
            if let Some(failure) = ended.failure {
                assert_eq!(failure.code, "panicked");
                let panic_text = "the run panicked: the 7th run (harness/src/cli/run/pool.rs:";
                assert!(failure.message.starts_with(panic_text), "{failure:?}");
            }
        }
    }

    #[test]
    fn a_run_that_does_not_end_is_given_up_and_another_thread_takes_its_place() {
        let (held, hold) = mpsc::channel::<()>();
        let hold = parking_lot::Mutex::new(hold);
        let work = move |run, _: &Watched| {
            if run == 0 {
                // Until the test is over.
                let _ = hold.lock().recv();
            }
            passed()
        };
        let plan = Plan { jobs: 1, limit: Duration::from_millis(50), ..PLAN };
        let (whole, seen) = all(plan, Box::new(work), std::future::pending());
        assert!(whole && seen.len() == 20);
        assert_eq!(seen[&0].exit, Exit::Timeout);
        assert!(seen[&0].failure.as_ref().unwrap().message.contains("run 0: false"));
        assert!(seen.iter().all(|(run, ended)| *run == 0 || ended.exit == Exit::Passed));
        drop(held);
    }

    #[test]
    fn with_fail_fast_no_run_begins_after_one_that_failed() {
        let failed = || Ended { exit: Exit::Leaked, ..passed() };
        let work = move |run, _: &Watched| if run == 3 { failed() } else { passed() };
        let plan = Plan { jobs: 1, fail_fast: true, ..PLAN };
        let (whole, seen) = all(plan, Box::new(work), std::future::pending());
        assert!(whole && seen[&3].exit == Exit::Leaked);
        assert_eq!(seen.len(), 4);
    }

    #[test]
    fn an_interrupted_batch_has_what_has_ended() {
        let (held, hold) = mpsc::channel::<()>();
        let hold = parking_lot::Mutex::new(hold);
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let stop = parking_lot::Mutex::new(Some(stop));
        let work = move |run, _: &Watched| {
            if run == 5 {
                drop(stop.lock().take());
                let _ = hold.lock().recv();
            }
            passed()
        };
        let plan = Plan { jobs: 1, ..PLAN };
        let (whole, seen) = all(plan, Box::new(work), async { drop(stopped.await) });
        assert!(!whole, "it was interrupted");
        assert!(seen.len() <= 5 && seen.keys().all(|run| *run < 5), "{seen:?}");
        drop(held);
    }
}
