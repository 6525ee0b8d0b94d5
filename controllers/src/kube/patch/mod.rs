//! Patches, computed from an object's old and new state as Go does.
//!
//! Upstream's loops change a copy of the object that they read and send the difference. So do ours: only this client
//! builds merge patches. A patch therefore names the same fields as upstream's, with the nulls and directives of Go's
//! types and tags. Only a JSON patch is a list of operations, because upstream writes those by hand.

mod go;
mod json;
mod merge;
mod node_status;
mod owners;
mod strategic;
mod types;

use substrate::json::Value;

pub use self::json::Operation;
pub use self::types::Patched;
use super::error::ApiError;
use super::object::Kind;

/// Precondition of a patch on its object; the server refuses it (409) for another one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Guard {
    /// None: the patch changes any object of the name.
    #[default]
    None,
    /// `metadata.uid`: the patch changes no other object of the same name.
    Uid,
    /// `metadata.resourceVersion`: the patch changes no other state of the object.
    ResourceVersion,
}

/// Change to an object in one of the three patch languages. Only [`Patch::merge`], [`Patch::strategic`],
/// [`Patch::node_status`], [`Patch::json`] and the functions in `owners.rs` build patches.
#[derive(Clone, Debug, PartialEq)]
pub struct Patch {
    language: Language,
    document: Value,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Language {
    /// RFC 7386.
    Merge,
    /// Kubernetes' own: lists merge by key, with `$patch` directives.
    Strategic,
    /// RFC 6902.
    Json,
}

impl Language {
    fn content_type(self) -> &'static str {
        match self {
            Self::Merge => "application/merge-patch+json",
            Self::Strategic => "application/strategic-merge-patch+json",
            Self::Json => "application/json-patch+json",
        }
    }
}

impl Patch {
    /// Builds the merge patch from `old` to `new` (`jsonpatch.CreateMergePatch`).
    ///
    /// # Errors
    /// If the object cannot be encoded as JSON.
    pub fn merge<K: Patched>(old: &K, new: &K) -> Result<Self, ApiError> {
        let (before, after) = K::differing(old, new)?;
        let patch = merge::between(&before, after, K::TYPE);
        Ok(Self { language: Language::Merge, document: Value::Object(patch) })
    }

    /// Builds the strategic merge patch from `old` to `new` (`strategicpatch.CreateTwoWayMergePatch`).
    ///
    /// # Errors
    /// If the object cannot be encoded as JSON, or an entry of a list that merges by key has no key.
    pub fn strategic<K: Patched>(old: &K, new: &K) -> Result<Self, ApiError> {
        let (before, after) = K::differing(old, new)?;
        let patch = strategic::between(&before, after, K::TYPE)
            .map_err(|e| ApiError::Encode(format!("{} {}: {e}", K::KIND, new.name())))?;
        Ok(Self { language: Language::Strategic, document: Value::Object(patch) })
    }

    /// Builds a JSON patch, for the few that upstream writes by hand.
    pub fn json(operations: &[Operation]) -> Self {
        Self { language: Language::Json, document: operations.iter().map(Operation::value).collect() }
    }

    /// Returns true if it changes nothing. Call it before a guard is added: a guard counts as content.
    pub fn is_empty(&self) -> bool {
        match &self.document {
            Value::Object(members) => members.is_empty(),
            Value::Array(operations) => operations.is_empty(),
            _ => false,
        }
    }

    /// Returns the document.
    pub fn value(&self) -> &Value {
        &self.document
    }

    /// Adds a precondition on `object`; in a JSON patch a `test` before all other operations.
    #[must_use]
    pub fn guarded<K: Kind>(mut self, object: &K, guard: Guard) -> Self {
        let (field, value) = match guard {
            Guard::None => return self,
            Guard::Uid => ("uid", object.uid()),
            Guard::ResourceVersion => ("resourceVersion", object.resource_version()),
        };
        match &mut self.document {
            Value::Array(operations) => {
                let test = Operation::Test { path: format!("/metadata/{field}"), value: value.into() };
                operations.insert(0, test.value());
            }
            members => members["metadata"][field] = value.into(),
        }
        self
    }

    pub(super) fn into_content(self) -> (&'static str, Value) {
        (self.language.content_type(), self.document)
    }

    pub(super) fn content(&self) -> (&'static str, Value) {
        self.clone().into_content()
    }
}

#[cfg(test)]
mod tests;
