//! Slices that this process has written (`EndpointSliceTracker`), to recognize the changes of others and a stale cache.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::discovery::v1::EndpointSlice;
use parking_lot::Mutex;

use super::slices::SERVICE_NAME;
use crate::kube::{Delta, Kind};
use crate::workload::Key;

/// Mark of a slice whose deletion the cache has not shown yet.
const DELETED: i64 = -1;

/// Generations of written slices by uid, by Service.
#[derive(Debug, Default)]
pub(crate) struct Tracker(Mutex<BTreeMap<Key, BTreeMap<String, i64>>>);

/// Returns the Service of a slice; none if its label is missing.
pub(crate) fn service_of(slice: &EndpointSlice) -> Option<Key> {
    let service = slice.label(SERVICE_NAME).filter(|name| !name.is_empty())?;
    Some((slice.namespace().to_owned(), service.to_owned()))
}

impl Tracker {
    /// Notes a slice that this process has written (`Update`).
    pub(crate) fn wrote(&self, slice: &EndpointSlice) {
        self.note(slice, slice.metadata.generation.unwrap_or(0));
    }

    /// Notes a slice that this process has deleted (`ExpectDeletion`).
    pub(crate) fn deleted(&self, slice: &EndpointSlice) {
        self.note(slice, DELETED);
    }

    fn note(&self, slice: &EndpointSlice, generation: i64) {
        if let Some(service) = service_of(slice) {
            self.0.lock().entry(service).or_default().insert(slice.uid().to_owned(), generation);
        }
    }

    /// Returns true if a slice was written by this process.
    pub(crate) fn has(&self, slice: &EndpointSlice) -> bool {
        self.expected(slice).is_some()
    }

    fn expected(&self, slice: &EndpointSlice) -> Option<i64> {
        self.0.lock().get(&service_of(slice)?)?.get(slice.uid()).copied()
    }

    /// Notes a change of a slice. Returns true if another client made it (`ShouldSync`, `HandleDeletion`).
    pub(crate) fn is_foreign(&self, delta: &Delta<EndpointSlice>) -> bool {
        match delta {
            Delta::Applied { new, .. } => {
                self.expected(new).is_none_or(|own| new.metadata.generation.unwrap_or(0) > own)
            }
            // A slice that this process has not written is none of its business.
            Delta::Deleted(slice) => {
                let expected = self.expected(slice);
                if let Some(service) = service_of(slice)
                    && let Some(all) = self.0.lock().get_mut(&service)
                {
                    all.remove(slice.uid());
                }
                expected.is_some_and(|own| own != DELETED)
            }
        }
    }

    /// Returns true if the cache lacks a write of this process (`StaleSlices`).
    pub(crate) fn is_stale(&self, service: &Key, slices: &[Arc<EndpointSlice>]) -> bool {
        let written = self.0.lock();
        let Some(written) = written.get(service) else { return false };
        written.iter().any(|(uid, generation)| match slices.iter().find(|slice| slice.uid() == uid) {
            Some(slice) => *generation == DELETED || slice.metadata.generation.unwrap_or(0) < *generation,
            None => *generation != DELETED,
        })
    }

    /// Forgets the slices of a Service (`DeleteService`).
    pub(crate) fn forget(&self, service: &Key) {
        self.0.lock().remove(service);
    }
}

#[cfg(test)]
mod tests {
    use substrate::json::{from_value, json};

    use super::*;

    fn slice(uid: &str, generation: i64) -> Arc<EndpointSlice> {
        let labels = json!({ SERVICE_NAME: "web" });
        let metadata = json!({ "namespace": "default", "uid": uid, "generation": generation, "labels": labels });
        Arc::new(from_value(json!({ "metadata": metadata, "addressType": "IPv4", "endpoints": [] })).unwrap())
    }

    #[test]
    fn changes_of_others_and_a_stale_cache_are_recognized() {
        let (tracker, service) = (Tracker::default(), ("default".to_owned(), "web".to_owned()));
        let applied = |generation| Delta::Applied { old: None, new: slice("a", generation) };
        assert!(tracker.is_foreign(&applied(1)), "not written here");
        assert!(!tracker.is_stale(&service, &[slice("a", 1)]));
        tracker.wrote(&slice("a", 2));
        assert!(tracker.is_stale(&service, &[slice("a", 1)]) && tracker.is_stale(&service, &[]));
        assert!(!tracker.is_stale(&service, &[slice("a", 2)]));
        assert!(!tracker.is_foreign(&applied(2)) && tracker.is_foreign(&applied(3)));
        tracker.deleted(&slice("a", 2));
        assert!(tracker.is_stale(&service, &[slice("a", 2)]) && !tracker.is_stale(&service, &[]));
        assert!(!tracker.is_foreign(&Delta::Deleted(slice("a", 2))) && !tracker.has(&slice("a", 2)));
        tracker.wrote(&slice("a", 2));
        assert!(tracker.is_foreign(&Delta::Deleted(slice("a", 2))));
        assert!(!tracker.is_foreign(&Delta::Deleted(slice("b", 1))));
    }
}
