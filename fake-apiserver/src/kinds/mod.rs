//! The kinds that this server speaks: one table that discovery, OpenAPI, printing, patching and the store read.
//!
//! Names, scopes, short names, categories and subresources are those of a Kubernetes 1.36 server.

pub mod describe;
mod named;
pub mod schema;
mod table;

use std::ops::Deref;
use std::sync::Arc;

pub use named::*;
pub(crate) use table::STORED;
use table::{DISCOVERY, KINDS};

use crate::custom::Custom;

/// One served resource: its names, scope and subresources.
#[derive(Debug)]
pub struct Kind {
    /// The position among all kinds; a small dense key for per-kind tables. Custom kinds have positions of their store,
    /// and the versions of one share it.
    pub index: usize,
    /// The [`index`](Self::index) of the kind under which objects are stored: its own, but for views of another kind.
    pub store: usize,
    /// API group; empty for core.
    pub group: &'static str,
    /// Version within the group.
    pub version: &'static str,
    /// The type's name, as in `kind:`.
    pub kind: &'static str,
    /// The resource's name in URLs.
    pub plural: &'static str,
    /// The resource's name for one object, as kubectl accepts it.
    pub singular: &'static str,
    /// Abbreviations that kubectl accepts.
    pub short_names: &'static [&'static str],
    /// Groups of resources that kubectl accepts (`all`).
    pub categories: &'static [&'static str],
    /// Whether objects live in a namespace.
    pub namespaced: bool,
    /// Whether `/status` is written apart from the rest.
    pub has_status: bool,
    /// The verbs on the resource itself, in alphabetical order, as discovery shows them.
    pub verbs: &'static [&'static str],
    /// Subresources that are served, `status` included, in alphabetical order.
    pub subresources: &'static [Subresource],
    /// Whether a PUT without resourceVersion overwrites (R2).
    pub allow_unconditional_update: bool,
    /// What a CustomResourceDefinition says of it; nothing for built-in kinds.
    pub custom: Option<Box<Custom>>,
}

/// Each custom kind is made once. Those of the table are told apart by their place in it: the compiler may copy the table
/// for the names that point into it, so that one kind has several addresses.
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
    /// `v1` for core, `group/version` otherwise.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.to_owned() } else { format!("{}/{}", self.group, self.version) }
    }

    /// `List` appended to the kind.
    pub fn list_kind(&self) -> String {
        format!("{}List", self.kind)
    }

    /// One of the subresources.
    pub fn subresource(&self, name: &str) -> Option<&'static Subresource> {
        self.subresources.iter().find(|sub| sub.name == name)
    }

    /// Whether objects are a view of another stored kind.
    pub fn is_view(&self) -> bool {
        self.store != self.index || self.custom.as_ref().is_some_and(|custom| custom.base.is_some())
    }

    /// Whether objects are kept, and not only answered.
    pub fn is_stored(&self) -> bool {
        self.index < STORED || self.custom.is_some()
    }

    /// The path under which the resource is served, without namespace: `/api/v1/pods`.
    pub fn root(&self) -> String {
        let base = if self.group.is_empty() { "/api/".to_owned() } else { format!("/apis/{}/", self.group) };
        format!("{base}{}/{}", self.version, self.plural)
    }
}

/// A kind at hand: one of the table, or one that a store made of a definition and that goes with the last who has it.
#[derive(Clone)]
pub enum KindRef {
    /// One of the table.
    BuiltIn(&'static Kind),
    /// One of a CustomResourceDefinition.
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
        **self == **other
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

/// A part of an object, or something that is done with it, under a path of its own.
#[derive(Debug, PartialEq, Eq)]
pub struct Subresource {
    /// The last part of the path.
    pub name: &'static str,
    /// The verbs, in alphabetical order.
    pub verbs: &'static [&'static str],
    /// Group, version and kind of what it speaks of; empty group and version mean those of its resource.
    pub response: (&'static str, &'static str, &'static str),
}

/// All kinds whose objects are kept, in the order in which a 1.36 server's discovery has them.
pub fn all() -> &'static [Kind] {
    &KINDS[..STORED]
}

/// Kinds that are answered and not kept: reviews, bindings, component statuses; they are no part of [`all`].
pub fn answered() -> &'static [Kind] {
    &KINDS[STORED..]
}

/// All kinds that discovery tells of, in its order.
pub fn discoverable() -> impl Iterator<Item = &'static Kind> {
    DISCOVERY.iter().map(|i| &KINDS[*i])
}

/// The kind under which objects of `kind` are stored.
pub fn stored(kind: &Kind) -> &Kind {
    match &kind.custom {
        Some(custom) => custom.base.as_deref().unwrap_or(kind),
        None => &KINDS[kind.store],
    }
}

/// The same, to keep.
pub fn stored_ref(kind: &KindRef) -> KindRef {
    match &kind.custom {
        Some(custom) => custom.base.as_ref().unwrap_or(kind).clone(),
        None => (&KINDS[kind.store]).into(),
    }
}

/// How many built-in kinds there are; custom ones have greater indices.
pub(crate) fn count() -> usize {
    KINDS.len()
}

/// The subresources of a custom kind.
pub fn custom_subresources(status: bool, scale: bool) -> &'static [Subresource] {
    const WRITE: &[&str] = &["get", "patch", "update"];
    const STATUS: Subresource = Subresource { name: "status", verbs: WRITE, response: ("", "", "") };
    const SCALE: Subresource = Subresource { name: "scale", verbs: WRITE, response: ("autoscaling", "v1", "Scale") };
    match (status, scale) {
        (true, true) => const { &[SCALE, STATUS] },
        (true, false) => const { &[STATUS] },
        (false, true) => const { &[SCALE] },
        (false, false) => &[],
    }
}

/// The kind that a URL names.
pub fn find(group: &str, version: &str, plural: &str) -> Option<&'static Kind> {
    all().iter().find(|k| k.plural == plural && k.group == group && k.version == version)
}

/// The kind that an object's `apiVersion` and `kind` name.
pub fn find_kind(api_version: &str, kind: &str) -> Option<&'static Kind> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    KINDS.iter().find(|k| k.kind == kind && k.group == group && k.version == version)
}

/// How a version is preferred: stable ones before betas and alphas, later ones before earlier (apimachinery
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

    /// Whether it was found or is named: the two may lie at different addresses.
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
