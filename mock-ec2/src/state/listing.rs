//! Lists of things: the request, and the entries as fields with the API's names.
//!
//! The machine itself does not read these fields, so they have no types beyond place and text.

use std::collections::BTreeMap;

use super::filter::{Filter, Filterable};
use super::kinds::Kind;
use super::page::PageRequest;

/// A field's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Field {
    /// Text, number or boolean.
    Text(String),
    /// Nested fields.
    Group(Vec<Named>),
    /// Items.
    List(Vec<Field>),
}

/// A field with its name in the API.
pub type Named = (&'static str, Field);

/// Builds a field from a displayable value.
pub fn text(name: &'static str, value: impl ToString) -> Named {
    (name, Field::Text(value.to_string()))
}

/// Builds a field with nested fields.
pub fn group(name: &'static str, fields: Vec<Named>) -> Named {
    (name, Field::Group(fields))
}

/// Builds a list whose items have fields.
pub fn list(name: &'static str, items: impl IntoIterator<Item = Vec<Named>>) -> Named {
    (name, Field::List(items.into_iter().map(Field::Group).collect()))
}

/// Builds a list of texts.
pub fn texts<T: ToString>(name: &'static str, items: impl IntoIterator<Item = T>) -> Named {
    (name, Field::List(items.into_iter().map(|item| Field::Text(item.to_string())).collect()))
}

/// Entry of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// Key; the list is ordered by it.
    pub id: String,
    /// Values that filters compare.
    pub filter_fields: Vec<(&'static str, String)>,
    /// Its tags.
    pub tags: BTreeMap<String, String>,
    /// Fields in the answer.
    pub fields: Vec<Named>,
}

impl Filterable for Entry {
    const NAMES: &'static [&'static str] = &[];

    fn values(&self, name: &str, found: &mut dyn FnMut(&str)) {
        self.filter_fields.iter().filter(|(filter_field, _)| *filter_field == name).for_each(|(_, value)| found(value));
    }

    fn tags(&self) -> Option<&BTreeMap<String, String>> {
        Some(&self.tags)
    }
}

/// Request for a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// Kind of the things.
    pub kind: Kind,
    /// If set, only these; a missing one is an error.
    pub ids: Vec<String>,
    /// Parameters of this kind only, by name; a boolean is `true` or `false`.
    pub more: BTreeMap<&'static str, Vec<String>>,
    /// Filters.
    pub filters: Vec<Filter>,
    /// The page.
    pub page: PageRequest,
}

impl Listing {
    /// Returns the values of the parameter `name`.
    pub fn all(&self, name: &str) -> &[String] {
        self.more.get(name).map_or(&[], Vec::as_slice)
    }
}
