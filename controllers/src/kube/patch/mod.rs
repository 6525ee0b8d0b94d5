//! Patches, computed from an object as it was and as it shall be, as Go does.
//!
//! Upstream's loops change a copy of what they read and send the difference. So do ours: nobody outside this client
//! writes a merge patch by hand, which is why a patch names what upstream's names, with the nulls and the directives
//! that Go's types and tags put in. Only a JSON patch is a list of operations, because upstream writes those by hand.

mod go;
mod json;
mod merge;
mod node_status;
mod strategic;
mod types;

use substrate::json::{Map, Value};

pub use self::json::Operation;
pub use self::types::Patched;
use super::error::ApiError;
use super::object::Kind;

const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const JSON: &str = "application/json-patch+json";

/// What a patch says of the object that it is meant for, so that the server refuses it (409) for another one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Guard {
    /// Nothing: the patch changes whatever has the name.
    #[default]
    None,
    /// `metadata.uid`: the patch changes no other object of the same name.
    Uid,
    /// `metadata.resourceVersion`: the patch changes no other state of the object.
    ResourceVersion,
}

/// A change to an object, in one of the three patch languages.
///
/// The variants are public until every loop makes its patches with [`Patch::merge`], [`Patch::strategic`] and
/// [`Patch::json`]; then nobody else can.
#[derive(Clone, Debug, PartialEq)]
pub enum Patch {
    /// RFC 7386.
    Merge(Value),
    /// Kubernetes' own: lists merge by key, `$patch` directives.
    Strategic(Value),
    /// RFC 6902.
    Json(Value),
}

impl Patch {
    /// The merge patch from `old` to `new` (`jsonpatch.CreateMergePatch`).
    ///
    /// # Errors
    /// The object cannot be written as JSON.
    pub fn merge<K: Patched>(old: &K, new: &K) -> Result<Self, ApiError> {
        let (before, after) = K::differing(old, new)?;
        Ok(Self::Merge(Value::Object(merge::between(&before, after, K::TYPE))))
    }

    /// The strategic merge patch from `old` to `new` (`strategicpatch.CreateTwoWayMergePatch`).
    ///
    /// # Errors
    /// The object cannot be written as JSON, or an entry of a list that merges by key has no key.
    pub fn strategic<K: Patched>(old: &K, new: &K) -> Result<Self, ApiError> {
        let (before, after) = K::differing(old, new)?;
        let patch = strategic::between(&before, after, K::TYPE)
            .map_err(|e| ApiError::Encode(format!("{} {}: {e}", K::KIND, new.name())))?;
        Ok(Self::Strategic(Value::Object(patch)))
    }

    /// A JSON patch, for the few that upstream writes by hand.
    pub fn json(operations: &[Operation]) -> Self {
        Self::Json(operations.iter().map(Operation::value).collect())
    }

    /// Whether it changes nothing. Look before a guard is put in: a guard is no change.
    pub fn is_empty(&self) -> bool {
        match self.value() {
            Value::Object(members) => members.is_empty(),
            Value::Array(operations) => operations.is_empty(),
            _ => false,
        }
    }

    /// The document.
    pub fn value(&self) -> &Value {
        match self {
            Self::Merge(value) | Self::Strategic(value) | Self::Json(value) => value,
        }
    }

    /// The same for `object` only; in a JSON patch that is a `test` before all else.
    #[must_use]
    pub fn guarded<K: Kind>(mut self, object: &K, guard: Guard) -> Self {
        let (field, value) = match guard {
            Guard::None => return self,
            Guard::Uid => ("uid", object.uid()),
            Guard::ResourceVersion => ("resourceVersion", object.resource_version()),
        };
        match &mut self {
            Self::Merge(document) | Self::Strategic(document) => {
                if let Value::Object(members) = document {
                    let metadata = members.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
                    metadata[field] = value.into();
                }
            }
            Self::Json(document) => {
                if let Value::Array(operations) = document {
                    let test = Operation::Test { path: format!("/metadata/{field}"), value: value.into() };
                    operations.insert(0, test.value());
                }
            }
        }
        self
    }

    pub(super) fn into_content(self) -> (&'static str, Value) {
        match self {
            Self::Merge(value) => (MERGE, value),
            Self::Strategic(value) => (STRATEGIC, value),
            Self::Json(value) => (JSON, value),
        }
    }

    pub(super) fn content(&self) -> (&'static str, Value) {
        self.clone().into_content()
    }
}

#[cfg(test)]
mod tests;
