//! The life of a program in a world: it is started, watched, restarted with upstream's backoff, and crashed by steps
//! and faults.
//!
//! A process of the world represents it. The tasks of this process are the program's endpoints and the pipe that keeps
//! the guard alive. So a crash of this process ends the program and all processes that it has started.

use parking_lot::{Mutex, MutexGuard};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use substrate::admin::Secret;
use substrate::events::ProcessFailed;
use substrate::{Ctx, Process, World, latest};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::{Notify, oneshot};

use super::backoff::Backoff;
use super::endpoints::Endpoint;
use super::given::Given;
use super::guard::{self, GuardReport};
use super::lines::Lines;
use super::log::{BoundedFile, Ring};
use super::{ProgramReport, ProgramSpec};
use crate::events::{ProgramEnded, ProgramNotStarted, ProgramStarted};
use crate::wiring::Wiring;

/// Minimum down time of a program that ended, as for the first restart of a container by the kubelet.
const RESTART_AFTER: Duration = Duration::from_secs(1);
/// Time limit of a program to end after SIGTERM, in wall time.
pub(crate) const GRACE: Duration = Duration::from_secs(5);
/// Time limit for the guard to end all processes of the program.
const BURIAL: Duration = Duration::from_secs(20);
/// Time limit for the last lines of a program that has ended, because one of its processes may keep its output open.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// Maximum number of bytes that are read at once.
const PIECE: usize = 16 << 10;

/// A consumer of each line that a program prints.
pub(crate) type Sink = Arc<dyn Fn(&str) + Send + Sync>;

/// A program with everything that its start needs.
pub(crate) struct Setup {
    /// The program.
    pub spec: ProgramSpec,
    /// Its number among the programs of the cluster.
    pub number: usize,
    /// Its variables.
    pub given: Given,
    /// Its token at the API server.
    pub token: Secret,
    /// The `mooring` program, which is also the guard.
    pub guard: PathBuf,
    /// The file for its output.
    pub file: Option<BoundedFile>,
}

/// A user's program in a cluster.
pub(crate) struct Program {
    inner: Arc<Inner>,
    process: OnceLock<Process>,
}

struct Inner {
    setup: Setup,
    world: OnceLock<World>,
    /// Reads the output of all incarnations.
    reader: OnceLock<Process>,
    sink: OnceLock<Sink>,
    state: Mutex<State>,
    log: Mutex<(Ring, Option<BoundedFile>)>,
    /// The guard of the last incarnation, until it has ended everything.
    guard: tokio::sync::Mutex<Option<Child>>,
    terminate: Notify,
    changed: latest::Sender<()>,
}

#[derive(Debug, Default)]
struct State {
    phase: Phase,
    starts: u32,
    ends: u32,
    last: Option<Last>,
    backoff: Backoff,
    /// Time of its last end, in the scenario's time.
    ended: Option<Duration>,
    /// True if the program was asked to end, so that it is not restarted.
    is_stopping: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// It has not been started yet.
    #[default]
    New,
    /// It is restarted after this time.
    Waiting(Duration),
    /// This process.
    Running(u32),
    /// A step or a fault has ended it.
    Down,
    /// It was asked to end, and has ended.
    Ended,
}

#[derive(Clone, Debug)]
struct Last {
    how: String,
    code: Option<i32>,
    /// True if neither a step, nor a fault, nor the end of the run ended it.
    by_itself: bool,
    /// It could not be started.
    not_started: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

impl Program {
    /// Creates a program that has not been started.
    pub fn new(mut setup: Setup) -> Self {
        let file = setup.file.take();
        let inner = Inner {
            setup,
            world: OnceLock::new(),
            reader: OnceLock::new(),
            sink: OnceLock::new(),
            state: Mutex::default(),
            log: Mutex::new((Ring::default(), file)),
            guard: tokio::sync::Mutex::default(),
            terminate: Notify::new(),
            changed: latest::Sender::new(()),
        };
        Self { inner: Arc::new(inner), process: OnceLock::new() }
    }

    /// Starts it in `world`, once. `sink` gets each line that it prints.
    pub fn launch(&self, world: &World, wiring: &Arc<dyn Wiring>, sink: Option<Sink>) {
        let inner = &self.inner;
        let name = &inner.setup.spec.name;
        inner.world.get_or_init(|| world.clone());
        if let Some(sink) = sink {
            inner.sink.get_or_init(|| sink);
        }
        inner.reader.get_or_init(|| Process::start(world, &format!("log of {name}"), |_| std::future::pending()));
        self.process.get_or_init(|| {
            let (inner, wiring) = (inner.clone(), wiring.clone());
            Process::start(world, name, move |ctx| inner.clone().live(ctx, wiring.clone()))
        });
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.inner.setup.spec.name
    }

    /// Returns true if the program runs.
    pub fn is_up(&self) -> bool {
        matches!(self.inner.state().phase, Phase::Running(_))
    }

    /// Returns true unless a step or a fault has ended it: it runs, or will be restarted.
    pub fn is_wanted(&self) -> bool {
        self.process.get().is_some_and(|process| process.ctx().is_some())
    }

    /// Kills it now, like `kill -9` of a whole container. Nothing that it sent travels further. Its processes are gone
    /// when [`Program::is_buried`] completes.
    pub fn crash_now(&self) {
        let Some(process) = self.process.get() else { return };
        process.crash();
        let mut state = self.inner.state();
        if let Phase::Running(_) = state.phase {
            state.ended = Some(self.inner.time());
            let how = "was crashed by a step or a fault".to_owned();
            state.last = Some(Last { how, code: None, by_itself: false, not_started: false });
        }
        state.phase = Phase::Down;
        drop(state);
        self.inner.changed.send_replace(());
    }

    /// Waits until no process of its last incarnation runs.
    pub async fn is_buried(&self) {
        self.inner.bury().await;
    }

    /// Restarts it, with upstream's backoff.
    pub fn restart(&self) {
        if self.is_wanted() {
            self.crash_now();
        }
        if let Some(process) = self.process.get() {
            process.restart();
        }
    }

    /// Resets the restart count, so that the next start is immediate.
    pub fn forget_restarts(&self) {
        let mut state = self.inner.state();
        state.backoff.forget();
        state.ended = None;
    }

    /// Asks it to end, and kills it after [`GRACE`]. Returns a message if it had to be killed.
    pub async fn stop(&self) -> Option<String> {
        let process = self.process.get()?;
        let mut changed = self.inner.changed.subscribe();
        let runs = {
            let mut state = self.inner.state();
            state.is_stopping = true;
            matches!(state.phase, Phase::Running(_))
        };
        let mut message = None;
        if runs {
            self.inner.terminate.notify_one();
            let inner = &self.inner;
            let over = changed.wait_for(|()| !matches!(inner.state().phase, Phase::Running(_)));
            if tokio::time::timeout(GRACE, over).await.is_err() {
                message = Some(format!(
                    "the program {} did not end within {}s after SIGTERM, and was killed",
                    self.name(),
                    GRACE.as_secs()
                ));
            }
        }
        process.end().await;
        self.inner.bury().await;
        let mut state = self.inner.state();
        if let Phase::Running(_) = state.phase {
            let how = format!("was killed: it did not end within {}s after SIGTERM", GRACE.as_secs());
            state.last = Some(Last { how, code: None, by_itself: false, not_started: false });
        }
        state.phase = Phase::Ended;
        message
    }

    /// Waits until it has been started for the first time.
    ///
    /// # Errors
    /// The reason why it cannot be started, such as a missing file or no permission to execute it.
    pub async fn first_start(&self) -> Result<(), String> {
        let mut changed = self.inner.changed.subscribe();
        loop {
            {
                let state = self.inner.state();
                match &state.last {
                    _ if state.starts > 0 => return Ok(()),
                    Some(last) if last.not_started => {
                        let spec = &self.inner.setup.spec;
                        return Err(format!(
                            "`{spec}` cannot be started in {}: {}",
                            spec.directory.display(),
                            last.how
                        ));
                    }
                    _ => {}
                }
            }
            if changed.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }

    /// Number of lines that it has printed.
    pub fn printed(&self) -> u64 {
        let log = lock(&self.inner.log);
        log.0.gone() + log.0.count()
    }

    /// Its state now.
    pub fn report(&self) -> ProgramReport {
        let state = self.inner.state();
        let (log, log_before) = {
            let log = lock(&self.inner.log);
            (log.0.lines(), log.0.gone())
        };
        let now = self.inner.time();
        let last = state.last.as_ref();
        let missing = |last: &Last| last.by_itself && last.code != Some(0);
        ProgramReport {
            name: self.name().to_owned(),
            command: self.inner.setup.spec.to_string(),
            up: matches!(state.phase, Phase::Running(_)),
            pid: if let Phase::Running(pid) = state.phase { Some(pid) } else { None },
            state: match state.phase {
                Phase::New => "is about to be started".to_owned(),
                Phase::Waiting(until) => {
                    format!("does not run, and is started again in {}s", until.saturating_sub(now).as_secs())
                }
                Phase::Running(pid) => format!("runs (pid {pid})"),
                Phase::Down => "is down: a step or a fault has ended it".to_owned(),
                Phase::Ended => "has ended".to_owned(),
            },
            starts: state.starts,
            ends: state.ends,
            last_end: last.map(|last| last.how.clone()),
            last_code: last.and_then(|last| last.code),
            is_missing: matches!(state.phase, Phase::New | Phase::Waiting(_)) && last.is_some_and(missing),
            log,
            log_before,
        }
    }
}

/// The connection to a guard.
struct Leash {
    /// When it is dropped, everything ends.
    orders: ChildStdin,
    reports: ChildStdout,
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Returns the time of the scenario.
    fn time(&self) -> Duration {
        let now = |world: &World| world.clock().mono().mul_f64(world.scale().factor());
        self.world.get().map_or(Duration::ZERO, now)
    }

    async fn live(self: Arc<Self>, ctx: Ctx, wiring: Arc<dyn Wiring>) {
        // On a busy machine the previous incarnation may still run: its calls must not use the new endpoints.
        self.bury().await;
        let Setup { spec, number, token, .. } = &self.setup;
        let driver = (!spec.is_driver()).then_some(Endpoint::Driver);
        for endpoint in [Endpoint::Kubernetes, Endpoint::Plain, Endpoint::Cloud].into_iter().chain(driver) {
            if let Err(error) = endpoint.open(&ctx, &*wiring, *number, token) {
                self.state().last = Some(not_started(error.clone()));
                self.changed.send_replace(());
                return ctx.emit(ProcessFailed { error });
            }
        }
        loop {
            self.bury().await;
            self.wait_its_turn(&ctx).await;
            let last = match self.spawn().await {
                Ok((leash, read)) => self.watch(&ctx, leash, read).await,
                Err(error) => not_started(error.to_string()),
            };
            self.note_end(&ctx, last);
            if self.state().is_stopping {
                self.state().phase = Phase::Ended;
                self.changed.send_replace(());
                return std::future::pending().await;
            }
            self.changed.send_replace(());
        }
    }

    /// Waits out the backoff after an end.
    async fn wait_its_turn(&self, ctx: &Ctx) {
        let now = self.time();
        let wait = {
            let mut state = self.state();
            let ended = state.ended;
            let wait = ended.map_or(Duration::ZERO, |ended| state.backoff.restart(ended, now));
            // A crash from outside already waits for a second.
            let by_itself = state.last.as_ref().is_some_and(|last| last.by_itself) && ended.is_some();
            let wait = if by_itself { wait.max(RESTART_AFTER) } else { wait };
            state.phase = Phase::Waiting(now + wait);
            wait
        };
        if !wait.is_zero() {
            self.changed.send_replace(());
            ctx.sleep(wait).await;
        }
    }

    fn note_end(&self, ctx: &Ctx, last: Last) {
        let mut state = self.state();
        state.ended = Some(self.time());
        if last.not_started {
            ctx.emit(ProgramNotStarted { error: last.how.clone() });
        } else {
            state.ends += 1;
            ctx.emit(ProgramEnded { how: last.how.clone(), ends: state.ends });
        }
        let is_stopping = state.is_stopping;
        state.last = Some(Last { by_itself: last.by_itself && !is_stopping, ..last });
        state.phase = Phase::Waiting(self.time());
    }

    /// Starts the guard with the program.
    async fn spawn(self: &Arc<Self>) -> std::io::Result<(Leash, oneshot::Receiver<()>)> {
        let Setup { spec, given, guard, .. } = &self.setup;
        let mut slot = self.guard.lock().await;
        if !spec.directory.is_dir() {
            let why = format!("there is no directory {}", spec.directory.display());
            return Err(std::io::Error::new(std::io::ErrorKind::NotFound, why));
        }
        let mut child = Command::new(guard)
            .arg(guard::COMMAND)
            .arg("--")
            .args(given.command(spec))
            .env_clear()
            .envs(&given.variables)
            .current_dir(&spec.directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let ends = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        // There is no await in between, so a caller that ends this task now still finds the guard.
        *slot = Some(child);
        let (Some(orders), Some(reports), Some(output)) = ends else {
            return Err(std::io::Error::other("the guard has no pipes"));
        };
        Ok((Leash { orders, reports }, self.read(output)))
    }

    /// Waits until the guard of the last incarnation has ended everything.
    async fn bury(&self) {
        let mut slot = self.guard.lock().await;
        let Some(guard) = slot.as_mut() else { return };
        if tokio::time::timeout(BURIAL, guard.wait()).await.is_err() {
            // Its children may remain; its time limit has passed.
            let _ = guard.kill().await;
        }
        *slot = None;
    }

    /// Watches a program until it ends.
    async fn watch(&self, ctx: &Ctx, mut leash: Leash, read: oneshot::Receiver<()>) -> Last {
        let mut lines = BufReader::new(leash.reports).lines();
        let mut program = None;
        let last = loop {
            let line = tokio::select! { biased;
                line = lines.next_line() => line,
                () = self.terminate.notified() => {
                    // A guard that has ended needs no order.
                    let _ = leash.orders.write_all(format!("{}\n", guard::TERMINATE).as_bytes()).await;
                    continue;
                }
            };
            match line.ok().flatten().map(|line| serde_json::from_str::<GuardReport>(&line)) {
                Some(Ok(GuardReport::Started { pid })) => {
                    program = i32::try_from(pid).ok().and_then(Pid::from_raw);
                    let starts = {
                        let mut state = self.state();
                        state.phase = Phase::Running(pid);
                        state.starts += 1;
                        state.starts
                    };
                    ctx.emit(ProgramStarted { pid, starts });
                    self.changed.send_replace(());
                }
                Some(Ok(GuardReport::Failed { why })) => break not_started(why),
                Some(Ok(GuardReport::Ended { code, signal, left, stay })) => break ended(code, signal, left, &stay),
                Some(Err(_)) => {}
                None => {
                    if let Some(program) = program {
                        // The guard was killed, so it has not ended any process.
                        let _ = kill_process_group(program, Signal::KILL);
                    }
                    break Last { how: "lost its guard, and was killed".to_owned(), ..ended(None, None, 0, &[]) };
                }
            }
        };
        // Its last lines come before its end.
        let _ = tokio::time::timeout(LAST_WORDS, read).await;
        last
    }

    /// Reads its output as long as any process can write to it.
    fn read(self: &Arc<Self>, mut output: ChildStderr) -> oneshot::Receiver<()> {
        let (reading, read) = oneshot::channel();
        let inner = self.clone();
        if let Some(reader) = self.reader.get().and_then(Process::ctx) {
            reader.spawn(async move {
                let _reading = reading;
                let mut lines = Lines::new(&inner.setup.given.secrets);
                let mut piece = vec![0; PIECE];
                while let Ok(count @ 1..) = output.read(&mut piece).await {
                    lines.take(piece.get(..count).unwrap_or_default(), |line| inner.record_line(&line));
                    // The cluster's tasks share this thread, and a program may print without end.
                    tokio::task::yield_now().await;
                }
                if let Some(line) = lines.end() {
                    inner.record_line(&line);
                }
            });
        }
        read
    }

    fn record_line(&self, line: &str) {
        {
            let mut log = lock(&self.log);
            log.0.push(line);
            if let Some(Err(error)) = log.1.as_mut().map(|file| file.write(line)) {
                log.1 = None;
                log.0.push(&format!("(mooring: cannot write to its log file: {error})"));
            }
        }
        if let Some(sink) = self.sink.get() {
            sink(line);
        }
    }
}

fn not_started(why: String) -> Last {
    Last { how: why, code: None, by_itself: true, not_started: true }
}

fn ended(code: Option<i32>, signal: Option<i32>, left: usize, stay: &[i32]) -> Last {
    let mut how = match (code, signal) {
        (Some(code), _) => format!("ended with exit code {code}"),
        (None, Some(signal)) => format!("was ended by signal {signal}"),
        (None, None) => "ended".to_owned(),
    };
    if left > 0 {
        how += &match left {
            1 => "; one process that it had left behind was ended".to_owned(),
            left => format!("; {left} processes that it had left behind were ended"),
        };
    }
    if !stay.is_empty() {
        how += &format!("; these could not be ended: {stay:?}");
    }
    Last { how, code, by_itself: true, not_started: false }
}
