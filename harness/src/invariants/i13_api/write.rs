//! A write of one object, as the checkers see it.

use std::borrow::Cow;

use fake_apiserver::events::{Asked, ObjectStored};
use fake_apiserver::kinds::Kind;
use fake_apiserver::state::Event as Change;
use substrate::json::{Text, Value};

/// Fields that every object has besides its content.
const COMMON: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// A write of one object.
#[derive(Debug)]
pub(super) struct Write<'a> {
    pub kind: &'a Kind,
    pub key: &'a str,
    pub rv: u64,
    /// The verb of the request, which may have been about another object.
    pub verb: &'a str,
    pub dry_run: bool,
    /// The request, if it names this object.
    pub asked: Option<&'a Asked>,
    pub old: Option<Cow<'a, Value>>,
    /// Revision of the old object.
    pub old_rv: u64,
    /// `None` if the object was removed.
    pub new: Option<Cow<'a, Value>>,
}

impl<'a> Write<'a> {
    /// Reads an event.
    pub fn of(stored: &'a ObjectStored, change: &'a Change) -> Self {
        Self {
            kind: &change.kind,
            key: &change.key,
            rv: stored.rv,
            verb: &stored.verb,
            dry_run: stored.dry_run,
            asked: stored.asked.as_deref(),
            old: change.old.as_ref().map(|object| object.value.read()),
            old_rv: change.old.as_ref().map_or(0, |object| object.revision),
            new: change.new.as_ref().map(|object| object.value.read()),
        }
    }

    /// Returns the resource as in URLs; empty for a custom kind, to which no rule of a built-in kind applies.
    pub fn resource(&self) -> &'static str {
        if self.is_custom() { "" } else { self.kind.plural }
    }

    /// Returns true for a custom kind.
    pub fn is_custom(&self) -> bool {
        self.kind.custom.is_some()
    }

    /// Returns true if the object was removed.
    pub fn is_removed(&self) -> bool {
        self.new.is_none()
    }

    /// Returns the objects before and after a change.
    pub fn change(&self) -> Option<(&Value, &Value)> {
        Some((self.old.as_deref()?, self.new.as_deref()?))
    }

    /// Returns the subresource of the request, if it names this object; empty for none.
    pub fn subresource(&self) -> Option<&str> {
        self.asked.map(|asked| asked.subresource.as_str())
    }

    /// Returns true if the request is an update or a patch of this object.
    pub fn is_update(&self) -> bool {
        self.asked.is_some() && matches!(self.verb, "update" | "patch")
    }

    /// Returns true if the request is an update or a patch of this object, and of no subresource.
    pub fn is_main(&self) -> bool {
        self.is_update() && self.subresource() == Some("")
    }
}

/// Returns the first field in which two objects differ, except `ignored` ones.
pub(super) fn difference<'v>(old: &'v Value, new: &'v Value, ignored: &[&str]) -> Option<&'v Text> {
    let fields = |of: &'v Value| of.as_object().into_iter().flat_map(|fields| fields.iter()).map(|(name, _)| name);
    let differs = |name: &&Text| !ignored.contains(&name.as_str()) && old.get(name.as_str()) != new.get(name.as_str());
    fields(old).chain(fields(new)).find(differs)
}

/// Returns the first field of the content in which two objects differ, except `ignored` ones.
pub(super) fn content<'v>(old: &'v Value, new: &'v Value, ignored: &[&str]) -> Option<&'v Text> {
    let mut all = COMMON.to_vec();
    all.extend(ignored);
    difference(old, new, &all)
}

/// Returns a time or a name in the metadata; empty if unset.
pub(super) fn meta<'v>(object: &'v Value, field: &str) -> &'v str {
    object["metadata"][field].as_str().unwrap_or_default()
}

/// Returns a number in the metadata.
pub(super) fn number(object: &Value, field: &str) -> Option<i64> {
    object["metadata"][field].as_i64()
}

/// Returns the finalizers of an object.
pub(super) fn finalizers(object: &Value) -> &[Value] {
    object["metadata"]["finalizers"].as_array().map_or(&[], Vec::as_slice)
}
