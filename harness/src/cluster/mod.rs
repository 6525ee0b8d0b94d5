//! A cluster and its cloud, assembled in either world.

pub(crate) mod access;
pub mod admin;
pub mod assemble;
mod checks;
pub(crate) mod cloud;
pub mod compose;
pub mod condition;
pub mod defaults;
mod endpoints;
mod faults;
mod foreign;
mod fresh;
mod guests;
pub mod live;
mod member;
pub mod metrics;
mod mirror;
pub mod namespace;
mod node_files;
mod nodes;
pub mod objects;
mod programs;
pub mod real;
mod reset;
pub(crate) mod settle;
mod simulated;
pub(crate) mod snapshots;
mod sockets;
mod supervisor;
pub(crate) mod teardown;
mod unable;
mod workload_results;
mod write_recorder;

use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use csi_disk::Disk;
use csi_disk::events::DiskCrashed;
use http::HeaderValue;
pub use substrate::admin::Secret;
use substrate::body::call;
use substrate::link::PROGRAM;
use substrate::{Ctx, HttpService, World, WorldKind};

use crate::program::Program;
pub use crate::spec::names;
pub use crate::spec::{ClusterSpec, NodeSpec};
use crate::wiring;
pub use assemble::ClusterError;
pub use checks::Checks;
pub use endpoints::{Endpoints, Machine, Metadata};
use member::Member;
pub use metrics::ProcessMetrics;
pub(crate) use mirror::text::Wording;
pub use objects::{ObjectError, Objects};
use workload_results::WorkloadResults;

/// Least wall-clock time that a time scale leaves the limit of a wait.
const LEAST_WAIT: Duration = Duration::from_secs(90);
/// Least wall-clock time that a time scale leaves the deadline of a scenario.
pub(crate) const LEAST_RUN: Duration = Duration::from_secs(5 * 60);

/// A running cluster.
pub struct Cluster {
    world: World,
    spec: ClusterSpec,
    objects: Objects,
    ec2: HttpService,
    nodes: BTreeMap<String, Node>,
    members: BTreeMap<String, Member>,
    down: Arc<Mutex<BTreeSet<String>>>,
    workload_results: Arc<WorkloadResults>,
    endpoints: Option<Endpoints>,
    /// The user, as a process of the world.
    user: Ctx,
    fault_reports: Arc<faults::FaultReports>,
    /// Stand-in pods of the components, and the process that keeps them.
    mirrors: Option<(mirror::Mirrors, substrate::Process)>,
    /// The cloud, if it is in this OS process.
    cloud: Option<mock_ec2::Ec2>,
    /// The EFS service, if the cluster has that driver.
    file_server: Option<csi_mock::efs::FileServer>,
    /// The listeners of the live world.
    sockets: Option<Arc<sockets::Sockets>>,
    /// Applies faults in containers.
    fault_admin: Option<Arc<compose::FaultAdmin>>,
    /// Processes that the user of the library has added.
    guests: guests::Guests,
    /// Connections between components of this OS process.
    wiring: Option<Arc<dyn wiring::Wiring>>,
    /// Starts further processes, if the components are in this OS process.
    context: Option<assemble::StartContext>,
    /// Starts the user's programs, once.
    launch: OnceLock<programs::Launch>,
    /// Writes to the API server, if a step compares them.
    write_recorder: Option<write_recorder::WriteRecorder>,
}

#[derive(Clone)]
struct Node {
    /// Id of its instance.
    instance: String,
    /// The machine and the processes on it. They are ended last to first and started first to last.
    members: Vec<Member>,
    disk: Arc<dyn Disk>,
    /// Kubelet directory of the node.
    root: PathBuf,
    /// Plugin registrations that kubelet watches.
    registry: node_files::Registry,
}

impl Cluster {
    fn new(
        world: &World,
        spec: ClusterSpec,
        objects: HttpService,
        ec2: HttpService,
        nodes: BTreeMap<String, Node>,
        members: BTreeMap<String, Member>,
        user: Ctx,
    ) -> Self {
        let fault_reports = Arc::<faults::FaultReports>::default();
        if members.values().any(Member::is_container) {
            fault_reports.follow(world);
        }
        let workload_results = Arc::new(WorkloadResults::default());
        {
            let workload_results = workload_results.clone();
            world.trace().observe(move |event| workload_results.observe(event));
        }
        Self {
            world: world.clone(),
            spec,
            objects: Objects::new(objects),
            ec2,
            nodes,
            members,
            down: Arc::default(),
            workload_results,
            endpoints: None,
            user,
            fault_reports,
            mirrors: None,
            cloud: None,
            file_server: None,
            sockets: None,
            fault_admin: None,
            guests: guests::Guests::default(),
            wiring: None,
            context: None,
            launch: OnceLock::new(),
            write_recorder: None,
        }
    }

    /// World in which it runs.
    pub fn world(&self) -> &World {
        &self.world
    }

    /// Specification of the cluster.
    pub fn spec(&self) -> &ClusterSpec {
        &self.spec
    }

    /// API client of the user.
    pub fn objects(&self) -> &Objects {
        &self.objects
    }

    /// Client of the cloud for the operator.
    pub fn ec2(&self) -> &HttpService {
        &self.ec2
    }

    /// Access points of the EFS service, oldest first; none without that driver.
    pub fn access_points(&self) -> Vec<csi_mock::efs::AccessPoint> {
        self.file_server.as_ref().map(csi_mock::efs::FileServer::access_points).unwrap_or_default()
    }

    /// Connects to a service of a driver, such as `csi-controller`, as the user. The driver records who calls.
    ///
    /// # Errors
    /// In a cluster of containers, whose drivers are not reachable.
    pub fn driver(&self, service: &str) -> Result<HttpService, String> {
        let wiring = self.wiring.as_ref().ok_or_else(|| format!("{service} is not reachable from here"))?;
        let driver = wiring.connect(&self.user, service)?;
        Ok(HttpService::new(move |mut request| {
            request.headers_mut().insert(PROGRAM, HeaderValue::from_static(names::RUNNER));
            call(driver.clone(), request)
        }))
    }

    /// Returns a client of the metrics of its processes.
    pub fn metrics(&self) -> ProcessMetrics {
        ProcessMetrics { user: self.user.clone(), wiring: self.wiring.clone() }
    }

    /// Kubelet directory of a node.
    pub fn root(&self, node: &str) -> Option<&std::path::Path> {
        self.nodes.get(node).map(|node| node.root.as_path())
    }

    /// Disk of a node.
    pub fn disk(&self, node: &str) -> Option<&Arc<dyn Disk>> {
        self.nodes.get(node).map(|node| &node.disk)
    }

    /// All processes that can be ended and started, by name.
    fn all_members(&self) -> BTreeMap<String, Member> {
        let on_nodes = self.nodes.values().flat_map(|node| &node.members);
        let own = self.members.values().chain(on_nodes).cloned().chain(self.guests.all());
        own.map(|member| (member.name().to_owned(), member)).collect()
    }

    /// Lets the cloud continue operations that an ended fault held up.
    fn refresh_cloud(&self) {
        let ctx = self.members.get("mock-ec2").and_then(|member| match member {
            Member::Task(process) => process.ctx(),
            Member::Container(_) | Member::Program(_) => None,
        });
        if let (Some(cloud), Some(ctx)) = (&self.cloud, ctx) {
            cloud.refresh(&ctx);
        }
    }

    /// Logs of its components, if they are kept: `GET /admin/v1/logs`.
    pub fn component_logs(&self) -> Option<HttpService> {
        self.mirrors.as_ref().map(|(mirrors, _)| mirrors.logs())
    }

    /// Nodes without any driver, if they are watched.
    pub(crate) fn bare_nodes(&self) -> Vec<serde_json::Value> {
        self.mirrors.as_ref().map(|(mirrors, _)| mirrors.bare_nodes()).unwrap_or_default()
    }

    /// Returns true if its components are containers.
    fn is_in_containers(&self) -> bool {
        self.members.values().any(Member::is_container)
    }

    /// Returns the processes that `name` refers to: one process, or a group such as `controllers`.
    fn named(&self, name: &str) -> Result<Vec<Member>, String> {
        let all = self.all_members();
        let found = self.names().resolve(name);
        let members: Vec<Member> = found.iter().filter_map(|name| all.get(name).cloned()).collect();
        if members.is_empty() { Err(format!("there is no node or process {name}")) } else { Ok(members) }
    }

    /// Cuts a node's power: its processes end, its mounts and devices vanish, unsynced writes are lost. If the name is
    /// that of a process or a group, ends only those. They stay down until [`Cluster::restart`].
    ///
    /// # Errors
    /// If there is no such node or process, it is down already, or the disk cannot be pulled.
    pub async fn crash(&self, node: &str) -> Result<(), String> {
        let Some(found) = self.nodes.get(node) else {
            let members = self.named(node)?;
            if members.iter().all(|member| self.is_down(member.name())) {
                return Err(format!("{node} is down already"));
            }
            self.down().extend(members.iter().map(|member| member.name().to_owned()));
            for member in members {
                member.crash().await;
            }
            return Ok(());
        };
        if !self.down().insert(node.to_owned()) {
            return Err(format!("{node} is down already"));
        }
        for member in found.members.iter().rev() {
            member.crash().await;
        }
        found.disk.crash().await.map_err(|e| e.to_string())?;
        self.world.trace().info(&Arc::from("cluster"), DiskCrashed { node: node.into() });
        Ok(())
    }

    /// Starts a node or a process again. A running process is ended first. A node must be down: a machine that has
    /// power cannot be switched on.
    ///
    /// # Errors
    /// If there is no such node or process, the node is up, or it does not start.
    pub async fn restart(&self, node: &str) -> Result<(), String> {
        let Some(found) = self.nodes.get(node) else {
            for member in self.named(node)? {
                self.down().remove(member.name());
                member.forget_restarts();
                member.restart().await?;
            }
            return Ok(());
        };
        if !self.down().remove(node) {
            return Err(format!("{node} is up; crash it first"));
        }
        for member in &found.members {
            member.restart().await?;
        }
        Ok(())
    }

    /// Returns true if a step or the cloud keeps a process or its machine down.
    fn is_down(&self, process: &str) -> bool {
        let down = self.down();
        down.contains(process) || process.split_once('/').is_some_and(|(node, _)| down.contains(node))
    }

    /// Programs of the user, by name.
    pub(crate) fn programs(&self) -> impl Iterator<Item = &Arc<Program>> {
        self.members.values().filter_map(|member| match member {
            Member::Program(program) => Some(program),
            _ => None,
        })
    }

    /// Ends all processes and pulls all disks, so that the cluster leaves nothing on this machine. Programs of the user
    /// are asked to end, with a grace period of some seconds.
    pub async fn stop(&self) {
        let message = futures_util::future::join_all(self.programs().map(|program| program.stop())).await;
        for message in message.into_iter().flatten() {
            eprintln!("note: {message}");
        }
        if let Some((_, keeper)) = &self.mirrors {
            keeper.end().await;
        }
        for member in self.guests.all() {
            member.crash().await;
        }
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

    /// Addresses for users; none in simulation.
    pub fn endpoints(&self) -> Option<&Endpoints> {
        self.endpoints.as_ref()
    }

    /// Backend of the disks that hold the volumes' bytes.
    pub fn backend(&self) -> String {
        self.nodes.values().next().map_or_else(|| "no".to_owned(), |node| node.disk.backend().to_string())
    }

    /// Nodes and processes that were crashed and not restarted.
    pub fn down_nodes(&self) -> Vec<String> {
        self.down().iter().cloned().collect()
    }

    /// Number of records that the workload of a pod (`namespace/name`) found at its last start, and whether they were
    /// intact.
    pub fn records_found(&self, pod: &str) -> Option<(u64, bool)> {
        self.workload_results.found(pod)
    }

    /// Number of records that the workload of a pod has synced.
    pub fn records_synced(&self, pod: &str) -> u64 {
        self.workload_results.synced(pod)
    }

    /// Returns true if time is virtual.
    pub fn is_simulated(&self) -> bool {
        self.world.kind() == WorldKind::Simulated
    }

    /// Returns true if all of its components are in this OS process.
    pub fn is_one_process(&self) -> bool {
        self.cloud.is_some()
    }

    /// Converts a duration of the scenario to the world's time.
    pub fn scaled(&self, duration: Duration) -> Duration {
        self.world.scale().apply(duration)
    }

    /// Converts the time limit of a wait to the world's time. In the live world the scale leaves it 90 seconds.
    pub fn limit(&self, limit: Duration) -> Duration {
        self.limit_of(limit, LEAST_WAIT)
    }

    /// Converts the deadline of a scenario to the world's time. In the live world the scale leaves it five
    /// minutes.
    pub fn deadline(&self, deadline: Duration) -> Duration {
        self.limit_of(deadline, LEAST_RUN)
    }

    fn limit_of(&self, limit: Duration, least: Duration) -> Duration {
        if self.is_simulated() { self.scaled(limit) } else { self.world.scale().live_limit(limit, least) }
    }

    /// Converts a duration of the world to the scenario's time.
    pub fn unscaled(&self, duration: Duration) -> Duration {
        duration.mul_f64(self.world.scale().factor())
    }

    /// Delay between a sign of change and a check of the cluster, so that one check covers a burst of changes.
    pub fn settle(&self) -> Duration {
        Duration::from_millis(10)
    }

    /// Interval at which a waiting step checks even without a sign of change.
    pub fn poll(&self) -> Duration {
        if self.is_simulated() { Duration::from_secs(2) } else { Duration::from_millis(100) }
    }

    fn down(&self) -> parking_lot::MutexGuard<'_, BTreeSet<String>> {
        self.down.lock()
    }
}
