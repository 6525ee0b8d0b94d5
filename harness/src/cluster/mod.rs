//! A cluster and its cloud, put together in either world.

pub mod assemble;
mod faults;
mod foreign;
pub mod live;
mod member;
pub mod namespace;
mod processes;
mod secret;
mod simulated;
mod sockets;
pub mod spec;
mod story;
mod supervisor;
pub mod wiring;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use csi_mock::disk::Disk;
use substrate::{HttpService, World, WorldKind};

use crate::runner::Objects;
pub use assemble::ClusterError;
use member::Member;
pub use secret::Secret;
pub use spec::{ClusterSpec, NodeSpec};
use story::Story;

/// A running cluster.
pub struct Cluster {
    world: World,
    spec: ClusterSpec,
    objects: Objects,
    ec2: HttpService,
    nodes: BTreeMap<String, Node>,
    members: BTreeMap<String, Member>,
    down: Arc<Mutex<BTreeSet<String>>>,
    story: Arc<Story>,
    endpoints: Option<Endpoints>,
    /// Where faults act when components are OS processes.
    desks: Option<faults::Desks>,
}

/// Where users reach a live cluster.
#[derive(Clone, Debug)]
pub struct Endpoints {
    /// The cloud, `http://…`.
    pub ec2: String,
    /// The API server with TLS, `https://…`.
    pub kubernetes: String,
    /// The API server without TLS, `http://…`.
    pub kubernetes_http: String,
    /// The CA of the API server's certificate, PEM.
    pub ca_pem: String,
    /// The CSI driver's controller service, `unix://…` or `tcp://…`.
    pub csi: String,
    /// Where the cloud keeps the volumes' bytes.
    pub volume_dir: PathBuf,
    /// Where a driver finds the nodes.
    pub machines: Vec<Machine>,
    /// The metadata service of each instance.
    pub imds: Vec<Metadata>,
    /// What clients of the API server with TLS send as bearer token; without one anything will do.
    pub token: Option<Secret>,
}

/// What a driver has to know of a node.
#[derive(Clone, Debug, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Machine {
    /// The node.
    pub node: String,
    /// Its instance.
    pub instance: String,
    /// kubelet's directory: every path of a node request lies below it.
    pub root: PathBuf,
    /// Where kubelet looks for registration sockets when the driver is somebody else's.
    pub plugins_registry: PathBuf,
}

/// Where an instance's metadata service is.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Metadata {
    /// The node.
    pub node: String,
    /// Its instance.
    pub instance: String,
    /// `http://…`.
    pub endpoint: String,
}

#[derive(Clone)]
struct Node {
    /// The id of its instance.
    instance: String,
    /// What crashes when the machine does; ended last to first, started first to last.
    members: Vec<Member>,
    disk: Arc<dyn Disk>,
}

impl Cluster {
    fn new(
        world: &World,
        spec: ClusterSpec,
        objects: HttpService,
        ec2: HttpService,
        nodes: BTreeMap<String, Node>,
        members: BTreeMap<String, Member>,
    ) -> Self {
        let story = Arc::new(Story::default());
        {
            let story = story.clone();
            world.trace().observe(move |event| story.observe(event));
        }
        Self {
            world: world.clone(),
            spec,
            objects: Objects::new(objects),
            ec2,
            nodes,
            members,
            down: Arc::default(),
            story,
            endpoints: None,
            desks: None,
        }
    }

    /// The world that it runs in.
    pub fn world(&self) -> &World {
        &self.world
    }

    /// What it is made of.
    pub fn spec(&self) -> &ClusterSpec {
        &self.spec
    }

    /// The user's client of the API server.
    pub fn objects(&self) -> &Objects {
        &self.objects
    }

    /// The operator's client of the cloud.
    pub fn ec2(&self) -> &HttpService {
        &self.ec2
    }

    /// The disk of a node.
    pub fn disk(&self, node: &str) -> Option<&Arc<dyn Disk>> {
        self.nodes.get(node).map(|node| &node.disk)
    }

    /// Cuts a node's power: its processes end, its mounts and devices vanish, unsynced writes are lost.
    ///
    /// # Errors
    /// When there is no such node, or the disk cannot be pulled.
    pub async fn crash(&self, node: &str) -> Result<(), String> {
        let found = self.nodes.get(node).ok_or_else(|| format!("there is no node {node}"))?;
        self.down().insert(node.to_owned());
        if let Some(desks) = &self.desks {
            desks.leave(node).await;
        }
        for member in found.members.iter().rev() {
            member.crash().await;
        }
        found.disk.crash().await.map_err(|e| e.to_string())?;
        self.world.trace().info(&Arc::from("cluster"), "disk.crashed", serde_json::json!({ "node": node }));
        Ok(())
    }

    /// Starts a node again.
    ///
    /// # Errors
    /// When there is no such node, or it does not start.
    pub async fn restart(&self, node: &str) -> Result<(), String> {
        let found = self.nodes.get(node).ok_or_else(|| format!("there is no node {node}"))?;
        self.down().remove(node);
        for member in &found.members {
            member.restart().await?;
        }
        if let Some(desks) = &self.desks {
            desks.come_back(node).await?;
        }
        Ok(())
    }

    /// Ends all processes and pulls all disks, so that nothing of the cluster is left on this machine.
    pub async fn stop(&self) {
        for member in self.nodes.values().flat_map(|node| &node.members).chain(self.members.values()) {
            member.crash().await;
        }
        if self.is_simulated() {
            return;
        }
        for (name, node) in &self.nodes {
            if let Err(error) = node.disk.crash().await {
                eprintln!("warning: the disk of {name} could not be taken down: {error}");
            }
        }
    }

    /// Where users reach it; nothing in simulation.
    pub fn endpoints(&self) -> Option<&Endpoints> {
        self.endpoints.as_ref()
    }

    /// What carries the bytes of its volumes.
    pub fn backend(&self) -> String {
        self.nodes.values().next().map_or_else(|| "no".to_owned(), |node| node.disk.backend().to_string())
    }

    /// The nodes that were crashed and not restarted.
    pub fn down_nodes(&self) -> Vec<String> {
        self.down().iter().cloned().collect()
    }

    /// How many records the workload of a pod (`namespace/name`) found at its last start, and whether they were intact.
    pub fn records_found(&self, pod: &str) -> Option<(u64, bool)> {
        self.story.found(pod)
    }

    /// How many records the workload of a pod has synced.
    pub fn records_synced(&self, pod: &str) -> u64 {
        self.story.synced(pod)
    }

    /// Whether time is virtual.
    pub fn is_simulated(&self) -> bool {
        self.world.kind() == WorldKind::Simulated
    }

    /// A duration of the scenario in the world's time.
    pub fn scaled(&self, duration: Duration) -> Duration {
        self.world.scale().apply(duration)
    }

    /// A duration of the world in the scenario's time.
    pub fn unscaled(&self, duration: Duration) -> Duration {
        duration.mul_f64(self.world.scale().factor())
    }

    /// How long a look at the cluster waits after a sign of change, so that a burst of changes is looked at once.
    pub fn settle(&self) -> Duration {
        Duration::from_millis(10)
    }

    /// How long a waiting step trusts that signs of change reach it.
    pub fn poll(&self) -> Duration {
        if self.is_simulated() { Duration::from_secs(2) } else { Duration::from_millis(100) }
    }

    fn down(&self) -> std::sync::MutexGuard<'_, BTreeSet<String>> {
        self.down.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
