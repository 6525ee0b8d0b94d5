//! The three patch types that the server applies itself: JSON patch, merge patch, strategic merge patch.
//!
//! Pure: takes a patch and an object, returns the patched object. The store decides what a kind allows.

mod json;
mod merge;
mod strategic;

use substrate::json::Value;

use crate::kinds::Kind;

/// Type of a patch body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchKind {
    /// RFC 6902, `application/json-patch+json`.
    Json,
    /// RFC 7396, `application/merge-patch+json`.
    Merge,
    /// Kubernetes' own, `application/strategic-merge-patch+json`.
    Strategic,
}

impl PatchKind {
    /// Returns the patch type of a Content-Type; parameters are ignored.
    pub fn of_content_type(content_type: &str) -> Option<Self> {
        match content_type.split(';').next().unwrap_or_default().trim() {
            "application/json-patch+json" => Some(Self::Json),
            "application/merge-patch+json" => Some(Self::Merge),
            "application/strategic-merge-patch+json" => Some(Self::Strategic),
            _ => None,
        }
    }
}

/// Reason why a patch was not applied; its text is the message of the Status.
#[derive(Clone, Debug, PartialEq, Eq, displaydoc::Display, thiserror::Error)]
pub enum PatchError {
    /// {0}
    Malformed(String),
    /// The allowed maximum operations in a JSON patch is {limit}, got {got}
    TooManyOperations {
        /// The limit.
        limit: usize,
        /// Number of operations of the patch.
        got: usize,
    },
    /// Unable to complete the copy, the accumulated size increase of copy is {size}, exceeding the limit {limit}
    CopyTooLarge {
        /// The limit in bytes.
        limit: usize,
        /// Total size of the copies of the patch in bytes.
        size: usize,
    },
    /// the server rejected our request due to an error in our request
    Inapplicable,
    /// {0}
    Failed(String),
}

impl PatchError {
    /// Returns the HTTP status: 400 for a malformed patch, 413 for one that is too large, 422 if it cannot be applied
    /// to this object, and 500 for a failed strategic merge, for which upstream gives no reason.
    pub fn code(&self) -> u16 {
        match self {
            Self::Malformed(_) => 400,
            Self::TooManyOperations { .. } | Self::CopyTooLarge { .. } => 413,
            Self::Inapplicable => 422,
            Self::Failed(_) => 500,
        }
    }

    /// Returns the Status reason of the code.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Malformed(_) => "BadRequest",
            Self::TooManyOperations { .. } | Self::CopyTooLarge { .. } => "RequestEntityTooLarge",
            Self::Inapplicable => "Invalid",
            Self::Failed(_) => "",
        }
    }
}

/// Applies `patch` to `target`, an object of `kind`, and returns the result; `target` itself stays as it is.
///
/// # Errors
/// See [`PatchError`].
pub fn apply(kind: &Kind, patch_kind: PatchKind, patch: Value, target: &Value) -> Result<Value, PatchError> {
    match patch_kind {
        PatchKind::Json => json::apply(&patch, target),
        PatchKind::Merge => merge::apply(patch, target),
        PatchKind::Strategic => strategic::apply(kind, patch, target),
    }
}

/// Prints a patch as Go prints a map, for error messages.
pub fn shown(patch: &Value) -> String {
    match patch {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.to_string(),
        Value::Array(list) => format!("[{}]", list.iter().map(shown).collect::<Vec<_>>().join(" ")),
        Value::Object(map) => {
            let members: Vec<String> = map.iter().map(|(key, value)| format!("{key}:{}", shown(value))).collect();
            format!("map[{}]", members.join(" "))
        }
        plain => plain.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use substrate::json::json;

    use super::*;
    use crate::kinds;

    #[test]
    fn the_content_type_names_the_patch_kind() {
        assert_eq!(PatchKind::of_content_type("application/json-patch+json"), Some(PatchKind::Json));
        assert_eq!(PatchKind::of_content_type("application/merge-patch+json; charset=utf-8"), Some(PatchKind::Merge));
        assert_eq!(PatchKind::of_content_type("application/strategic-merge-patch+json"), Some(PatchKind::Strategic));
        assert_eq!(PatchKind::of_content_type("application/json"), None);
    }

    /// Generates values that resemble parts of pods and of patches.
    fn value() -> impl Strategy<Value = Value> {
        tree(prop_oneof![Just(Value::Null), any::<bool>().prop_map(Value::from), "[a-c]".prop_map(Value::from)])
    }

    fn tree(leaf: impl Strategy<Value = Value> + 'static) -> impl Strategy<Value = Value> {
        let names = prop::sample::select(vec![
            "spec",
            "metadata",
            "finalizers",
            "containers",
            "volumes",
            "name",
            "env",
            "labels",
            "$patch",
            "$retainKeys",
            "$setElementOrder/containers",
            "$setElementOrder/finalizers",
            "$deleteFromPrimitiveList/finalizers",
            "op",
            "path",
        ]);
        leaf.prop_recursive(5, 40, 4, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(names.clone().prop_map(str::to_owned), inner, 0..5)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn no_patch_panics_and_none_leaves_a_directive_behind(patch in value(), target in value()) {
            let pods = kinds::find("", "v1", "pods").unwrap();
            for kind in [PatchKind::Json, PatchKind::Merge, PatchKind::Strategic] {
                let _ = apply(pods, kind, patch.clone(), &target);
            }
            if patch.is_object() && let Ok(result) = apply(pods, PatchKind::Strategic, patch.clone(), &json!({})) {
                // With the directive `replace`, the object is stored as it is, as upstream does.
                prop_assert!(patch.to_string().contains("\"replace\"") || !result.to_string().contains("$setElementOrder"));
            }
        }

        #[test]
        fn merging_an_object_into_itself_changes_nothing(target in tree("[a-c]".prop_map(Value::from))) {
            let pods = kinds::find("", "v1", "pods").unwrap();
            let target = json!({ "spec": target });
            prop_assert_eq!(apply(pods, PatchKind::Merge, target.clone(), &target), Ok(target));
        }
    }
}
