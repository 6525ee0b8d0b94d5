//! Specification of a cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use controllers::Timers;
use controllers::flags::{self, FlagError};
use csi_mock::capabilities::Capabilities;
use csi_mock::efs::{EFS_DRIVER_NAME, FileSystemSpec};
use csi_mock::settings::LockKey;
use mock_ec2::LatencyProfile;
use substrate::admin::Secret;

use super::{Begin, Containers, ProgramSpec};

/// Settings of the CSI driver. If absent, the driver's default applies.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DriverSettings {
    /// Key that its controller service locks during a publish.
    pub lock: LockKey,
    /// Capabilities that it offers.
    pub capabilities: Option<Capabilities>,
    /// Maximum number of volumes that its node service reports for a node.
    pub attach_limit: Option<i64>,
    /// Capacity of each zone in GiB.
    pub capacity_gib: Option<u64>,
}

/// One node and the instance that it runs on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeSpec {
    /// Name of the node, also the instance's Name tag.
    pub name: String,
    /// Availability zone.
    pub zone: String,
    /// Instance type, which decides the attach limit.
    pub instance_type: String,
    /// Id of the instance; the cloud gives one if absent.
    pub instance: Option<String>,
}

/// Everything that distinguishes one cluster from another.
#[derive(Clone, Debug)]
pub struct ClusterSpec {
    /// The nodes, in order.
    pub nodes: Vec<NodeSpec>,
    /// The cloud's region.
    pub region: String,
    /// The cloud's account, twelve digits.
    pub account_id: String,
    /// Availability zones. Nodes are in the first by default.
    pub zones: Vec<String>,
    /// Profile of the durations of cloud transitions.
    pub latency: LatencyProfile,
    /// The CSI driver's name.
    pub driver_name: String,
    /// Components that the user runs or that do not run, by upstream's names.
    pub without: BTreeSet<String>,
    /// Bearer token of the cloud's admin API.
    pub admin_token: Option<Secret>,
    /// Additional keys that verify service account tokens, for tokens that kube-controller-manager signs.
    pub token_keys: Vec<fake_apiserver::keys::PublicKey>,
    /// Admission of new pods by their service accounts.
    pub service_accounts: fake_apiserver::ServiceAccounts,
    /// If set, instances have a metadata service. No component uses it in a scenario.
    pub metadata: bool,
    /// Number of replicas of control loop processes; one if absent.
    pub replicas: BTreeMap<String, usize>,
    /// If set, control loop processes use leader election by Lease even with a single replica.
    pub leader_elect: bool,
    /// Flags of processes by upstream's names: process, name, value.
    pub flags: Vec<(String, String, String)>,
    /// Driver settings that differ from the default.
    pub driver: DriverSettings,
    /// File systems of the EFS driver; None without that driver.
    pub efs: Option<Vec<FileSystemSpec>>,
    /// Initial state.
    pub begin: Begin,
    /// True if objects may have owners. A simulation without owners leaves the garbage collector out, because it would
    /// watch every kind and never act.
    pub has_owners: bool,
    /// True if a step compares the writes to the API server. Only a simulated cluster records them.
    pub records_writes: bool,
    /// Requests that steps send as they are.
    pub requests: Requests,
    /// True if objects may be snapshots. A simulation of objects without snapshots leaves out the kinds and loops of
    /// snapshots.
    pub has_snapshots: bool,
    /// True if objects may be workloads, such as StatefulSets. A simulation without workloads leaves out their loops.
    pub has_workloads: bool,
    /// Kinds of rare workloads that objects may have, such as `CronJob`. A simulation leaves out the loops of the others.
    pub rare_workloads: BTreeSet<&'static str>,
    /// True if control loops and drivers appear as pods of kube-system with their own logs, and the creator of an
    /// object that no control loop handles is warned. `mooring up` sets it.
    pub mirrors: bool,
    /// Another API server, which answers instead of Mooring's.
    pub origin: Option<fake_apiserver::Origin>,
    /// Programs of the user that start with the cluster, in the live world.
    pub programs: Vec<ProgramSpec>,
    /// Directory in which each of them has a file NAME.log with its output.
    pub program_logs: Option<PathBuf>,
    /// Kind of the containers. Only a live cluster can run programs in them.
    pub containers: Containers,
}

/// Requests to the API server that the steps of a scenario send as they are. They decide what a simulated API server
/// keeps, because the control loops need neither managedFields nor roles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Requests {
    /// No step sends one.
    #[default]
    None,
    /// All are those of an administrator. The server tracks managedFields.
    OfAdmin,
    /// Some are those of other users. The server also has the default roles, and roles decide.
    OfUsers,
}

impl Default for ClusterSpec {
    fn default() -> Self {
        Self {
            nodes: Vec::new(),
            region: "us-east-1".to_owned(),
            account_id: "000000000000".to_owned(),
            zones: ["us-east-1a", "us-east-1b", "us-east-1c"].map(str::to_owned).to_vec(),
            latency: LatencyProfile::Instant,
            driver_name: "ebs.csi.aws.com".to_owned(),
            without: BTreeSet::new(),
            admin_token: None,
            token_keys: Vec::new(),
            service_accounts: fake_apiserver::ServiceAccounts::default(),
            metadata: false,
            replicas: BTreeMap::new(),
            leader_elect: false,
            flags: Vec::new(),
            driver: DriverSettings::default(),
            efs: None,
            begin: Begin::default(),
            has_owners: true,
            records_writes: false,
            requests: Requests::None,
            has_snapshots: false,
            has_workloads: true,
            rare_workloads: BTreeSet::new(),
            mirrors: false,
            origin: None,
            programs: Vec::new(),
            program_logs: None,
            containers: Containers::Modelled,
        }
    }
}

impl ClusterSpec {
    /// Number of replicas of `process`.
    pub fn replicas_of(&self, process: &str) -> usize {
        self.replicas.get(process).copied().unwrap_or(1)
    }

    /// Names of the CSI drivers that Mooring runs or that the user runs instead.
    pub fn driver_names(&self) -> impl Iterator<Item = &str> {
        [self.driver_name.as_str()].into_iter().chain(self.efs.as_ref().map(|_| EFS_DRIVER_NAME))
    }

    /// Returns true if `process` uses leader election.
    pub fn elects(&self, process: &str) -> bool {
        self.leader_elect || self.replicas_of(process) > 1
    }

    /// Timers of `process` (for a node agent: `kubelet`).
    ///
    /// # Errors
    /// If a flag is unknown or its value is invalid.
    pub fn timers(&self, process: &str) -> Result<Timers, FlagError> {
        let mut timers = Timers::default();
        for (_, name, value) in self.flags.iter().filter(|(of, ..)| of == process) {
            flags::set(&mut timers, process, name, value)?;
        }
        Ok(timers)
    }

    /// A cluster of `count` nodes called node-a, node-b, …, all in the first zone.
    pub fn of_nodes(count: usize) -> Self {
        let mut spec = Self::default();
        let zone = spec.first_zone();
        spec.nodes = (0..count)
            .map(|i| NodeSpec {
                name: node_name(i),
                zone: zone.clone(),
                instance_type: "m5.large".to_owned(),
                instance: None,
            })
            .collect();
        spec
    }

    /// Its first zone.
    pub(crate) fn first_zone(&self) -> String {
        self.zones.first().cloned().unwrap_or_else(|| "us-east-1a".to_owned())
    }
}

/// node-a … node-z, node-aa, node-ab, …
pub fn node_name(index: usize) -> String {
    let mut letters = Vec::new();
    let mut rest = index;
    loop {
        letters.push(char::from(b'a' + (rest % 26) as u8));
        if rest < 26 {
            break;
        }
        rest = rest / 26 - 1;
    }
    format!("node-{}", letters.iter().rev().collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_named_like_spreadsheet_columns() {
        assert_eq!(
            [0, 25, 26, 51, 52, 701, 702].map(node_name).join(" "),
            "node-a node-z node-aa node-az node-ba node-zz node-aaa"
        );
    }
}
