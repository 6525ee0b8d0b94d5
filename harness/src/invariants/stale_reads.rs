//! Time since the last fault at reads of the API server: caches may be stale after it. A checker that knows nothing else
//! about a cache makes no statement meanwhile. [`staleness`](super::staleness) knows what each cache had.

use substrate::Event;
use substrate::events::FaultFired;

/// Operations at which a fault makes a cache stale: reads and watches of the API server, and the links to it.
pub(super) const MAKE_LATE: &[&str] = &["get", "list", "watch", "watch-event", "request", "stream"];

/// Ten minutes in milliseconds.
pub(super) const TEN_MINUTES: u64 = 10 * 60 * 1000;

/// Time of the last such fault.
#[derive(Debug, Default)]
pub(super) struct StaleReads(Option<u64>);

impl StaleReads {
    /// Notes a fault at a read, or at an operation of `also`.
    pub fn note(&mut self, event: &Event, also: &[&str]) {
        if let Some(FaultFired { op, .. }) = event.get()
            && (MAKE_LATE.contains(&op.as_str()) || also.contains(&op.as_str()))
        {
            self.0 = Some(event.ms);
        }
    }

    /// Returns true if there was a fault less than `span` milliseconds before `ms`.
    pub fn within(&self, span: u64, ms: u64) -> bool {
        self.0.is_some_and(|at| ms < at + span)
    }
}
