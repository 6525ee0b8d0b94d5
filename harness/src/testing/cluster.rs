//! The handle of a cluster with the methods of a test.

use std::fmt;
use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::Value;
use substrate::events::ProcessFailed;
use substrate::words::nearest;
use substrate::{Line as Event, WorldKind};

use super::builder::Builder;
use super::ctx::{Ctx, Ending};
use super::failure::{self, Error, ErrorKind, Result, TestLocation};
use super::fault::Fault;
use super::injected::Injected;
use super::kubernetes::plain;
use super::plan::Plan;
use super::scene;
use super::stage::{Scene, Stage};
use super::wait::block_on;
use crate::invariants::{Violation, declared};

/// Default time limit of a condition in simulation.
const TIMEOUT: Duration = Duration::from_secs(5 * 60);
/// The same in the live world.
const LIVE_TIMEOUT: Duration = Duration::from_secs(60);

/// A cluster with its cloud, on its own thread.
///
/// Each method sends a command to that thread and waits for its result. Commands run one after another, in the order in
/// which they are sent. Virtual time passes only during commands: between two commands a simulation pauses.
///
/// Methods block, even inside async code. Each has a variant for async code, which ends in `_async`. When the handle is
/// dropped, the cluster ends, with all of its threads, mounts, loop devices and directories.
///
/// If a test panics, the drop prints the seed, the timeline and the command that runs the test again.
pub struct Cluster {
    stage: Arc<Stage>,
    place: TestLocation,
    /// Number of events in the last shown report.
    shown: Arc<AtomicU64>,
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster").field("seed", &self.seed()).finish_non_exhaustive()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let reported = self.shown.load(Ordering::Relaxed);
        if std::thread::panicking() && reported != self.stage.world.trace().len() {
            eprintln!("\n{}\n", self.report());
        }
        self.stage.end();
    }
}

/// Start and state.
impl Cluster {
    /// Configures a cluster in virtual time: two nodes, all of upstream's loops, a driver and a cloud, in this process.
    #[track_caller]
    pub fn simulated() -> Builder {
        Builder::new(WorldKind::Simulated)
    }

    /// Configures a cluster in real time, with sockets for kubectl, aws and your own programs. As root on Linux, its
    /// volumes are loop devices with filesystems, in a private mount namespace; otherwise they are directories.
    #[track_caller]
    pub fn live() -> Builder {
        Builder::new(WorldKind::Live)
    }

    pub(super) async fn open(plan: Plan, place: TestLocation) -> Result<Self> {
        let kind = if plan.kind == WorldKind::Live { ErrorKind::Environment } else { ErrorKind::GivenUp };
        let stage = Stage::start(plan).await;
        let stage = stage.map_err(|why| Error::new(kind, format!("the cluster does not start: {why}")))?;
        Ok(Self { stage: Arc::new(stage), place, shown: Arc::new(AtomicU64::new(u64::MAX)) })
    }

    /// Returns the seed of the cluster.
    pub fn seed(&self) -> u64 {
        self.stage.world.options().seed
    }

    /// Returns a report of the run so far, as a failed test prints it: seed, timeline, the last lines of the trace,
    /// fired faults, and the command that runs the test again.
    pub fn report(&self) -> String {
        failure::report(&self.stage.world, &self.place, self.violations())
    }

    /// Returns all recorded events so far, in order. docs/events.md lists the kinds.
    pub fn events(&self) -> Vec<Event> {
        self.stage.world.trace().lines()
    }

    /// Returns the recorded events of one kind, such as `fault.fired` or `volume.attached`.
    ///
    /// # Errors
    /// A kind that no component records, with the nearest existing kind.
    pub fn events_of(&self, kind: &str) -> Result<Vec<Event>> {
        let known = crate::events::all();
        if !known.iter().any(|one| one.kind == kind) {
            let near = nearest(kind, known.iter().map(|one| one.kind));
            let near = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
            return Err(Error::usage(format!("no event is of the kind `{kind}`{near}")));
        }
        Ok(self.events().into_iter().filter(|event| *event.kind == *kind).collect())
    }

    /// Returns the violated invariants so far, without known bugs of upstream. [`check`](Cluster::check) also verifies
    /// that the cluster converges and is consistent.
    pub fn violations(&self) -> Vec<Violation> {
        let mut all = self.stage.checks.invariants().violations();
        // The list of known bugs is part of this crate, and a test parses it.
        let _ = declared::mark_known(&mut all);
        all.retain(|violation| violation.declared.is_none());
        all
    }

    /// Runs `work` on the cluster, and reports the run if it fails.
    async fn ask<T, F>(&self, work: impl FnOnce(Arc<Scene>) -> F + Send + 'static) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + 'static,
    {
        let outcome = self.stage.ask(work).await.unwrap_or_else(|lost| Err(failure::lost(&lost)));
        outcome.map_err(|error| self.with_report(error))
    }

    fn with_report(&self, error: Error) -> Error {
        if error.kind() == ErrorKind::Usage {
            return error;
        }
        error.with(self.report(), &self.shown, self.stage.world.trace().len())
    }

    fn default_timeout(&self) -> Duration {
        if self.stage.world.kind() == WorldKind::Simulated { TIMEOUT } else { LIVE_TIMEOUT }
    }
}

/// Objects, as with kubectl.
impl Cluster {
    /// Creates the objects of a YAML text, or merges it into those that exist. The text may have several documents.
    ///
    /// # Errors
    /// A mistake in the text with its line, or the error of the API server.
    pub fn apply(&self, yaml: &str) -> Result<()> {
        block_on(self.apply_async(yaml))
    }

    /// The same as [`apply`](Cluster::apply), for async code.
    ///
    /// # Errors
    /// As [`apply`](Cluster::apply).
    pub async fn apply_async(&self, yaml: &str) -> Result<()> {
        let yaml = yaml.to_owned();
        self.ask(async move |scene| scene::apply(&scene, &yaml).await).await
    }

    /// Reads an object such as `pvc/data`, `pod/team-a/web` or `node/node-a`; `None` if it does not exist.
    ///
    /// # Errors
    /// An invalid object name, or the error of the API server.
    pub fn get(&self, object: &str) -> Result<Option<Value>> {
        block_on(self.get_async(object))
    }

    /// The same as [`get`](Cluster::get), for async code.
    ///
    /// # Errors
    /// As [`get`](Cluster::get).
    pub async fn get_async(&self, object: &str) -> Result<Option<Value>> {
        let object = object.to_owned();
        self.ask(async move |scene| {
            let got = scene.cluster.objects().get(&scene.object(&object)?).await;
            let got = got.map_err(|e| Error::refused(&format!("get {object}"), &e))?;
            got.map(|tree| plain(&tree)).transpose()
        })
        .await
    }

    /// Lists all objects of a kind, such as `pods` or `volumeattachments`, of all namespaces.
    ///
    /// # Errors
    /// An unknown kind, or the error of the API server.
    pub fn list(&self, kind: &str) -> Result<Vec<Value>> {
        block_on(self.list_async(kind))
    }

    /// The same as [`list`](Cluster::list), for async code.
    ///
    /// # Errors
    /// As [`list`](Cluster::list).
    pub async fn list_async(&self, kind: &str) -> Result<Vec<Value>> {
        let word = kind.to_owned();
        self.ask(async move |scene| {
            let listed = scene.cluster.objects().list(scene.kind(&word)?).await;
            listed.map_err(|e| Error::refused(&format!("list {word}"), &e))?.iter().map(plain).collect()
        })
        .await
    }

    /// Merges `patch` into an object.
    ///
    /// # Errors
    /// An invalid object name, or the error of the API server.
    pub fn patch(&self, object: &str, patch: &Value) -> Result<()> {
        block_on(self.patch_async(object, patch))
    }

    /// The same as [`patch`](Cluster::patch), for async code.
    ///
    /// # Errors
    /// As [`patch`](Cluster::patch).
    pub async fn patch_async(&self, object: &str, patch: &Value) -> Result<()> {
        let (object, patch) = (object.to_owned(), patch.clone());
        self.ask(async move |scene| {
            let patched = scene.cluster.objects().patch(&scene.object(&object)?, &patch).await;
            patched.map_err(|e| Error::refused(&format!("patch {object}"), &e))
        })
        .await
    }

    /// Deletes an object. A missing object is not an error. Wait for `gone` to wait for the deletion.
    ///
    /// # Errors
    /// An invalid object name, or the error of the API server.
    pub fn delete(&self, object: &str) -> Result<()> {
        block_on(self.delete_async(object))
    }

    /// The same as [`delete`](Cluster::delete), for async code.
    ///
    /// # Errors
    /// As [`delete`](Cluster::delete).
    pub async fn delete_async(&self, object: &str) -> Result<()> {
        let object = object.to_owned();
        self.ask(async move |scene| {
            let deleted = scene.cluster.objects().delete(&scene.object(&object)?, None).await;
            deleted.map_err(|e| Error::refused(&format!("delete {object}"), &e))
        })
        .await
    }

    /// Waits until a condition holds, at most 5 minutes of the cluster's time (60 seconds live).
    ///
    /// The condition is a state, as for `mooring wait` (`Running`, `Bound`, `Ready`, `gone`), or a CEL expression about
    /// the object, `self`: `self.status.phase == 'Bound'`. If `object` is only a kind, `self` is the list of all its
    /// objects: `wait_for("pods", "self.all(p, p.status.phase == 'Running')")`.
    ///
    /// # Errors
    /// A mistake in the condition, or the state after the time limit, with the reasons that Kubernetes gives.
    pub fn wait_for(&self, object: &str, condition: &str) -> Result<()> {
        block_on(self.wait_for_async(object, condition))
    }

    /// The same as [`wait_for`](Cluster::wait_for), for async code.
    ///
    /// # Errors
    /// As [`wait_for`](Cluster::wait_for).
    pub async fn wait_for_async(&self, object: &str, condition: &str) -> Result<()> {
        self.wait_within_async(object, condition, self.default_timeout()).await
    }

    /// Waits until a condition holds, at most `limit` of the cluster's time. The time scale of a live cluster leaves
    /// `limit` at least 90 seconds of wall time, or its own length if that is shorter.
    ///
    /// # Errors
    /// As [`wait_for`](Cluster::wait_for).
    pub fn wait_within(&self, object: &str, condition: &str, limit: Duration) -> Result<()> {
        block_on(self.wait_within_async(object, condition, limit))
    }

    /// The same as [`wait_within`](Cluster::wait_within), for async code.
    ///
    /// # Errors
    /// As [`wait_for`](Cluster::wait_for).
    pub async fn wait_within_async(&self, object: &str, condition: &str, limit: Duration) -> Result<()> {
        let (object, condition) = (object.to_owned(), condition.to_owned());
        self.ask(async move |scene| {
            let awaited = scene.awaited(&object, &condition)?;
            scene::wait(&scene, &awaited, limit).await
        })
        .await
    }
}

/// Time, faults and processes.
impl Cluster {
    /// Lets time pass. In simulation, this takes only the wall time of the events in between.
    ///
    /// # Errors
    /// A cluster that takes longer than its limit of wall time.
    pub fn advance(&self, time: Duration) -> Result<()> {
        block_on(self.advance_async(time))
    }

    /// The same as [`advance`](Cluster::advance), for async code.
    ///
    /// # Errors
    /// As [`advance`](Cluster::advance).
    pub async fn advance_async(&self, time: Duration) -> Result<()> {
        self.ask(async move |scene| {
            tokio::time::sleep(scene.cluster.scaled(time)).await;
            Ok(())
        })
        .await
    }

    /// Returns the cluster's time since its start.
    ///
    /// # Errors
    /// A cluster that has ended.
    pub fn elapsed(&self) -> Result<Duration> {
        block_on(self.elapsed_async())
    }

    /// The same as [`elapsed`](Cluster::elapsed), for async code.
    ///
    /// # Errors
    /// As [`elapsed`](Cluster::elapsed).
    pub async fn elapsed_async(&self) -> Result<Duration> {
        self.ask(async move |scene| Ok(scene.cluster.unscaled(scene.cluster.world().clock().mono()))).await
    }

    /// Puts a fault in force. It ends when the guard is dropped.
    ///
    /// # Errors
    /// A word that the table of faults does not have, with the field and the nearest valid word.
    pub fn inject(&self, fault: Fault) -> Result<Injected> {
        block_on(self.inject_async(fault))
    }

    /// The same as [`inject`](Cluster::inject), for async code.
    ///
    /// # Errors
    /// As [`inject`](Cluster::inject).
    pub async fn inject_async(&self, fault: Fault) -> Result<Injected> {
        let name = self.ask(async move |scene| scene::inject(&scene, fault).await).await?;
        Ok(Injected::new(self.stage.clone(), name))
    }

    /// Crashes a process (`csi-attacher`, one of your own) or a group of them, or cuts the power of a node. It stays down
    /// until [`restart`](Cluster::restart).
    ///
    /// # Errors
    /// An unknown name, or a process that is down already.
    pub fn crash(&self, process: &str) -> Result<()> {
        block_on(self.crash_async(process))
    }

    /// The same as [`crash`](Cluster::crash), for async code.
    ///
    /// # Errors
    /// As [`crash`](Cluster::crash).
    pub async fn crash_async(&self, process: &str) -> Result<()> {
        let process = process.to_owned();
        self.ask(async move |scene| scene.cluster.crash(&process).await.map_err(Error::usage)).await
    }

    /// Starts a process or a node again. A process that is up is crashed first.
    ///
    /// # Errors
    /// An unknown name, or a node that is up.
    pub fn restart(&self, process: &str) -> Result<()> {
        block_on(self.restart_async(process))
    }

    /// The same as [`restart`](Cluster::restart), for async code.
    ///
    /// # Errors
    /// As [`restart`](Cluster::restart).
    pub async fn restart_async(&self, process: &str) -> Result<()> {
        let process = process.to_owned();
        self.ask(async move |scene| scene.cluster.restart(&process).await.map_err(Error::usage)).await
    }

    /// Runs your own program as the process `name` of the cluster, in the cluster's time. It can be crashed and restarted
    /// by its name, which calls `main` again, and faults can name it (`matching("caller", name)`).
    ///
    /// If `main` returns an error, the trace records it as `process.failed`. A panic ends only the process, and is
    /// recorded as `process.panicked`.
    ///
    /// # Errors
    /// A name that is taken.
    pub fn spawn<F>(&self, name: &str, main: impl Fn(Ctx) -> F + Send + Sync + 'static) -> Result<()>
    where
        F: Future<Output: Ending> + Send + 'static,
    {
        block_on(self.spawn_async(name, main))
    }

    /// The same as [`spawn`](Cluster::spawn), for async code.
    ///
    /// # Errors
    /// As [`spawn`](Cluster::spawn).
    pub async fn spawn_async<F>(&self, name: &str, main: impl Fn(Ctx) -> F + Send + Sync + 'static) -> Result<()>
    where
        F: Future<Output: Ending> + Send + 'static,
    {
        let (name, main) = (name.to_owned(), Arc::new(main));
        self.ask(async move |scene| {
            let whole = scene.clone();
            let started = scene.cluster.add_guest(&name, move |ctx| {
                let connect = |server| whole.cluster.connect(&ctx, server);
                let clients = connect("apiserver").and_then(|apiserver| Ok((apiserver, connect("ec2")?)));
                let work = clients.map(|(apiserver, ec2)| main(Ctx::new(ctx.clone(), apiserver, ec2)));
                async move {
                    let error = match work {
                        Ok(work) => work.await.error(),
                        Err(error) => Some(error),
                    };
                    if let Some(error) = error {
                        ctx.emit(ProcessFailed { error });
                    }
                }
            });
            started.map_err(Error::usage)
        })
        .await
    }
}

/// Expectations.
impl Cluster {
    /// Waits until the workload of a pod has read its volumes at its start, and requires that all records were intact.
    /// Returns the number of records that it found: none at a first start, later at least the synced ones.
    ///
    /// # Errors
    /// Damaged records, or a workload that has not started within 30 seconds.
    pub fn bytes_intact(&self, pod: &str) -> Result<u64> {
        block_on(self.bytes_intact_async(pod))
    }

    /// The same as [`bytes_intact`](Cluster::bytes_intact), for async code.
    ///
    /// # Errors
    /// As [`bytes_intact`](Cluster::bytes_intact).
    pub async fn bytes_intact_async(&self, pod: &str) -> Result<u64> {
        let pod = pod.to_owned();
        self.ask(async move |scene| scene::bytes_intact(&scene, &pod).await).await
    }

    /// Waits until the workload of a pod has written and synced this many records to its volumes.
    ///
    /// # Errors
    /// The number of written records after the default time limit.
    pub fn wait_for_records(&self, pod: &str, records: u64) -> Result<()> {
        block_on(self.wait_for_records_async(pod, records))
    }

    /// The same as [`wait_for_records`](Cluster::wait_for_records), for async code.
    ///
    /// # Errors
    /// As [`wait_for_records`](Cluster::wait_for_records).
    pub async fn wait_for_records_async(&self, pod: &str, records: u64) -> Result<()> {
        let (pod, limit) = (pod.to_owned(), self.default_timeout());
        self.ask(async move |scene| scene::wait_for_records(&scene, &pod, records, limit).await).await
    }

    /// Waits until the cluster has converged, compares the cloud, Kubernetes and the nodes, and requires that no
    /// invariant was violated.
    ///
    /// # Errors
    /// The violated invariants, or the reason why the cluster does not converge: a fault in force, or a process that is
    /// down.
    pub fn check(&self) -> Result<()> {
        block_on(self.check_async())
    }

    /// The same as [`check`](Cluster::check), for async code.
    ///
    /// # Errors
    /// As [`check`](Cluster::check).
    pub async fn check_async(&self) -> Result<()> {
        self.ask(async move |scene| scene::come_to_rest(&scene).await).await?;
        let violations = self.violations();
        if violations.is_empty() {
            return Ok(());
        }
        let reported: Vec<String> = violations.iter().map(|v| format!("{}: {}", v.id, v.message)).collect();
        Err(self.with_report(Error::new(ErrorKind::Broken, reported.join("\n"))))
    }
}

/// External programs.
impl Cluster {
    /// Writes a kubeconfig for a live cluster, and returns its path. The file is removed with the cluster.
    ///
    /// # Errors
    /// A simulated cluster, which has no sockets.
    pub fn kubeconfig(&self) -> Result<PathBuf> {
        block_on(self.ask(async move |scene| scene::kubeconfig(&scene)))
    }

    /// Returns the environment variables with which kubectl, aws and their libraries find a live cluster.
    ///
    /// # Errors
    /// As [`kubeconfig`](Cluster::kubeconfig).
    pub fn env(&self) -> Result<Vec<(&'static str, String)>> {
        block_on(self.ask(async move |scene| scene::env(&scene)))
    }
}
