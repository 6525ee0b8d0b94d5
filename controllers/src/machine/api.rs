//! Messages between a kubelet and the container runtime of its machine, modelled on the CRI.

use std::collections::BTreeMap;
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

impl PodSpec {
    /// Returns true if a container starts with its pod. The kubelet starts the others: those that are held, init
    /// containers with a program or a planned exit, and the containers behind such an init container or behind a sidecar
    /// that has not started.
    pub fn starts_at_once(&self, container: &ContainerSpec) -> bool {
        let waits = |one: &ContainerSpec| one.init && (one.held || one.program.is_some() || one.exit.is_some());
        let mut before = self.containers.iter().take_while(|one| one.name != container.name);
        !container.held && !waits(container) && !before.any(|one| waits(one) || one.gates)
    }
}

/// A container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContainerSpec {
    /// Its name.
    pub name: String,
    /// Its image, which is ignored.
    pub image: String,
    /// Number of earlier starts of this container.
    pub attempt: u32,
    /// True for an init container: it writes nothing, and is done when the pod starts, unless it has a program or a
    /// planned exit.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub init: bool,
    /// True for a sidecar that has a startup probe or cannot start yet: the containers after it wait.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub gates: bool,
    /// Time after which it exits by itself. Default: it runs until it is stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<ExitPlan>,
    /// True if it cannot start with its pod: its image is not on the machine, or its variables refer to a missing object.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub held: bool,
    /// Program that it runs, on a machine that runs programs. Default: it is a modelled workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<ProgramSpec>,
}

/// Program of a container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProgramSpec {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Its environment.
    pub env: BTreeMap<String, String>,
    /// Host name of its pod. Default: that of the machine.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub host_name: String,
    /// Lines that its `/etc/hosts` has after those of the machine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// Working directory.
    pub directory: String,
    /// User id that the pod asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<u32>,
    /// Group id that the pod asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<u32>,
    /// Group that owns its volumes (`fsGroup`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fs_group: Option<u32>,
    /// Further groups that it belongs to (`supplementalGroups`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<u32>,
    /// If set, its standard input is what attached clients write. Default: it is empty.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stdin: bool,
    /// If set, its standard input ends with that of the first attached client (`stdinOnce`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stdin_once: bool,
    /// If set, its standard streams are a terminal.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tty: bool,
    /// If set, it cannot write outside its volumes (`readOnlyRootFilesystem`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub readonly_root: bool,
    /// Name of the signal that asks it to stop (`lifecycle.stopSignal`). Default: SIGTERM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_signal: Option<String>,
    /// Path of the file that it can write a termination message to. Default: it has none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message_path: String,
    /// If set, the end of its log is its termination message if it fails and has written none
    /// (`FallbackToLogsOnError`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub message_from_log: bool,
    /// Its mounts.
    pub mounts: Vec<MountSpec>,
    /// Reasons why other mounts of the pod are left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub without: Vec<String>,
}

/// Mount in a container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MountSpec {
    /// The mounted thing.
    pub source: MountSource,
    /// Path in the container.
    pub at: String,
    /// Directory or file of the volume that is mounted instead of the whole volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sub_path: Option<String>,
    /// True if it cannot be written to.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub readonly: bool,
}

/// Volume of a mount.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum MountSource {
    /// Filesystem or directory, published at a path on the machine.
    Published(PathBuf),
    /// Raw device, published at a path on the machine.
    Device(PathBuf),
    /// Path of the machine, with everything that is mounted below it. Its owner stays.
    HostPath(PathBuf),
    /// Directory that belongs to the pod, by the name of its volume.
    EmptyDir(String),
    /// Files with these contents: a ConfigMap, a Secret or the downward API.
    Files {
        /// Name of the volume.
        name: String,
        /// Contents by path.
        files: BTreeMap<String, String>,
    },
}

/// Planned end of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExitPlan {
    /// Milliseconds from its start; scaled like all waits.
    pub after_ms: u64,
    /// Exit code.
    pub code: i32,
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
    /// Number of records after which it becomes idle. 0: it writes nothing.
    pub records: u64,
    /// Milliseconds between two records of an idle writer.
    pub idle_every_ms: u64,
}

impl Pace {
    /// Returns the wait of a writer that has written so many records. Never zero: a writer without a wait would stop
    /// virtual time.
    pub fn wait(&self, written: u64) -> Duration {
        let idle = written >= self.records;
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

/// Request to start a container again after it has exited.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StartContainer {
    /// Number of earlier starts of this container.
    pub attempt: u32,
    /// The container, if it has another image than at its start before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renewed: Option<ContainerSpec>,
}

/// State of a pod on the machine. While it is `Running`, each container has a state of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum State {
    /// Being created.
    Starting,
    /// Running: its containers may be started.
    Running {
        /// Start time.
        since: Timestamp,
    },
    /// Stopped with all its containers.
    Stopped {
        /// Start time; None if it never started.
        since: Option<Timestamp>,
        /// Stop time.
        at: Timestamp,
    },
}

/// State of one container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ContainerState {
    /// Not started yet.
    Created,
    /// Running.
    Running {
        /// Start time.
        since: Timestamp,
    },
    /// Exited.
    Exited(Exit),
}

/// End of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exit {
    /// Start time.
    pub since: Timestamp,
    /// End time.
    pub at: Timestamp,
    /// Exit code: 128 + n if signal n ended it.
    pub code: i32,
}

/// Machine's record of a container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContainerRecord {
    /// Its name.
    pub name: String,
    /// Its image.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub image: String,
    /// Number of earlier starts.
    pub attempt: u32,
    /// Its state.
    pub state: ContainerState,
    /// End of the start before, if that was on this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<Exit>,
    /// Termination messages of these exits.
    #[serde(default, skip_serializing_if = "Messages::is_empty")]
    pub messages: Messages,
}

/// Termination messages of a container. Empty without one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Messages {
    /// Message of its exit.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub exit: String,
    /// Message of the exit before.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub last: String,
}

impl Messages {
    /// Returns true if there is none.
    pub fn is_empty(&self) -> bool {
        self.exit.is_empty() && self.last.is_empty()
    }
}

impl ContainerRecord {
    /// Returns the record of a container after `attempt` earlier starts, without an earlier end and without messages.
    pub fn new(name: &str, image: &str, attempt: u32, state: ContainerState) -> Self {
        let (name, image) = (name.to_owned(), image.to_owned());
        Self { name, image, attempt, state, last: None, messages: Messages::default() }
    }

    /// Returns its end, if it has exited.
    pub fn exit(&self) -> Option<Exit> {
        match self.state {
            ContainerState::Exited(exit) => Some(exit),
            ContainerState::Created | ContainerState::Running { .. } => None,
        }
    }
}

/// Number of addresses that a node has for its pods.
pub const POD_ADDRESSES: u64 = 253;

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
    /// State of the pod.
    pub state: State,
    /// Its containers, in the order of the request.
    pub containers: Vec<ContainerRecord>,
}

impl PodRecord {
    /// Returns true if it has not stopped.
    pub fn is_alive(&self) -> bool {
        !matches!(self.state, State::Stopped { .. })
    }

    /// Returns its start time.
    pub fn since(&self) -> Option<Timestamp> {
        match self.state {
            State::Starting => None,
            State::Running { since } => Some(since),
            State::Stopped { since, .. } => since,
        }
    }

    /// Returns a container's record.
    pub fn container(&self, name: &str) -> Option<&ContainerRecord> {
        self.containers.iter().find(|container| container.name == name)
    }

    /// Returns its stop time.
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
