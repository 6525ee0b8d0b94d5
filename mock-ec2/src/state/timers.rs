//! What ends by itself, and when.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Serialize, Serializer};

use super::ids::{InstanceId, VolumeId};

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
    /// An instance that is `pending`.
    Instance(InstanceId),
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
}

impl Serialize for Progress {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Settled => serializer.serialize_str("settled"),
            Self::Until(key) => serializer.collect_str(&format_args!("until {} ms", key.due.as_millis())),
            Self::Stuck(fault) => serializer.collect_str(&format_args!("stuck by {fault}")),
        }
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

    /// When the first timer is due.
    pub fn next(&self) -> Option<Duration> {
        self.waiting.keys().next().map(|key| key.due)
    }

    /// Takes the first timer that is due at `now`.
    pub fn pop(&mut self, now: Duration) -> Option<Subject> {
        let first = self.waiting.first_entry().filter(|entry| entry.key().due <= now)?;
        Some(first.remove())
    }
}
