//! Versions of a kind: the fields of a manager belong to the version in which it wrote (`versionConverter` of
//! apimachinery `managedfields`).

use std::borrow::Cow;

use substrate::json::Value;

use super::compare::{Difference, compare};
use super::fields::Topology;
use crate::kinds::{self, Kind, schema};
use crate::state::view;

/// Returns the version of a kind that an entry of managedFields names. A version that is no longer served counts as the
/// stored one.
pub(super) fn named<'a>(served: &'a Kind, api_version: &str) -> &'a Kind {
    let stored = kinds::stored(served);
    let known = [served, stored].into_iter().find(|kind| kind.api_version() == api_version);
    known.or_else(|| kinds::find_kind(api_version, served.kind)).unwrap_or(stored)
}

/// Returns the topology of the objects of a version.
pub(super) fn topology(kind: &Kind) -> Topology<'_> {
    schema::of(kind).map_or(Topology::Atomic, Topology::Struct)
}

/// Converts a stored object to a version.
pub(super) fn shown<'v>(kind: &Kind, object: &'v Value) -> Cow<'v, Value> {
    if kind.is_view() { Cow::Owned(view::to_view(kind, object)) } else { Cow::Borrowed(object) }
}

/// Converts an object between two versions.
pub(super) fn converted<'v>(object: &'v Value, from: &Kind, to: &Kind) -> Cow<'v, Value> {
    if from == to {
        return Cow::Borrowed(object);
    }
    let stored = if from.is_view() { Cow::Owned(view::from_view(from, object)) } else { Cow::Borrowed(object) };
    if to.is_view() { Cow::Owned(view::to_view(to, &stored)) } else { stored }
}

/// Differences of two stored objects in each version, computed on demand.
pub(super) struct Differences<'a> {
    old: &'a Value,
    new: &'a Value,
    known: Vec<(&'a Kind, Difference)>,
}

impl<'a> Differences<'a> {
    /// Takes the two objects to compare.
    pub(super) fn new(old: &'a Value, new: &'a Value) -> Self {
        Self { old, new, known: Vec::new() }
    }

    /// Returns the differences in a version.
    pub(super) fn shown(&mut self, kind: &'a Kind) -> &Difference {
        let at = self.known.iter().position(|(known, _)| *known == kind).unwrap_or_else(|| {
            let difference = compare(Some(&shown(kind, self.old)), Some(&shown(kind, self.new)), topology(kind));
            self.known.push((kind, difference));
            self.known.len() - 1
        });
        &self.known[at].1
    }
}
