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
mod branch;
pub mod catalogue;
mod near;
mod ops;
mod outcome;
mod span;

pub use book::{Faults, Firing, Following, Hit, Point, Report};
pub use branch::{Branches, Parts};
pub use catalogue::{Catalogue, Mistake, Names, Operation};
pub use ops::Ops;
pub use outcome::{Failure, FaultOutcome};
pub use span::Span;

use std::time::Duration;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

/// One fault, as written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// Name in reports; unique among the faults in force.
    pub name: String,
    /// Operations at which it can fire.
    #[serde(rename = "match")]
    pub matches: Match,
    /// Selection among the matching operations; all of them when absent.
    #[serde(default)]
    pub when: When,
    /// Its effect.
    pub effect: Effect,
    /// Moment of the operation.
    #[serde(default)]
    pub at: Moment,
    /// Conditions under which it ends by itself.
    #[serde(default)]
    pub lease: Lease,
}

/// Operations at which a fault can fire.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Match {
    /// The layer.
    pub plane: Plane,
    /// The operation's name in its own protocol (`AttachVolume`, `NodeStageVolume`, `patch`), a prefix and `*`, a class
    /// (`read`, `write`), or a list of these; any when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub op: Option<Ops>,
    /// Attributes that the operation must have (`volume`, `instance`, `node`, `object`, `caller`, `from`, `to` …). A
    /// trailing `*` matches any rest.
    #[serde(default, rename = "where", skip_serializing_if = "IndexMap::is_empty")]
    pub attributes: IndexMap<String, String>,
}

/// Layers in which faults act.
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

impl Plane {
    /// Returns its word in a file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ec2 => "ec2",
            Self::K8s => "k8s",
            Self::Csi => "csi",
            Self::Link => "link",
            Self::Disk => "disk",
            Self::Process => "process",
            Self::Clock => "clock",
        }
    }
}

/// Selection among the matching operations. Several conditions must all hold.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct When {
    /// The first N.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<u64>,
    /// The Nth only, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nth: Option<u64>,
    /// Every Nth.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<u64>,
    /// With this probability, from the fault's own random stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probability: Option<f64>,
    /// Only later than this after the fault was added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Span>,
    /// Only for this long (from `after`, or from when the fault was added).
    #[serde(default, rename = "for", skip_serializing_if = "Option::is_none")]
    pub lasting: Option<Span>,
    /// Until a condition on the cluster holds, `kind/name=phase`; the server of the cluster watches it and ends the
    /// fault.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// Only once the fault of this name, which is in force already, has fired; turns, times and the lease count from then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub following: Option<String>,
}

/// The moment of an operation at which a fault acts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Moment {
    /// Before the operation has done anything.
    #[default]
    Before,
    /// After the side effect, before it is recorded.
    AfterEffect,
    /// After everything, before the reply is sent.
    BeforeReply,
}

impl Moment {
    /// Returns its word in a file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Before => "before",
            Self::AfterEffect => "after_effect",
            Self::BeforeReply => "before_reply",
        }
    }
}

/// Conditions under which a fault ends by itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lease {
    /// Time to live.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl: Option<Span>,
    /// Owner of the fault; removing the owner removes the fault.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
}

/// Effect on a watch stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WatchFault {
    /// The connection is cut.
    Drop,
    /// 410 Gone.
    Gone,
    /// An event is left out (illegal; to test clients against broken servers).
    Gap,
    /// The stream goes silent.
    Stall,
}

impl WatchFault {
    /// Returns its word in a file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Drop => "drop",
            Self::Gone => "gone",
            Self::Gap => "gap",
            Self::Stall => "stall",
        }
    }
}

/// Defines effects and, for tables, their kinds without values.
macro_rules! effects {
    ($($(#[doc = $about:literal])+ $name:ident($of:ty) = $word:literal,)*) => {
        /// Effect of a fault. Exactly one key, as a map: `{error: IncorrectState}`.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Effect {
            $($(#[doc = $about])+ $name($of),)*
        }

        /// An effect without its value.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Kind {
            $($(#[doc = $about])+ $name,)*
        }

        impl Kind {
            /// All kinds.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// Returns its key in a file.
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => $word,)* }
            }

            /// Returns its description, in one sentence.
            pub fn about(self) -> &'static str {
                match self { $(Self::$name => concat!($($about),+),)* }
            }
        }

        impl Effect {
            /// Returns the effect without its value.
            pub fn kind(&self) -> Kind {
                match self { $(Self::$name(_) => Kind::$name,)* }
            }
        }
    };
}

effects! {
    /// The operation fails with this EC2 error code, or errno name on the disk plane.
    Error(String) = "error",
    /// The operation fails with this HTTP status.
    Http(u16) = "http",
    /// The operation fails with this gRPC code, by name.
    Grpc(String) = "grpc",
    /// The operation waits first.
    Delay(Span) = "delay",
    /// The operation waits until the fault is removed.
    Hang(bool) = "hang",
    /// The request is lost: the operation does not happen and the caller sees a broken connection.
    DropRequest(bool) = "drop_request",
    /// The operation happens and its answer is lost.
    DropReply(bool) = "drop_reply",
    /// The operation happens this many times.
    Duplicate(u32) = "duplicate",
    /// Reads answer with the state of this many revisions ago.
    StaleRead(u32) = "stale_read",
    /// A transition stops in this state.
    Stick(String) = "stick",
    /// The object of the operation is gone, at once and permanently.
    Vanish(bool) = "vanish",
    /// The process in which it fires crashes (`self`), or the named one.
    Crash(String) = "crash",
    /// A watch stream is disturbed.
    Watch(WatchFault) = "watch",
    /// No message passes between the two, in either direction.
    Partition([String; 2]) = "partition",
    /// No message passes from the first to the second.
    PartitionOneWay([String; 2]) = "partition_one_way",
    /// A stream is reset.
    ResetStream(bool) = "reset_stream",
    /// A stream goes silent without an end.
    StallStream(bool) = "stall_stream",
    /// Disk operations fail with this errno name.
    IoError(String) = "io_error",
    /// Disk operations wait.
    PauseIo(Span) = "pause_io",
    /// Writes that were not synced are lost.
    LoseUnsynced(bool) = "lose_unsynced",
    /// A write is done only in part.
    TornWrite(bool) = "torn_write",
    /// The device found is another volume's.
    WrongDevice(bool) = "wrong_device",
    /// A list leaves out an entry.
    OmitEntry(bool) = "omit_entry",
    /// A list has an entry twice.
    RepeatEntry(bool) = "repeat_entry",
    /// The answer to a publish has no publish context.
    NoContext(bool) = "no_context",
    /// The answer gives another capacity than the volume has.
    WrongCapacity(String) = "wrong_capacity",
    /// The answer gives the id of a node that does not exist.
    WrongNode(bool) = "wrong_node",
    /// The answer names another zone.
    WrongZone(bool) = "wrong_zone",
    /// Wall time is shifted, with a sign: `+90s`.
    Skew(String) = "skew",
    /// The node reboots.
    Reboot(String) = "reboot",
    /// No effect: the hit is only counted and reported.
    Count(bool) = "count",
}

impl Effect {
    /// Returns its key in a file.
    pub fn name(&self) -> &'static str {
        self.kind().name()
    }

    /// Returns true if an effect with a flag is switched on.
    fn is_on(&self) -> bool {
        match self {
            Self::Hang(on)
            | Self::DropRequest(on)
            | Self::DropReply(on)
            | Self::Vanish(on)
            | Self::ResetStream(on)
            | Self::StallStream(on)
            | Self::LoseUnsynced(on)
            | Self::TornWrite(on)
            | Self::WrongDevice(on)
            | Self::OmitEntry(on)
            | Self::RepeatEntry(on)
            | Self::NoContext(on)
            | Self::WrongNode(on)
            | Self::WrongZone(on)
            | Self::Count(on) => *on,
            _ => true,
        }
    }

    /// Returns true if it ends the process in which it fires.
    fn is_own_end(&self) -> bool {
        matches!(self, Self::Crash(who) if who == "self")
    }

    /// Returns the value, if it is a word.
    fn word(&self) -> String {
        match self {
            Self::Error(word)
            | Self::Grpc(word)
            | Self::Stick(word)
            | Self::Crash(word)
            | Self::IoError(word)
            | Self::Skew(word)
            | Self::WrongCapacity(word)
            | Self::Reboot(word) => word.clone(),
            Self::Watch(fault) => fault.name().to_owned(),
            _ => String::new(),
        }
    }

    fn span(&self) -> Option<Span> {
        match self {
            Self::Delay(span) | Self::PauseIo(span) => Some(*span),
            _ => None,
        }
    }

    fn number(&self) -> Option<u64> {
        match self {
            Self::Http(status) => Some(u64::from(*status)),
            Self::Duplicate(n) | Self::StaleRead(n) => Some(u64::from(*n)),
            _ => None,
        }
    }

    fn ends(&self) -> Option<&[String; 2]> {
        match self {
            Self::Partition(ends) | Self::PartitionOneWay(ends) => Some(ends),
            _ => None,
        }
    }
}

/// Parses a skew of the wall time such as `+90s` or `-5m` to milliseconds.
fn skew_ms(text: &str) -> Result<i64, String> {
    let bad = || format!("`{text}` is not a duration with a sign, such as +90s or -5m");
    let (sign, rest) = match (text.strip_prefix('+'), text.strip_prefix('-')) {
        (Some(rest), _) => (1, rest),
        (_, Some(rest)) => (-1, rest),
        _ => return Err(bad()),
    };
    let span: Span = rest.parse().map_err(|_| bad())?;
    // A year is more than any real skew, and far from the limits of the calendar.
    if span.0.is_zero() || span.0 > Duration::from_secs(366 * 24 * 3600) {
        return Err(format!("`{text}` must be more than 0s and at most 366 days"));
    }
    Ok(sign * i64::try_from(span.0.as_millis()).map_err(|_| bad())?)
}

/// Returns true if `value` equals `pattern`, or begins with it if it ends in `*`.
pub fn wild(pattern: &str, value: &str) -> bool {
    pattern.strip_suffix('*').map_or(pattern == value, |prefix| value.starts_with(prefix))
}
