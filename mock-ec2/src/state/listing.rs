//! Lists of things: the request, and the entries as fields with the API's names.
//!
//! The machine itself does not read these fields, so they have no types beyond place and text.

use std::collections::BTreeMap;

use substrate::Now;

use super::State;
use super::error::Ec2Error;
use super::filter::{Filter, Filterable, check_names, matches};
use super::kinds::Kind;
use super::page::PageRequest;
use super::reply::Reply;
use super::resource_errors::ResourceErrors;

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
    pub facets: Vec<(&'static str, String)>,
    /// Its tags.
    pub tags: BTreeMap<String, String>,
    /// Fields in the answer.
    pub fields: Vec<Named>,
}

impl Filterable for Entry {
    const NAMES: &'static [&'static str] = &[];

    fn values(&self, name: &str, found: &mut dyn FnMut(&str)) {
        self.facets.iter().filter(|(facet, _)| *facet == name).for_each(|(_, value)| found(value));
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

impl State {
    /// Returns the page of `request`.
    pub(super) fn list(&self, now: Now, request: &Listing) -> Result<Reply, Ec2Error> {
        let shape = request.kind.shape();
        let page = request.page.check((!request.ids.is_empty()).then_some(shape.set))?;
        check_names(&request.filters, shape.filters, shape.tagged)?;
        let mut all = self.entries(now, request)?;
        if !request.ids.is_empty() {
            let mut missing: Vec<&str> = request.ids.iter().map(String::as_str).collect();
            missing.retain(|id| !all.iter().any(|entry| entry.id == *id));
            if let (Some(resource_errors), false) = (ResourceErrors::of(shape.prefix), missing.is_empty()) {
                return Err(resource_errors.not_found(&missing));
            }
            all.retain(|entry| request.ids.contains(&entry.id));
        }
        all.sort_by(|a, b| a.id.cmp(&b.id));
        all.dedup_by(|a, b| a.id == b.id);
        let wanted = all.into_iter().filter(|entry| matches(entry, &request.filters));
        let (entries, next_token) = page.cut(wanted, |entry| entry.id.as_str());
        Ok(Reply::Entries { kind: request.kind, entries, next_token })
    }
}
