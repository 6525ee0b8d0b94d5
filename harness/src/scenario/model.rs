//! A checked scenario: what the runner executes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use csi_mock::capabilities::Capabilities;
use csi_mock::settings::LockKey;
pub use mock_ec2::LatencyProfile;
use serde_json::Value;
use substrate::WorldKind;
use substrate::fabric::Latency;
use substrate::fault::Fault;

use controllers::kube::metadata::Propagation;
use mock_ec2::VolumeSpec;

use super::acts::{Call, NodeFile, Patch, Poke};
use super::object::{Kind, ObjectRef, State};
use super::predicate::{Calls, Cloud, Holds, Metric, Never, That, Times};
use crate::invariants::Id;
use crate::program::ProgramSpec;

/// A scenario in which every name exists and every step does exactly one thing.
///
/// All durations are of the scenario's own time: the clock of the world times the time scale.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// Names it in reports.
    pub name: String,
    /// One sentence on what it shows.
    pub description: Option<String>,
    /// The file that it came from, as the user wrote its path.
    pub source: String,
    /// The nodes, in the order in which they start.
    pub nodes: Vec<NodeSpec>,
    /// How long the cloud takes.
    pub latency: LatencyProfile,
    /// How long messages between components take, in simulation.
    pub link: Latency,
    /// What divides waits and latencies, in each of the worlds.
    pub time_scale: TimeScales,
    /// When the scenario, teardown included, must be over; passing it is a failed expectation.
    pub deadline: Duration,
    /// Objects that exist before the first step.
    pub objects: Vec<Manifest>,
    /// State that the cluster begins in.
    pub begin: Begin,
    /// Faults in force from the first step on; each must have fired by the end.
    pub faults: Vec<Fault>,
    /// What happens, in order.
    pub steps: Vec<Step>,
    /// How many replicas of processes of control loops there are; one where it says nothing.
    pub replicas: BTreeMap<String, usize>,
    /// Whether these are elected by Lease also where there is one of each.
    pub leader_elect: bool,
    /// What is set in processes by upstream's names: process, name, value.
    pub flags: Vec<(String, String, String)>,
    /// What of the driver is not as it is by default.
    pub driver: DriverSettings,
    /// Components that are left out, by their upstream names.
    pub without: BTreeSet<String>,
    /// Programs of the user's that run beside the cluster.
    pub programs: Vec<ProgramSpec>,
    /// The zones of the cloud; three of its region when empty.
    pub zones: Vec<String>,
    /// The worlds that it is for.
    pub worlds: Vec<WorldKind>,
    /// Declared deviations of upstream that must occur, by their ids in `scenarios/upstream-bugs.yaml`.
    pub violations: Vec<String>,
    /// Whether everything that was created is deleted at the end, and nothing may be left (invariant I5).
    pub teardown: bool,
    /// Remarks about it.
    pub remarks: Vec<Remark>,
}

impl Scenario {
    /// Whether it is for worlds of this kind.
    pub fn runs_in(&self, kind: WorldKind) -> bool {
        self.worlds.contains(&kind)
    }
}

/// Something about a file that is no mistake and deserves a look.
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

/// Settings of the CSI driver; what is absent is as the driver has it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DriverSettings {
    /// What its controller service locks while it publishes.
    pub lock: LockKey,
    /// What it offers.
    pub capabilities: Option<Capabilities>,
    /// How many volumes its node service says that a node takes.
    pub attach_limit: Option<i64>,
    /// How many GiB of volumes fit in each zone.
    pub capacity_gib: Option<u64>,
}

/// A node of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeSpec {
    /// Its name.
    pub name: String,
    /// Its zone; the cloud's first when absent.
    pub zone: Option<String>,
    /// Its EC2 instance type; decides how many volumes it takes.
    pub instance_type: String,
    /// Id of its instance; the cloud gives one if absent.
    pub instance: Option<String>,
}

/// State that a cluster begins in: what was imported.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Begin {
    /// Volumes of the cloud, with their attachments.
    pub volumes: Vec<VolumeSpec>,
    /// Objects as the API server has them: with uids, times and statuses.
    pub objects: Vec<Manifest>,
}

/// What divides waits and latencies, in each of the worlds. A plain number in the file holds for both.
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

/// A Kubernetes object as it is sent to the API server.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    /// What it is; the namespace is filled in.
    pub object: ObjectRef,
    /// The manifest, unchanged. A map `{saved: NAME}` in it stands for an id that an earlier step saves.
    pub value: Value,
}

/// One thing that happens.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Its position among the steps that are done, from 0.
    pub index: usize,
    /// Its name, for reports and for `elapsed: {since: …}`.
    pub name: Option<String>,
    /// The file that it stands in: the scenario's, or a fragment.
    pub source: std::sync::Arc<str>,
    /// The line that it begins on.
    pub line: u64,
    /// The column that it begins in.
    pub column: u64,
    /// What it does.
    pub action: Action,
}

/// What a step does.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Creates objects, or changes them by a server-side apply or merge.
    Apply(Vec<Manifest>),
    /// Waits until an object is in a state.
    Wait(Wait),
    /// Waits until a condition holds of a list.
    WaitFor(Holds),
    /// Demands something.
    Expect(Expectation),
    /// Forbids something, from here on.
    Never(Never),
    /// The node loses power, or the process ends; it stays down.
    Crash(String),
    /// The node, or the process, starts anew.
    Restart(String),
    /// Deletes an object.
    Delete(Delete),
    /// Puts a taint on a node.
    Taint(Taint),
    /// Takes a taint off a node.
    Untaint(Untaint),
    /// Makes a node unschedulable.
    Cordon(String),
    /// Makes a node schedulable.
    Uncordon(String),
    /// Puts a fault in force.
    Fault(Box<Fault>),
    /// Ends a fault.
    ClearFault(String),
    /// Lets time pass.
    Sleep(Duration),
    /// Calls the cloud.
    Ec2(Call),
    /// Does to the cloud what only its operator can.
    Poke(Poke),
    /// Patches an object.
    Patch(Box<Patch>),
    /// Removes a file from a node's disk.
    NodeFile(NodeFile),
    /// Lets a person look at a live cluster; says what at.
    Pause(String),
}

impl Action {
    /// The object that it is about, if there is one.
    pub fn object(&self) -> Option<ObjectRef> {
        match self {
            Self::Apply(manifests) => manifests.first().map(|manifest| manifest.object.clone()),
            Self::Wait(wait) => Some(wait.object.clone()),
            Self::WaitFor(holds) => holds.of.object(),
            Self::Never(never) => never.object(),
            Self::Expect(expectation) => expectation.object(),
            Self::Delete(delete) => Some(delete.object.clone()),
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
            | Self::Poke(_)
            | Self::Pause(_) => None,
        }
    }
}

impl Expectation {
    /// The object that it is about, if there is one.
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
            | Self::Fired(_) => None,
        }
    }
}

/// Waits until an object is as described; all conditions must hold at once.
#[derive(Clone, Debug, PartialEq)]
pub struct Wait {
    /// The object.
    pub object: ObjectRef,
    /// Its state; any state counts when absent and `records` is given.
    pub is: Option<State>,
    /// The node that the pod is on, or that the attachment is for.
    pub on: Option<String>,
    /// The pod's workload has written and synced at least this many records since it started.
    pub records: Option<u64>,
    /// What the object satisfies.
    pub that: Option<That>,
    /// How long it may take.
    pub within: Duration,
}

/// Something that must be true.
#[derive(Clone, Debug, PartialEq)]
pub enum Expectation {
    /// An event was, or is soon, recorded.
    Event(EventSeen),
    /// A pod's workload found intact records when it started.
    BytesIntact(BytesIntact),
    /// A claim's volume is attached to a node.
    Attached(Attached),
    /// Time passed.
    Elapsed(Elapsed),
    /// By the end of the run, invariants were looked at on at least so many occasions.
    Checked(BTreeMap<Id, u64>),
    /// A condition holds of an object or a list.
    Holds(Holds),
    /// Calls were made so often.
    Calls(Calls),
    /// A metric has a value.
    Metric(Metric),
    /// The cloud has something.
    Cloud(Cloud),
    /// By the end of the run a declared deviation of upstream has occurred.
    Violation(String),
    /// A fault has fired.
    Fired(Fired),
}

/// A fault that has fired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fired {
    /// Its name.
    pub fault: String,
    /// How long it may take to fire; zero demands that it has.
    pub within: Duration,
}

/// A Kubernetes Event about an object.
#[derive(Clone, Debug, PartialEq)]
pub struct EventSeen {
    /// What the event is about.
    pub object: ObjectRef,
    /// Its reason, exactly.
    pub reason: String,
    /// A part of its message.
    pub contains: Option<String>,
    /// How often it was recorded.
    pub times: Times,
    /// How long it may take to appear; zero demands that it is there.
    pub within: Duration,
}

/// The workload of a pod found the records of an earlier one, and their checksums were right.
#[derive(Clone, Debug, PartialEq)]
pub struct BytesIntact {
    /// The pod.
    pub pod: ObjectRef,
    /// The least number of records that it must have found.
    pub records: u64,
}

/// The volume of a claim is attached to a node, in the cloud and in its VolumeAttachment.
#[derive(Clone, Debug, PartialEq)]
pub struct Attached {
    /// The claim.
    pub claim: ObjectRef,
    /// The node.
    pub node: String,
    /// How long it may take; zero demands that it is so now.
    pub within: Duration,
}

/// How much of the scenario's own time passed.
#[derive(Clone, Debug, PartialEq)]
pub struct Elapsed {
    /// The step (its index) whose beginning counts; the beginning of the first step when absent.
    pub since: Option<usize>,
    /// Least.
    pub at_least: Option<Duration>,
    /// Most.
    pub at_most: Option<Duration>,
}

/// A deletion.
#[derive(Clone, Debug, PartialEq)]
pub struct Delete {
    /// The object.
    pub object: ObjectRef,
    /// Removes the object at once, whatever still runs: `kubectl delete --force --grace-period=0`.
    pub force: bool,
    /// The grace period; the object's own when absent.
    pub grace: Option<Duration>,
    /// How its dependents are treated; the kind's own way when absent.
    pub cascade: Option<Propagation>,
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

/// A taint to take off a node, whatever its value and effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Untaint {
    /// The node.
    pub node: String,
    /// The taint's key.
    pub key: String,
}
