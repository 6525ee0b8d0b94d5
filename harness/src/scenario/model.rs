//! A checked scenario, which the runner executes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use csi_mock::efs::FileSystemSpec;
pub use mock_ec2::LatencyProfile;
use substrate::WorldKind;
use substrate::fabric::Latency;
use substrate::fault::Fault;

use controllers::kube::metadata::Propagation;

use super::acts::{AdminAction, Call, NodeFile, Patch};
use super::predicate::{Calls, Cloud, EventSeen, Holds, Metric, Never, That};
pub use crate::spec::{Begin, DriverSettings, Manifest};
use crate::spec::{Id, Kind, ObjectRef, ProgramSpec, State};
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

/// Action of a step.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Creates objects, or changes them by a server-side apply or merge.
    Apply(Vec<Manifest>),
    /// Waits until an object is in a state.
    Wait(Wait),
    /// Waits until a condition holds for a list.
    WaitFor(Holds),
    /// Checks an expectation.
    Expect(Expectation),
    /// Forbids a condition from this step on.
    Never(Never),
    /// The node loses power, or the process is killed; it stays down.
    Crash(String),
    /// The node or the process starts again.
    Restart(String),
    /// Deletes an object.
    Delete(Delete),
    /// Evicts a pod.
    Evict(Evict),
    /// Puts a taint on a node.
    Taint(Taint),
    /// Takes a taint off a node.
    Untaint(Untaint),
    /// Makes a node unschedulable.
    Cordon(String),
    /// Makes a node schedulable.
    Uncordon(String),
    /// Activates a fault.
    Fault(Box<Fault>),
    /// Ends a fault.
    ClearFault(String),
    /// Lets time pass.
    Sleep(Duration),
    /// Calls the cloud.
    Ec2(Call),
    /// Does something in the cloud that only its operator can do.
    AdminAction(AdminAction),
    /// Patches an object.
    Patch(Box<Patch>),
    /// Removes a file from a node's disk.
    NodeFile(NodeFile),
    /// Pauses a live cluster for a person, with a text about what to look at.
    Pause(String),
}

impl Action {
    /// Object of the action, if there is one.
    pub fn object(&self) -> Option<ObjectRef> {
        match self {
            Self::Apply(manifests) => manifests.first().map(|manifest| manifest.object.clone()),
            Self::Wait(wait) => Some(wait.object.clone()),
            Self::WaitFor(holds) => holds.of.object(),
            Self::Never(never) => never.object(),
            Self::Expect(expectation) => expectation.object(),
            Self::Delete(delete) => Some(delete.object.clone()),
            Self::Evict(evict) => Some(evict.pod.clone()),
            Self::Taint(Taint { node, .. })
            | Self::Untaint(Untaint { node, .. })
            | Self::Cordon(node)
            | Self::Uncordon(node) => Some(ObjectRef::new(Kind::node(), None, node)),
            Self::Patch(patch) => Some(patch.object.clone()),
            Self::NodeFile(file) => Some(ObjectRef::new(Kind::node(), None, &file.node)),
            Self::Crash(_)
            | Self::Restart(_)
            | Self::Fault(_)
            | Self::ClearFault(_)
            | Self::Sleep(_)
            | Self::Ec2(_)
            | Self::AdminAction(_)
            | Self::Pause(_) => None,
        }
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

/// Waits until an object is in a state; all conditions must hold at the same time.
#[derive(Clone, Debug, PartialEq)]
pub struct Wait {
    /// The object.
    pub object: ObjectRef,
    /// State. If absent and `records` is given, any state is accepted.
    pub is: Option<State>,
    /// Node of the pod or of the attachment.
    pub on: Option<String>,
    /// Minimum number of records that the pod's workload has written and synced since it started.
    pub records: Option<u64>,
    /// Condition on the object.
    pub that: Option<That>,
    /// Time limit.
    pub within: Duration,
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

/// A deletion.
#[derive(Clone, Debug, PartialEq)]
pub struct Delete {
    /// The object.
    pub object: ObjectRef,
    /// Removes the object at once, even if it still runs: `kubectl delete --force --grace-period=0`.
    pub force: bool,
    /// Grace period; the object's own if absent.
    pub grace: Option<Duration>,
    /// Treatment of its dependents; the kind's default if absent.
    pub cascade: Option<Propagation>,
}

/// An eviction.
#[derive(Clone, Debug, PartialEq)]
pub struct Evict {
    /// The pod.
    pub pod: ObjectRef,
    /// Grace period; the pod's own if absent.
    pub grace: Option<Duration>,
    /// Time for which a refused eviction is requested again.
    pub within: Duration,
    /// True if a disruption budget must refuse it. It is requested once.
    pub refused: bool,
}

/// A taint to put on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taint {
    /// The node.
    pub node: String,
    /// The taint's key.
    pub key: String,
    /// The taint's value; may be empty.
    pub value: String,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: String,
}

/// A taint to remove from a node, with any value and effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Untaint {
    /// The node.
    pub node: String,
    /// The taint's key.
    pub key: String,
}
