//! Kinds of this server: one table for discovery, OpenAPI, printing, patching and the store.
//!
//! Names, scopes, short names, categories and subresources are those of a Kubernetes 1.36 server.

pub mod describe;
mod named;
pub mod schema;
mod table;

use std::ops::Deref;
use std::sync::Arc;

pub use named::*;
pub use table::STORED;
use table::{DISCOVERY, KINDS};

use crate::custom::Custom;

/// One served resource: its names, scope and subresources.
#[derive(Debug)]
pub struct Kind {
    /// Position among all kinds: a small dense key for per-kind tables. A custom kind's position belongs to its store,
    /// and all its versions share it.
    pub index: usize,
    /// [`index`](Self::index) of the kind under which objects are stored: that of the kind itself, except for views.
    pub store: usize,
    /// API group; empty for core.
    pub group: &'static str,
    /// Version within the group.
    pub version: &'static str,
    /// Name of the type, as in `kind:`.
    pub kind: &'static str,
    /// Name of the resource in URLs.
    pub plural: &'static str,
    /// Singular name of the resource, as kubectl accepts it.
    pub singular: &'static str,
    /// Abbreviations that kubectl accepts.
    pub short_names: &'static [&'static str],
    /// Groups of resources that kubectl accepts (`all`).
    pub categories: &'static [&'static str],
    /// True if objects have a namespace.
    pub namespaced: bool,
    /// True if there is a status subresource.
    pub has_status: bool,
    /// The verbs on the resource itself, in alphabetical order, as discovery shows them.
    pub verbs: &'static [&'static str],
    /// Subresources that are served, `status` included, in alphabetical order.
    pub subresources: &'static [Subresource],
    /// True if a PUT without resourceVersion overwrites the object (upstream's `AllowUnconditionalUpdate`).
    pub allow_unconditional_update: bool,
    /// Properties from a CustomResourceDefinition; `None` for built-in kinds.
    pub custom: Option<Box<Custom>>,
}

/// Each custom kind is allocated once. Kinds of the table are compared by their position: the compiler may copy the
/// table for the constants that point into it, so that a kind has several addresses.
impl PartialEq for Kind {
    fn eq(&self, other: &Self) -> bool {
        match (&self.custom, &other.custom) {
            (None, None) => self.index == other.index,
            _ => std::ptr::eq(self, other),
        }
    }
}

impl Eq for Kind {}

impl Kind {
    /// Returns `v1` for core, `group/version` otherwise.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.to_owned() } else { format!("{}/{}", self.group, self.version) }
    }

    /// Returns the kind with `List` appended.
    pub fn list_kind(&self) -> String {
        format!("{}List", self.kind)
    }

    /// Returns a subresource by its name.
    pub fn subresource(&self, name: &str) -> Option<&'static Subresource> {
        self.subresources.iter().find(|sub| sub.name == name)
    }

    /// Returns true if objects are a view of another stored kind.
    pub fn is_view(&self) -> bool {
        self.store != self.index || self.custom.as_ref().is_some_and(|custom| custom.base.is_some())
    }

    /// Returns true if objects are stored, not only answered.
    pub fn is_stored(&self) -> bool {
        self.index < STORED || self.custom.is_some()
    }

    /// Returns the path of the resource without a namespace: `/api/v1/pods`.
    pub fn root(&self) -> String {
        let base = if self.group.is_empty() { "/api/".to_owned() } else { format!("/apis/{}/", self.group) };
        format!("{base}{}/{}", self.version, self.plural)
    }
}

/// A reference to a kind: one of the table, or one that a store built from a definition and that is dropped with its
/// last reference.
#[derive(Clone)]
pub enum KindRef {
    /// A kind of the table.
    BuiltIn(&'static Kind),
    /// A kind of a CustomResourceDefinition.
    Custom(Arc<Kind>),
}

impl Deref for KindRef {
    type Target = Kind;

    fn deref(&self) -> &Kind {
        match self {
            Self::BuiltIn(kind) => kind,
            Self::Custom(kind) => kind,
        }
    }
}

impl From<&'static Kind> for KindRef {
    fn from(kind: &'static Kind) -> Self {
        Self::BuiltIn(kind)
    }
}

impl PartialEq for KindRef {
    fn eq(&self, other: &Self) -> bool {
        // Two references to one kind are usual, and its schema is large.
        std::ptr::eq(&raw const **self, &raw const **other) || **self == **other
    }
}

impl PartialEq<&Kind> for KindRef {
    fn eq(&self, other: &&Kind) -> bool {
        **self == **other
    }
}

impl std::fmt::Debug for KindRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        Kind::fmt(self, f)
    }
}

/// A subresource: a part of an object, or an operation on it, under its own path.
#[derive(Debug, PartialEq, Eq)]
pub struct Subresource {
    /// Last part of the path.
    pub name: &'static str,
    /// Verbs, in alphabetical order.
    pub verbs: &'static [&'static str],
    /// Group, version and kind of its objects; empty group and version mean those of its resource.
    pub response: (&'static str, &'static str, &'static str),
}

/// Returns all stored kinds, in the order of a 1.36 server's discovery.
pub fn all() -> &'static [Kind] {
    &KINDS[..STORED]
}

/// Returns the kinds that are answered and not stored: reviews, bindings, component statuses. [`all`] does not contain
/// them.
pub fn answered() -> &'static [Kind] {
    &KINDS[STORED..]
}

/// Returns all kinds in the order of discovery.
pub fn discoverable() -> impl Iterator<Item = &'static Kind> {
    DISCOVERY.iter().map(|i| &KINDS[*i])
}

/// Returns the kind under which objects of `kind` are stored.
pub fn stored(kind: &Kind) -> &Kind {
    match &kind.custom {
        Some(custom) => custom.base.as_deref().unwrap_or(kind),
        None => &KINDS[kind.store],
    }
}

/// Returns the stored kind as a reference that can be kept.
pub fn stored_ref(kind: &KindRef) -> KindRef {
    match &kind.custom {
        Some(custom) => custom.base.as_ref().unwrap_or(kind).clone(),
        None => (&KINDS[kind.store]).into(),
    }
}

/// Returns the number of built-in kinds; custom ones have greater indices.
pub fn count() -> usize {
    KINDS.len()
}

/// Returns the subresources of a custom kind.
pub fn custom_subresources(status: bool, scale: bool) -> &'static [Subresource] {
    const WRITE: &[&str] = &["get", "patch", "update"];
    const STATUS: Subresource = Subresource { name: "status", verbs: WRITE, response: ("", "", "") };
    const SCALE: Subresource = Subresource { name: "scale", verbs: WRITE, response: ("autoscaling", "v1", "Scale") };
    match (status, scale) {
        (true, true) => const { &[STATUS, SCALE] },
        (true, false) => const { &[STATUS] },
        (false, true) => const { &[SCALE] },
        (false, false) => &[],
    }
}

/// Returns the kind that a URL names.
pub fn find(group: &str, version: &str, plural: &str) -> Option<&'static Kind> {
    all().iter().find(|k| k.plural == plural && k.group == group && k.version == version)
}

/// Returns the kind of an object's `apiVersion` and `kind`.
pub fn find_kind(api_version: &str, kind: &str) -> Option<&'static Kind> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    KINDS.iter().find(|k| k.kind == kind && k.group == group && k.version == version)
}

/// Returns the priority of a version: stable versions before betas and alphas, later ones before earlier (apimachinery
/// `version.CompareKubeAwareVersionStrings`).
pub fn priority(version: &str) -> (u32, u32, u32) {
    let number = |text: &str| text.parse().unwrap_or(0);
    let rest = version.strip_prefix('v').unwrap_or_default();
    match (rest.split_once("beta"), rest.split_once("alpha")) {
        (Some((major, minor)), _) => (2, number(major), number(minor)),
        (_, Some((major, minor))) => (1, number(major), number(minor)),
        _ => (if rest.parse::<u32>().is_ok() { 3 } else { 0 }, number(rest), 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kind from a lookup and the constant may have different addresses.
    #[test]
    fn a_kind_is_equal_to_itself_wherever_the_compiler_put_it() {
        for (plural, named) in [("pods", PODS), ("namespaces", NAMESPACES), ("persistentvolumes", PERSISTENT_VOLUMES)] {
            assert_eq!(find("", "v1", plural), Some(named));
            assert_eq!(*stored(named), *named);
        }
        assert_ne!(PODS, NAMESPACES);
    }

    #[test]
    fn kinds_are_found_by_url_and_by_object_and_know_their_place() {
        for (i, kind) in all().iter().enumerate() {
            assert_eq!((kind.index, kind.is_stored()), (i, true));
            assert_eq!(find(kind.group, kind.version, kind.plural), Some(kind));
            assert_eq!(find_kind(&kind.api_version(), kind.kind), Some(kind));
            assert_eq!(kind.has_status, kind.subresource("status").is_some(), "{kind:?}");
            assert!(kind.subresources.is_sorted_by_key(|sub| sub.name), "{kind:?}");
        }
        assert_eq!(find("", "v2", "pods"), None);
        assert_eq!(find_kind("storage.k8s.io/v1", "Pod"), None);
    }

    #[test]
    fn a_kind_by_name_is_the_kind_of_the_table() {
        assert_eq!(find("", "v1", "events"), Some(EVENTS));
        assert_eq!(find("storage.k8s.io", "v1", "volumeattachments"), Some(VOLUME_ATTACHMENTS));
        assert_eq!(find("autoscaling", "v2", "horizontalpodautoscalers"), Some(HORIZONTAL_POD_AUTOSCALERS));
        assert_eq!(find("batch", "v1", "jobs").map(|kind| kind.index), Some(index::JOBS));
    }

    #[test]
    fn paths_and_versions_are_those_of_the_group() {
        let pod = find("", "v1", "pods").unwrap();
        assert_eq!((pod.api_version().as_str(), pod.root().as_str()), ("v1", "/api/v1/pods"));
        let class = find("storage.k8s.io", "v1", "storageclasses").unwrap();
        assert_eq!(class.api_version(), "storage.k8s.io/v1");
        assert_eq!(class.root(), "/apis/storage.k8s.io/v1/storageclasses");
        assert_eq!(class.list_kind(), "StorageClassList");
    }
}
