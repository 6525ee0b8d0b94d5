//! Processes, the units of crash and restart.
//!
//! In simulation a process is a nested `LocalSet`: dropping it drops everything that the process started, as a crash
//! does. In the live world it is a `JoinSet` on the multi-thread runtime, with the same effect.

use parking_lot::Mutex;
use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::panic::AssertUnwindSafe;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::FutureExt;
use rand_chacha::ChaCha8Rng;
use tokio::sync::Notify;
use tokio::task::LocalSet;

use crate::clock::{Clock, Now};
use crate::events::{ProcessCrashed, ProcessPanicked, ProcessStarted};
use crate::fault::{Effect, FaultOutcome, Faults, Firing, Moment, Plane, Point};
use crate::inbox::{self, Inbox, Task};
use crate::latest;
use crate::rest::Unrest;
use crate::seed::Seed;
use crate::trace::{EventType, Trace};
use crate::world::{World, WorldKind};

type Factory = Arc<dyn Fn(Ctx) -> Task + Send + Sync>;

/// Context of a component, from the world that runs it: its name, time, randomness, tasks, faults and the trace.
#[derive(Clone)]
pub struct Ctx(Arc<Inner>);

struct Inner {
    name: Arc<str>,
    incarnation: u32,
    seed: Seed,
    clock: Clock,
    world: World,
    tasks: inbox::Sender,
    down: latest::Receiver<bool>,
    shared: Mutex<BTreeMap<TypeId, Arc<dyn Any + Send + Sync>>>,
}

impl std::fmt::Debug for Ctx {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ctx")
            .field("name", &self.0.name)
            .field("incarnation", &self.0.incarnation)
            .finish_non_exhaustive()
    }
}

impl Ctx {
    /// Returns the process's name in the trace.
    pub fn name(&self) -> &Arc<str> {
        &self.0.name
    }

    /// Returns the number of this start of the process, from 1.
    pub fn incarnation(&self) -> u32 {
        self.0.incarnation
    }

    /// Returns the world that runs it.
    pub fn world(&self) -> &World {
        &self.0.world
    }

    /// Returns the clock of this process.
    pub fn clock(&self) -> &Clock {
        &self.0.clock
    }

    /// Reads the clock.
    pub fn now(&self) -> Now {
        self.0.clock.now()
    }

    /// Returns a generator for the purpose `stream`; each incarnation of the process gets another one.
    pub fn rng(&self, stream: &str) -> ChaCha8Rng {
        self.0.seed.child(stream).rng()
    }

    /// Returns the process's node in the tree of random streams.
    pub fn seed(&self) -> &Seed {
        &self.0.seed
    }

    /// Returns the trace of the world.
    pub fn trace(&self) -> &Trace {
        self.0.world.trace()
    }

    /// Records a domain event of this process.
    pub fn emit(&self, event: impl EventType) {
        self.trace().info(&self.0.name, event);
    }

    /// Returns the active faults.
    pub fn faults(&self) -> &Faults {
        self.0.world.faults()
    }

    /// Returns the fault that fires at `point`, if any, and records it.
    pub fn fault(&self, point: &Point<'_>) -> Option<Firing> {
        self.0.world.fault(&self.0.name, point)
    }

    /// Applies the fault that fires at `point`, if the effect is the same for all operations. It waits for a delay,
    /// waits during a hang until the fault has ended, and never returns after a crash of this process. Returns the
    /// outcome of any other fault for the operation to carry out.
    pub async fn meet(&self, point: &Point<'_>) -> FaultOutcome {
        if self.faults().is_empty() {
            return FaultOutcome::Proceed;
        }
        let Some(Firing { name, effect }) = self.fault(point) else { return FaultOutcome::Proceed };
        match &effect {
            Effect::Delay(span) => self.sleep(span.0).await,
            Effect::Hang(_) => self.hang(&name).await,
            Effect::Crash(who) if who == "self" => std::future::pending().await,
            // The runner of the processes has ended this one by now.
            Effect::Crash(_) | Effect::Reboot(_) if self.is_down() => std::future::pending().await,
            // A request that crashes another process, such as its caller, is not carried out.
            Effect::Crash(_) | Effect::Reboot(_)
                if point.moment == Moment::Before && matches!(point.plane, Plane::K8s | Plane::Ec2 | Plane::Csi) =>
            {
                return FaultOutcome::of(name, effect);
            }
            Effect::Crash(_) | Effect::Reboot(_) | Effect::Count(_) => {}
            _ => return FaultOutcome::of(name, effect),
        }
        FaultOutcome::Proceed
    }

    /// Waits until the fault `name` is gone: deleted, over by its `for`, or at the end of its lease.
    pub async fn hang(&self, name: &str) {
        self.0.world.outlast(name).await;
    }

    /// Returns `duration` divided by the scenario's `time-scale`.
    pub fn scaled(&self, duration: Duration) -> Duration {
        self.0.world.scale().apply(duration)
    }

    /// Returns the time of the scenario that passes in `duration`: the reverse of [`scaled`](Self::scaled).
    pub fn unscaled(&self, duration: Duration) -> Duration {
        self.0.world.scale().undo(duration)
    }

    /// Returns the deadline of a call, divided by the scenario's `time-scale` as far as the peer's work allows.
    pub fn scaled_timeout(&self, limit: Duration) -> Duration {
        self.0.world.scale().scaled_timeout(limit)
    }

    /// Waits for `duration` divided by the scenario's `time-scale`.
    pub async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(self.scaled(duration)).await;
    }

    /// Waits until the world's monotonic time is `mono` (not scaled: it was computed from scaled durations).
    pub async fn sleep_until(&self, mono: Duration) {
        self.0.clock.sleep_until(mono).await;
    }

    /// Returns the value of type `T` that all parts of this process share, such as its metrics. The first call makes it;
    /// a restarted process has a new one.
    pub fn shared<T: Default + Send + Sync + 'static>(&self) -> Arc<T> {
        let mut shared = self.0.shared.lock();
        let value = shared.entry(TypeId::of::<T>()).or_insert_with(|| Arc::new(T::default()));
        value.clone().downcast().expect("a value is stored under its own type")
    }

    /// Starts a task that belongs to this process and ends with it, regardless of the calling task.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.0.tasks.send(Box::pin(task));
    }

    /// Runs `work`, which may block: on another thread in a live process, at once in simulation. Its result is lost if
    /// the process has ended in the meantime; long work should check [`Ctx::is_down`] between its steps.
    #[expect(clippy::disallowed_methods, reason = "the one way to threads that may block; simulation has none")]
    pub async fn blocking<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        if self.0.world.kind() == WorldKind::Simulated {
            return work();
        }
        // Boxed: tokio compiles much code for each type of work.
        let work: Box<dyn FnOnce() -> T + Send> = Box::new(work);
        match tokio::task::spawn_blocking(work).await {
            Ok(outcome) => outcome,
            // A panic of the work becomes a panic of the calling task.
            Err(lost) if lost.is_panic() => std::panic::resume_unwind(lost.into_panic()),
            // The runtime is shutting down.
            Err(_) => std::future::pending().await,
        }
    }

    /// Returns true if the process has crashed or ended.
    pub fn is_down(&self) -> bool {
        *self.0.down.borrow()
    }

    /// Completes when the process crashes or ends.
    pub async fn downed(&self) {
        // An error means that the process handle is gone, which ends the process, too.
        let _ = self.0.down.clone().wait_for(|down| *down).await;
    }
}

/// A component that can be crashed and started again.
#[derive(Clone)]
pub struct Process(Arc<ProcessInner>);

struct ProcessInner {
    world: World,
    name: Arc<str>,
    factory: Factory,
    incarnations: AtomicU32,
    running: Mutex<Option<Running>>,
}

struct Running {
    ctx: Ctx,
    down: Arc<latest::Sender<bool>>,
    abort: tokio::task::AbortHandle,
    /// Asks a live process to end its tasks and to wait for them.
    end: Arc<Notify>,
    fuse: Arc<Fuse>,
}

impl Process {
    /// Declares the process `name` of `world` and starts it; `main` is called again at each restart.
    pub fn start<F>(world: &World, name: &str, main: impl Fn(Ctx) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let process = Self(Arc::new(ProcessInner {
            world: world.clone(),
            name: world.options().process.as_deref().unwrap_or(name).into(),
            factory: Arc::new(move |ctx| Box::pin(main(ctx))),
            incarnations: AtomicU32::new(0),
            running: Mutex::new(None),
        }));
        process.launch();
        process
    }

    /// Returns the process's name.
    pub fn name(&self) -> &Arc<str> {
        &self.0.name
    }

    /// Returns the context of the running incarnation; `None` while the process is down.
    pub fn ctx(&self) -> Option<Ctx> {
        self.slot().as_ref().map(|r| r.ctx.clone()).filter(|ctx| !ctx.is_down())
    }

    /// Ends the process at once, with everything that it started.
    pub fn crash(&self) {
        if let Some(running) = self.slot().take() {
            running.fuse.dead.store(true, Ordering::SeqCst);
            running.down.send_replace(true);
            running.abort.abort();
            self.0.world.trace().info(&self.0.name, ProcessCrashed {});
        }
    }

    /// Ends the process without a crash. After this completes, everything that it started has stopped.
    pub async fn end(&self) {
        let Some(Running { ctx, abort, end, .. }) = self.slot().take() else { return };
        match self.0.world.kind() {
            WorldKind::Simulated => abort.abort(),
            WorldKind::Live => end.notify_one(),
        }
        ctx.downed().await;
    }

    /// Restarts the process; crashes it first if it still runs.
    pub fn restart(&self) {
        self.crash();
        self.launch();
    }

    fn launch(&self) {
        let inner = &self.0;
        let incarnation = inner.incarnations.fetch_add(1, Ordering::Relaxed) + 1;
        let (tasks, inbox) = inbox::channel();
        let down_tx = Arc::new(latest::Sender::new(false));
        let down = down_tx.subscribe();
        let own = inner.world.seed().child(&inner.name);
        let ctx = Ctx(Arc::new(Inner {
            name: inner.name.clone(),
            incarnation,
            seed: if incarnation == 1 { own } else { own.child(&format!("incarnation {incarnation}")) },
            clock: inner.world.clock().of_process(inner.world.faults(), &inner.name),
            world: inner.world.clone(),
            tasks,
            down,
            shared: Mutex::default(),
        }));
        inner.world.trace().info(&inner.name, ProcessStarted { incarnation });
        let main = if inner.world.faults().is_empty() {
            (inner.factory)(ctx.clone())
        } else {
            delayed(ctx.clone(), inner.factory.clone())
        };
        let fuse = Arc::new(Fuse {
            name: inner.name.clone(),
            trace: inner.world.trace().clone(),
            blown: AtomicBool::new(false),
            dead: AtomicBool::new(false),
            alarm: Notify::new(),
        });
        let ended = Ended(down_tx.clone());
        let end = Arc::new(Notify::new());
        let abort = match inner.world.kind() {
            WorldKind::Simulated => {
                let fabric = inner.world.fabric();
                let local = Local::new(main, inbox, fuse.clone(), fabric.unrest().clone(), ended);
                tokio::task::spawn_local(fabric.restless(local)).abort_handle()
            }
            WorldKind::Live => spawn_live(threaded(main, inbox, fuse.clone(), end.clone(), ended)),
        };
        *self.slot() = Some(Running { ctx, down: down_tx, abort, end, fuse });
    }

    fn slot(&self) -> parking_lot::MutexGuard<'_, Option<Running>> {
        self.0.running.lock()
    }
}

/// The main task of a process that starts while faults are active: one may fire at its start.
fn delayed(ctx: Ctx, factory: Factory) -> Task {
    Box::pin(async move {
        let point = Point { plane: Plane::Process, op: "start", attributes: &[], moment: Moment::Before };
        let outcome = ctx.meet(&point).await;
        if outcome != FaultOutcome::Proceed {
            point.unlisted(&outcome);
        }
        factory(ctx).await;
    })
}

/// Marks the process as down when its last task is dropped.
struct Ended(Arc<latest::Sender<bool>>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.send_replace(true);
    }
}

/// Ends a process in which a task panics: otherwise a part of the component would continue without any sign of the
/// failure.
struct Fuse {
    name: Arc<str>,
    trace: Trace,
    blown: AtomicBool,
    /// True if the process was ended from outside. The runtime drops its tasks a little later, and until then none may
    /// continue.
    dead: AtomicBool,
    /// Notified at the same time.
    alarm: Notify,
}

impl Fuse {
    async fn guard(self: Arc<Self>, task: Task) {
        // The state of a panicked task is not used any more: the process ends.
        if let Err(panic) = AssertUnwindSafe(task).catch_unwind().await {
            let text = panic.downcast_ref::<&str>().copied().map(str::to_owned);
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
            self.trace.info(&self.name, ProcessPanicked { error: text });
            self.blown.store(true, Ordering::Relaxed);
            self.alarm.notify_one();
        }
    }

    /// Guards a task of a process that another thread may end while its tasks run.
    async fn guard_live(self: Arc<Self>, task: Task) {
        let (mut guarded, fuse) = (Box::pin(self.clone().guard(task)), self);
        poll_fn(move |cx| match fuse.dead.load(Ordering::SeqCst) {
            true => Poll::Pending,
            false => guarded.as_mut().poll(cx),
        })
        .await;
    }
}

/// A process in simulation. It is polled at every step of each of its tasks, so its own work is small.
struct Local {
    set: LocalSet,
    inbox: Inbox,
    /// Tasks that are started now; otherwise empty.
    starting: Vec<Task>,
    fuse: Arc<Fuse>,
    unrest: Arc<Unrest>,
    _ended: Ended,
}

impl Local {
    fn new(main: Task, inbox: Inbox, fuse: Arc<Fuse>, unrest: Arc<Unrest>, ended: Ended) -> Self {
        let local = Self { set: LocalSet::new(), inbox, starting: Vec::new(), fuse, unrest, _ended: ended };
        local.set.spawn_local(local.guard(main));
        local
    }

    fn guard(&self, task: Task) -> impl Future<Output = ()> + use<> {
        let (mut guarded, unrest) = (Box::pin(self.fuse.clone().guard(task)), self.unrest.clone());
        poll_fn(move |cx| {
            let polled = guarded.as_mut().poll(cx);
            unrest.note_yield();
            polled
        })
    }

    /// Starts the waiting tasks within the set: from outside, each would wake it once more.
    fn start(&mut self, cx: &mut Context<'_>) {
        let mut tasks = std::mem::take(&mut self.starting);
        let start = self.set.run_until(async {
            for task in tasks.drain(..) {
                tokio::task::spawn_local(self.guard(task));
            }
        });
        // It never waits.
        let _ = pin!(start).poll(cx);
        self.starting = tasks;
    }
}

impl Future for Local {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let mut open = true;
        match this.inbox.poll(cx, &mut this.starting) {
            Poll::Ready(true) => this.start(cx),
            Poll::Ready(false) => open = false,
            Poll::Pending => {}
        }
        let idle = Pin::new(&mut this.set).poll(cx).is_ready();
        let over = this.fuse.blown.load(Ordering::Relaxed) || idle && !open;
        if over { Poll::Ready(()) } else { Poll::Pending }
    }
}

async fn threaded(main: Task, mut inbox: Inbox, fuse: Arc<Fuse>, end: Arc<Notify>, ended: Ended) {
    let mut set = tokio::task::JoinSet::new();
    set.spawn(fuse.clone().guard_live(main));
    let mut starting = Vec::new();
    loop {
        tokio::select! { biased;
            () = fuse.alarm.notified() => return drop(ended),
            () = end.notified() => {
                set.shutdown().await;
                return drop(ended);
            }
            open = poll_fn(|cx| inbox.poll(cx, &mut starting)) => {
                if !open {
                    break;
                }
                for task in starting.drain(..) {
                    set.spawn(fuse.clone().guard_live(task));
                }
            },
            // Removes finished tasks, so that the set does not grow.
            Some(_) = set.join_next() => {}
        }
    }
    while set.join_next().await.is_some() {}
    drop(ended);
}

#[expect(clippy::disallowed_methods, reason = "the one place where live processes meet the runtime")]
fn spawn_live(task: impl Future<Output = ()> + Send + 'static) -> tokio::task::AbortHandle {
    tokio::spawn(task).abort_handle()
}
