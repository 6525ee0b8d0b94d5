//! Control loops and drivers as pods of kube-system, with their own logs, in `mooring up`: what is looked at with
//! kubectl in production can be looked at here. And who creates an object that no loop works on is told.
//!
//! Nobody counts these pods: a process of its own, `mirror`, makes them and keeps them as the processes are.

mod drivers;
mod keeper;
mod log;
mod pods;
mod serve;
mod suspects;
#[cfg(test)]
mod tests;
pub(super) mod text;
pub(super) mod unserved;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use controllers::events as loops;
use controllers::kube::Client;
use controllers::node_agent::PLUGINS_REGISTRY;
use csi_mock::events::{Ec2Answered, Ec2Retry, PlugDisconnected};
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
use self::unserved::{Row, Unserved};
use super::wiring::Wiring;
use super::{ClusterSpec, names};
use crate::events::ProgramStarted;
use crate::program::Sink;

/// As many objects wait to be looked at.
const MOST: usize = 1_000;
/// The process that keeps the pods.
const PROCESS: &str = "mirror";
/// What the keeper calls itself.
const USER_AGENT: &str = "mooring-mirror";

/// What belongs in a component's log, and is told only to who asks.
const HEARD: [&str; 14] = [
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

/// An object that was created and that no loop works on.
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
    /// The directories in which kubelets look for drivers that are somebody else's.
    registries: BTreeMap<String, PathBuf>,
    wording: Wording,
    log: Mutex<ComponentLog>,
    /// The log has grown, or a process has ended.
    grown: latest::Sender<()>,
    news: Mutex<News>,
    /// There is something for the keeper to look at.
    changed: latest::Sender<()>,
}

/// What the keeper has to look at.
#[derive(Default)]
struct News {
    created: VecDeque<Created>,
    /// Which nodes are ready.
    ready: BTreeMap<Arc<str>, bool>,
    /// Nodes that have become ready, whose pods are ready again too.
    recovered: BTreeSet<Arc<str>>,
    /// The drivers of nodes.
    drivers: Drivers,
    /// Objects that may wait for one.
    suspects: BTreeSet<Suspect>,
}

/// The stand-ins of a cluster's components, and their logs. Clones are the same.
#[derive(Clone)]
pub(super) struct Mirrors(Arc<Inner>);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Mirrors {
    /// Those of a cluster of `spec`, from the first event of `world` on.
    pub fn new(world: &World, spec: &ClusterSpec, roots: &BTreeMap<String, PathBuf>) -> Self {
        let names = names::of(spec);
        let foreign_manager = controllers::manager_is_left_out(&spec.without);
        let inner = Arc::new(Inner {
            clock: world.clock().clone(),
            components: names.processes.iter().cloned().collect(),
            names,
            pods: pods::of(spec),
            unserved: Unserved { foreign_manager },
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
        HEARD.iter().for_each(|kind| world.trace().hear(kind));
        let observer = inner.clone();
        world.trace().observe(move |event| observer.observe(event));
        Self(inner)
    }

    /// What the API server warns of.
    pub fn warnings(&self) -> Warnings {
        let unserved = self.0.unserved;
        Arc::new(move |group, kind| unserved.warning(group, kind))
    }

    /// Where the API server reads the logs of these pods. A pod of a node is read through the node's kubelet: when that
    /// is down, so is the log.
    pub fn dial(&self, wiring: &Arc<dyn Wiring>) -> LogDial {
        let (inner, wiring) = (self.0.clone(), wiring.clone());
        Arc::new(move |ctx, namespace, name| {
            let pod = inner.pods.iter().find(|pod| namespace == NAMESPACE && pod.name == name)?;
            let kubelet =
                inner.names.nodes.contains(&pod.node).then(|| wiring.connect(ctx, &format!("kubelet-{}", pod.node)));
            Some(serve::container(&inner, pod, kubelet))
        })
    }

    /// The logs of all components.
    pub fn logs(&self) -> HttpService {
        serve::components(&self.0)
    }

    /// The nodes without any driver, for `mooring status`: each with its name, since when, and where its kubelet looks.
    pub fn bare_nodes(&self) -> Vec<Value> {
        lock(&self.0.news).drivers.bare(self.0.clock.wall(), |node| self.0.registry(node))
    }

    /// Takes each line that the program `name` of the user's prints.
    pub fn sink(&self, name: &str) -> Sink {
        let (inner, process): (_, Arc<str>) = (self.0.clone(), name.into());
        Arc::new(move |line| {
            lock(&inner.log).write(inner.clock.wall(), &process, ProgramStarted::KIND, line);
            inner.grown.send_replace(());
        })
    }

    /// Starts to keep the pods.
    pub fn start(&self, world: &World, wiring: &Arc<dyn Wiring>) -> Process {
        let (inner, wiring) = (self.0.clone(), wiring.clone());
        Process::start(world, PROCESS, move |ctx| {
            let (inner, wiring) = (inner.clone(), wiring.clone());
            async move {
                match wiring.connect(&ctx, "apiserver") {
                    Ok(apiserver) => keeper::run(&ctx, Client::new(&ctx, apiserver, USER_AGENT), &inner).await,
                    Err(error) => ctx.emit(ProcessFailed { error }),
                }
            }
        })
    }
}

impl Inner {
    /// Returns the directory in which the kubelet of `node` looks for a driver that is not ours.
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
            let said = self.wording.line(at, event);
            if let Some(line) = &said {
                log.write(at, &event.process, event.kind(), line);
            }
            let ended = event.is::<ProcessCrashed>() || event.is::<ProcessPanicked>() || event.is::<ProcessFailed>();
            if ended {
                log.ended(at, &event.process);
            }
            drop(log);
            if said.is_some() || ended {
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

    /// Whether a commit is something for the keeper to look at.
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
