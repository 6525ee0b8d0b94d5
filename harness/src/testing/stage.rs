//! The thread on which a cluster runs, and the channel for commands to it.
//!
//! A simulated cluster stands still between two commands: its thread blocks at the instant at which the last command
//! ended. So the same commands give the same run, even if the test takes long in between.

use parking_lot::{Mutex, MutexGuard};
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle, ThreadId};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{Either, LocalBoxFuture, Shared, select};
use substrate::World;
use substrate::clock::TimeScale;
use substrate::fault::Span;
use substrate::world::{Options, simulate};
use substrate::{Level, WorldKind};
use tokio::sync::{Notify, oneshot};

use super::failure::Lost;
use super::plan::Plan;
use crate::cluster::defaults;
use crate::cluster::live::{Addresses, Site};
use crate::cluster::{Checks, Cluster, ClusterError, ClusterSpec, live};
use crate::spec::custom::Customs;

/// Time limit of an abandoned cluster to end.
const GRACE: Duration = Duration::from_secs(15);
/// Time limit of a cluster to start.
const STARTING: Duration = Duration::from_secs(60);

/// A command for the cluster.
type Work = Box<dyn FnOnce(Arc<Scene>) -> LocalBoxFuture<'static, ()> + Send>;

/// The cluster that commands work on.
pub(super) struct Scene {
    pub(super) cluster: Cluster,
    pub(super) checks: Checks,
    /// The custom kinds that were applied.
    pub(super) customs: Mutex<Customs>,
    /// The directory of a live cluster.
    pub(super) site: Option<Arc<Site>>,
}

impl Scene {
    pub(super) fn customs(&self) -> MutexGuard<'_, Customs> {
        self.customs.lock()
    }
}

/// Sent to the watching thread when a command starts, and again when it ends.
struct Beat;

#[derive(Clone)]
enum Jobs {
    Simulated(mpsc::Sender<Work>),
    Live(tokio::sync::mpsc::UnboundedSender<Work>),
}

/// A cluster on its thread.
pub(super) struct Stage {
    jobs: Mutex<Option<Jobs>>,
    pub(super) world: World,
    pub(super) checks: Checks,
    given_up: Shared<oneshot::Receiver<Lost>>,
    /// Panic of the machinery itself, if there was one.
    ended: Arc<Mutex<Option<String>>>,
    is_lost: Arc<AtomicBool>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// The thread of the cluster.
    player: ThreadId,
}

thread_local! {
    /// Set on the threads that run a cluster.
    static PLAYS: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

impl Stage {
    /// Starts a cluster.
    ///
    /// # Errors
    /// The reason why it does not start.
    pub(super) async fn start(plan: Plan) -> Result<Self, String> {
        let (jobs, inbox) = match plan.kind {
            WorldKind::Simulated => {
                let (jobs, inbox) = mpsc::channel();
                (Jobs::Simulated(jobs), Inbox::Simulated(inbox))
            }
            WorldKind::Live => {
                let (jobs, inbox) = tokio::sync::mpsc::unbounded_channel();
                (Jobs::Live(jobs), Inbox::Live(inbox))
            }
        };
        let (beats, recorded) = mpsc::channel();
        let (open, opened) = oneshot::channel();
        let (give_up, given_up) = oneshot::channel();
        let stop = Arc::new(Notify::new());
        let ended = Arc::<Mutex<Option<String>>>::default();
        let is_lost = Arc::<AtomicBool>::default();
        let seen = Arc::<Mutex<Option<World>>>::default();
        let limit = plan.limit;
        let player = {
            let part = Part { plan, inbox, beats, stop: stop.clone(), seen: seen.clone() };
            let ended = ended.clone();
            spawn("mooring", move || {
                PLAYS.with(|plays| plays.set(true));
                if let Err(panic) = catch_unwind(AssertUnwindSafe(|| part.play(open))) {
                    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
                    let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
                    *lock(&ended) = Some(text);
                }
            })?
        };
        let watching = {
            let is_lost = is_lost.clone();
            spawn("mooring-watch", move || {
                if let Some(lost) = watch(limit, &recorded, &stop, &seen) {
                    is_lost.store(matches!(lost, Lost::TooLong { is_stuck: true, .. }), Ordering::Relaxed);
                    // There may be no receiver any more.
                    let _ = give_up.send(lost);
                }
            })?
        };
        let player_id = player.thread().id();
        let given_up = given_up.shared();
        let outcome = match select(opened, given_up.clone()).await {
            Either::Left((Ok(outcome), _)) => outcome,
            Either::Left((Err(_), given_up)) => Err(why_over(given_up.await.ok(), &ended)),
            Either::Right((lost, _)) => Err(why_over(lost.ok(), &ended)),
        };
        let threads = vec![player, watching];
        let (world, checks) = match outcome {
            Ok(opened) => opened,
            Err(why) => {
                if !is_lost.load(Ordering::Relaxed) {
                    threads.into_iter().for_each(join);
                }
                return Err(why);
            }
        };
        Ok(Self {
            jobs: Mutex::new(Some(jobs)),
            world,
            checks,
            given_up,
            ended,
            is_lost,
            threads: Mutex::new(threads),
            player: player_id,
        })
    }

    /// Runs `work` on the thread of the cluster, after all earlier commands. Work whose caller no longer waits is
    /// dropped.
    pub(super) fn ask<T, F, W>(&self, work: W) -> impl Future<Output = Result<T, Lost>> + Send + use<T, F, W>
    where
        W: FnOnce(Arc<Scene>) -> F + Send + 'static,
        T: Send + 'static,
        F: Future<Output = T> + 'static,
    {
        let (mut tell, reported) = oneshot::channel();
        let sent = self.send(Box::new(move |scene| {
            Box::pin(async move {
                tokio::select! { biased;
                    outcome = work(scene) => drop(tell.send(outcome)),
                    () = tell.closed() => {}
                }
            })
        }));
        let (given_up, ended) = (self.given_up.clone(), self.ended.clone());
        async move {
            sent?;
            let over = |lost: Option<Lost>| lost.unwrap_or_else(|| Lost::Over(panic_of(&ended)));
            match select(reported, given_up).await {
                Either::Left((Ok(outcome), _)) => Ok(outcome),
                Either::Left((Err(_), given_up)) => Err(over(given_up.await.ok())),
                Either::Right((lost, _)) => Err(over(lost.ok())),
            }
        }
    }

    /// Runs `work` as [`ask`](Self::ask) does, without waiting for it.
    pub(super) fn post<F>(&self, work: impl FnOnce(Arc<Scene>) -> F + Send + 'static)
    where
        F: Future<Output = ()> + 'static,
    {
        // A cluster that has ended takes no commands.
        let _ = self.send(Box::new(move |scene| Box::pin(work(scene))));
    }

    fn send(&self, work: Work) -> Result<(), Lost> {
        if PLAYS.with(std::cell::Cell::get) {
            return Err(Lost::Within);
        }
        let jobs = lock(&self.jobs).clone();
        let over = || match self.given_up.peek() {
            Some(Ok(lost)) => lost.clone(),
            _ => Lost::Over(panic_of(&self.ended)),
        };
        let sent = match jobs {
            Some(Jobs::Simulated(jobs)) => jobs.send(work).is_ok(),
            Some(Jobs::Live(jobs)) => jobs.send(work).is_ok(),
            None => false,
        };
        if sent { Ok(()) } else { Err(over()) }
    }

    /// Ends the cluster, and returns when all of it is gone; at once if its thread is stuck.
    pub(super) fn end(&self) {
        drop(lock(&self.jobs).take());
        let threads = std::mem::take(&mut *lock(&self.threads));
        if thread::current().id() != self.player && !PLAYS.with(std::cell::Cell::get) && !self.is_stuck() {
            threads.into_iter().for_each(join);
        }
    }

    /// Returns true if the thread of the cluster does not end any more.
    fn is_stuck(&self) -> bool {
        self.is_lost.load(Ordering::Relaxed)
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.end();
    }
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, String> {
    thread::Builder::new().name(name.to_owned()).spawn(work).map_err(|e| format!("no thread can be started: {e}"))
}

fn join(thread: JoinHandle<()>) {
    // Its panic was caught, and is reported to the next caller.
    let _ = thread.join();
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

fn panic_of(ended: &Mutex<Option<String>>) -> String {
    lock(ended).clone().unwrap_or_default()
}

fn why_over(lost: Option<Lost>, ended: &Mutex<Option<String>>) -> String {
    match lost {
        Some(Lost::TooLong { limit, .. }) => format!("it was not up within {} of wall time", Span(limit)),
        _ => format!("its thread has ended: {}", panic_of(ended)),
    }
}

/// Watches the thread of a cluster, and abandons it if one command takes longer than `limit` of wall time.
fn watch(limit: Duration, beats: &mpsc::Receiver<Beat>, stop: &Notify, seen: &Mutex<Option<World>>) -> Option<Lost> {
    // The start is not a command, so a short limit does not apply to it.
    let limits = std::iter::once(limit.max(STARTING)).chain(std::iter::repeat(limit));
    for limit in limits {
        match beats.recv() {
            Ok(_) => {}
            Err(_) => return None,
        }
        match beats.recv_timeout(limit) {
            Ok(_) => {}
            Err(RecvTimeoutError::Disconnected) => return None,
            Err(RecvTimeoutError::Timeout) => {
                let tail = lock(seen).as_ref().map(|world| world.trace().tail(20)).unwrap_or_default();
                stop.notify_one();
                let is_stuck = loop {
                    match beats.recv_timeout(GRACE) {
                        Ok(_) => {}
                        Err(RecvTimeoutError::Disconnected) => break false,
                        Err(RecvTimeoutError::Timeout) => break true,
                    }
                };
                return Some(Lost::TooLong { limit, is_stuck, tail });
            }
        }
    }
    None
}

/// The work of a cluster's thread.
struct Part {
    plan: Plan,
    inbox: Inbox,
    beats: mpsc::Sender<Beat>,
    stop: Arc<Notify>,
    /// The world, for the watching thread.
    seen: Arc<Mutex<Option<World>>>,
}

enum Inbox {
    Simulated(mpsc::Receiver<Work>),
    Live(tokio::sync::mpsc::UnboundedReceiver<Work>),
}

impl Inbox {
    /// Waits for the next command. In simulation it holds the thread, and with it virtual time.
    async fn next(&mut self) -> Option<Work> {
        match self {
            Self::Simulated(inbox) => inbox.recv().ok(),
            Self::Live(inbox) => inbox.recv().await,
        }
    }
}

type Open = oneshot::Sender<Result<(World, Checks), String>>;

/// Builds the cluster.
type Build = fn(&World, ClusterSpec, Option<&Site>) -> Result<Cluster, ClusterError>;

impl Part {
    fn play(self, open: Open) {
        self.beat();
        match self.plan.kind {
            WorldKind::Simulated => {
                let options = self.options();
                simulate(options, move |world| {
                    self.play_in_world(open, world, None, |world, spec, _| Cluster::simulate(world, spec))
                });
            }
            WorldKind::Live => self.play_live(open),
        }
    }

    fn play_live(self, open: Open) {
        // It enters a mount namespace, which the threads of the runtime then have, too.
        let site = match Site::prepare(self.plan.backend, None) {
            Ok(site) => Arc::new(site),
            Err(error) => return drop(open.send(Err(error.to_string()))),
        };
        let runtime = match live::runtime_that(|| PLAYS.with(|plays| plays.set(true))) {
            Ok(runtime) => runtime,
            Err(error) => return drop(open.send(Err(format!("cannot start the runtime: {error}")))),
        };
        let (options, place) = (self.options(), site.clone());
        crate::block_on(
            &runtime,
            Box::pin(async move {
                let world = World::live(options);
                self.play_in_world(open, world, Some(place), |world, spec, site| match site {
                    Some(site) => Cluster::live(world, spec, site, &Addresses::default()),
                    None => Cluster::simulate(world, spec),
                })
                .await;
            }),
        );
        runtime.shutdown_timeout(Duration::from_millis(500));
        // Its directory goes once no thread uses it any more.
        drop(site);
    }

    fn options(&self) -> Options {
        let level = if self.plan.trace.is_some() { Level::Trace } else { Level::Info };
        let scale = TimeScale::new(self.plan.scale);
        let (seed, latency) = (self.plan.seed, self.plan.link);
        Options { seed, level, scale, latency, watchdog: None, ..Options::default() }
    }

    async fn play_in_world(mut self, open: Open, world: World, site: Option<Arc<Site>>, build: Build) {
        *lock(&self.seen) = Some(world.clone());
        let opened = async {
            if let Some(path) = &self.plan.trace {
                let file = std::fs::File::create(path).map_err(|e| format!("{}: {e}", path.display()))?;
                world.trace().write_to(Box::new(std::io::BufWriter::new(file)));
            }
            // Before anything can happen.
            let checks = Checks::begin(&world);
            let cluster = build(&world, self.plan.spec.clone(), site.as_deref()).map_err(|e| e.to_string())?;
            if !self.plan.is_bare {
                let made = defaults::apply(cluster.objects(), cluster.spec()).await;
                made.map_err(|e| format!("the StorageClass cannot be made: {e}"))?;
            }
            let customs = Mutex::new(Customs::of_cluster(&cluster.spec().without));
            Ok::<_, String>(Arc::new(Scene { cluster, checks, customs, site }))
        };
        let opened = tokio::select! { biased;
            opened = opened => opened,
            () = self.stop.notified() => return,
        };
        let scene = match opened {
            Ok(scene) => scene,
            Err(why) => return drop(open.send(Err(why))),
        };
        self.beat();
        if open.send(Ok((world.clone(), scene.checks.clone()))).is_ok() {
            while let Some(work) = self.inbox.next().await {
                self.beat();
                tokio::select! { biased;
                    () = work(scene.clone()) => {}
                    () = self.stop.notified() => break,
                }
                self.beat();
            }
        }
        scene.cluster.stop().await;
        // Flushed here: as a world is taken apart, its streams close, which is not part of the run.
        let _ = world.trace().flush();
        world.trace().write_to(Box::new(std::io::sink()));
    }

    fn beat(&self) {
        // The watching thread lives as long as this one, unless it has given it up.
        let _ = self.beats.send(Beat);
    }
}
