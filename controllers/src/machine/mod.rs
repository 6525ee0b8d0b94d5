//! The container runtime of a machine, in the role of containerd.
//!
//! Containers belong to the machine. They outlive the kubelet that requested them; it finds them again after a restart.
//! They end without a notice when the machine's process ends. Here each container is a modelled workload that writes
//! records to the pod's volumes. A kubelet talks to the runtime over HTTP: it runs, stops and removes the containers of
//! a pod, reads their logs, and follows an event stream.

pub mod api;
mod cli;
pub mod container_log;
pub mod events;
pub mod follow;
mod log_file;
mod pod;
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
use csi_mock::disk::Disk;
use substrate::{Ctx, HttpService, latest};
use tokio::sync::mpsc;

use api::{News, PodRecord, PodSpec, Trouble};
pub use cli::machine_main_with;
use log_file::LogFile;
use pod::Orders;
pub use query::query;
use state::{Asked, Pods};
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
}

impl MachineConfig {
    /// Creates the configuration of a node whose containers start and stop at once.
    pub fn new(node_name: &str, disk: Arc<dyn Disk>) -> Self {
        let node_name = node_name.to_owned();
        Self { node_name, disk, container_start: (Duration::ZERO, Duration::ZERO), container_stop: Duration::ZERO }
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
    orders: latest::Sender<Orders>,
    /// Logs by container.
    logs: BTreeMap<String, Arc<LogFile>>,
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

    /// Starts a pod's containers unless they run, and waits until they do. Stopped containers are not restarted.
    async fn run(self: &Arc<Self>, spec: PodSpec) -> PodRecord {
        let uid = spec.uid.clone();
        let mut changes = self.changes.subscribe();
        let mut record = self.begin(spec);
        while record.state == api::State::Starting {
            // The sender lives in `self`.
            let _ = changes.changed().await;
            match self.lock().pods.get(&uid) {
                Some(now) => record = now.clone(),
                None => return record,
            }
        }
        record
    }

    fn begin(self: &Arc<Self>, spec: PodSpec) -> PodRecord {
        let mut inner = self.lock();
        let record = match inner.pods.ask(&spec) {
            Asked::Alive(record) | Asked::Over(record) => return record,
            Asked::Start(record) => record,
        };
        let files: Vec<Arc<LogFile>> = spec.containers.iter().map(|_| LogFile::new()).collect();
        let logs = spec.containers.iter().map(|c| c.name.clone()).zip(files.iter().cloned()).collect();
        let orders = latest::Sender::new(Orders::default());
        let reported = orders.subscribe();
        inner.handles.insert(spec.uid.clone(), Handle { orders, logs });
        inner.notify(&News::Pod(record.clone()));
        drop(inner);
        self.ctx.spawn(pod::live(self.clone(), spec, files, reported));
        record
    }

    fn started(&self, uid: &str) {
        let now = self.ctx.now().wall;
        self.change(|pods| pods.started(uid, now));
    }

    fn stopped(&self, uid: &str, killed: bool) {
        let now = self.ctx.now().wall;
        self.change(|pods| pods.stopped(uid, now, killed));
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
    fn remove(&self, uid: &str) -> Result<bool, PodRecord> {
        let mut inner = self.lock();
        let was = inner.pods.remove(uid)?;
        inner.handles.remove(uid);
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

    fn log(&self, uid: &str, container: &str) -> Option<Arc<LogFile>> {
        self.lock().handles.get(uid)?.logs.get(container).cloned()
    }

    fn trouble(&self, trouble: Trouble) {
        self.lock().notify(&News::Trouble(trouble));
    }
}
