//! What ends by itself, and when.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::ids::{InstanceId, SnapshotId, VolumeId};

/// When a timer is due: monotonic time, then the order in which timers were set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TimerKey {
    /// Monotonic time since the world began.
    pub due: Duration,
    /// Number of the timer.
    pub number: u64,
}

/// Whose state ends when a timer is due.
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
    /// An instance that is `terminated` and about to be forgotten.
    Forget(InstanceId),
}

/// How a state ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Progress {
    /// Not by itself.
    #[default]
    Settled,
    /// By this timer.
    Until(TimerKey),
    /// Not before the fault of this name is gone.
    Stuck(String),
    /// Not before this cause is gone.
    Held(Hold),
}

/// What else holds a transition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// The device name was left in use by a forced detach; until the instance reboots (reference §5.2).
    PoisonedName,
    /// The instance has no slot for it; until one is free (reference §7, "stick" mode).
    OverLimit,
    /// The device is mounted; until it is not.
    Mounted,
    /// Its bytes are not there yet.
    Bytes,
    /// Somebody asked for it over the admin API.
    Admin,
}

impl Hold {
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

/// What was under way when it was written down is due at once when it is read.
impl<'de> Deserialize<'de> for Progress {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let due = TimerKey { due: Duration::ZERO, number: 0 };
        Ok(if text == "settled" { Self::Settled } else { Self::Until(due) })
    }
}

/// All timers, in the order in which they are due.
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

    /// Takes back the timer of `progress`, if it has one.
    pub fn cancel(&mut self, progress: &Progress) {
        if let Progress::Until(key) = progress {
            self.waiting.remove(key);
        }
    }

    /// Whose timers are due by `until`.
    pub fn due(&self, until: Duration) -> impl Iterator<Item = &Subject> {
        self.waiting.iter().take_while(move |(key, _)| key.due <= until).map(|(_, subject)| subject)
    }

    /// When the first timer is due.
    pub fn next(&self) -> Option<Duration> {
        self.waiting.keys().next().map(|key| key.due)
    }

    /// Takes the first timer that is due at `now`, and when it was due.
    pub fn pop(&mut self, now: Duration) -> Option<(Duration, Subject)> {
        let first = self.waiting.first_entry().filter(|entry| entry.key().due <= now)?;
        let due = first.key().due;
        Some((due, first.remove()))
    }
}
