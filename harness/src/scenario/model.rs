//! A checked scenario, which the runner executes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use csi_mock::efs::FileSystemSpec;
pub use mock_ec2::LatencyProfile;
use substrate::WorldKind;
use substrate::fabric::Latency;
use substrate::fault::Fault;

use super::predicate::{Calls, Cloud, EventSeen, Holds, Metric};
pub use super::steps::Action;
pub use crate::spec::{Begin, DriverSettings, Manifest};
use crate::spec::{Id, ObjectRef, ProgramSpec};
use crate::writes::{Elsewhere, Expected};

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

impl Expectation {
    /// Object of the expectation, if there is one.
    pub fn object(&self) -> Option<ObjectRef> {
        match self {
            Self::Event(event) => Some(event.object.clone()),
            Self::BytesIntact(bytes) => Some(bytes.pod.clone()),
            Self::Attached(attached) => Some(attached.claim.clone()),
            Self::Holds(holds) => holds.of.object(),
            Self::Cloud(cloud) => cloud.object(),
            Self::Elapsed(_)
            | Self::Checked(_)
            | Self::Calls(_)
            | Self::Metric(_)
            | Self::Violation(_)
            | Self::Writes(_)
            | Self::Fired(_) => None,
        }
    }
}

/// A condition that must be true.
#[derive(Clone, Debug, PartialEq)]
pub enum Expectation {
    /// An event was recorded, or will be within the time limit.
    Event(EventSeen),
    /// A pod's workload found intact records when it started.
    BytesIntact(BytesIntact),
    /// A claim's volume is attached to a node.
    Attached(Attached),
    /// A duration is within bounds.
    Elapsed(Elapsed),
    /// By the end of the run, invariants were checked at least this many times.
    Checked(BTreeMap<Id, u64>),
    /// A condition holds for an object or a list.
    Holds(Holds),
    /// A number of calls were made.
    Calls(Calls),
    /// A metric has a value.
    Metric(Metric),
    /// The cloud has a resource in a state.
    Cloud(Cloud),
    /// By the end of the run, a declared deviation of upstream has occurred.
    Violation(String),
    /// A fault has fired.
    Fired(Fired),
    /// The writes to the API server are these.
    Writes(Writes),
}

/// Writes to the API server since a step.
#[derive(Clone, Debug, PartialEq)]
pub struct Writes {
    /// Index of the step from whose start they count.
    pub since: usize,
    /// Writes that other files expect.
    pub elsewhere: Vec<Elsewhere>,
    /// The lines, in the order of the file.
    pub lines: Vec<Expected>,
}

/// A fault that has fired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fired {
    /// Its name.
    pub fault: String,
    /// Time limit for the fault to fire. If zero, it must have fired already.
    pub within: Duration,
}

/// The workload of a pod found the records of an earlier one, with correct checksums.
#[derive(Clone, Debug, PartialEq)]
pub struct BytesIntact {
    /// The pod.
    pub pod: ObjectRef,
    /// Minimum number of records found.
    pub records: u64,
}

/// The volume of a claim is attached to a node, in the cloud and in its VolumeAttachment.
#[derive(Clone, Debug, PartialEq)]
pub struct Attached {
    /// The claim.
    pub claim: ObjectRef,
    /// The node.
    pub node: String,
    /// Time limit; if zero, it must hold now.
    pub within: Duration,
}

/// Bounds on a duration in the scenario's own time.
#[derive(Clone, Debug, PartialEq)]
pub struct Elapsed {
    /// Index of the step from whose start time is measured; if absent, the start of the first step.
    pub since: Option<usize>,
    /// Lower bound.
    pub at_least: Option<Duration>,
    /// Upper bound.
    pub at_most: Option<Duration>,
}
