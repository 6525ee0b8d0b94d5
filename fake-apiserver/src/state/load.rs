//! Saved states: all objects at a revision, and a cluster restored from them.

use substrate::Now;
use substrate::json::{Map, Value, json};

use super::object::key;
use super::status::{Status, qualified};
use super::value::{self, name, text};
use super::{Store, shape, strategy};
use crate::kinds::{self, Kind, KindRef};

impl Store {
    /// Returns every object at a revision, by resource (`pods`, `volumeattachments.storage.k8s.io`).
    ///
    /// # Errors
    /// 410 if the history does not reach back that far.
    pub fn saved(&self, revision: u64) -> Result<Map, Status> {
        let mut resources = Map::new();
        for kind in self.stored_kinds() {
            let objects: Vec<Value> = self.at(&kind, revision)?.values().map(|object| object.value.clone()).collect();
            if !objects.is_empty() {
                resources.insert(qualified(&kind), objects.into());
            }
        }
        Ok(resources)
    }

    /// Replaces the whole state by saved objects. Their uids and times stay, their revisions are new. Returns their
    /// number.
    ///
    /// # Errors
    /// 400 if this is not a saved state; the state is then unchanged.
    pub fn load(&mut self, now: Now, resources: &Value) -> Result<usize, Status> {
        let wrong = |why: String| Status::bad_request(format!("resources: {why}"));
        let resources = resources.as_object().ok_or_else(|| wrong("must be a map of lists".to_owned()))?;
        let (mut built_in, mut custom) = (Vec::new(), Vec::new());
        for (resource, objects) in resources {
            let list = objects.as_array().ok_or_else(|| wrong(format!("{resource}: must be a list")))?;
            match kinds::all().iter().find(|kind| !kind.is_view() && qualified(kind) == *resource) {
                Some(kind) => {
                    for object in list {
                        let mut object = object.clone();
                        shape::decode(kind, &mut object)?;
                        check(kind, &object).map_err(wrong)?;
                        built_in.push((kind, object));
                    }
                }
                // Not a built-in kind. One of the loaded definitions may serve it.
                None => custom.extend(list.iter().map(|object| (resource, object))),
            }
        }
        // Definitions come first, since they add kinds for the rest.
        built_in.sort_by_key(|(kind, _)| (*kind != kinds::CUSTOM_RESOURCE_DEFINITIONS, *kind != kinds::NAMESPACES));
        let defined: Vec<KindRef> = built_in
            .iter()
            .filter(|(kind, _)| *kind == kinds::CUSTOM_RESOURCE_DEFINITIONS)
            .filter_map(|(_, object)| self.registry.kinds(object).into_iter().next())
            .collect();
        let mut placed: Vec<(KindRef, Value)> = Vec::new();
        for (resource, object) in custom {
            let kind = defined.iter().find(|kind| qualified(kind) == *resource);
            let kind =
                kind.ok_or_else(|| wrong(format!("{resource}: is not a resource, and no definition makes it one")))?;
            check(kind, object).map_err(wrong)?;
            placed.push((kind.clone(), object.clone()));
        }
        let count = built_in.len() + placed.len();
        self.wipe();
        let built_in = built_in.into_iter().map(|(kind, object)| (KindRef::from(kind), object));
        for (kind, mut object) in built_in.chain(placed) {
            self.complete_loaded(now, &kind, &mut object);
            let namespace = kind.namespaced.then(|| value::namespace(&object).to_owned());
            let place = key(namespace.as_deref(), name(&object));
            let first = self.committed.len();
            self.put(now, &kind, place, object);
            if *kind == *kinds::CUSTOM_RESOURCE_DEFINITIONS {
                // A definition is served at once.
                self.settle(now, first);
            }
        }
        self.bootstrap(now);
        Ok(count)
    }
}

impl Store {
    /// Completes an object without a uid like a new object: a person wrote it, not a server.
    fn complete_loaded(&mut self, now: Now, kind: &Kind, object: &mut Value) {
        if !text(object, &["metadata", "uid"]).is_empty() {
            return;
        }
        if object["status"].is_null() {
            strategy::begin(kind, object, None, now);
        }
        let uid = self.new_uid();
        strategy::finish(kind, object, &uid);
        let metadata = value::metadata(object);
        metadata.insert("uid", uid.into());
        metadata.entry("creationTimestamp").or_insert_with(|| value::time(now.wall).into());
    }
}

/// Checks that an object can be stored under its key.
fn check(kind: &Kind, object: &Value) -> Result<(), String> {
    if name(object).is_empty() {
        return Err(format!("{}: metadata.name: must not be empty", qualified(kind)));
    }
    if kind.namespaced && value::namespace(object).is_empty() {
        return Err(format!("{} {:?}: metadata.namespace: must not be empty", qualified(kind), name(object)));
    }
    let api_version = kind.api_version();
    if text(object, &["apiVersion"]) != api_version || text(object, &["kind"]) != kind.kind {
        return Err(format!("{} {:?}: must be of {}", qualified(kind), name(object), json!([api_version, kind.kind])));
    }
    Ok(())
}
