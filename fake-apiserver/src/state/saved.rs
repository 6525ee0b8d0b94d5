//! Restore of a cluster from the objects that an earlier process stored. Unlike [`load`](super::load), it keeps their
//! uids, times and revisions; the next write gets the next revision.

use std::collections::BTreeMap;
use std::time::Duration;

use substrate::Now;
use substrate::json::Value;

use super::history::EventType;
use super::object::Object;
use super::status::qualified;
use super::{Expiry, Store, event_view, identity};
use crate::kinds::{self, KindRef};

/// A stored object.
#[derive(Clone, Debug, PartialEq)]
pub struct SavedObject {
    /// Resource of the object: `pods`, `volumeattachments.storage.k8s.io`.
    pub resource: String,
    /// Key of the object within its kind: `namespace/name`, or `name`.
    pub key: String,
    /// The revision that wrote it.
    pub revision: u64,
    /// The object.
    pub value: Value,
}

impl Store {
    /// Restores stored objects into an empty store. `revision` is the newest that was given out.
    ///
    /// # Errors
    /// The first object whose key or kind is invalid.
    pub fn restore(&mut self, now: Now, revision: u64, kept: Vec<SavedObject>) -> Result<(), String> {
        self.mono = now.mono;
        self.revision = revision;
        let places: BTreeMap<String, KindRef> = kinds::all()
            .iter()
            .filter(|kind| !kind.is_view())
            .map(|kind| (qualified(kind), KindRef::from(kind)))
            .collect();
        let (built_in, custom): (Vec<SavedObject>, Vec<SavedObject>) =
            kept.into_iter().partition(|kept| places.contains_key(&kept.resource));
        for kept in built_in {
            if let Some(kind) = places.get(&kept.resource) {
                self.shelve_kept(now, kind, kept)?;
            }
        }
        let definitions: Vec<Value> =
            self.all(kinds::CUSTOM_RESOURCE_DEFINITIONS).map(|object| object.value.clone()).collect();
        let mut defined: BTreeMap<String, KindRef> = BTreeMap::new();
        for definition in definitions {
            if let Some(stored) = self.registry.kinds(&definition).into_iter().next() {
                defined.insert(qualified(&stored), stored);
            }
            self.establish(now, definition);
        }
        for kept in custom {
            let kind = defined.get(&kept.resource).cloned();
            let kind =
                kind.ok_or_else(|| format!("{} {}: no definition makes it a resource", kept.resource, kept.key))?;
            self.shelve_kept(now, &kind, kept)?;
        }
        // Watches cannot start before this process did.
        self.compact(revision);
        Ok(())
    }

    fn shelve_kept(&mut self, now: Now, kind: &KindRef, kept: SavedObject) -> Result<(), String> {
        let SavedObject { resource, key, revision, value } = kept;
        if revision > self.revision {
            return Err(format!("{resource} {key}: revision {revision} is newer than the newest, {}", self.revision));
        }
        let key: super::Key = key.into();
        if !identity::stands_at(kind, &key, &value) {
            return Err(format!("{resource} {key}: is kept as another object"));
        }
        let kind_store =
            self.kind_stores.get_mut(kind.index).ok_or_else(|| format!("{resource} {key}: is not served"))?;
        kind_store.insert(key.clone(), Object::new(kind, value, revision, EventType::Added));
        if event_view::is_event(kind) {
            let at: Duration = now.mono + self.limits.event_ttl;
            self.expiries.push_back(Expiry { at, key, revision });
        }
        Ok(())
    }
}
