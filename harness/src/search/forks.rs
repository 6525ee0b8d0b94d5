//! Runs branches in several child processes at a time. Each child simulates the common past once, and forks at each
//! point of its share.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use substrate::fault::Fault;
use tokio::sync::mpsc;

use super::judge::{Task, Verdict};
use super::worker::{News, Order};
use super::workers::{Hand, Settings, Shared};

/// Runs the branches of `task` and calls `on_verdict` with the number and verdict of each as it ends. Returns false if `stop`
/// came first; the children are killed then. Branches that a child could not run are not reported.
///
/// # Errors
/// If a child does not start.
pub async fn run(
    settings: Settings,
    task: &Task,
    branches: Vec<(usize, Fault)>,
    stop: impl Future<Output = ()>,
    mut on_verdict: impl FnMut(usize, Verdict),
) -> std::io::Result<bool> {
    let jobs = settings.jobs.clamp(1, branches.len().max(1));
    let shared = Arc::new(Shared::new(settings, Box::new(|_| None)));
    // Late points are short runs, so the points are dealt out in turn.
    let mut shares: Vec<Vec<(usize, Fault)>> = vec![Vec::new(); jobs];
    for (at, branch) in branches.into_iter().enumerate() {
        shares[at % jobs].push(branch);
    }
    let (notes, mut recorded) = mpsc::unbounded_channel();
    let mut threads = Vec::new();
    for (job, share) in shares.into_iter().enumerate() {
        let (shared, notes, task) = (shared.clone(), notes.clone(), task.clone());
        threads.push(std::thread::Builder::new().spawn(move || {
            if let Err(error) = carry_out(job, &shared, task, share, &notes) {
                let _ = notes.send(Err(error));
            }
        })?);
    }
    drop(notes);
    tokio::pin!(stop);
    let mut end = Ok(true);
    loop {
        tokio::select! { biased;
            () = &mut stop => {
                end = Ok(false);
                break;
            }
            note = recorded.recv() => match note {
                Some(Ok((number, verdict))) => on_verdict(number, verdict),
                Some(Err(error)) => {
                    end = Err(error);
                    break;
                }
                None => break,
            },
        }
    }
    shared.closed.store(true, Ordering::SeqCst);
    if !matches!(end, Ok(true)) {
        shared.end_children();
    }
    for thread in threads {
        // A panic of a thread shows in its missing verdicts.
        let _ = thread.join();
    }
    end
}

type Note = std::io::Result<(usize, Verdict)>;

/// Body of a thread: starts a child and forwards its verdicts.
fn carry_out(
    job: usize,
    shared: &Arc<Shared>,
    task: Task,
    share: Vec<(usize, Fault)>,
    notes: &mpsc::UnboundedSender<Note>,
) -> std::io::Result<()> {
    let mut child = Hand::start(job, shared)?;
    child.order(&Order::Branches(Box::new(task), share))?;
    // A child that ends sends no more; the caller runs the missing branches from the start.
    while let Some(News::Ended(number, verdict)) = child.receive() {
        if notes.send(Ok((number, *verdict))).is_err() {
            break;
        }
    }
    Ok(())
}
