//! Patches that upstream writes by hand as strategic merge patches: of controller references
//! (`controller_ref_manager.go`) and of one finalizer.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use substrate::json::{Value, json, to_value};

use super::{Language, Patch};
use crate::kube::error::ApiError;

impl Patch {
    /// Builds the patch that adds a controller reference (`ownerRefControllerPatch`), and `finalizers` if there are any.
    /// With `uid` it changes no other object of the same name.
    ///
    /// # Errors
    /// If the reference cannot be encoded as JSON.
    pub fn adopt(uid: Option<&str>, owner: &OwnerReference, finalizers: &[&str]) -> Result<Self, ApiError> {
        let owner = to_value(owner).map_err(|e| ApiError::Encode(format!("OwnerReference: {e}")))?;
        let mut metadata = json!({ "ownerReferences": [owner] });
        if let Some(uid) = uid {
            metadata["uid"] = uid.into();
        }
        if !finalizers.is_empty() {
            metadata["finalizers"] = finalizers.iter().map(|name| Value::from(*name)).collect();
        }
        Ok(Self { language: Language::Strategic, document: json!({ "metadata": metadata }) })
    }

    /// Builds the patch that removes the references to `owner` (`GenerateDeleteOwnerRefStrategicMergeBytes`), and
    /// `finalizers` if there are any.
    pub fn release(uid: &str, owner: &str, finalizers: &[&str]) -> Self {
        let mut metadata = json!({ "uid": uid, "ownerReferences": [{ "$patch": "delete", "uid": owner }] });
        if !finalizers.is_empty() {
            let names: Value = finalizers.iter().map(|name| Value::from(*name)).collect();
            metadata["$deleteFromPrimitiveList/finalizers"] = names;
        }
        Self { language: Language::Strategic, document: json!({ "metadata": metadata }) }
    }

    /// Builds the patch that removes one finalizer (`removeTrackingFinalizerPatch`).
    pub fn without_finalizer(finalizer: &str) -> Self {
        let metadata = json!({ "$deleteFromPrimitiveList/finalizers": [finalizer] });
        Self { language: Language::Strategic, document: json!({ "metadata": metadata }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_written_as_upstream_writes_them() {
        let owner = OwnerReference {
            api_version: "apps/v1".to_owned(),
            kind: "ReplicaSet".to_owned(),
            name: "web".to_owned(),
            uid: "o".to_owned(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        };
        let reference = json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "o", "controller": true,
            "blockOwnerDeletion": true,
        });
        let adopt = Patch::adopt(Some("p"), &owner, &["f"]).unwrap();
        let expected = json!({ "metadata": { "uid": "p", "ownerReferences": [reference], "finalizers": ["f"] } });
        assert_eq!(adopt.value(), &expected);
        let release = json!({ "metadata": { "uid": "p", "ownerReferences": [{ "$patch": "delete", "uid": "o" }] } });
        assert_eq!(Patch::release("p", "o", &[]).value(), &release);
        let finalizer = json!({ "metadata": { "$deleteFromPrimitiveList/finalizers": ["f"] } });
        assert_eq!(Patch::without_finalizer("f").value(), &finalizer);
    }
}
