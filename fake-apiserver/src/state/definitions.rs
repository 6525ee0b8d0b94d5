//! The life of CustomResourceDefinitions: a definition is served from the commit that creates it, and is removed after
//! the last of its objects (apiextensions `pkg/controller/{status,establish,finalizer}`).

use substrate::Now;
use substrate::json::{Value, json};

use super::Store;
use super::command::{DeleteOptions, Part, Target};
use super::history::Event;
use super::kind_store::KindStore;
use super::object::{Object, key};
use super::value::{self, finalizers, is_terminating, list, text};
use crate::custom::{Schema, approval, definition};
use crate::kinds::{self, KindRef};

/// Finalizer that keeps a definition until its objects are gone.
const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Fills in the schema's defaults of objects that are stored already. Upstream does so when it reads them; there is no
/// event and no new revision.
fn fill(kind_store: &mut KindStore, schema: &Schema) {
    let mut filled = Vec::new();
    for (key, object) in kind_store.objects() {
        let mut value = object.value.clone();
        schema.fill(&mut value);
        if object.value != value {
            filled.push((key.clone(), Object::at(value, object.revision)));
        }
    }
    for (key, object) in filled {
        kind_store.insert(key, object);
    }
}

impl Store {
    /// Returns the kind that a URL names.
    pub fn find_kind(&self, group: &str, version: &str, plural: &str) -> Option<KindRef> {
        kinds::find(group, version, plural).map(KindRef::from).or_else(|| {
            if self.served.is_empty() {
                return None;
            }
            self.served.get(&(group.to_owned(), version.to_owned(), plural.to_owned())).cloned()
        })
    }

    /// Returns the served custom kinds, by group, version and plural.
    pub fn custom_kinds(&self) -> impl Iterator<Item = &KindRef> {
        self.served.values()
    }

    /// Returns every kind that has its own objects, custom ones last.
    pub fn stored_kinds(&self) -> Vec<KindRef> {
        let mut stored: Vec<KindRef> = kinds::all().iter().filter(|kind| !kind.is_view()).map(KindRef::from).collect();
        for kind in self.served.values().map(kinds::stored_ref) {
            if !stored.contains(&kind) {
                stored.push(kind);
            }
        }
        stored
    }

    /// Updates the served kinds after a commit of a definition.
    pub(super) fn follow_definition(&mut self, now: Now, event: &Event) {
        let Some(definition) = event.new.as_ref().map(|object| object.value.clone()) else {
            if let Some(old) = &event.old {
                self.withdraw(&old.value);
                self.announce_custom(now, text(&old.value, &["spec", "group"]));
            }
            return;
        };
        if is_terminating(&definition) {
            if event.old.as_ref().is_none_or(|old| !is_terminating(&old.value)) {
                self.empty_definition(now, &definition);
            }
            self.finish_definition(now, value::name(&definition));
        } else {
            self.establish(now, definition);
            self.recount_quotas(now);
        }
    }

    /// Serves the versions of a definition, and writes its status.
    pub(super) fn establish(&mut self, now: Now, definition: Value) {
        let found = self.registry.kinds(&definition);
        let taken = self.taken_by(&definition);
        self.withdraw(&definition);
        if taken.is_none()
            && let Some(stored) = found.first()
        {
            self.shelve(stored);
            for kind in found.iter().filter(|kind| definition::serves(&definition, kind.version)) {
                let place = (kind.group.to_owned(), kind.version.to_owned(), kind.plural.to_owned());
                self.served.insert(place, kind.clone());
            }
        }
        self.announce_custom(now, text(&definition, &["spec", "group"]));
        let status = status(&definition, taken.as_deref(), now);
        if definition.get("status") != Some(&status) {
            let key = key(None, value::name(&definition));
            let mut reported = definition;
            value::set(&mut reported, "status", Some(status));
            self.put(now, kinds::CUSTOM_RESOURCE_DEFINITIONS, key, reported);
        }
    }

    /// Makes the kinds of a definition known that another API server serves, and returns its stored kind. Writes nothing.
    pub fn adopt_definition(&mut self, definition: &Value) -> Option<KindRef> {
        let found = self.registry.kinds(definition);
        self.withdraw(definition);
        for kind in found.iter().filter(|kind| definition::serves(definition, kind.version)) {
            let place = (kind.group.to_owned(), kind.version.to_owned(), kind.plural.to_owned());
            self.served.insert(place, kind.clone());
        }
        found.into_iter().next()
    }

    /// Returns the definition of the same group that already has the kind's name.
    fn taken_by(&self, definition: &Value) -> Option<String> {
        let names =
            |of: &Value| (text(of, &["spec", "group"]).to_owned(), text(of, &["spec", "names", "kind"]).to_owned());
        let wanted = names(definition);
        self.all(kinds::CUSTOM_RESOURCE_DEFINITIONS)
            .find(|other| {
                value::name(&other.value) != value::name(definition)
                    && names(&other.value) == wanted
                    && list(&other.value, &["status", "conditions"])
                        .iter()
                        .any(|c| c["type"] == "NamesAccepted" && c["status"] == "True")
            })
            .map(|other| value::name(&other.value).to_owned())
    }

    /// Stops serving all versions of a definition.
    fn withdraw(&mut self, definition: &Value) {
        let (group, plural) = (text(definition, &["spec", "group"]), text(definition, &["spec", "names", "plural"]));
        self.served.retain(|(g, _, p), _| g != group || p != plural);
    }

    /// Prepares the store for the objects of a kind. Existing objects are converted to its version.
    fn shelve(&mut self, kind: &KindRef) {
        let (limits, revision) = (self.limits, self.revision);
        while self.kind_stores.len() <= kind.index {
            self.kind_stores.push(KindStore::new(kind.clone(), limits, revision));
        }
        let kind_store = &mut self.kind_stores[kind.index];
        let changed = kind_store.kind != *kind;
        kind_store.kind = kind.clone();
        let version = kind.api_version();
        let outdated: Vec<_> = kind_store
            .objects()
            .iter()
            .filter(|(_, object)| text(&object.value, &["apiVersion"]) != version)
            .map(|(key, object)| (key.clone(), object.clone()))
            .collect();
        for (key, object) in outdated {
            let mut converted = object.value.clone();
            value::set(&mut converted, "apiVersion", Some(version.as_str().into()));
            kind_store.insert(key, Object::at(converted, object.revision));
        }
        if changed && let Some(custom) = &kind.custom {
            fill(kind_store, &custom.schema);
        }
    }

    /// Returns the store of a definition's objects, if it was ever served.
    fn kind_store_of(&self, definition: &Value) -> Option<&KindStore> {
        let (group, plural) = (text(definition, &["spec", "group"]), text(definition, &["spec", "names", "plural"]));
        let place = self.registry.place(group, plural, text(definition, &["spec", "scope"]) != "Cluster")?;
        // An unused place is a copy of its neighbour.
        self.kind_stores.get(place).filter(|kind_store| kind_store.kind.index == place)
    }

    /// Returns true if a definition has objects.
    pub(super) fn has_objects(&self, definition: &Value) -> bool {
        self.kind_store_of(definition).is_some_and(|kind_store| !kind_store.objects().is_empty())
    }

    /// Returns true if an update changes the storage version and a webhook does the conversion.
    pub(super) fn turns_storage(&self, new: &Value, old: &Value) -> bool {
        definition::is_converted(new)
            && definition::stored_version(new) != definition::stored_version(old)
            && self.has_objects(old)
    }

    /// Returns the definition with the finalizer that waits for its objects.
    pub(super) fn held(definition: &Value) -> Value {
        let mut held = definition.clone();
        let slot = value::metadata(&mut held).entry("finalizers").or_insert_with(|| json!([]));
        if let Some(finalizers) = slot.as_array_mut()
            && !finalizers.iter().any(|f| f == CLEANUP)
        {
            finalizers.push(CLEANUP.into());
        }
        held
    }

    /// Deletes the objects of a definition; those with finalizers stay.
    fn empty_definition(&mut self, now: Now, definition: &Value) {
        let Some(kind_store) = self.kind_store_of(definition) else { return };
        let kind = kind_store.kind.clone();
        let objects: Vec<Value> = kind_store.objects().values().map(|object| object.value.clone()).collect();
        for object in objects {
            let target = Target {
                kind: kind.clone(),
                namespace: kind.namespaced.then(|| value::namespace(&object).to_owned()),
                name: value::name(&object).to_owned(),
                part: Part::Main,
            };
            // Fails only if the object is gone already.
            let _ = self.delete(now, &target, DeleteOptions::default());
        }
    }

    /// Removes a terminating definition after its last object.
    pub(super) fn finish_definition(&mut self, now: Now, name: &str) {
        let definitions = kinds::CUSTOM_RESOURCE_DEFINITIONS;
        let Some(found) = self.get(definitions, name).cloned() else { return };
        let waits = self.has_objects(&found.value) && !self.defects.forgets_custom_objects;
        if !is_terminating(&found.value) || waits {
            return;
        }
        let rest: Vec<Value> = finalizers(&found.value).iter().filter(|f| *f != CLEANUP).cloned().collect();
        if rest.is_empty() {
            self.remove(definitions, name);
        } else if rest.len() != finalizers(&found.value).len() {
            let mut object = found.value.clone();
            value::metadata(&mut object).insert("finalizers", rest.into());
            self.put(now, definitions, key(None, name), object);
        }
    }
}

/// Returns the status of a definition. Conditions that did not change keep their times.
fn status(definition: &Value, taken: Option<&str>, now: Now) -> Value {
    let old = list(definition, &["status", "conditions"]);
    let condition = |of: &str, is: bool, reason: &str, message: &str| {
        let state = if is { "True" } else { "False" };
        let kept = old.iter().find(|c| c["type"] == of && c["status"] == state);
        let since = kept.map_or_else(|| value::time(now.wall).into(), |c| c["lastTransitionTime"].clone());
        json!({"type": of, "status": state, "lastTransitionTime": since, "reason": reason, "message": message})
    };
    let mut conditions = match taken {
        None => vec![
            condition("NamesAccepted", true, "NoConflicts", "no conflicts found"),
            condition("Established", true, "InitialNamesAccepted", "the initial names have been accepted"),
        ],
        Some(other) => vec![
            condition("NamesAccepted", false, "KindConflict", &format!("the kind is already in use by {other}")),
            condition("Established", false, "NotAccepted", "not all names are accepted"),
        ],
    };
    if let Some((is, reason, message)) = approval::condition(definition) {
        conditions.push(condition(approval::CONDITION, is, reason, &message));
    }
    let mut stored: Vec<Value> = list(definition, &["status", "storedVersions"]).to_vec();
    for version in list(definition, &["spec", "versions"]) {
        if version["storage"] == true && !stored.contains(&version["name"]) {
            stored.push(version["name"].clone());
        }
    }
    let names = if taken.is_none() { definition["spec"]["names"].clone() } else { json!({"plural": "", "kind": ""}) };
    json!({"acceptedNames": names, "conditions": conditions, "storedVersions": stored})
}
