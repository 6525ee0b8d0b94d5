//! Custom kinds, from CustomResourceDefinitions: their schemas, the effect of schemas on objects, and their rules.
//!
//! Each version of a definition becomes a [`Kind`] of one store ([`Registry`]), and is dropped with it.

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

pub use declared::declared;
pub use path::Path;
pub use prune::embedded_metadata;
pub use prune::prune;
pub use schema::Schema;
use substrate::json::{Text, Value};
pub use validate::validate;

use crate::kinds::schema::Type;
use crate::kinds::{self, Kind, KindRef};

/// Properties of a custom kind beyond those of built-in ones.
pub struct Custom {
    /// The stored kind, for a version that is not the stored one.
    pub base: Option<KindRef>,
    /// Schema of the objects.
    pub schema: Schema,
    /// The schema as a struct, for server-side apply.
    pub fields: Type,
    /// Printer columns after the name.
    pub columns: Vec<Column>,
    /// Paths of the fields of a Scale.
    pub scale: Option<Scale>,
    /// Selectable fields, without the leading dot.
    pub selectable: Vec<Text>,
    /// Conversion webhook, as in the definition; `None` if versions differ in their names only.
    pub webhook: Option<Value>,
    /// The schema as it was sent, for OpenAPI.
    pub source: Value,
    /// Warning about this version, if it is deprecated.
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
    /// Its heading.
    pub name: String,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    pub kind: String,
    /// The OpenAPI format.
    pub format: String,
    /// Its description.
    pub description: String,
    /// 0 for columns that are always shown.
    pub priority: i32,
    /// Path of its cells.
    pub path: Path,
}

/// Paths of a kind's replicas.
#[derive(Debug)]
pub struct Scale {
    /// Desired number.
    pub spec: Vec<String>,
    /// Present number.
    pub status: Vec<String>,
    /// A label selector as a string.
    pub selector: Option<Vec<String>>,
}

/// Description of a kind, from a definition.
#[derive(Debug)]
pub struct Description {
    /// API group.
    pub group: String,
    /// Version.
    pub version: String,
    /// Name of the type.
    pub kind: String,
    /// Name in URLs.
    pub plural: String,
    /// Singular name.
    pub singular: String,
    /// Abbreviations.
    pub short_names: Vec<String>,
    /// Categories.
    pub categories: Vec<String>,
    /// True if objects have a namespace.
    pub namespaced: bool,
    /// True if there is a status subresource.
    pub has_status: bool,
    /// The version as in the definition: schema, columns, subresources.
    pub source: Value,
}

/// Custom kinds of one store, and the positions of their objects.
#[derive(Default)]
pub struct Registry {
    /// Kinds by their whole description: equal definitions share one.
    kinds: BTreeMap<String, Arc<Kind>>,
    /// Position of each resource's objects, by group, plural and scope. A position is never given to another resource.
    places: BTreeMap<(String, String, bool), usize>,
}

impl Registry {
    /// Returns the kinds of a definition's served versions, the stored one first; empty if the definition is invalid.
    pub fn kinds(&mut self, definition: &Value) -> Vec<KindRef> {
        let (parsed, errors) = definition::parse(definition);
        if !errors.is_empty() {
            return Vec::new();
        }
        let mut kinds: Vec<KindRef> = Vec::new();
        for (description, parts, served) in parsed {
            let base = kinds.first().cloned();
            // The stored version has a kind even if it is not served.
            if base.is_none() || served {
                kinds.push(self.intern(&description, parts, base));
            }
        }
        kinds
    }

    /// Returns the position of a resource's objects, if it was ever defined.
    pub fn place(&self, group: &str, plural: &str, namespaced: bool) -> Option<usize> {
        self.places.get(&(group.to_owned(), plural.to_owned(), namespaced)).copied()
    }

    /// Returns the kind of a description; `base` is the stored kind, for other versions.
    fn intern(&mut self, description: &Description, parts: definition::Parts, base: Option<KindRef>) -> KindRef {
        let key = format!("{description:?} {:?}", base.as_deref().map(std::ptr::from_ref));
        if let Some(kind) = self.kinds.get(&key) {
            return KindRef::Custom(kind.clone());
        }
        // Drops kinds that are not in use. They would be needed again only for an equal definition.
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
