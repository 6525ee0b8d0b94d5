//! Kinds that CustomResourceDefinitions add: their schemas, what those do to objects, and their rules.
//!
//! A version of a definition becomes a [`Kind`] of one store ([`Registry`]), and goes with it.

pub mod approval;
mod budget;
mod declared;
pub mod definition;
mod examine;
mod fields;
mod names;
mod path;
mod prune;
mod rules;
mod schema;
mod validate;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use path::Path;
pub(crate) use prune::embedded_metadata;
pub use prune::prune;
pub use schema::Schema;
use substrate::json::{Text, Value};
pub(crate) use validate::validate;

use crate::kinds::schema::Type;
use crate::kinds::{self, Kind, KindRef};

/// What a kind has beyond the built-in ones.
pub struct Custom {
    /// The kind under which objects are stored, for a version that is not the stored one.
    pub base: Option<KindRef>,
    /// What objects look like.
    pub schema: Schema,
    /// The same as a struct, for server-side apply.
    pub fields: Type,
    /// The columns beside the name.
    pub columns: Vec<Column>,
    /// Where a Scale finds its numbers.
    pub scale: Option<Scale>,
    /// The fields beside its name that a kind can be selected by, without the leading dot.
    pub selectable: Vec<Text>,
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

/// The custom kinds of one store: what they are, and the place of each resource's objects.
#[derive(Default)]
pub struct Registry {
    /// Kinds by all that makes them: equal definitions share one.
    kinds: BTreeMap<String, Arc<Kind>>,
    /// The place of each resource's objects, by group, plural and scope. A place is never another resource's.
    places: BTreeMap<(String, String, bool), usize>,
}

impl Registry {
    /// The kinds of a definition's served versions, the stored one first; none of a definition that cannot be used.
    pub fn kinds(&mut self, definition: &Value) -> Vec<KindRef> {
        let (parsed, errors) = definition::parse(definition);
        if !errors.is_empty() {
            return Vec::new();
        }
        let mut kinds: Vec<KindRef> = Vec::new();
        for (description, parts, served) in parsed {
            let base = kinds.first().cloned();
            // A stored version that is not served has its place all the same.
            if base.is_none() || served {
                kinds.push(self.intern(&description, parts, base));
            }
        }
        kinds
    }

    /// The place of a resource's objects, where one was ever defined.
    pub fn place(&self, group: &str, plural: &str, namespaced: bool) -> Option<usize> {
        self.places.get(&(group.to_owned(), plural.to_owned(), namespaced)).copied()
    }

    /// The kind of a description; `base` is the stored one, for versions that are not it.
    fn intern(&mut self, description: &Description, parts: definition::Parts, base: Option<KindRef>) -> KindRef {
        let key = format!("{description:?} {:?}", base.as_deref().map(std::ptr::from_ref));
        if let Some(kind) = self.kinds.get(&key) {
            return KindRef::Custom(kind.clone());
        }
        // What nobody has any more would only be found by a definition that comes again.
        self.kinds.retain(|_, kind| Arc::strong_count(kind) > 1);
        let next = kinds::count() + self.places.len();
        let resource = (description.group.clone(), description.plural.clone(), description.namespaced);
        let place = *self.places.entry(resource).or_insert(next);
        let kind = Arc::new(make(description, parts, base, place));
        self.kinds.insert(key, kind.clone());
        KindRef::Custom(kind)
    }
}

fn make(description: &Description, parts: definition::Parts, base: Option<KindRef>, place: usize) -> Kind {
    let has_scale = parts.scale.is_some();
    let fields = fields::fields(&parts.schema);
    let custom = Custom {
        base,
        schema: parts.schema,
        fields,
        columns: parts.columns,
        scale: parts.scale,
        selectable: parts.selectable.iter().map(Text::from).collect(),
        webhook: Some(description.source["conversion"].clone()).filter(|webhook| !webhook.is_null()),
        deprecation: description.source["deprecation"].as_str().map(str::to_owned),
        source: description.source["schema"]["openAPIV3Schema"].clone(),
    };
    Kind {
        index: place,
        store: place,
        group: names::one(&description.group),
        version: names::one(&description.version),
        kind: names::one(&description.kind),
        plural: names::one(&description.plural),
        singular: names::one(&description.singular),
        short_names: names::all(&description.short_names),
        categories: names::all(&description.categories),
        namespaced: description.namespaced,
        has_status: description.has_status,
        verbs: &["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"],
        subresources: kinds::custom_subresources(description.has_status, has_scale),
        allow_unconditional_update: false,
        custom: Some(Box::new(custom)),
    }
}
