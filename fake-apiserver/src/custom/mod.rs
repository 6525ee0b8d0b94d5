//! Kinds that CustomResourceDefinitions add: their schemas, what those do to objects, and their rules.
//!
//! A version of a definition becomes a [`Kind`] that lives as long as the process; equal definitions share it, so that
//! what is kept is bounded by how many different ones a process ever sees.

pub mod definition;
mod fields;
mod mutation;
mod path;
mod prune;
mod rules;
mod schema;
mod validate;

use std::collections::BTreeMap;
use std::sync::{LazyLock, Mutex, PoisonError};

pub use path::Path;
pub(crate) use prune::embedded_metadata;
pub use prune::prune;
pub use rules::Expression;
pub use schema::Schema;
use substrate::json::Value;
pub use validate::validate;

use crate::kinds::schema::Type;
use crate::kinds::{self, Kind};

/// How many different versions of definitions a process may see; each is kept for ever.
const LIMIT: usize = 10_000;

/// What a kind has beyond the built-in ones.
pub struct Custom {
    /// The kind under which objects are stored, for a version that is not the stored one.
    pub base: Option<&'static Kind>,
    /// What objects look like.
    pub schema: Schema,
    /// The same as a struct, for server-side apply.
    pub fields: &'static Type,
    /// The columns beside the name.
    pub columns: Vec<Column>,
    /// Where a Scale finds its numbers.
    pub scale: Option<Scale>,
    /// The fields beside its name that a kind can be selected by, without the leading dot.
    pub selectable: &'static [&'static str],
    /// The webhook that converts between versions, as the definition has it; none where they differ in their names only.
    pub webhook: Option<Value>,
    /// The schema as it was sent, for OpenAPI.
    pub source: Value,
    /// What whoever uses this version is told, where it is deprecated.
    pub deprecation: Option<String>,
}

impl std::fmt::Debug for Custom {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Custom").finish_non_exhaustive()
    }
}

/// A printer column.
#[derive(Debug)]
pub struct Column {
    /// Its head.
    pub name: String,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    pub kind: String,
    /// The OpenAPI format.
    pub format: String,
    /// What it says.
    pub description: String,
    /// 0 for columns that are always shown.
    pub priority: i32,
    /// Where its cell is.
    pub path: Path,
}

/// Where the replicas of a kind are.
#[derive(Debug)]
pub struct Scale {
    /// The number that is wanted.
    pub spec: Vec<String>,
    /// The number that is.
    pub status: Vec<String>,
    /// A label selector as text.
    pub selector: Option<Vec<String>>,
}

/// What makes a kind.
#[derive(Debug)]
pub struct Description {
    /// API group.
    pub group: String,
    /// Version.
    pub version: String,
    /// The type's name.
    pub kind: String,
    /// The name in URLs.
    pub plural: String,
    /// The name of one.
    pub singular: String,
    /// Abbreviations.
    pub short_names: Vec<String>,
    /// Categories.
    pub categories: Vec<String>,
    /// Whether objects live in a namespace.
    pub namespaced: bool,
    /// Whether there is a status subresource.
    pub has_status: bool,
    /// The version as the definition has it: schema, columns, subresources.
    pub source: Value,
}

#[derive(Default)]
struct Registry {
    /// Kinds by all that makes them.
    kinds: BTreeMap<String, &'static Kind>,
    /// The place of each resource's objects, by group, plural and scope.
    places: BTreeMap<(String, String, bool), usize>,
    next: usize,
}

static REGISTRY: LazyLock<Mutex<Registry>> = LazyLock::new(Mutex::default);

fn text(text: &str) -> &'static str {
    text.to_owned().leak()
}

fn texts(list: &[String]) -> &'static [&'static str] {
    list.iter().map(|t| text(t)).collect::<Vec<_>>().leak()
}

/// The kind of a description; `base` is the stored one, for versions that are not it. Nothing when the process has seen
/// too many.
pub fn intern(
    description: &Description,
    parts: definition::Parts,
    base: Option<&'static Kind>,
) -> Option<&'static Kind> {
    let key = format!("{description:?} {:?}", base.map(std::ptr::from_ref));
    let mut registry = REGISTRY.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(kind) = registry.kinds.get(&key) {
        return Some(kind);
    }
    if registry.kinds.len() >= LIMIT {
        return None;
    }
    let first = kinds::count();
    let resource = (description.group.clone(), description.plural.clone(), description.namespaced);
    let fresh = first + registry.next;
    let store = *registry.places.entry(resource).or_insert(fresh);
    let index = if base.is_none() { store } else { fresh };
    if index == fresh {
        registry.next += 1;
    }
    let has_scale = parts.scale.is_some();
    let fields = fields::fields(&parts.schema);
    let custom = Custom {
        base,
        schema: parts.schema,
        fields,
        columns: parts.columns,
        scale: parts.scale,
        selectable: texts(&parts.selectable),
        webhook: Some(description.source["conversion"].clone()).filter(|webhook| !webhook.is_null()),
        deprecation: description.source["deprecation"].as_str().map(str::to_owned),
        source: description.source["schema"]["openAPIV3Schema"].clone(),
    };
    let kind = Kind {
        index,
        store,
        group: text(&description.group),
        version: text(&description.version),
        kind: text(&description.kind),
        plural: text(&description.plural),
        singular: text(&description.singular),
        short_names: texts(&description.short_names),
        categories: texts(&description.categories),
        namespaced: description.namespaced,
        has_status: description.has_status,
        verbs: &["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"],
        subresources: kinds::custom_subresources(description.has_status, has_scale),
        allow_unconditional_update: false,
        custom: Some(Box::leak(Box::new(custom))),
    };
    let kind: &'static Kind = Box::leak(Box::new(kind));
    registry.kinds.insert(key, kind);
    Some(kind)
}
