//! What the workloads of a cluster have told through the trace.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use substrate::Event;
use substrate::json::Value;

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
        let Some(pod) = event.str("pod") else { return };
        match event.kind.as_str() {
            "workload.started" => {
                let found = number(event, "records_found");
                let verified = event.fields.get("verified").and_then(Value::as_bool).unwrap_or(false);
                // A pod of several claims starts one writer for each; the worst of them counts.
                let mut pods = self.pods();
                let told = pods.entry(pod.to_owned()).or_default();
                told.found = Some(match told.found {
                    Some((before, intact)) if told.synced == 0 => (before.min(found), intact && verified),
                    _ => (found, verified),
                });
                told.synced = 0;
            }
            "workload.corrupt" => {
                let mut pods = self.pods();
                let told = pods.entry(pod.to_owned()).or_default();
                told.found = Some((told.found.map_or(0, |f| f.0), false));
            }
            "workload.synced" => {
                let record = number(event, "record");
                let mut pods = self.pods();
                let told = pods.entry(pod.to_owned()).or_default();
                told.synced = told.synced.max(record);
            }
            _ => {}
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

fn number(event: &Event, field: &str) -> u64 {
    event.fields.get(field).and_then(Value::as_u64).unwrap_or(0)
}
