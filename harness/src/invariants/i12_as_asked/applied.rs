//! Objects that the user of a cluster requested: the manifests, patches and deletions that the API server accepted.

use std::collections::{BTreeMap, BTreeSet};

use fake_apiserver::events::Commit;
use fake_apiserver::patch::{self, PatchKind};
use substrate::json::{Value, to_value};

use crate::scenario::reapplied;
use crate::scenario::steps::patch::Patch;
use crate::spec::Manifest;
use crate::spec::object::{Kind, ObjectRef};

/// An object that a user applied, and may have deleted afterwards.
#[derive(Clone, Debug)]
pub(crate) struct Applied {
    /// The object.
    pub object: ObjectRef,
    /// Uid of the object that was applied.
    pub uid: String,
    /// Revision that the object had after it was last applied.
    pub revision: u64,
    /// The last applied manifest.
    last: serde_json::Value,
    /// The manifest with the later patches; null if a patch cannot be applied to it.
    pub manifest: Value,
    /// Details of the manifest, as a commit of the object has them.
    pub details: Commit,
    /// True if the user has deleted it.
    pub deleted: bool,
}

/// All objects that a user of a cluster requested.
#[derive(Clone, Debug, Default)]
pub(crate) struct AppliedObjects {
    /// Name of the driver whose volumes are checked.
    driver: String,
    /// Components that do not run.
    without: BTreeSet<String>,
    /// Applied objects by URL path.
    objects: BTreeMap<String, Applied>,
    /// Volumes that the user changed in the cloud.
    touched: BTreeSet<String>,
    /// Nodes that the user made unschedulable.
    cordoned: BTreeSet<String>,
    /// Top-level fields that the user patched, by object. A component may have created the object.
    patched: BTreeMap<ObjectRef, BTreeSet<String>>,
}

impl AppliedObjects {
    /// Creates the applied objects of a user who has not requested anything yet.
    pub fn new(driver: &str, without: &BTreeSet<String>) -> Self {
        Self { driver: driver.to_owned(), without: without.clone(), ..Self::default() }
    }

    /// Returns the name of the driver.
    pub fn driver(&self) -> &str {
        &self.driver
    }

    /// Returns true if all of these components run.
    pub fn have(&self, components: &[&str]) -> bool {
        components.iter().all(|component| !self.without.contains(*component))
    }

    /// Records that the API server accepted a manifest and answered with `stored`.
    pub fn applied(&mut self, manifest: &Manifest, stored: &Value) {
        let path = manifest.object.path();
        let uid = stored["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        let revision =
            stored["metadata"]["resourceVersion"].as_str().and_then(|rv| rv.parse().ok()).unwrap_or(u64::MAX);
        let earlier = self.objects.remove(&path).filter(|earlier| earlier.uid == uid);
        if !stored["metadata"]["deletionTimestamp"].is_null() {
            // The manifest was merged into an object that is being deleted.
            return;
        }
        let kind = manifest.object.kind.table();
        let now = match earlier {
            Some(earlier) => {
                let change =
                    to_value(&reapplied::patch(&earlier.last, &manifest.value)).expect("a patch has a JSON form");
                patch::apply(kind, PatchKind::Merge, change, &earlier.manifest)
                    .expect("a merge of two objects succeeds")
            }
            None => to_value(&manifest.value).expect("a manifest has a JSON form"),
        };
        self.keep(manifest.object.clone(), (uid, revision), manifest.value.clone(), now);
    }

    /// Records that the API server accepted a patch.
    pub fn patched(&mut self, patch: &Patch) {
        if patch.object.kind == Kind::node() && !patch.with["spec"]["unschedulable"].is_null() {
            self.cordoned(&patch.object.name, patch.with["spec"]["unschedulable"] == true);
        }
        self.patched.entry(patch.object.clone()).or_default().extend(fields(&patch.with));
        let Some(applied) = self.objects.remove(&patch.object.path()) else { return };
        let kind = PatchKind::of_content_type(patch.r#type.content_type()).filter(|_| patch.subresource.is_none());
        let with = to_value(&patch.with).expect("a patch has a JSON form");
        let patched =
            kind.and_then(|kind| patch::apply(applied.object.kind.table(), kind, with, &applied.manifest).ok());
        self.keep(applied.object, (applied.uid, applied.revision), applied.last, patched.unwrap_or_default());
    }

    fn keep(&mut self, object: ObjectRef, (uid, revision): (String, u64), last: serde_json::Value, manifest: Value) {
        let details = Commit::of_manifest(object.kind.table(), object.key(), &manifest);
        self.objects.insert(object.path(), Applied { object, uid, revision, last, manifest, details, deleted: false });
    }

    /// Records that the API server accepted a deletion.
    pub fn deleted(&mut self, object: &ObjectRef) {
        if object.kind.resource() == "namespaces" {
            let namespace = Some(object.name.as_str());
            self.objects.retain(|_, applied| applied.object.namespace.as_deref() != namespace);
        }
        if let Some(applied) = self.objects.get_mut(&object.path()) {
            applied.deleted = true;
        }
    }

    /// Records that the user made a node unschedulable, or schedulable again.
    pub fn cordoned(&mut self, node: &str, on: bool) {
        if on {
            self.cordoned.insert(node.to_owned());
        } else {
            self.cordoned.remove(node);
        }
    }

    /// Records that the user changed a resource of the cloud.
    pub fn touched(&mut self, id: &str) {
        self.touched.insert(id.to_owned());
    }

    /// Returns true if the user changed a volume in the cloud.
    pub fn has_touched(&self, volume: &str) -> bool {
        self.touched.contains(volume)
    }

    /// Returns true if the user made a node unschedulable.
    pub fn has_cordoned(&self, node: &str) -> bool {
        self.cordoned.contains(node)
    }

    /// Returns true if the user patched a CSIDriver.
    pub fn has_patched_driver(&self) -> bool {
        self.patched.keys().any(|object| object.kind == Kind::csi_driver())
    }

    /// Returns true if the user patched this top-level field of an object.
    pub fn has_patched(&self, kind: Kind, key: &str, field: &str) -> bool {
        self.patched.get(&reference(kind, key)).is_some_and(|fields| fields.contains(field))
    }

    /// Returns all applied objects.
    pub fn all(&self) -> impl Iterator<Item = &Applied> {
        self.objects.values()
    }

    /// Returns the applied object of that kind and key, if it should exist.
    pub fn of(&self, kind: Kind, key: &str) -> Option<&Applied> {
        self.objects.get(&reference(kind, key).path()).filter(|applied| !applied.deleted)
    }

    /// Returns the manifest of a cluster-wide object that should exist.
    pub fn manifest(&self, kind: &str, name: &str) -> Option<&Value> {
        let mut all = self.all().filter(|applied| !applied.deleted && applied.object.kind.kind() == kind);
        all.find(|applied| applied.object.name == name).map(|applied| &applied.manifest)
    }
}

fn reference(kind: Kind, key: &str) -> ObjectRef {
    let (namespace, name) = key.split_once('/').map_or((None, key), |(namespace, name)| (Some(namespace), name));
    ObjectRef::new(kind, namespace, name)
}

/// Returns the top-level fields that a patch changes: keys of a merge, or first segments of the paths of a JSON patch.
fn fields(patch: &serde_json::Value) -> Vec<String> {
    let first = |path: &str| path.split('/').nth(1).map(str::to_owned);
    match patch {
        serde_json::Value::Array(operations) => {
            let paths = operations.iter().flat_map(|of| [&of["path"], &of["from"]]);
            paths.filter_map(|path| first(path.as_str()?)).collect()
        }
        merged => merged.as_object().into_iter().flatten().map(|(field, _)| field.clone()).collect(),
    }
}
