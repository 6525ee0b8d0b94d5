//! Faults as data: one serde type in scenario files, on every admin API, in the CLI, in the Rust API.
//!
//! ```yaml
//! - name: attach-reply-lost
//!   match:  {plane: ec2, op: AttachVolume, where: {volume: vol-0123}}
//!   when:   {first: 2}
//!   effect: {drop_reply: true}
//!   at:     after_effect
//!   lease:  {ttl: 5m}
//! ```

mod book;
mod planes;
mod span;

pub use book::{Faults, Firing, Point, Report};
pub use span::Span;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

/// One fault, as written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// Names it in reports; unique among the faults in force.
    pub name: String,
    /// Where it can fire.
    #[serde(rename = "match")]
    pub matches: Match,
    /// On which of the matching operations; on all of them when absent.
    #[serde(default)]
    pub when: When,
    /// What happens.
    pub effect: Effect,
    /// At which moment of the operation.
    #[serde(default)]
    pub at: Moment,
    /// When it ends by itself.
    #[serde(default)]
    pub lease: Lease,
}

/// Where a fault can fire.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Match {
    /// The layer.
    pub plane: Plane,
    /// The operation's name in its own protocol (`AttachVolume`, `NodeStageVolume`, `patch`); any when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub op: Option<String>,
    /// Attributes that the operation must have (`volume`, `instance`, `node`, `object`, `caller`, `from`, `to` …).
    /// A trailing `*` matches any rest.
    #[serde(default, rename = "where", skip_serializing_if = "IndexMap::is_empty")]
    pub attributes: IndexMap<String, String>,
}

/// The layers in which faults act.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Plane {
    /// The cloud's API.
    Ec2,
    /// The Kubernetes API.
    K8s,
    /// The CSI driver.
    Csi,
    /// The messages between components.
    Link,
    /// The block device and its filesystem.
    Disk,
    /// Processes.
    Process,
    /// Wall time.
    Clock,
}

/// On which of the matching operations a fault fires. Several conditions must all hold.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct When {
    /// The first N.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<u64>,
    /// The Nth only, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nth: Option<u64>,
    /// Each Nth.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<u64>,
    /// Each with this chance, from the fault's own random stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probability: Option<f64>,
    /// Only later than this after the fault was added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Span>,
    /// Only this long (from `after`, or from when the fault was added).
    #[serde(default, rename = "for", skip_serializing_if = "Option::is_none")]
    pub lasting: Option<Span>,
    /// Until a condition on the cluster holds, `kind/name=phase`; whoever runs the fault watches it and ends it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
}

/// The moment of an operation at which a fault acts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Moment {
    /// Before anything was done.
    #[default]
    Before,
    /// After the side effect, before it is recorded.
    AfterEffect,
    /// After all, before the reply leaves.
    BeforeReply,
}

/// When a fault ends by itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lease {
    /// Time to live.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl: Option<Span>,
    /// Who answers for it; removing the owner removes the fault.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
}

/// What a watch stream suffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WatchFault {
    /// The connection is cut.
    Drop,
    /// 410 Gone.
    Gone,
    /// An event is left out (illegal; to test clients against broken servers).
    Gap,
    /// Nothing arrives any more.
    Stall,
}

/// What happens when a fault fires. Exactly one key, as a map: `{error: IncorrectState}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// The operation fails with this EC2 error code, or errno name on the disk plane.
    Error(String),
    /// The operation fails with this HTTP status.
    Http(u16),
    /// The operation fails with this gRPC code, by name.
    Grpc(String),
    /// The operation waits first.
    Delay(Span),
    /// The operation never answers.
    Hang(bool),
    /// The request is lost: the operation does not happen and the caller sees a broken connection.
    DropRequest(bool),
    /// The operation happens and its answer is lost.
    DropReply(bool),
    /// The operation happens this many times.
    Duplicate(u32),
    /// Reads answer with the state of this many revisions ago.
    StaleRead(u32),
    /// A transition stops in this state.
    Stick(String),
    /// What the operation is about is gone, at once and for good.
    Vanish(bool),
    /// The process at hand crashes (`self`), or the one that is named.
    Crash(String),
    /// A watch stream suffers.
    Watch(WatchFault),
    /// No message passes between the two, in either direction.
    Partition([String; 2]),
    /// No message passes from the first to the second.
    PartitionOneWay([String; 2]),
    /// A stream is reset.
    ResetStream(bool),
    /// A stream goes silent without an end.
    StallStream(bool),
    /// Disk operations fail with this errno name.
    IoError(String),
    /// Disk operations wait.
    PauseIo(Span),
    /// Writes that were not synced are lost.
    LoseUnsynced(bool),
    /// A write is done in part.
    TornWrite(bool),
    /// The device found is another volume's.
    WrongDevice(bool),
    /// Wall time is shifted, with a sign: `+90s`.
    Skew(String),
    /// The node starts anew.
    Reboot(String),
}

impl Effect {
    /// Its key in a file.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Error(_) => "error",
            Self::Http(_) => "http",
            Self::Grpc(_) => "grpc",
            Self::Delay(_) => "delay",
            Self::Hang(_) => "hang",
            Self::DropRequest(_) => "drop_request",
            Self::DropReply(_) => "drop_reply",
            Self::Duplicate(_) => "duplicate",
            Self::StaleRead(_) => "stale_read",
            Self::Stick(_) => "stick",
            Self::Vanish(_) => "vanish",
            Self::Crash(_) => "crash",
            Self::Watch(_) => "watch",
            Self::Partition(_) => "partition",
            Self::PartitionOneWay(_) => "partition_one_way",
            Self::ResetStream(_) => "reset_stream",
            Self::StallStream(_) => "stall_stream",
            Self::IoError(_) => "io_error",
            Self::PauseIo(_) => "pause_io",
            Self::LoseUnsynced(_) => "lose_unsynced",
            Self::TornWrite(_) => "torn_write",
            Self::WrongDevice(_) => "wrong_device",
            Self::Skew(_) => "skew",
            Self::Reboot(_) => "reboot",
        }
    }

    /// Whether an operation that meets it never answers: it hangs, or the process that works on it crashes, which is
    /// done by whoever runs the process.
    pub fn never_answers(&self) -> bool {
        matches!(self, Self::Hang(true)) || matches!(self, Self::Crash(who) if who == "self")
    }
}
