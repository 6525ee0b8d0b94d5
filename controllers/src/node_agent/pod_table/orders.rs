//! Orders to the worker of a pod, and the pace of its syncs.

use std::time::Duration;

/// First wait after a failed sync (`backOffPeriod`). Jitter adds up to half of it.
pub(crate) const SYNC_BACKOFF: Duration = Duration::from_secs(10);
pub(crate) const SYNC_JITTER: f64 = 0.5;

/// Orders of the pod source to a worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Orders {
    /// Stop within this time.
    pub terminate: Option<Duration>,
    /// True if the object is gone.
    pub deleted: bool,
    /// True if the pod was active for too long.
    pub expired: bool,
}
