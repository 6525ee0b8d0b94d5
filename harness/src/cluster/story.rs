//! What the workloads of a cluster have told through the trace.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use controllers::machine::events::{WorkloadCorrupt, WorkloadStarted, WorkloadSynced};
use substrate::Event;

/// What is known of each pod's workload, by `namespace/name`.
#[derive(Debug, Default)]
pub(super) struct Story(Mutex<BTreeMap<String, Told>>);

#[derive(Clone, Copy, Debug, Default)]
struct Told {
    found: Option<(u64, bool)>,
    synced: u64,
}

impl Story {
    pub(super) fn observe(&self, event: &Event) {
        if let Some(WorkloadStarted { pod, records_found: found, verified, .. }) = event.get() {
            // A pod of several claims starts one writer for each; the worst of them counts.
            let mut pods = self.pods();
            let told = pods.entry(pod.to_string()).or_default();
            told.found = Some(match told.found {
                Some((before, intact)) if told.synced == 0 => (before.min(*found), intact && *verified),
                _ => (*found, *verified),
            });
            told.synced = 0;
        } else if let Some(WorkloadCorrupt { pod, .. }) = event.get() {
            let mut pods = self.pods();
            let told = pods.entry(pod.to_string()).or_default();
            told.found = Some((told.found.map_or(0, |f| f.0), false));
        } else if let Some(WorkloadSynced { pod, record, .. }) = event.get() {
            let mut pods = self.pods();
            let told = pods.entry(pod.to_string()).or_default();
            told.synced = told.synced.max(*record);
        }
    }

    pub(super) fn found(&self, pod: &str) -> Option<(u64, bool)> {
        self.pods().get(pod).and_then(|told| told.found)
    }

    pub(super) fn synced(&self, pod: &str) -> u64 {
        self.pods().get(pod).map_or(0, |told| told.synced)
    }

    fn pods(&self) -> MutexGuard<'_, BTreeMap<String, Told>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
