//! The container runtime of a machine, in the role of containerd.
//!
//! Containers belong to the machine. They outlive the kubelet that requested them; it finds them again after a restart.
//! They end without a notice when the machine's process ends. A container is a modelled workload that writes records to
//! the pod's volumes, and exits with code 1 when it cannot read or write. A live machine can run its command instead
//! ([`programs`]). A kubelet talks to the runtime over HTTP: it runs, stops and removes the containers of a pod, starts
//! one again after its exit, reads their logs, attaches clients to them, starts further programs in them, and follows an
//! event stream.

pub mod api;
mod attach;
mod cli;
mod container;
pub mod container_log;
mod ephemeral;
pub mod events;
mod exec;
pub mod follow;
mod log_file;
mod message;
mod pod;
pub mod programs;
mod query;
pub mod records;
mod service;
pub mod slots;
pub mod state;
#[cfg(test)]
mod tests;
mod writer;

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use csi_disk::Disk;
use substrate::{Ctx, HttpService, latest};
use tokio::sync::mpsc;

use api::POD_ADDRESSES;
use api::{ContainerSpec, News, PodRecord, PodSpec, Trouble};
pub use cli::machine_main_with;
use container::{Own, Signals};
use log_file::LogFile;
use pod::Orders;
use programs::{Program, Programs};
pub use query::query;
use state::{Again, Asked, Pods};
use writer::Chains;
pub use writer::FILE;

/// Configuration of a container runtime.
#[derive(Clone, Debug)]
pub struct MachineConfig {
    /// The node's name, for events.
    pub node_name: String,
    /// Disk of the machine, on which its containers write.
    pub disk: Arc<dyn Disk>,
    /// Shortest and longest time from a request to running containers. Default: instant.
    pub container_start: (Duration, Duration),
    /// Time that a container takes to stop after SIGTERM, at most its grace period. Default: instant.
    pub container_stop: Duration,
    /// Runs the programs of containers. Default: none, every container is a modelled workload.
    pub programs: Option<Arc<dyn Programs>>,
}

impl MachineConfig {
    /// Creates the configuration of a node whose containers start and stop at once.
    pub fn new(node_name: &str, disk: Arc<dyn Disk>) -> Self {
        let node_name = node_name.to_owned();
        let container_start = (Duration::ZERO, Duration::ZERO);
        Self { node_name, disk, container_start, container_stop: Duration::ZERO, programs: None }
    }
}

/// Starts a container runtime within process `ctx`. Its containers are tasks of that process.
pub fn start(ctx: &Ctx, config: MachineConfig) -> HttpService {
    let machine = Machine {
        ctx: ctx.clone(),
        node: config.node_name.as_str().into(),
        config,
        chains: Chains::default(),
        inner: Mutex::default(),
        changes: latest::Sender::new(()),
    };
    service::service(Arc::new(machine))
}

/// Shared state of one runtime.
struct Machine {
    ctx: Ctx,
    node: Arc<str>,
    config: MachineConfig,
    chains: Chains,
    inner: Mutex<Inner>,
    changes: latest::Sender<()>,
}

#[derive(Default)]
struct Inner {
    pods: Pods,
    handles: BTreeMap<String, Handle>,
    /// Followers of the event stream, in the order of their arrival.
    followers: Vec<mpsc::UnboundedSender<Bytes>>,
}

/// Runtime's state of a pod besides its record.
struct Handle {
    spec: Arc<PodSpec>,
    orders: latest::Sender<Orders>,
    /// Logs by container.
    logs: BTreeMap<String, Logs>,
    /// Signals to its containers. Present while containers may be started.
    signals: Option<Signals>,
    /// Running programs, by container.
    programs: BTreeMap<String, Arc<dyn Program>>,
    /// Signals to running modelled containers, by container.
    modelled: BTreeMap<String, Arc<Own>>,
}

/// Logs of a container on this machine.
struct Logs {
    /// Number of starts before the latest one.
    attempt: u32,
    /// Log of the latest start.
    latest: Arc<LogFile>,
    /// Log of the start before, with its number.
    previous: Option<(u32, Arc<LogFile>)>,
}

impl Logs {
    /// Returns the logs of a container that starts after `before`.
    fn new(attempt: u32, before: Option<&Self>) -> Self {
        let previous = before.map(|before| (before.attempt, before.latest.clone()));
        Self { attempt, latest: LogFile::new(), previous }
    }

    /// Returns the log of one start.
    fn of(&self, attempt: u32) -> Option<&Arc<LogFile>> {
        let previous = self.previous.as_ref().filter(|(number, _)| *number == attempt).map(|(_, log)| log);
        if attempt == self.attempt { Some(&self.latest) } else { previous }
    }
}

impl Inner {
    fn notify(&mut self, news: &News) {
        let line = line(news);
        self.followers.retain(|follower| follower.send(line.clone()).is_ok());
    }
}

/// Encodes a line of the event stream.
fn line(news: &News) -> Bytes {
    substrate::encode::line(news).into()
}

impl Machine {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock()
    }

    /// Starts a pod's containers unless they run, and waits until they do. A stopped pod is not restarted. An error says
    /// why the pod cannot start.
    async fn run(self: &Arc<Self>, spec: PodSpec) -> Result<PodRecord, String> {
        let uid = spec.uid.clone();
        let mut changes = self.changes.subscribe();
        let mut record = self.begin(spec)?;
        while record.state == api::State::Starting {
            // The sender lives in `self`.
            let _ = changes.changed().await;
            match self.lock().pods.get(&uid) {
                Some(now) => record = now.clone(),
                None => return Ok(record),
            }
        }
        Ok(record)
    }

    fn begin(self: &Arc<Self>, spec: PodSpec) -> Result<PodRecord, String> {
        let mut inner = self.lock();
        let record = match inner.pods.ask(&spec) {
            Asked::Alive(record) | Asked::Over(record) => return Ok(record),
            Asked::Start(record) => record,
            Asked::Full => return Err(format!("no address is left: {POD_ADDRESSES} pods run on this node")),
        };
        let (before, spec) = (inner.handles.remove(&spec.uid), Arc::new(spec));
        let logs = spec.containers.iter().map(|container| {
            let before = before.as_ref().and_then(|before| before.logs.get(&container.name));
            (container.name.clone(), Logs::new(container.attempt, before))
        });
        let mut logs: BTreeMap<String, Logs> = logs.collect();
        // The logs of containers that were added to the pod stay.
        for (name, log) in before.map(|before| before.logs).unwrap_or_default() {
            logs.entry(name).or_insert(log);
        }
        let orders = latest::Sender::new(Orders::default());
        let reported = orders.subscribe();
        let (programs, modelled) = (BTreeMap::new(), BTreeMap::new());
        let handle = Handle { spec: spec.clone(), orders, logs, signals: None, programs, modelled };
        inner.handles.insert(spec.uid.clone(), handle);
        inner.notify(&News::Pod(record.clone()));
        drop(inner);
        self.ctx.spawn(pod::live(self.clone(), spec, reported));
        Ok(record)
    }

    /// Starts the containers of a pod.
    fn started(self: &Arc<Self>, spec: &Arc<PodSpec>, signals: Signals) {
        let now = self.ctx.now().wall;
        let mut inner = self.lock();
        let handle = inner.handles.get_mut(&spec.uid).expect("a pod that starts has a handle");
        for (index, container) in spec.containers.iter().enumerate().filter(|(_, one)| spec.starts_at_once(one)) {
            let log = handle.logs[&container.name].latest.clone();
            if container.init {
                log.print(&self.ctx, &format!("done: an init container of image {:?} is not run", container.image));
                log.close();
            } else {
                container::start(self, spec, index, log, signals.clone());
            }
        }
        handle.signals = Some(signals);
        drop(inner);
        self.change(|pods| pods.started(spec, now));
    }

    /// Starts a container again after its exit, or for the first time after the init containers. `renewed` replaces it.
    ///
    /// # Errors
    /// The reason why it cannot be started.
    fn restart(
        self: &Arc<Self>,
        uid: &str,
        container: &str,
        attempt: u32,
        renewed: Option<ContainerSpec>,
    ) -> Result<PodRecord, &'static str> {
        let now = self.ctx.now().wall;
        let mut inner = self.lock();
        let signals = inner.handles.get(uid).and_then(|handle| handle.signals.clone());
        let signals = signals.ok_or("the pod does not run")?;
        let mut record = match inner.pods.restart(uid, container, attempt, now) {
            Again::Start(record) => record,
            Again::Done(record) => return Ok(record),
            Again::Impossible => return Err("the pod has no such container"),
        };
        if let Some(renewed) = &renewed {
            record = inner.pods.renewed(uid, renewed).expect("it has a record");
        }
        let handle = inner.handles.get_mut(uid).expect("it was there");
        let index = handle.spec.containers.iter().position(|one| one.name == container).expect("it has a record");
        if let Some(renewed) = renewed {
            let mut spec = PodSpec::clone(&handle.spec);
            spec.containers[index] = renewed;
            handle.spec = Arc::new(spec);
        }
        let logs = Logs::new(attempt, handle.logs.get(container));
        container::start(self, &handle.spec, index, logs.latest.clone(), signals);
        handle.logs.insert(container.to_owned(), logs);
        inner.notify(&News::Pod(record.clone()));
        Ok(record)
    }

    /// Keeps the running program of a container.
    fn runs(&self, uid: &str, container: &str, program: Arc<dyn Program>) {
        if let Some(handle) = self.lock().handles.get_mut(uid) {
            handle.programs.insert(container.to_owned(), program);
        }
        self.changes.send_replace(());
    }

    /// Keeps the signals to a modelled container that runs.
    fn runs_modelled(&self, uid: &str, container: &str, own: Arc<Own>) {
        if let Some(handle) = self.lock().handles.get_mut(uid) {
            handle.modelled.insert(container.to_owned(), own);
        }
    }

    /// Asks one container to stop within `grace`. Returns false if it does not run.
    fn stop_container(self: &Arc<Self>, uid: &str, container: &str, grace: Duration) -> bool {
        let own = self.lock().handles.get(uid).and_then(|handle| handle.modelled.get(container).cloned());
        if let Some(own) = own {
            own.stop.send_replace(true);
            let (ctx, mut over) = (self.ctx.clone(), own.kill.subscribe());
            self.ctx.spawn(async move {
                tokio::select! { biased;
                    _ = over.wait_for(|over| *over) => {}
                    () = ctx.sleep(grace) => {
                        own.kill.send_replace(true);
                    }
                }
            });
            return true;
        }
        let Ok(program) = self.program(uid, container) else { return false };
        program.terminate();
        let (ctx, machine) = (self.ctx.clone(), Arc::downgrade(self));
        let (uid, container) = (uid.to_owned(), container.to_owned());
        self.ctx.spawn(async move {
            ctx.sleep(grace).await;
            let Some(machine) = machine.upgrade() else { return };
            let inner = machine.lock();
            let now = inner.handles.get(&uid).and_then(|handle| handle.programs.get(&container));
            if now.is_some_and(|now| Arc::ptr_eq(now, &program)) {
                program.kill();
            }
        });
        true
    }

    /// Returns the program of a container, in which users may start others.
    ///
    /// # Errors
    /// The reason why there is none.
    fn program(&self, uid: &str, container: &str) -> Result<Arc<dyn Program>, String> {
        let inner = self.lock();
        let handle = inner.handles.get(uid).ok_or("the pod is not on this machine")?;
        let is_modelled = |spec: &api::ContainerSpec| spec.name == container && spec.program.is_none() && !spec.held;
        if handle.spec.containers.iter().any(is_modelled) {
            return Err(format!(
                "container {container} is a modelled workload, which runs no program; start Mooring with \
                 `--containers process` and give the container a `command`"
            ));
        }
        Ok(handle.programs.get(container).cloned().ok_or("the container is not running")?)
    }

    /// Returns the same once the program of a container that starts is there.
    async fn started_program(&self, uid: &str, container: &str) -> Result<Arc<dyn Program>, String> {
        let mut changes = self.changes.subscribe();
        loop {
            let found = self.program(uid, container);
            if found.is_ok() || !self.starts_program(uid, container) {
                return found;
            }
            // The sender lives in `self`.
            let _ = changes.changed().await;
        }
    }

    /// Returns true if a container runs whose program is not there yet.
    fn starts_program(&self, uid: &str, container: &str) -> bool {
        let inner = self.lock();
        let record = inner.pods.get(uid).and_then(|pod| pod.container(container));
        let runs = record.is_some_and(|one| matches!(one.state, api::ContainerState::Running { .. }));
        let Some(handle) = inner.handles.get(uid) else { return false };
        let has_program = |one: &api::ContainerSpec| one.name == container && one.program.is_some();
        runs && handle.spec.containers.iter().any(has_program) && !handle.programs.contains_key(container)
    }

    fn exited(&self, uid: &str, container: &str, code: i32, message: String) {
        if let Some(handle) = self.lock().handles.get_mut(uid) {
            handle.programs.remove(container);
            handle.modelled.remove(container);
        }
        let now = self.ctx.now().wall;
        self.change(|pods| {
            pods.left_message(uid, container, message);
            pods.exited(uid, container, now, code)
        });
    }

    /// Returns the signals of a pod. From now on none of its containers is started.
    fn take_signals(&self, uid: &str) -> Signals {
        let mut inner = self.lock();
        let handle = inner.handles.get_mut(uid).expect("a pod that runs has a handle");
        handle.signals.take().expect("a pod stops once")
    }

    fn stopped(&self, uid: &str) {
        let now = self.ctx.now().wall;
        let inner = self.lock();
        if let Some(handle) = inner.handles.get(uid) {
            handle.logs.values().for_each(|logs| logs.latest.close());
        }
        drop(inner);
        self.change(|pods| pods.stopped(uid, now));
    }

    fn change(&self, act: impl FnOnce(&mut Pods) -> Option<PodRecord>) {
        let mut inner = self.lock();
        if let Some(record) = act(&mut inner.pods) {
            inner.notify(&News::Pod(record));
        }
        drop(inner);
        self.changes.send_replace(());
    }

    /// Asks a pod's containers to stop within `grace` from the first request on. Returns the pod's record.
    fn stop(&self, uid: &str, grace: Duration) -> Option<PodRecord> {
        let now = self.ctx.now().mono;
        let inner = self.lock();
        let record = inner.pods.get(uid)?.clone();
        if let Some(handle) = inner.handles.get(uid).filter(|_| record.is_alive()) {
            handle.orders.send_if_modified(|orders| {
                let before = *orders;
                *orders = Orders { asked: Some(orders.asked.unwrap_or(now)), grace };
                *orders != before
            });
        }
        Some(record)
    }

    /// Removes a pod and its logs.
    fn remove(&self, uid: &str) -> Result<bool, String> {
        let mut inner = self.lock();
        let was = inner.pods.remove(uid)?;
        inner.handles.remove(uid);
        if let Some(programs) = self.config.programs.as_ref().filter(|_| was) {
            programs.forget(uid);
        }
        if was {
            inner.notify(&News::Removed(uid.to_owned()));
        }
        Ok(was)
    }

    /// Returns all pods, and a receiver of the events from now on.
    fn follow(&self) -> (Bytes, mpsc::UnboundedReceiver<Bytes>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut inner = self.lock();
        inner.followers.push(sender);
        (line(&News::List(inner.pods.list())), receiver)
    }

    fn list(&self) -> Vec<PodRecord> {
        self.lock().pods.list()
    }

    /// Returns the log of a container's start number `attempt`, or of its latest start.
    fn log(&self, uid: &str, container: &str, attempt: Option<u32>) -> Option<Arc<LogFile>> {
        let inner = self.lock();
        let logs = inner.handles.get(uid)?.logs.get(container)?;
        attempt.map_or(Some(&logs.latest), |attempt| logs.of(attempt)).cloned()
    }

    fn trouble(&self, trouble: Trouble) {
        self.lock().notify(&News::Trouble(trouble));
    }
}
