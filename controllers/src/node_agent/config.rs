//! Configuration of a node agent.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use csi_disk::Disk;
use substrate::HttpService;
use substrate::json::Text;

use super::logs::Logs;
use super::registration_socket::RegistrationSocket;
use crate::Timers;

/// Default kubelet root.
pub const DEFAULT_ROOT: &str = "/var/lib/kubelet";

/// Default port of the kubelet's server.
pub const KUBELET_PORT: u16 = 10250;

/// Directory of the drivers' registration sockets, below the root.
pub const PLUGINS_REGISTRY: &str = "plugins_registry";

/// Source of CSI drivers.
#[derive(Clone)]
pub enum Plugins {
    /// Drivers whose sockets are known from the start.
    Known(Vec<KnownPlugin>),
    /// Directory in which each socket is a driver, like kubelet's `plugins_registry`. Live world only.
    Directory(PathBuf),
}

/// A driver whose sockets are known from the start.
#[derive(Clone)]
pub struct KnownPlugin {
    /// Answers `pluginregistration.Registration`.
    pub registration: HttpService,
    /// Answers `csi.v1.Node`.
    pub csi: HttpService,
    /// Registration socket. The driver is registered while the file exists.
    pub socket: RegistrationSocket,
}

impl std::fmt::Debug for Plugins {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Known(plugins) => f.debug_tuple("Known").field(&plugins.len()).finish(),
            Self::Directory(path) => f.debug_tuple("Directory").field(path).finish(),
        }
    }
}

/// Configuration of a node agent. [`NodeAgentConfig::new`] sets defaults for all fields except the node's identity.
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
    /// Source of CSI drivers.
    pub plugins: Plugins,
    /// Capacity and allocatable that the node reports, in addition to `pods`.
    pub capacity: BTreeMap<String, String>,
    /// Largest number of pods (`maxPods`). Default: 110.
    pub max_pods: u32,
    /// Further labels of the node.
    pub labels: BTreeMap<String, String>,
    /// Address of type InternalIP. Default: derived from the instance id.
    pub internal_ip: Option<String>,
    /// Address of type ExternalIP, at which the node's own server is reachable outside the modelled network.
    pub external_ip: Option<String>,
    /// Port of the node's own server, `status.daemonEndpoints.kubeletEndpoint`. Default: 10250.
    pub kubelet_port: u16,
    /// The machine's container runtime ([`machine`](crate::machine)).
    pub runtime: HttpService,
    /// Index of the logs on this node, for [`service`](super::service).
    pub logs: Logs,
    /// Default writes of the modelled workload. Annotations of a pod override them.
    pub workload: WorkloadDefaults,
    /// True if containers with a command run it. Default: every container is a modelled workload.
    pub programs: bool,
    /// True if such containers may mount paths of the machine (hostPath). Default: no.
    pub host_paths: bool,
    /// Upstream's timers.
    pub timers: Timers,
}

/// The modelled workload of a pod. Annotations override it: `mooring.dev/write-every`, `mooring.dev/records`,
/// `mooring.dev/run-for` and `mooring.dev/exit-code`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkloadDefaults {
    /// Time between two records before the writer becomes idle. Default: 1 s.
    pub write_every: Duration,
    /// Number of records of a run after which the writer becomes idle. Default: 10.
    pub records: u64,
    /// Time between two records of an idle writer. Default: 30 s.
    pub idle_every: Duration,
    /// Planned end of the containers. Default: none, they run until they are stopped.
    pub exit: Option<PlannedExit>,
}

/// Planned end of a pod's containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedExit {
    /// Time from the start of a container to its exit.
    pub after: Duration,
    /// Exit code.
    pub code: u8,
}

impl Default for WorkloadDefaults {
    fn default() -> Self {
        Self { write_every: Duration::from_secs(1), records: 10, idle_every: Duration::from_secs(30), exit: None }
    }
}

impl NodeAgentConfig {
    /// Describes a node in `zone` with upstream's defaults. The region is the zone without its last letter.
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
            programs: false,
            host_paths: false,
            timers: Timers::default(),
        }
    }

    /// Returns the node's name, for events.
    pub(super) fn name(&self) -> Text {
        self.node_name.as_str().into()
    }
}
