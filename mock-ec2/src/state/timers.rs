//! Timers of transitions.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::ids::{InstanceId, SnapshotId, VolumeId};

/// Key of a timer: due time (monotonic), then the order of creation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TimerKey {
    /// Monotonic time since the world began.
    pub due: Duration,
    /// Number of the timer.
    pub number: u64,
}

/// Subject of a timer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A volume that is `creating` or `deleting`.
    Volume(VolumeId),
    /// An attachment that is `attaching` or `detaching`.
    Attachment(VolumeId, InstanceId),
    /// An instance that is `pending`, `stopping` or `shutting-down`.
    Instance(InstanceId),
    /// A modification that is `modifying` or `optimizing`.
    Modification(VolumeId),
    /// A snapshot that is `pending`.
    Snapshot(SnapshotId),
    /// A snapshot whose tier changes.
    Tier(SnapshotId),
    /// Fast restore of a snapshot in a zone, that is `enabling`, `optimizing` or `disabling`.
    FastRestore(SnapshotId, String),
    /// A `terminated` instance that is about to be forgotten.
    Forget(InstanceId),
}

/// End of a state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Progress {
    /// None: the state is final, or only a request ends it.
    #[default]
    Settled,
    /// By this timer.
    Until(TimerKey),
    /// After the fault of this name is removed.
    Stuck(String),
    /// After this cause is gone.
    Held(HoldReason),
}

/// Other causes that hold a transition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldReason {
    /// A forced detach left the device name in use, until the instance reboots (EC2 user guide).
    PoisonedName,
    /// The instance has no free slot for it ("stick" mode, aws-ebs-csi-driver#1801).
    OverLimit,
    /// The device is mounted.
    Mounted,
    /// Its bytes have not arrived yet.
    Bytes,
    /// A request to the admin API.
    Admin,
}

impl HoldReason {
    fn as_str(self) -> &'static str {
        match self {
            Self::PoisonedName => "a poisoned device name",
            Self::OverLimit => "the attach limit",
            Self::Mounted => "a mount",
            Self::Bytes => "a copy of its bytes",
            Self::Admin => "the admin API",
        }
    }
}

impl Serialize for Progress {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Settled => serializer.serialize_str("settled"),
            Self::Until(key) => serializer.collect_str(&format_args!("until {} ms", key.due.as_millis())),
            Self::Stuck(fault) => serializer.collect_str(&format_args!("stuck by {fault}")),
            Self::Held(hold) => serializer.collect_str(&format_args!("held by {}", hold.as_str())),
        }
    }
}

/// A saved transition is due at once after the load.
impl<'de> Deserialize<'de> for Progress {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let due = TimerKey { due: Duration::ZERO, number: 0 };
        Ok(if text == "settled" { Self::Settled } else { Self::Until(due) })
    }
}

/// All timers, in the order of their due time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Timers {
    waiting: BTreeMap<TimerKey, Subject>,
    count: u64,
}

impl Timers {
    /// Sets a timer.
    pub fn set(&mut self, due: Duration, subject: Subject) -> TimerKey {
        self.count += 1;
        let key = TimerKey { due, number: self.count };
        self.waiting.insert(key, subject);
        key
    }

    /// Cancels the timer of `progress`, if it has one.
    pub fn cancel(&mut self, progress: &Progress) {
        if let Progress::Until(key) = progress {
            self.waiting.remove(key);
        }
    }

    /// Returns the subjects of timers due by `until`.
    pub fn due(&self, until: Duration) -> impl Iterator<Item = &Subject> {
        self.waiting.iter().take_while(move |(key, _)| key.due <= until).map(|(_, subject)| subject)
    }

    /// Returns the first due time.
    pub fn next(&self) -> Option<Duration> {
        self.waiting.keys().next().map(|key| key.due)
    }

    /// Takes the first timer that is due at `now`, with its due time.
    pub fn pop(&mut self, now: Duration) -> Option<(Duration, Subject)> {
        let first = self.waiting.first_entry().filter(|entry| entry.key().due <= now)?;
        let due = first.key().due;
        Some((due, first.remove()))
    }
}
