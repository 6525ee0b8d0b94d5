//! What is said between a kubelet and the container runtime of its machine, as the CRI has it.

use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// A pod's containers, as a kubelet asks for them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PodSpec {
    /// `<namespace>/<name>`.
    pub pod: String,
    /// The pod's uid.
    pub uid: String,
    /// How often its containers were started before.
    pub attempt: u32,
    /// The containers.
    pub containers: Vec<ContainerSpec>,
    /// The volumes that are ready for them.
    pub volumes: Vec<VolumeUse>,
    /// How they write.
    pub pace: Pace,
}

/// A container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContainerSpec {
    /// Its name.
    pub name: String,
    /// Its image, which nobody looks at.
    pub image: String,
}

/// A volume in a pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VolumeUse {
    /// The name in the pod's `spec.volumes`.
    pub name: String,
    /// The volume handle.
    pub volume: String,
    /// The container that writes to it; the first one when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    /// Where the container has it; absent when no container of the pod itself mounts it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// Where the machine has it.
    pub place: Place,
    /// Nothing is written to it.
    pub readonly: bool,
}

/// Where the machine has a volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Place {
    /// A filesystem.
    Filesystem {
        /// Where it is published to the pod.
        path: PathBuf,
    },
    /// A raw device, which the container opens itself.
    Device {
        /// Where it is published to the pod.
        published: PathBuf,
        /// Where the kubelet has bound it once more.
        global: PathBuf,
        /// The link by which the container finds it.
        link: PathBuf,
    },
}

/// How much a modelled workload writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pace {
    /// Milliseconds between two records at first.
    pub write_every_ms: u64,
    /// After how many records it becomes idle.
    pub records: u64,
    /// Milliseconds between two records once idle.
    pub idle_every_ms: u64,
}

impl Pace {
    /// How long a writer that has written so many records waits; one that failed is idle. Never no time: a writer that
    /// never waits would never let time pass.
    pub fn wait(&self, written: u64, failed: bool) -> Duration {
        let idle = failed || written >= self.records;
        Duration::from_millis(if idle { self.idle_every_ms } else { self.write_every_ms }.max(1))
    }
}

/// How long a pod's containers may take to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stop {
    /// From the first request on, in milliseconds, which the machine scales as all waits.
    pub grace_ms: u64,
}

/// How far a pod's containers have come; all of them share one fate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum State {
    /// They are being made.
    Starting,
    /// They run.
    Running {
        /// Since when.
        since: Timestamp,
    },
    /// They have stopped.
    Stopped {
        /// When they were started; never, when absent.
        since: Option<Timestamp>,
        /// When they stopped.
        at: Timestamp,
        /// They were killed, and did not end by themselves.
        killed: bool,
    },
}

/// What a machine has of a pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PodRecord {
    /// `<namespace>/<name>`.
    pub pod: String,
    /// The pod's uid.
    pub uid: String,
    /// How often its containers were started before.
    pub attempt: u32,
    /// The number of its sandbox on this machine, of which its address is made.
    pub sandbox: u64,
    /// How far its containers have come.
    pub state: State,
}

impl PodRecord {
    /// Whether its containers run, or are about to.
    pub fn is_alive(&self) -> bool {
        !matches!(self.state, State::Stopped { .. })
    }

    /// When its containers were started.
    pub fn since(&self) -> Option<Timestamp> {
        match self.state {
            State::Starting => None,
            State::Running { since } => Some(since),
            State::Stopped { since, .. } => since,
        }
    }

    /// When its containers stopped.
    pub fn ended(&self) -> Option<Timestamp> {
        match self.state {
            State::Stopped { at, .. } => Some(at),
            _ => None,
        }
    }
}

/// One line of the stream of news. The first line is a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum News {
    /// All pods that the machine has.
    List(Vec<PodRecord>),
    /// A pod is new or changed.
    Pod(PodRecord),
    /// The machine has forgotten this uid.
    Removed(String),
    /// A workload tells its pod of trouble.
    Trouble(Trouble),
}

/// What a workload tells its pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trouble {
    /// The pod's uid.
    pub uid: String,
    /// In one word.
    pub reason: String,
    /// In a sentence.
    pub message: String,
}
