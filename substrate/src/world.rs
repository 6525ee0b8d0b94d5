//! A world: virtual or live, with one clock, one seed, one trace, one set of faults.
//!
//! A simulation ([`simulate`]) is one call on one thread:
//!
//! 1. It builds a tokio runtime with one thread and a paused clock, without sockets. Paused means: if no task can run,
//!    the clock jumps to the next timer. So waits cost nothing.
//! 2. A watchdog thread ends the OS process with exit code 4 after a limit of wall-clock time. It is for a simulation
//!    that never ends, such as a loop that never waits.
//! 3. It makes the world: clock, root seed, trace, faults and [`Fabric`]. Each consumer of randomness gets a stream by
//!    its name from the seed, so that a new consumer does not shift the others.
//! 4. It starts the task that delivers messages one by one (`fabric.rs`), and runs the body as a future whose wake-ups
//!    count as unrest (`rest.rs`). The body starts processes, and each of them counts in the same way.
//! 5. When the body has a result, the tasks are dropped, and then the world is taken apart, because observers and servers
//!    refer back to it. [`simulate_and_leave`] leaves that to the end of the program.
//!
//! A live world ([`World::live`]) has the same parts without the fabric's queue: the clock is the machine's, links end in
//! sockets, and processes run on the runtime that exists.

use parking_lot::Mutex;
use std::any::{Any, TypeId};
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;

use crate::clock::{Clock, Reading, TimeScale};
use crate::events::FaultFired;
use crate::fabric::{Fabric, Latency};
use crate::fault::{Effect, Faults, Firing, Point};
use crate::seed::Seed;
use crate::trace::{Level, Trace};

/// Kind of a world; only this crate and the harness ask for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorldKind {
    /// One thread, paused clock, calls through the fabric.
    Simulated,
    /// Real time, real sockets, many threads.
    Live,
}

/// Carrier of in-process calls in simulation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// The server's tower service is called directly: the usual engine.
    #[default]
    Direct,
    /// HTTP and gRPC bytes over `tokio::io::duplex`: a check of wire fidelity, with the same trace.
    Duplex,
}

/// Options of a world.
#[derive(Clone, Debug)]
pub struct Options {
    /// The root seed.
    pub seed: u64,
    /// Detail of the trace.
    pub level: Level,
    /// Divides waits and latencies.
    pub scale: TimeScale,
    /// Latency of links in simulation.
    pub latency: Latency,
    /// Carrier of in-process calls in simulation.
    pub transport: Transport,
    /// Wall-clock limit of a simulation, after which the watchdog ends the OS process with exit code 4.
    pub watchdog: Option<Duration>,
    /// Names of the seeded bugs that are switched on; without effect unless their crates have the feature
    /// `mutants`.
    pub mutants: BTreeSet<String>,
    /// Name of the only component of this OS process, if its starter sets one.
    pub process: Option<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            seed: 1,
            level: Level::Info,
            scale: TimeScale::default(),
            latency: Latency::default(),
            transport: Transport::Direct,
            watchdog: Some(Duration::from_secs(60)),
            mutants: BTreeSet::new(),
            process: None,
        }
    }
}

/// A world. Cheap to clone; all clones are one world.
#[derive(Clone)]
pub struct World(Arc<Inner>);

struct Inner {
    kind: WorldKind,
    clock: Clock,
    seed: Seed,
    trace: Trace,
    faults: Faults,
    fabric: Fabric,
    options: Options,
    commons: Mutex<BTreeMap<TypeId, Arc<dyn Any + Send + Sync>>>,
    fault_observers: Mutex<Vec<FaultObserver>>,
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World").field("kind", &self.0.kind).finish_non_exhaustive()
    }
}

type FaultObserver = Arc<dyn Fn(&Arc<str>, &Firing) + Send + Sync>;

impl World {
    /// Creates a live world. Must be called inside a multi-thread runtime.
    pub fn live(options: Options) -> Self {
        Self::new(WorldKind::Live, Clock::live(), options)
    }

    fn new(kind: WorldKind, clock: Clock, options: Options) -> Self {
        let seed = Seed::root(options.seed);
        let trace = Trace::new(clock.clone(), options.level);
        let faults = Faults::new(seed.child("faults"), options.scale);
        let reported = trace.clone();
        faults.follow(move |hit| {
            // Lasting effects hit again and again, so only the first hit is reported.
            let lasts = matches!(hit.effect, Effect::Partition(_) | Effect::PartitionOneWay(_) | Effect::Skew(_));
            if !lasts || hit.hits == 1 {
                let (fault, op, effect) = (hit.fault.clone(), hit.op.as_str().into(), hit.effect.clone());
                let attributes = hit.attributes.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
                reported.info(&hit.process.as_str().into(), FaultFired { fault, op, effect, attributes });
            }
        });
        Self(Arc::new(Inner {
            kind,
            trace,
            faults,
            fabric: Fabric::new(clock.clone()),
            clock,
            seed,
            options,
            commons: Mutex::default(),
            fault_observers: Mutex::default(),
        }))
    }

    /// Returns the kind of the world.
    pub fn kind(&self) -> WorldKind {
        self.0.kind
    }

    /// Returns the clock.
    pub fn clock(&self) -> &Clock {
        &self.0.clock
    }

    /// Returns the root seed.
    pub fn seed(&self) -> &Seed {
        &self.0.seed
    }

    /// Returns the trace.
    pub fn trace(&self) -> &Trace {
        &self.0.trace
    }

    /// Returns the active faults.
    pub fn faults(&self) -> &Faults {
        &self.0.faults
    }

    /// Returns the network.
    pub fn fabric(&self) -> &Fabric {
        &self.0.fabric
    }

    /// Returns the scale of waits.
    pub fn scale(&self) -> TimeScale {
        self.0.options.scale
    }

    /// Returns the options of the world.
    pub fn options(&self) -> &Options {
        &self.0.options
    }

    /// Returns true if the seeded bug `name` is switched on; [`mutant!`](crate::mutant) asks this.
    pub fn has_mutant(&self, name: &str) -> bool {
        self.0.options.mutants.contains(name)
    }

    /// Returns the world's only value of type `T`, created at the first call; it outlives every process. Only for
    /// values that components cannot observe, such as memos of pure functions: state belongs to a process or to a disk.
    pub fn common<T: Default + Send + Sync + 'static>(&self) -> Arc<T> {
        let mut commons = self.0.commons.lock();
        let made = commons.entry(TypeId::of::<T>()).or_insert_with(|| Arc::new(T::default())).clone();
        // The value under a type's id has that type.
        made.downcast::<T>().unwrap_or_default()
    }

    /// Returns the fault that fires at `point` in `process`, if any, and records it.
    pub fn fault(&self, process: &Arc<str>, point: &Point<'_>) -> Option<Firing> {
        if self.0.faults.is_empty() {
            return None;
        }
        let firing = self.0.faults.check(self.0.clock.mono(), process, point)?;
        let observers = self.0.fault_observers.lock().clone();
        for observer in observers {
            observer(process, &firing);
        }
        Some(firing)
    }

    /// Returns true if a partition cuts the way `from` → `to` now.
    pub(crate) fn is_cut(&self, from: &str, to: &str) -> bool {
        !self.0.faults.is_empty() && self.0.faults.cut(self.0.clock.mono(), from, to).is_some()
    }

    /// Waits until the fault `name` is gone: deleted, over by its `for`, or at the end of its lease.
    pub async fn outlast(&self, name: &str) {
        loop {
            let (end, mut ended) = self.0.faults.end_of(name);
            if !self.0.faults.is_in_force(self.0.clock.mono(), name) {
                return;
            }
            tokio::select! { biased;
                // The book lives as long as the world.
                _ = ended.changed() => {}
                () = self.0.clock.sleep_until(end.unwrap_or_default()), if end.is_some() => {}
            }
        }
    }

    /// Drops everything that the world holds and that in turn holds the world: observers and servers have processes,
    /// and these have their world. Call it at the end of a simulation, when no task is left.
    fn take_apart(&self) {
        let observers = std::mem::take(&mut *self.0.fault_observers.lock());
        drop(observers);
        self.0.faults.forget_followers();
        self.0.trace.forget_observers();
        self.0.fabric.forget_servers();
    }

    /// Calls `observer` with each fault that fires and its process, for the runner of the processes, which can crash
    /// them.
    pub fn observe_faults(&self, observer: impl Fn(&Arc<str>, &Firing) + Send + Sync + 'static) {
        self.0.fault_observers.lock().push(Arc::new(observer));
    }
}

/// Runs `body` in virtual time on the calling thread and returns its result.
///
/// # Panics
/// If the runtime cannot be built, which needs no resource but memory.
pub fn simulate<'a, T: 'a, F>(options: Options, body: impl FnOnce(World) -> F + 'a) -> T
where
    F: Future<Output = T> + 'a,
{
    simulate_then(options, body, |(tasks, runtime, world)| {
        drop((tasks, runtime));
        world.take_apart();
    })
}

/// Like [`simulate`], for a program that exits soon after: the world is not dropped, because the end of the OS process
/// frees its memory at once, and dropping it takes time.
///
/// # Panics
/// As [`simulate`].
pub fn simulate_and_leave<'a, T: 'a, F>(options: Options, body: impl FnOnce(World) -> F + 'a) -> T
where
    F: Future<Output = T> + 'a,
{
    simulate_then(options, body, std::mem::forget)
}

/// Runs `body` in a simulated world, and passes what is left of it to `then`.
fn simulate_then<'a, T: 'a, F>(
    options: Options,
    body: impl FnOnce(World) -> F + 'a,
    then: fn((tokio::task::LocalSet, tokio::runtime::Runtime, World)),
) -> T
where
    F: Future<Output = T> + 'a,
{
    // Boxed, so that the scheduler is compiled once per result type and not for each body.
    simulate_boxed(options, Box::new(move |world| Box::pin(body(world))), then)
}

type Body<'a, T> = Box<dyn FnOnce(World) -> Pin<Box<dyn Future<Output = T> + 'a>> + 'a>;

fn simulate_boxed<T>(
    options: Options,
    body: Body<'_, T>,
    then: fn((tokio::task::LocalSet, tokio::runtime::Runtime, World)),
) -> T {
    let reading = Reading::default();
    let waited = reading.clone();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .on_thread_unpark(move || waited.forget())
        .build()
        .expect("a current-thread runtime without an IO driver takes no system resource");
    let watchdog = options.watchdog;
    let watched: Arc<OnceLock<Trace>> = Arc::default();
    let _guard = watchdog.map(|limit| watch(limit, watched.clone()));
    let tasks = tokio::task::LocalSet::new();
    let (result, world) = tasks.block_on(&runtime, async move {
        let world = World::new(WorldKind::Simulated, Clock::simulated_by(reading), options);
        let _ = watched.set(world.trace().clone());
        let fabric = world.fabric().clone();
        tokio::task::spawn_local(fabric.clone().run());
        // Alone, the body would be polled, and counted, on every wake-up. In a set it is polled only when it is woken.
        let mut body = FuturesUnordered::from_iter([fabric.restless(body(world.clone()))]);
        let Some(result) = body.next().await else { unreachable!("one future has one result") };
        (result, world)
    });
    then((tasks, runtime, world));
    result
}

/// Ends the OS process if a simulation takes longer than `limit` of wall time, and prints the last trace lines.
fn watch(limit: Duration, trace: Arc<OnceLock<Trace>>) -> std::sync::mpsc::Sender<()> {
    let (alive, done) = std::sync::mpsc::channel::<()>();
    std::thread::spawn(move || {
        if done.recv_timeout(limit) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            eprintln!("watchdog: the simulation did not end within {limit:?} of wall time; the last trace lines:");
            if let Some(trace) = trace.get() {
                for line in trace.tail(20) {
                    eprintln!("  {line}");
                }
            }
            std::process::exit(4);
        }
    });
    alive
}
