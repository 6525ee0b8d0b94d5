//! Limits of the machine.

use std::time::Duration;

/// Limits of the machine.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Maximum number of events per kind; older revisions answer 410.
    pub history: usize,
    /// Maximum size of a kind's events that only lists can go back to, in bytes.
    pub history_bytes: usize,
    /// Time for which a watch can start at an event, at least; upstream's watch cache keeps 75 s. The newest [`LEAST`]
    /// events of each kind stay longer.
    pub fresh: Duration,
    /// Interval of compactions (kube-apiserver `--etcd-compaction-interval`): lists can go back at least that far. Zero
    /// turns compaction off.
    pub compaction: Duration,
    /// Lifetime of an Event object after its last write (kube-apiserver `--event-ttl`).
    pub event_ttl: Duration,
    /// If set, objects are kept as bytes only. Their trees, which are several times as large, are parsed again when an
    /// object is written. A server for many objects does this; a simulation does not, because it takes time.
    pub folds: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            history: 102_400,
            history_bytes: 64 << 20,
            fresh: Duration::from_secs(75),
            compaction: Duration::from_secs(300),
            event_ttl: Duration::from_secs(3600),
            folds: false,
        }
    }
}

/// Number of events of each kind that are kept at any age, as in upstream's smallest watch cache.
pub const LEAST: usize = 100;
