//! Processes: what runs, crashes and restarts as one.
//!
//! In simulation a process is a nested `LocalSet`: dropping it drops everything that the process started, as a
//! crash does. In the live world it is a `JoinSet` on the multi-thread runtime, with the same effect.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use rand_chacha::ChaCha8Rng;
use serde_json::Value;
use tokio::sync::{Notify, mpsc};

use crate::clock::{Clock, Now};
use crate::fault::{Faults, Firing, Point};
use crate::latest;
use crate::seed::Seed;
use crate::trace::Trace;
use crate::world::{World, WorldKind};

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;
type Factory = Arc<dyn Fn(Ctx) -> Task + Send + Sync>;

/// What a component gets from the world that runs it: its name, time, randomness, tasks, faults and the trace.
#[derive(Clone)]
pub struct Ctx(Arc<Inner>);

struct Inner {
    name: Arc<str>,
    incarnation: u32,
    seed: Seed,
    clock: Clock,
    world: World,
    tasks: mpsc::UnboundedSender<Task>,
    down: latest::Receiver<bool>,
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
    /// The process's name, as it stands in the trace.
    pub fn name(&self) -> &Arc<str> {
        &self.0.name
    }

    /// How often the process was started, from 1.
    pub fn incarnation(&self) -> u32 {
        self.0.incarnation
    }

    /// The world that runs it.
    pub fn world(&self) -> &World {
        &self.0.world
    }

    /// The clock of this process.
    pub fn clock(&self) -> &Clock {
        &self.0.clock
    }

    /// Reads the clock.
    pub fn now(&self) -> Now {
        self.0.clock.now()
    }

    /// A generator for the purpose `stream`; another one for each incarnation of the process.
    pub fn rng(&self, stream: &str) -> ChaCha8Rng {
        self.0.seed.child(stream).rng()
    }

    /// The process's node in the tree of random streams.
    pub fn seed(&self) -> &Seed {
        &self.0.seed
    }

    /// The trace of the world.
    pub fn trace(&self) -> &Trace {
        self.0.world.trace()
    }

    /// Records a domain event of this process. `fields` is a JSON object.
    pub fn emit(&self, kind: &str, fields: Value) {
        self.trace().info(&self.0.name, kind, fields);
    }

    /// The faults in force.
    pub fn faults(&self) -> &Faults {
        self.0.world.faults()
    }

    /// Asks whether a fault fires at `point`, and records it when one does.
    pub fn fault(&self, point: &Point<'_>) -> Option<Firing> {
        self.0.world.fault(&self.0.name, point)
    }

    /// `duration` divided by the scenario's `time-scale`.
    pub fn scaled(&self, duration: Duration) -> Duration {
        self.0.world.scale().apply(duration)
    }

    /// Waits for `duration` divided by the scenario's `time-scale`.
    pub async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(self.scaled(duration)).await;
    }

    /// Waits until the world's monotonic time is `mono` (not scaled: it was computed from scaled durations).
    pub async fn sleep_until(&self, mono: Duration) {
        self.0.clock.sleep_until(mono).await;
    }

    /// Starts a task that ends with the process. From wherever it is called, the task belongs to this process.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        // The send fails only when the process is down, and then the task must not run.
        let _ = self.0.tasks.send(Box::pin(task));
    }

    /// Whether the process has crashed or ended.
    pub fn is_down(&self) -> bool {
        *self.0.down.borrow()
    }

    /// Completes when the process crashes or ends.
    pub async fn downed(&self) {
        // An error means that the process handle is gone, which ends the process too.
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
}

impl Process {
    /// Declares the process `name` of `world` and starts it; `main` is called again at each restart.
    pub fn start<F>(world: &World, name: &str, main: impl Fn(Ctx) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let process = Self(Arc::new(ProcessInner {
            world: world.clone(),
            name: name.into(),
            factory: Arc::new(move |ctx| Box::pin(main(ctx))),
            incarnations: AtomicU32::new(0),
            running: Mutex::new(None),
        }));
        process.launch();
        process
    }

    /// The process's name.
    pub fn name(&self) -> &Arc<str> {
        &self.0.name
    }

    /// The context of the running incarnation, or nothing while the process is down.
    pub fn ctx(&self) -> Option<Ctx> {
        self.slot().as_ref().map(|r| r.ctx.clone()).filter(|ctx| !ctx.is_down())
    }

    /// Ends the process at once; nothing that it started goes on.
    pub fn crash(&self) {
        if let Some(running) = self.slot().take() {
            running.down.send_replace(true);
            running.abort.abort();
            self.0.world.trace().info(&self.0.name, "process.crashed", Value::Null);
        }
    }

    /// Starts the process again; crashes it first when it still runs.
    pub fn restart(&self) {
        self.crash();
        self.launch();
    }

    fn launch(&self) {
        let inner = &self.0;
        let incarnation = inner.incarnations.fetch_add(1, Ordering::Relaxed) + 1;
        let (tasks, inbox) = mpsc::unbounded_channel();
        let down_tx = Arc::new(latest::Sender::new(false));
        let down = down_tx.subscribe();
        let own = inner.world.seed().child(&inner.name);
        let ctx = Ctx(Arc::new(Inner {
            name: inner.name.clone(),
            incarnation,
            seed: if incarnation == 1 { own } else { own.child(&format!("incarnation {incarnation}")) },
            clock: inner.world.clock().fork(),
            world: inner.world.clone(),
            tasks,
            down,
        }));
        inner.world.trace().info(&inner.name, "process.started", serde_json::json!({ "incarnation": incarnation }));
        let main = (inner.factory)(ctx.clone());
        let fuse =
            Arc::new(Fuse { name: inner.name.clone(), trace: inner.world.trace().clone(), blown: Notify::new() });
        let abort = match inner.world.kind() {
            WorldKind::Simulated => {
                let (fabric, ended) = (inner.world.fabric().clone(), Ended(down_tx.clone()));
                tokio::task::spawn_local(fabric.restless(local(main, inbox, fuse, ended))).abort_handle()
            }
            WorldKind::Live => spawn_live(threaded(main, inbox, fuse, Ended(down_tx.clone()))),
        };
        *self.slot() = Some(Running { ctx, down: down_tx, abort });
    }

    fn slot(&self) -> std::sync::MutexGuard<'_, Option<Running>> {
        self.0.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Marks the process as down when its last task is dropped.
struct Ended(Arc<latest::Sender<bool>>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.send_replace(true);
    }
}

/// Ends a process of which a task panicked: half a component that goes on would tell nobody that it is broken.
struct Fuse {
    name: Arc<str>,
    trace: Trace,
    blown: Notify,
}

impl Fuse {
    async fn guard(self: Arc<Self>, task: Task) {
        // What the task leaves behind is not looked at any more: the process ends.
        if let Err(panic) = AssertUnwindSafe(task).catch_unwind().await {
            let text = panic.downcast_ref::<&str>().copied().map(str::to_owned);
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
            self.trace.info(&self.name, "process.panicked", serde_json::json!({ "error": text }));
            self.blown.notify_one();
        }
    }
}

async fn local(main: Task, mut inbox: mpsc::UnboundedReceiver<Task>, fuse: Arc<Fuse>, ended: Ended) {
    let set = tokio::task::LocalSet::new();
    set.spawn_local(fuse.clone().guard(main));
    let spawns = async {
        while let Some(task) = inbox.recv().await {
            tokio::task::spawn_local(fuse.clone().guard(task));
        }
    };
    let all = async {
        set.run_until(spawns).await;
        set.await;
    };
    tokio::select! { biased;
        () = fuse.blown.notified() => {}
        () = all => {}
    }
    drop(ended);
}

async fn threaded(main: Task, mut inbox: mpsc::UnboundedReceiver<Task>, fuse: Arc<Fuse>, ended: Ended) {
    let mut set = tokio::task::JoinSet::new();
    set.spawn(fuse.clone().guard(main));
    loop {
        tokio::select! { biased;
            () = fuse.blown.notified() => return drop(ended),
            task = inbox.recv() => match task {
                Some(task) => { set.spawn(fuse.clone().guard(task)); }
                None => break,
            },
            // Finished tasks are taken out so that the set does not grow.
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
