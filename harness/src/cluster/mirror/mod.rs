//! Control loops and drivers as pods of kube-system with their own logs, in `mooring up`. So kubectl shows the same
//! pods as in production. Also warns the creator of an object that no control loop handles.
//!
//! The process `mirror` creates these pods and keeps their status. The scheduler, the node agent and pod GC ignore them.

mod drivers;
mod log;
mod pods;
mod reconciler;
mod serve;
mod suspects;
#[cfg(test)]
mod tests;
pub(super) mod text;
pub(super) use parking_lot::{Mutex, MutexGuard};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;

use controllers::events as loops;
use controllers::kube::Client;
use controllers::node_agent::PLUGINS_REGISTRY;
use csi_disk::events::PlugDisconnected;
use csi_mock::events::{Ec2Answered, Ec2Retry};
use fake_apiserver::events::{Commit, Load, Reset};
use fake_apiserver::state::EventType as Change;
use fake_apiserver::{LogDial, Unserved as Warnings};
use mock_ec2::events::RequestEnded as CloudRequest;
use serde_json::Value;
use substrate::events::{ProcessCrashed, ProcessFailed, ProcessPanicked, ProcessStarted};
use substrate::fault::Names;
use substrate::{Clock, Event, EventType, HttpService, Process, World, latest};

use self::drivers::Drivers;
use self::log::ComponentLog;
use self::pods::{MirrorPod, NAMESPACE};
use self::suspects::Suspect;
use self::text::Wording;
use super::{ClusterSpec, names};
use crate::events::ProgramStarted;
use crate::program::Sink;
use crate::spec::unserved::{Row, Unserved};
use crate::wiring::Wiring;

/// Maximum number of objects that wait to be examined.
const MOST: usize = 1_000;
/// The process that keeps the pods.
const PROCESS: &str = "mirror";
/// User agent of the reconciler.
const USER_AGENT: &str = "mooring-mirror";

/// Kinds of events that belong in a component's log and that are emitted only for subscribers.
const SUBSCRIBED: [&str; 14] = [
    loops::AttacherError::KIND,
    loops::BinderError::KIND,
    loops::CsiAnswered::KIND,
    loops::CsiAsked::KIND,
    loops::CsiUnreached::KIND,
    loops::EventLost::KIND,
    loops::InformerError::KIND,
    loops::PodCollected::KIND,
    loops::ProvisionerError::KIND,
    loops::SchedulerError::KIND,
    Ec2Answered::KIND,
    Ec2Retry::KIND,
    PlugDisconnected::KIND,
    CloudRequest::KIND,
];

/// A created object that no control loop handles.
struct Created {
    row: &'static Row,
    /// `namespace/name`, or `name`.
    key: Arc<str>,
}

struct Inner {
    clock: Clock,
    names: Names,
    components: BTreeSet<String>,
    pods: Vec<MirrorPod>,
    unserved: Unserved,
    /// Directories in which kubelets look for drivers of the user, by node.
    registries: BTreeMap<String, PathBuf>,
    wording: Wording,
    log: Mutex<ComponentLog>,
    /// Signals that the log has grown or a process has ended.
    grown: latest::Sender<()>,
    news: Mutex<News>,
    /// Signals that there is news for the reconciler.
    changed: latest::Sender<()>,
}

/// News for the reconciler.
#[derive(Default)]
struct News {
    created: VecDeque<Created>,
    /// Readiness of nodes.
    ready: BTreeMap<Arc<str>, bool>,
    /// Nodes that have become ready again; the status of their pods is rewritten.
    recovered: BTreeSet<Arc<str>>,
    /// Drivers of the nodes.
    drivers: Drivers,
    /// Objects that may wait for a driver.
    suspects: BTreeSet<Suspect>,
}

/// Stand-in pods of a cluster's components, and their logs. Clones share the state.
#[derive(Clone)]
pub(super) struct Mirrors(Arc<Inner>);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

impl Mirrors {
    /// Creates the stand-ins of a cluster of `spec`, which observe `world` from its first event.
    pub fn new(world: &World, spec: &ClusterSpec, roots: &BTreeMap<String, PathBuf>) -> Self {
        let names = names::of(spec);
        let inner = Arc::new(Inner {
            clock: world.clock().clone(),
            components: names.processes.iter().cloned().collect(),
            names,
            pods: pods::of(spec),
            unserved: Unserved::without(&spec.without),
            registries: roots
                .iter()
                .filter(|_| spec.without.contains("csi-mock"))
                .map(|(node, root)| (node.clone(), root.join(PLUGINS_REGISTRY)))
                .collect(),
            wording: Wording::new(&crate::events::all()),
            log: Mutex::default(),
            grown: latest::Sender::new(()),
            news: Mutex::default(),
            changed: latest::Sender::new(()),
        });
        SUBSCRIBED.iter().for_each(|kind| world.trace().subscribe(kind));
        let observer = inner.clone();
        world.trace().observe(move |event| observer.observe(event));
        Self(inner)
    }

    /// Warnings that the API server sends for kinds that no control loop handles.
    pub fn warnings(&self) -> Warnings {
        let unserved = self.0.unserved;
        Arc::new(move |group, kind| unserved.warning(group, kind))
    }

    /// Returns the dialer through which the API server reads the logs of these pods. The log of a pod on a node is read
    /// through the node's kubelet, and is not available while that is down.
    pub fn dial(&self, wiring: &Arc<dyn Wiring>) -> LogDial {
        let (inner, wiring) = (self.0.clone(), wiring.clone());
        Arc::new(move |ctx, namespace, name| {
            let pod = inner.pods.iter().find(|pod| namespace == NAMESPACE && pod.name == name)?;
            let kubelet =
                inner.names.nodes.contains(&pod.node).then(|| wiring.connect(ctx, &format!("kubelet-{}", pod.node)));
            let metrics = |process: &str| wiring.connect(ctx, &names::metrics(process));
            let ports =
                pod.containers.iter().filter_map(|container| Some((container.port?, metrics(&container.process))));
            Some(serve::container(&inner, pod, kubelet, ports.collect()))
        })
    }

    /// Service for the logs of all components.
    pub fn logs(&self) -> HttpService {
        serve::components(&self.0)
    }

    /// Nodes without any driver, for `mooring status`: each with its name, the time since then, and the directory in
    /// which its kubelet looks.
    pub fn bare_nodes(&self) -> Vec<Value> {
        lock(&self.0.news).drivers.bare(self.0.clock.wall(), |node| self.0.registry(node))
    }

    /// Returns a sink for the lines that the user's program `name` prints.
    pub fn sink(&self, name: &str) -> Sink {
        let (inner, process): (_, Arc<str>) = (self.0.clone(), name.into());
        Arc::new(move |line| {
            lock(&inner.log).write(inner.clock.wall(), &process, ProgramStarted::KIND, line);
            inner.grown.send_replace(());
        })
    }

    /// Starts the process that keeps the pods.
    pub fn start(&self, world: &World, wiring: &Arc<dyn Wiring>) -> Process {
        let (inner, wiring) = (self.0.clone(), wiring.clone());
        Process::start(world, PROCESS, move |ctx| {
            let (inner, wiring) = (inner.clone(), wiring.clone());
            async move {
                match wiring.connect(&ctx, "apiserver") {
                    Ok(apiserver) => reconciler::run(&ctx, Client::new(&ctx, apiserver, USER_AGENT), &inner).await,
                    Err(error) => ctx.emit(ProcessFailed { error }),
                }
            }
        })
    }
}

impl Inner {
    /// Returns the directory in which the kubelet of `node` looks for a driver of the user.
    fn registry(&self, node: &str) -> Option<PathBuf> {
        self.registries.get(node).cloned()
    }

    fn observe(&self, event: &Event) {
        let is_component = self.components.contains(&*event.process);
        let at = self.clock.wall();
        if is_component {
            let mut log = lock(&self.log);
            let started = event.get::<ProcessStarted>();
            if let Some(started) = started {
                log.started(at, &event.process, started.incarnation);
            }
            let message = self.wording.line(at, event);
            if let Some(line) = &message {
                log.write(at, &event.process, event.kind(), line);
            }
            let ended = event.is::<ProcessCrashed>() || event.is::<ProcessPanicked>() || event.is::<ProcessFailed>();
            if ended {
                log.ended(at, &event.process);
            }
            drop(log);
            if message.is_some() || ended {
                self.grown.send_replace(());
            }
            if started.is_some() || ended {
                self.changed.send_replace(());
            }
        }
        if let Some(commit) = event.get::<Commit>() {
            if self.notice(commit) {
                self.changed.send_replace(());
            }
        } else if event.is::<Reset>() || event.is::<Load>() {
            *lock(&self.news) = News::default();
            self.changed.send_replace(());
        }
    }

    /// Records a commit for the reconciler. Returns true if the reconciler must look at it.
    fn notice(&self, commit: &Commit) -> bool {
        let mut news = lock(&self.news);
        news.drivers.learn(self.clock.wall(), commit);
        match (&*commit.resource, commit.r#type) {
            ("persistentvolumeclaims", change) if change != Change::Deleted => {
                let is_bound = commit.pvc.as_ref().is_some_and(|claim| claim.phase.as_deref() == Some("Bound"));
                !is_bound && news.suspects.len() < MOST && news.suspects.insert(Suspect::Claim(commit.object.clone()))
            }
            ("volumeattachments", Change::Added) => {
                news.suspects.len() < MOST && news.suspects.insert(Suspect::Attachment(commit.object.clone()))
            }
            ("nodes", Change::Deleted) => {
                news.ready.remove(&commit.object);
                true
            }
            ("nodes", change) => {
                let ready = commit.node.as_ref().is_some_and(|node| node.ready.as_deref() == Some("True"));
                let before = news.ready.insert(commit.object.clone(), ready);
                let recovers = ready && before == Some(false);
                if recovers {
                    news.recovered.insert(commit.object.clone());
                }
                recovers || change == Change::Added
            }
            ("pods", change) => {
                let deleting = commit.pod.as_ref().is_some_and(|pod| pod.deleting);
                let name = commit.object.strip_prefix(NAMESPACE).and_then(|rest| rest.strip_prefix('/'));
                (deleting || change == Change::Deleted)
                    && name.is_some_and(|name| self.pods.iter().any(|pod| pod.name == name))
            }
            (plural, Change::Added) => {
                let found = self.unserved.find(commit.group.as_deref(), plural);
                news.created.extend(found.map(|row| Created { row, key: commit.object.clone() }));
                found.is_some()
            }
            _ => false,
        }
    }
}
