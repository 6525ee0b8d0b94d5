//! A checked scenario, which the runner executes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use csi_mock::efs::FileSystemSpec;
pub use mock_ec2::LatencyProfile;
use substrate::WorldKind;
use substrate::fabric::Latency;
use substrate::fault::Fault;

pub use super::expects::Expectation;
pub use super::steps::Action;
use crate::spec::ProgramSpec;
pub use crate::spec::{Begin, DriverSettings, Manifest};

/// A scenario in which every name exists and every step has exactly one action.
///
/// All durations are in the scenario's own time: the clock of the world times the time scale.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// Name in reports.
    pub name: String,
    /// One-sentence description.
    pub description: Option<String>,
    /// Path of its file as the user wrote it.
    pub source: String,
    /// Nodes in the order in which they start.
    pub nodes: Vec<NodeSpec>,
    /// Latency profile of the cloud.
    pub latency: LatencyProfile,
    /// Latency of messages between components, in simulation.
    pub link: Latency,
    /// Divisor of waits and latencies in each world.
    pub time_scale: TimeScales,
    /// Time at which the scenario must be over, including the teardown; exceeding it is a failed expectation.
    pub deadline: Duration,
    /// Objects that exist before the first step.
    pub objects: Vec<Manifest>,
    /// Initial state of the cluster.
    pub begin: Begin,
    /// Faults that are active from the first step on; each must have fired by the end.
    pub faults: Vec<Fault>,
    /// Steps in order.
    pub steps: Vec<Step>,
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
    /// Components that are left out, by their upstream names.
    pub without: BTreeSet<String>,
    /// Programs of the user that run beside the cluster.
    pub programs: Vec<ProgramSpec>,
    /// Zones of the cloud; if empty, three of its region.
    pub zones: Vec<String>,
    /// Worlds in which it can run.
    pub worlds: Vec<WorldKind>,
    /// Declared deviations of upstream that must occur, by their ids in `scenarios/upstream-bugs.yaml`.
    pub violations: Vec<String>,
    /// Known bugs of upstream that may occur or not, by chance of the seed.
    pub possible_violations: Vec<String>,
    /// If set, everything that was created is deleted at the end, and nothing may be left (invariant I5).
    pub teardown: bool,
    /// Remarks on the file.
    pub remarks: Vec<Remark>,
}

impl Scenario {
    /// Returns true if it can run in worlds of this kind.
    pub fn runs_in(&self, kind: WorldKind) -> bool {
        self.worlds.contains(&kind)
    }
}

/// A remark on a file, which is not an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// The file.
    pub source: String,
    /// Its line, from 1.
    pub line: u64,
    /// Its column, from 1.
    pub column: u64,
    /// The remark.
    pub message: String,
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: {}", self.source, self.line, self.column, self.message)
    }
}

/// A node of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeSpec {
    /// Name of the node.
    pub name: String,
    /// Zone; the cloud's first if absent.
    pub zone: Option<String>,
    /// EC2 instance type, which decides the attach limit.
    pub instance_type: String,
    /// Id of its instance; the cloud gives one if absent.
    pub instance: Option<String>,
}

/// Divisor of waits and latencies in each world. A plain number in the file applies to both.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimeScales {
    /// In simulation.
    pub simulated: f64,
    /// In the live world.
    pub live: f64,
}

impl Default for TimeScales {
    fn default() -> Self {
        Self { simulated: 1.0, live: 1.0 }
    }
}

/// A step of a scenario.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Index among the steps, from 0.
    pub index: usize,
    /// Name for reports and for `elapsed: {since: …}`.
    pub name: Option<String>,
    /// File of the step: the scenario's, or a fragment.
    pub source: std::sync::Arc<str>,
    /// Line of its start.
    pub line: u64,
    /// Column of its start.
    pub column: u64,
    /// Action.
    pub action: Action,
}

impl fmt::Display for Step {
    /// Formats the action, after the name of the step if it has one: `second home: apply pod/web`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = &self.name {
            write!(f, "{name}: ")?;
        }
        self.action.fmt(f)
    }
}
