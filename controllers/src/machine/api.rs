//! Messages between a kubelet and the container runtime of its machine, modelled on the CRI.

use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Containers of a pod that a kubelet requests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PodSpec {
    /// `<namespace>/<name>`.
    pub pod: String,
    /// The pod's uid.
    pub uid: String,
    /// Number of earlier starts.
    pub attempt: u32,
    /// The containers.
    pub containers: Vec<ContainerSpec>,
    /// Volumes that are ready for them.
    pub volumes: Vec<VolumeUse>,
    /// Pace of their writes.
    pub pace: Pace,
}

/// A container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContainerSpec {
    /// Its name.
    pub name: String,
    /// Its image, which is ignored.
    pub image: String,
}

/// A volume in a pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VolumeUse {
    /// Name in the pod's `spec.volumes`.
    pub name: String,
    /// The volume handle.
    pub volume: String,
    /// Container that writes to it. Default: the first one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    /// Mount path in the container; absent if no container of the pod mounts it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// Place on the machine.
    pub place: VolumeLocation,
    /// True if it is not written to.
    pub readonly: bool,
}

/// Place of a volume on the machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum VolumeLocation {
    /// A filesystem.
    Filesystem {
        /// Path at which it is published to the pod.
        path: PathBuf,
    },
    /// Raw device, which the container opens itself.
    Device {
        /// Path at which it is published to the pod.
        published: PathBuf,
        /// Path of the kubelet's second bind.
        global: PathBuf,
        /// Link for the container.
        link: PathBuf,
    },
}

/// Pace of a modelled workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pace {
    /// Milliseconds between two records before it becomes idle.
    pub write_every_ms: u64,
    /// Number of records after which it becomes idle.
    pub records: u64,
    /// Milliseconds between two records of an idle writer.
    pub idle_every_ms: u64,
}

impl Pace {
    /// Returns the wait of a writer that has written so many records; after a failure it is idle. Never zero: a writer
    /// without a wait would stop virtual time.
    pub fn wait(&self, written: u64, failed: bool) -> Duration {
        let idle = failed || written >= self.records;
        Duration::from_millis(if idle { self.idle_every_ms } else { self.write_every_ms }.max(1))
    }
}

/// Request to stop a pod's containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stop {
    /// Grace period from the first request on, in milliseconds; scaled like all waits.
    pub grace_ms: u64,
}

/// State of a pod's containers, which is common to all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum State {
    /// Being created.
    Starting,
    /// Running.
    Running {
        /// Start time.
        since: Timestamp,
    },
    /// Stopped.
    Stopped {
        /// Start time; None if they never started.
        since: Option<Timestamp>,
        /// Stop time.
        at: Timestamp,
        /// True if they were killed instead of exiting.
        killed: bool,
    },
}

/// Machine's record of a pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PodRecord {
    /// `<namespace>/<name>`.
    pub pod: String,
    /// The pod's uid.
    pub uid: String,
    /// Number of earlier starts.
    pub attempt: u32,
    /// Number of its sandbox on this machine; its address is derived from it.
    pub sandbox: u64,
    /// State of its containers.
    pub state: State,
}

impl PodRecord {
    /// Returns true if its containers run, or are about to.
    pub fn is_alive(&self) -> bool {
        !matches!(self.state, State::Stopped { .. })
    }

    /// Returns the start time of its containers.
    pub fn since(&self) -> Option<Timestamp> {
        match self.state {
            State::Starting => None,
            State::Running { since } => Some(since),
            State::Stopped { since, .. } => since,
        }
    }

    /// Returns the stop time of its containers.
    pub fn ended(&self) -> Option<Timestamp> {
        match self.state {
            State::Stopped { at, .. } => Some(at),
            _ => None,
        }
    }
}

/// Line of the event stream. The first line is a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum News {
    /// All pods of the machine.
    List(Vec<PodRecord>),
    /// A pod is new or changed.
    Pod(PodRecord),
    /// The machine has forgotten this uid.
    Removed(String),
    /// Trouble of a workload.
    Trouble(Trouble),
}

/// Message of a workload to its pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trouble {
    /// The pod's uid.
    pub uid: String,
    /// Reason in one word.
    pub reason: String,
    /// Message in a sentence.
    pub message: String,
}
