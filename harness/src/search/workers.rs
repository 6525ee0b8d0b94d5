//! Runs in child processes, several at a time: one that panics, hangs or takes all memory is a finding, and the others
//! go on. What comes of them does not depend on how many there are.

use std::collections::BTreeMap;
use std::future::Future;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;

use super::end_state::EndState;
use super::judge::{Class, Task, Verdict};
use super::worker::Order;
use crate::output::Exit;

/// The subcommand of a child.
pub const SUBCOMMAND: &str = "search-worker";
/// How much longer than its limit a child may take to end itself.
const GRACE: Duration = Duration::from_secs(5);

/// How runs are carried out.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Children at a time.
    pub jobs: usize,
    /// Wall time of a run.
    pub limit: Duration,
    /// Bytes that a child may take.
    pub memory: u64,
    /// Where all runs must end.
    pub ends: Option<Vec<EndState>>,
    /// The `mooring` that the children are; this one when absent.
    pub program: Option<PathBuf>,
}

/// The run with a number; nothing when there are no more.
pub type Next = dyn Fn(usize) -> Option<Task> + Send + Sync;

/// What the threads share that have a child each.
pub(super) struct Shared {
    settings: Settings,
    next: AtomicUsize,
    /// No more runs are wanted.
    pub(super) closed: AtomicBool,
    work: Box<Next>,
    children: Mutex<BTreeMap<usize, u32>>,
}

/// Carries out all runs, and tells `told` of each as it ends, with its number. Gives false when `stop` came first; the
/// children are ended then. `told` says whether more runs are wanted.
///
/// # Errors
/// When a child does not start.
pub async fn run(
    settings: Settings,
    work: Box<Next>,
    stop: impl Future<Output = ()>,
    mut told: impl FnMut(usize, Verdict) -> bool,
) -> std::io::Result<bool> {
    let jobs = settings.jobs.max(1);
    let shared = Arc::new(Shared::new(settings, work));
    let (notes, mut heard) = mpsc::unbounded_channel();
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
            note = heard.recv() => match note {
                Some(Ok((run, verdict))) => {
                    if !told(run, verdict) {
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
        // One that panicked has told so by its silence.
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
        let children = self.children.lock().unwrap_or_else(PoisonError::into_inner);
        for pid in children.values() {
            end(*pid);
        }
    }
}

/// Ends a child that has not been waited for, so that its number is no other's.
fn end(pid: u32) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw) {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
}

type Note = std::io::Result<(usize, Verdict)>;

/// What a thread does: it has a child, and gives it one run after the other.
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

/// A child.
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
        // Ctrl-C of a terminal comes to the parent alone, which ends its children.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0);
        let mut child = command.spawn()?;
        let lost = || std::io::Error::other("a worker has no pipes");
        let (orders, answers) = (child.stdin.take(), child.stdout.take().ok_or_else(lost)?);
        shared.children.lock().unwrap_or_else(PoisonError::into_inner).insert(job, child.id());
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

    /// What a run comes to; nothing when the child ended first.
    fn ask(&mut self, task: Task) -> Option<Verdict> {
        self.order(&Order::Run(Box::new(task))).ok()?;
        self.hear()
    }

    /// The next line of the child, which takes its time for each; nothing when it ended first.
    pub(super) fn hear<T: serde::de::DeserializeOwned>(&mut self) -> Option<T> {
        // The child ends itself when it takes too long; whoever cannot even do that is ended.
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

    /// Why the child ended.
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
        self.shared.children.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.job);
        if self.shared.closed.load(Ordering::SeqCst) {
            // It may be at work on a run that nobody waits for.
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}

/// As many jobs as the machine has processors.
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Since when something goes on.
#[derive(Clone, Copy, Debug)]
pub struct Since(Instant);

impl Since {
    /// From now on.
    pub fn now() -> Self {
        Self(Instant::now())
    }

    /// How long.
    pub fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}
