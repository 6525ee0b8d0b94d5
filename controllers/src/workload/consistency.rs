//! Versions of a controller's own writes (`pkg/controller/util/consistency`): the next round of an owner waits until the
//! caches have them, so that it does not act on an older state.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::{Key, key};
use crate::kube::{Informer, Kind};

/// Reads the version of a cache.
type Version = Box<dyn Fn() -> u128 + Send + Sync>;

/// Writes for one owner.
struct Record {
    /// Uid of the owner.
    uid: String,
    /// The newest version of each kind.
    versions: BTreeMap<&'static str, u128>,
}

/// Versions of the writes for all owners.
#[derive(Default)]
pub(crate) struct Consistency {
    caches: BTreeMap<&'static str, Version>,
    writes: Mutex<BTreeMap<Key, Record>>,
}

impl Consistency {
    /// Adds a cache whose kind the loop waits for.
    pub(crate) fn with<K: Kind>(mut self, cache: &Informer<K>) -> Self {
        let cache = cache.clone();
        self.caches.insert(K::KIND, Box::new(move || cache.version()));
        self
    }

    /// Shares it between the writers of a controller.
    pub(crate) fn shared(self) -> Arc<Self> {
        Arc::new(self)
    }

    /// Notes a write for an owner (`WroteAt`).
    pub(crate) fn wrote<O: Kind, K: Kind>(&self, owner: &O, written: &K) {
        self.wrote_for(key(owner), owner.uid(), written);
    }

    /// Notes a write for the owner of this name and uid.
    pub(crate) fn wrote_for<K: Kind>(&self, owner: Key, uid: &str, written: &K) {
        let version = written.resource_version().parse::<u128>().unwrap_or_default();
        let mut writes = self.writes.lock();
        let none = || Record { uid: uid.to_owned(), versions: BTreeMap::new() };
        let record = writes.entry(owner).or_insert_with(none);
        if record.uid != uid {
            *record = none();
        }
        let newest = record.versions.entry(K::KIND).or_default();
        *newest = version.max(*newest);
    }

    /// Returns true if the caches have all writes for the owner (`EnsureReady`).
    pub(crate) fn is_ready(&self, owner: &Key) -> bool {
        let mut writes = self.writes.lock();
        let has = |(kind, version): (&&str, &u128)| self.caches.get(*kind).is_none_or(|cache| cache() >= *version);
        let is_ready = writes.get(owner).is_none_or(|record| record.versions.iter().all(has));
        if is_ready {
            writes.remove(owner);
        }
        is_ready
    }

    /// Forgets the writes for an owner that is gone (`Clear`).
    pub(crate) fn forget(&self, owner: &Key) {
        self.writes.lock().remove(owner);
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::StatefulSet;
    use k8s_openapi::api::core::v1::Pod;
    use substrate::json::{from_value, json};

    use super::*;

    #[test]
    fn a_round_waits_until_the_cache_has_the_last_write() {
        let seen = Arc::new(Mutex::new(5));
        let mut all = Consistency::default();
        let cache = seen.clone();
        all.caches.insert("Pod", Box::new(move || *cache.lock()));
        let owner = |uid: &str| -> StatefulSet {
            from_value(json!({ "metadata": { "namespace": "n", "name": "db", "uid": uid } })).unwrap()
        };
        let pod = |version: &str| -> Pod { from_value(json!({ "metadata": { "resourceVersion": version } })).unwrap() };
        let item = key(&owner("a"));
        all.wrote(&owner("a"), &pod("7"));
        all.wrote(&owner("a"), &pod("6"));
        // No cache of this kind is waited for.
        all.wrote(&owner("a"), &owner("a"));
        assert!(!all.is_ready(&item));
        *seen.lock() = 7;
        assert!(all.is_ready(&item));
        all.wrote(&owner("a"), &pod("9"));
        all.wrote(&owner("b"), &pod("7"));
        assert!(all.is_ready(&item), "the writes for the former owner do not count");
        all.wrote(&owner("b"), &pod("9"));
        all.forget(&item);
        assert!(all.is_ready(&item));
    }
}
