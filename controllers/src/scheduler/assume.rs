//! A cache on which the scheduler writes what it is about to write to the API server (`util/assumecache`).

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::binder::object::resource_version;
use crate::kube::Kind;

/// Objects by a key, each as the API server gave it and, where there is one, as it is assumed to become.
#[derive(Debug)]
pub struct AssumeCache<Q, K> {
    entries: BTreeMap<Q, Entry<K>>,
}

#[derive(Debug)]
struct Entry<K> {
    api: Arc<K>,
    assumed: Option<Arc<K>>,
}

impl<Q, K> Default for AssumeCache<Q, K> {
    fn default() -> Self {
        Self { entries: BTreeMap::new() }
    }
}

impl<Q: Ord, K: Kind> AssumeCache<Q, K> {
    /// Takes an object from the API server. An assumption about an older one ends; one about this very version stands,
    /// since its write is still on the way.
    pub fn store(&mut self, key: Q, object: Arc<K>) {
        let version = resource_version(object.metadata());
        let assumed = self.entries.get_mut(&key).and_then(|entry| entry.assumed.take());
        let assumed = assumed.filter(|assumed| resource_version(assumed.metadata()) >= version);
        self.entries.insert(key, Entry { api: object, assumed });
    }

    /// Forgets a deleted object.
    pub fn remove(&mut self, key: &Q) {
        self.entries.remove(key);
    }

    /// The object as it is assumed to be.
    pub fn get(&self, key: &Q) -> Option<&Arc<K>> {
        self.entries.get(key).map(|entry| entry.assumed.as_ref().unwrap_or(&entry.api))
    }

    /// The object as the API server gave it.
    pub fn api(&self, key: &Q) -> Option<&Arc<K>> {
        self.entries.get(key).map(|entry| &entry.api)
    }

    /// Assumes that the object becomes `object`.
    pub fn assume(&mut self, key: &Q, object: Arc<K>) {
        if let Some(entry) = self.entries.get_mut(key) {
            entry.assumed = Some(object);
        }
    }

    /// Drops the assumption.
    pub fn restore(&mut self, key: &Q) {
        if let Some(entry) = self.entries.get_mut(key) {
            entry.assumed = None;
        }
    }

    /// All objects, as they are assumed to be, in order of their keys.
    pub fn values(&self) -> impl Iterator<Item = &Arc<K>> {
        self.entries.values().map(|entry| entry.assumed.as_ref().unwrap_or(&entry.api))
    }
}
