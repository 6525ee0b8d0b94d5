//! Cache that includes the scheduler's own pending writes (`util/assumecache`).

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::binder::object::resource_version;
use crate::kube::Kind;

/// Objects by a key: each as the API server returned it and, if assumed, in its future state.
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
    /// Stores an object from the API server. It ends an assumption about an older version. An assumption about this
    /// version stays, since its write is still under way.
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

    /// Returns the object in its assumed state.
    pub fn get<B: Ord + ?Sized>(&self, key: &B) -> Option<&Arc<K>>
    where
        Q: Borrow<B>,
    {
        self.entries.get(key).map(|entry| entry.assumed.as_ref().unwrap_or(&entry.api))
    }

    /// Returns the object as the API server returned it.
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

    /// Iterates over all objects in their assumed state, in order of their keys.
    pub fn values(&self) -> impl Iterator<Item = &Arc<K>> {
        self.entries.values().map(|entry| entry.assumed.as_ref().unwrap_or(&entry.api))
    }
}
