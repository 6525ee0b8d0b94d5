//! Several child processes, each with one run at a time. A run that panics, hangs or takes all memory is a finding, and
//! the others continue. The results do not depend on the number of children.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::future::Future;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;

use super::end_state::EndState;
use super::judge::{Class, Task, Verdict};
use super::worker::Order;
use crate::output::Exit;

/// Subcommand of a child.
pub const SUBCOMMAND: &str = "search-worker";
/// Additional time for a child to end itself after its limit.
const GRACE: Duration = Duration::from_secs(5);

/// Settings of the child processes.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Number of children at a time.
    pub jobs: usize,
    /// Wall time limit of a run.
    pub limit: Duration,
    /// Memory limit of a child in bytes.
    pub memory: u64,
    /// Expected end states of all runs.
    pub ends: Option<Vec<EndState>>,
    /// The `mooring` program of the children; this one if absent.
    pub program: Option<PathBuf>,
}

/// Returns the run with a number; none if there are no more.
pub type Next = dyn Fn(usize) -> Option<Task> + Send + Sync;

/// State shared by the threads, each of which has a child.
pub(super) struct Shared {
    settings: Settings,
    next: AtomicUsize,
    /// Set when no more runs are wanted.
    pub(super) closed: AtomicBool,
    work: Box<Next>,
    children: Mutex<BTreeMap<usize, u32>>,
}

/// Carries out all runs and calls `on_verdict` with the number and verdict of each as it ends. `on_verdict` returns false to stop.
/// Returns false if `stop` came first; the children are killed then.
///
/// # Errors
/// If a child does not start.
pub async fn run(
    settings: Settings,
    work: Box<Next>,
    stop: impl Future<Output = ()>,
    mut on_verdict: impl FnMut(usize, Verdict) -> bool,
) -> std::io::Result<bool> {
    let jobs = settings.jobs.max(1);
    let shared = Arc::new(Shared::new(settings, work));
    let (notes, mut recorded) = mpsc::unbounded_channel();
    let mut threads = Vec::new();
    for job in 0..jobs {
        let (shared, notes) = (shared.clone(), notes.clone());
        threads.push(std::thread::Builder::new().spawn(move || carry_out(job, &shared, &notes))?);
    }
    drop(notes);
    tokio::pin!(stop);
    let mut whole = true;
    let mut trouble = None;
    loop {
        tokio::select! { biased;
            () = &mut stop => {
                whole = false;
                break;
            }
            note = recorded.recv() => match note {
                Some(Ok((run, verdict))) => {
                    if !on_verdict(run, verdict) {
                        shared.closed.store(true, Ordering::SeqCst);
                    }
                }
                Some(Err(error)) => {
                    trouble = Some(error);
                    break;
                }
                None => break,
            },
        }
    }
    shared.closed.store(true, Ordering::SeqCst);
    if !whole || trouble.is_some() {
        shared.end_children();
    }
    for thread in threads {
        // A panic of a thread shows in its missing verdicts.
        let _ = thread.join();
    }
    trouble.map_or(Ok(whole), Err)
}

impl Shared {
    pub(super) fn new(settings: Settings, work: Box<Next>) -> Self {
        let (next, closed) = (AtomicUsize::new(0), AtomicBool::new(false));
        Self { settings, next, closed, work, children: Mutex::default() }
    }

    pub(super) fn end_children(&self) {
        let children = self.children.lock();
        for pid in children.values() {
            end(*pid);
        }
    }
}

/// Kills a child that has not been waited for, so its pid cannot belong to another process.
fn end(pid: u32) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw) {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
}

type Note = std::io::Result<(usize, Verdict)>;

/// Body of a thread: keeps a child and gives it one run after the other.
fn carry_out(job: usize, shared: &Arc<Shared>, notes: &mpsc::UnboundedSender<Note>) {
    let mut hand: Option<Hand> = None;
    while !shared.closed.load(Ordering::SeqCst) {
        let run = shared.next.fetch_add(1, Ordering::SeqCst);
        let Some(task) = (shared.work)(run) else { break };
        let mut child = match hand.take().map_or_else(|| Hand::start(job, shared), Ok) {
            Ok(child) => child,
            Err(error) => {
                let _ = notes.send(Err(error));
                break;
            }
        };
        let verdict = match child.ask(task) {
            Some(verdict) => {
                hand = Some(child);
                verdict
            }
            None if shared.closed.load(Ordering::SeqCst) => break,
            None => child.epitaph(),
        };
        if notes.send(Ok((run, verdict))).is_err() {
            break;
        }
    }
}

/// A child process.
pub(super) struct Hand {
    job: usize,
    shared: Arc<Shared>,
    child: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Hand {
    pub(super) fn start(job: usize, shared: &Arc<Shared>) -> std::io::Result<Self> {
        let settings = &shared.settings;
        let mut command = Command::new(settings.program.clone().map_or_else(std::env::current_exe, Ok)?);
        command.arg(SUBCOMMAND).args(["--limit-ms", &settings.limit.as_millis().to_string()]);
        command.args(["--memory", &settings.memory.to_string()]);
        // Ctrl-C in a terminal reaches only the parent, which ends its children.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0);
        let mut child = command.spawn()?;
        let lost = || std::io::Error::other("a worker has no pipes");
        let (orders, answers) = (child.stdin.take(), child.stdout.take().ok_or_else(lost)?);
        shared.children.lock().insert(job, child.id());
        let mut hand = Self { job, shared: shared.clone(), child, orders, answers: BufReader::new(answers) };
        if let Some(ends) = &settings.ends {
            hand.order(&Order::Ends(ends.clone()))?;
        }
        Ok(hand)
    }

    pub(super) fn order(&mut self, order: &Order) -> std::io::Result<()> {
        let text = serde_json::to_string(order)?;
        let orders = self.orders.as_mut().ok_or_else(|| std::io::Error::other("a worker has no input"))?;
        writeln!(orders, "{text}").and_then(|()| orders.flush())
    }

    /// Runs `task` in the child; none if the child ended first.
    fn ask(&mut self, task: Task) -> Option<Verdict> {
        self.order(&Order::Run(Box::new(task))).ok()?;
        self.receive()
    }

    /// Reads the next line of the child, within the time limit of a run; none if the child ended first.
    pub(super) fn receive<T: serde::de::DeserializeOwned>(&mut self) -> Option<T> {
        // The child ends itself when it takes too long. If it cannot, it is killed.
        let (pid, limit) = (self.child.id(), self.shared.settings.limit + GRACE);
        let (answered, over) = std::sync::mpsc::channel::<()>();
        let guard = std::thread::spawn(move || {
            if over.recv_timeout(limit) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                end(pid);
            }
        });
        let mut line = String::new();
        let read = self.answers.read_line(&mut line);
        drop(answered);
        let _ = guard.join();
        read.ok().filter(|bytes| *bytes > 0)?;
        serde_json::from_str(&line).ok()
    }

    /// Verdict for a child that ended without one.
    fn epitaph(mut self) -> Verdict {
        let status = self.child.wait();
        match status {
            Ok(status) if status.code() == Some(i32::from(Exit::Timeout.code())) => {
                let limit = self.shared.settings.limit;
                Verdict::without_outcome(Class::Hung, &format!("the run did not end within {limit:?} of wall time"))
            }
            Ok(status) => Verdict::without_outcome(
                Class::Broke,
                &format!("the process of the run ended without a result: {status}"),
            ),
            Err(error) => Verdict::without_outcome(Class::Broke, &format!("the process of the run is lost: {error}")),
        }
    }
}

impl Drop for Hand {
    fn drop(&mut self) {
        drop(self.orders.take());
        self.shared.children.lock().remove(&self.job);
        if self.shared.closed.load(Ordering::SeqCst) {
            // It may still work on a run whose result is not needed.
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}

/// Number of processors of this machine.
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Start of a measured span of wall time.
#[derive(Clone, Copy, Debug)]
pub struct Since(Instant);

impl Since {
    /// Starts now.
    pub fn now() -> Self {
        Self(Instant::now())
    }

    /// Time since the start.
    pub fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}
