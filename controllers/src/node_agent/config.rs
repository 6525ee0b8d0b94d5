//! What a node agent is made with.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use csi_mock::disk::Disk;
use substrate::HttpService;

use super::logs::Logs;
use super::socket::RegistrationSocket;
use crate::Timers;

/// Where upstream keeps its state.
pub const DEFAULT_ROOT: &str = "/var/lib/kubelet";

/// kubelet's port.
pub const KUBELET_PORT: u16 = 10250;

/// Where drivers put their registration sockets, below the root.
pub const PLUGINS_REGISTRY: &str = "plugins_registry";

/// How the agent finds CSI drivers.
#[derive(Clone)]
pub enum Plugins {
    /// One driver whose sockets are known from the start.
    Known {
        /// Answers `pluginregistration.Registration`.
        registration: HttpService,
        /// Answers `csi.v1.Node`.
        csi: HttpService,
        /// The file of the first: the driver is registered for as long as it is there.
        socket: RegistrationSocket,
    },
    /// Every socket in this directory, as kubelet watches `plugins_registry`; live only.
    Directory(PathBuf),
}

impl std::fmt::Debug for Plugins {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Known { .. } => f.write_str("Known"),
            Self::Directory(path) => f.debug_tuple("Directory").field(path).finish(),
        }
    }
}

/// What a node agent is made with. [`NodeAgentConfig::new`] has defaults for all but the node's identity.
#[derive(Clone, Debug)]
pub struct NodeAgentConfig {
    /// The Node object's name.
    pub node_name: String,
    /// The EC2 instance (`i-…`): part of `spec.providerID`.
    pub instance_id: String,
    /// The availability zone: label `topology.kubernetes.io/zone`.
    pub zone: String,
    /// Label `topology.kubernetes.io/region`.
    pub region: String,
    /// Label `node.kubernetes.io/instance-type`.
    pub instance_type: String,
    /// The kubelet root: staging and target paths lie under it.
    pub root: PathBuf,
    /// The node's disk: directories and vol_data.json.
    pub disk: Arc<dyn Disk>,
    /// Where CSI drivers come from.
    pub plugins: Plugins,
    /// What the node reports as capacity and allocatable, next to `pods`.
    pub capacity: BTreeMap<String, String>,
    /// How many pods fit (`maxPods`): 110.
    pub max_pods: u32,
    /// Further labels of the node.
    pub labels: BTreeMap<String, String>,
    /// Address of type InternalIP; derived from the instance id when absent.
    pub internal_ip: Option<String>,
    /// Address of type ExternalIP: where the node's own server is reached, outside of the modelled network.
    pub external_ip: Option<String>,
    /// The port of the node's own server, `status.daemonEndpoints.kubeletEndpoint`: 10250.
    pub kubelet_port: u16,
    /// The machine's container runtime ([`machine`](crate::machine)).
    pub runtime: HttpService,
    /// Whose logs there are, for who serves them: see [`service`](super::service).
    pub logs: Logs,
    /// What the modelled workload writes unless the pod's annotations say otherwise.
    pub workload: WorkloadDefaults,
    /// Upstream's timers.
    pub timers: Timers,
}

/// How much the modelled workload writes; annotations `mooring.dev/write-every` and `mooring.dev/records` override.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkloadDefaults {
    /// Time between two records at first: 1 s.
    pub write_every: Duration,
    /// After how many records of a run it becomes idle: 10.
    pub records: u64,
    /// Time between two records once idle: 30 s.
    pub idle_every: Duration,
}

impl Default for WorkloadDefaults {
    fn default() -> Self {
        Self { write_every: Duration::from_secs(1), records: 10, idle_every: Duration::from_secs(30) }
    }
}

impl NodeAgentConfig {
    /// A node in `zone` with upstream's defaults. The region is the zone without its last letter.
    pub fn new(
        node_name: &str,
        instance_id: &str,
        zone: &str,
        disk: Arc<dyn Disk>,
        plugins: Plugins,
        runtime: HttpService,
    ) -> Self {
        Self {
            node_name: node_name.to_owned(),
            instance_id: instance_id.to_owned(),
            zone: zone.to_owned(),
            region: zone.trim_end_matches(|c: char| c.is_ascii_lowercase()).to_owned(),
            instance_type: "m5.large".to_owned(),
            root: PathBuf::from(DEFAULT_ROOT),
            disk,
            plugins,
            capacity: [("cpu", "2"), ("memory", "7935036Ki"), ("ephemeral-storage", "83873772Ki")]
                .map(|(k, v)| (k.to_owned(), v.to_owned()))
                .into(),
            max_pods: 110,
            labels: BTreeMap::new(),
            internal_ip: None,
            external_ip: None,
            kubelet_port: KUBELET_PORT,
            runtime,
            logs: Logs::default(),
            workload: WorkloadDefaults::default(),
            timers: Timers::default(),
        }
    }
}
