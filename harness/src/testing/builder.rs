//! Settings of a cluster, and its start.

use std::panic::Location;
use std::path::PathBuf;
use std::time::Duration;

use csi_mock::efs::{FileSystemSpec, is_file_system};
use fake_apiserver::ServiceAccounts;
use substrate::WorldKind;
use substrate::fabric::Latency;

use super::failure::{Error, TestLocation};
use super::plan::Plan;
use super::{Cluster, Result, seeds, wait};
use crate::cluster::live::BackendChoice;
use crate::cluster::{ClusterSpec, NodeSpec};
use crate::scenario::LatencyProfile;
use crate::spec::cluster::node_name;

/// Default wall time limit of one command of a simulated cluster.
const LIMIT: Duration = Duration::from_secs(60);
/// The same for a live cluster, whose waits are themselves wall time.
const LIVE_LIMIT: Duration = Duration::from_secs(15 * 60);
/// Maximum number of nodes of a cluster.
const MOST_NODES: usize = 1_000;

/// Settings of a cluster before its start. Begin with [`Cluster::simulated`] or [`Cluster::live`], and end with
/// [`start`](Builder::start).
///
/// [`start`](Builder::start) reports a mistake, with the call that made it.
#[derive(Clone, Debug)]
#[must_use = "nothing runs before `start`"]
pub struct Builder {
    pub(super) plan: Plan,
    zones: Vec<String>,
    nodes: usize,
    has_seed: bool,
    mistake: Option<String>,
    place: TestLocation,
}

impl Builder {
    #[track_caller]
    pub(super) fn new(kind: WorldKind) -> Self {
        // As in `mooring up`, pods of a live cluster mount the token of their service account.
        let service_accounts = match kind {
            WorldKind::Live => ServiceAccounts::Mounted,
            WorldKind::Simulated => ServiceAccounts::default(),
        };
        let plan = Plan {
            kind,
            spec: ClusterSpec { service_accounts, ..ClusterSpec::default() },
            seed: 1,
            scale: 1.0,
            link: Latency::default(),
            limit: if kind == WorldKind::Live { LIVE_LIMIT } else { LIMIT },
            trace: None,
            backend: None,
            is_bare: false,
        };
        let place = TestLocation::of(Location::caller());
        Self { plan, zones: Vec::new(), nodes: 2, has_seed: false, mistake: None, place }
    }

    /// Sets the number of nodes: `node-a`, `node-b`, and so on. Default: 2. A cluster has at most 1,000.
    pub fn nodes(mut self, count: usize) -> Self {
        self.refuse_if(count > MOST_NODES, || format!("nodes({count}): a cluster has at most {MOST_NODES} nodes"));
        self.nodes = count;
        self
    }

    /// Sets the availability zones; the nodes are spread over them in turn. Default: all nodes are in `us-east-1a`.
    pub fn zones<S: Into<String>>(mut self, zones: impl IntoIterator<Item = S>) -> Self {
        self.zones = zones.into_iter().map(Into::into).collect();
        let region = self.plan.spec.region.clone();
        let foreign = self.zones.iter().find(|zone| !mock_ec2::regions::lies_in(zone, &region)).cloned();
        if let Some(zone) = foreign {
            self.refuse_if(true, || format!("zones(): `{zone}` does not lie in {region}"));
        }
        self.refuse_if(self.zones.is_empty(), || "zones(): name at least one, such as us-east-1a".to_owned());
        self
    }

    /// Leaves components out, by upstream's names: `csi-attacher`, `attach-detach`, `kube-controller-manager`, `kubelet`.
    /// Your own controller can take their place, with [`Cluster::spawn`].
    pub fn without<'a>(mut self, components: impl IntoIterator<Item = &'a str>) -> Self {
        match controllers::left_out(components) {
            Ok(names) => self.plan.spec.without.extend(names),
            Err(why) => self.refuse_if(true, || format!("without(): {why}")),
        }
        self
    }

    /// Adds the kinds and loops of snapshots (`VolumeSnapshot`, `snapshot-controller`, `csi-snapshotter`) to a simulated
    /// cluster. A live cluster has them, unless [`without`](Self::without) leaves them out.
    pub fn snapshots(mut self) -> Self {
        self.plan.spec.has_snapshots = true;
        self
    }

    /// Adds the loops of CronJobs and ReplicationControllers to a simulated cluster. A live cluster has them, unless
    /// [`without`](Self::without) leaves them out.
    pub fn rare_workloads(mut self) -> Self {
        self.plan.spec.rare_workloads = controllers::RARE_WORKLOADS.iter().map(|(kind, _)| *kind).collect();
        self
    }

    /// Also runs the EFS driver, `efs.csi.aws.com`, with these file systems (`fs-0123456789abcdef0`).
    pub fn efs(mut self, file_systems: &[&str]) -> Self {
        let wrong = file_systems.iter().find(|id| !is_file_system(id)).map(|id| (*id).to_owned());
        self.refuse_if(wrong.is_some() || file_systems.is_empty(), || match wrong {
            Some(id) => format!("efs(): `{id}` is not fs- and 8 to 40 lower-case hex digits"),
            None => "efs(): name a file system, such as fs-0123456789abcdef0".to_owned(),
        });
        let spec = |id: &&str| FileSystemSpec { id: (*id).to_owned(), directories: Vec::new() };
        self.plan.spec.efs = Some(file_systems.iter().map(spec).collect());
        self
    }

    /// Sets a flag of a process by upstream's name: `flag("kube-controller-manager", "node-monitor-grace-period", "20s")`.
    pub fn flag(mut self, process: &str, name: &str, value: &str) -> Self {
        self.plan.spec.flags.push((process.to_owned(), name.to_owned(), value.to_owned()));
        if let Err(why) = self.plan.spec.timers(process) {
            self.refuse_if(true, || format!("flag(): {why}"));
        }
        self
    }

    /// Sets the number of replicas of a control loop process, which elect a leader by Lease.
    pub fn replicas(mut self, process: &str, count: usize) -> Self {
        let known = controllers::PROCESSES.contains(&process);
        self.refuse_if(!known, || {
            format!("replicas(): `{process}` has no replicas; there are {}", controllers::PROCESSES.join(", "))
        });
        self.refuse_if(!(1..=10).contains(&count), || format!("replicas(): {count} of {process}: from 1 to 10"));
        self.plan.spec.replicas.insert(process.to_owned(), count);
        self
    }

    /// Sets the latency of the cloud: `instant` (the default), `aws` as operators see it, or `aws-recent`.
    pub fn latency(mut self, profile: &str) -> Self {
        match profile.parse::<LatencyProfile>() {
            Ok(profile) => self.plan.spec.latency = profile,
            Err(why) => self.refuse_if(true, || format!("latency(): {why}")),
        }
        self
    }

    /// Sets the range of message delays between two components of a simulation, in milliseconds. Default: 1 to 5.
    pub fn link(mut self, min_ms: u64, max_ms: u64) -> Self {
        let fits = 0 < min_ms && min_ms <= max_ms && max_ms <= 60_000;
        self.refuse_if(!fits, || format!("link({min_ms}, {max_ms}): from 1 to 60000, the smaller one first"));
        self.plan.link = Latency { min_ms, max_ms };
        self
    }

    /// Sets the seed of all randomness. A seed in the code takes precedence over `MOORING_SEED`. Default: 1.
    pub fn seed(mut self, seed: u64) -> Self {
        (self.plan.seed, self.has_seed) = (seed, true);
        self
    }

    /// Divides the waits of loops and the latencies of mocks, for a live cluster that is faster than upstream:
    /// `time_scale(10.0)`.
    pub fn time_scale(mut self, factor: f64) -> Self {
        let fits = (0.01..=1_000.0).contains(&factor);
        self.refuse_if(!fits, || format!("time_scale({factor}): from 0.01 to 1000"));
        self.plan.scale = factor;
        self
    }

    /// Writes every message and every event to a file, as JSON lines.
    pub fn trace(mut self, file: impl Into<PathBuf>) -> Self {
        self.plan.trace = Some(file.into());
        self
    }

    /// Sets the wall time limit of one command. A cluster that takes longer is abandoned: its test fails, and other
    /// tests continue. Default: 60 seconds in simulation, 15 minutes live.
    pub fn wall_limit(mut self, limit: Duration) -> Self {
        self.refuse_if(limit.is_zero(), || "wall_limit(): must be longer than 0s".to_owned());
        self.plan.limit = limit;
        self
    }

    /// Uses directories instead of loop devices as the disks of a live cluster, even if the machine has loop devices.
    pub fn directories(mut self) -> Self {
        self.plan.backend = Some(BackendChoice::Directory);
        self
    }

    /// Starts the cluster.
    ///
    /// # Errors
    /// The first mistake in the settings, or the reason why a live cluster cannot start on this machine.
    pub fn start(self) -> Result<Cluster> {
        wait::block_on(self.start_async())
    }

    /// Starts the cluster from async code.
    ///
    /// # Errors
    /// As [`start`](Builder::start).
    pub async fn start_async(mut self) -> Result<Cluster> {
        if !self.has_seed {
            match seeds::seed() {
                Ok(seed) => self.plan.seed = seed,
                Err(why) => self.refuse_if(true, || why),
            }
        }
        if let Some(mistake) = self.mistake {
            return Err(Error::usage(mistake));
        }
        let spec = &mut self.plan.spec;
        let spread = self.zones.len().max(1);
        if !self.zones.is_empty() {
            spec.zones = self.zones;
        }
        spec.nodes = (0..self.nodes)
            .map(|i| NodeSpec {
                name: node_name(i),
                zone: spec.zones[i % spread].clone(),
                instance_type: "m5.large".to_owned(),
                instance: None,
            })
            .collect();
        Cluster::open(self.plan, self.place).await
    }

    fn refuse_if(&mut self, is_wrong: bool, why: impl FnOnce() -> String) {
        if is_wrong && self.mistake.is_none() {
            self.mistake = Some(why());
        }
    }
}
