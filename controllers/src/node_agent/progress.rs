//! Progress of a pod on its node, as its worker knows it. The status of the pod is built from it.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::refusal::Refusal;
use crate::machine::api::ContainerRecord;

/// Reason of a container whose environment or mounts refer to something that does not exist
/// (`ErrCreateContainerConfig`).
pub(super) const UNPREPARED: &str = "CreateContainerConfigError";

/// Progress of a pod on its node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Refused; `PodFacts::refusal` has the reason.
    Refused,
    /// Accepted, but volumes or containers are not ready.
    Waiting,
    /// The pod has run on its machine since this time; `PodFacts::containers` has the states of its containers.
    Running(Timestamp),
    /// All containers have stopped for good: start time (None if they never started), end time.
    Stopped(Option<Timestamp>, Timestamp),
}

/// Reason why a container of a running pod cannot start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotStarted {
    /// Reason of its waiting state.
    pub reason: &'static str,
    /// Message of its waiting state.
    pub message: String,
}

/// Facts that are the same in every status of a pod on this node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodFacts {
    /// Time at which kubelet first saw the pod.
    pub start_time: Timestamp,
    /// The node's address.
    pub host_ip: String,
    /// Pod's address. None until its sandbox exists.
    pub pod_ip: Option<String>,
    /// Its containers according to the machine.
    pub containers: Vec<ContainerRecord>,
    /// Messages of containers that wait before they start again.
    pub waiting: BTreeMap<String, String>,
    /// Reasons why containers of the running pod cannot start.
    pub not_started: BTreeMap<String, NotStarted>,
    /// Reason why the programs of its containers cannot be prepared.
    pub unprepared: Option<String>,
    /// Running containers that are not ready by their probes.
    pub unready: BTreeSet<String>,
    /// Running containers that have not started yet by their startup probe.
    pub starting: BTreeSet<String>,
    /// Reason why the pod must not run here.
    pub refusal: Option<Refusal>,
    /// True if it was active for longer than `spec.activeDeadlineSeconds`.
    pub expired: bool,
    /// Seeded bug: one success among its containers makes it Succeeded.
    pub one_success_suffices: bool,
}
