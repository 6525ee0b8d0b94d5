//! Controller references (`metav1.GetControllerOf`, `metav1.NewControllerRef`) and the decision about one object of a
//! controller (`BaseControllerRefManager.ClaimObject`).

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use crate::kube::Kind;

/// Returns the reference to an object's controller.
pub(crate) fn controller_of(metadata: &ObjectMeta) -> Option<&OwnerReference> {
    metadata.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))
}

/// Returns true if `owner` is the controller of the object.
pub(crate) fn is_controlled_by<O: Kind>(metadata: &ObjectMeta, owner: &O) -> bool {
    controller_of(metadata).is_some_and(|reference| reference.uid == owner.uid())
}

/// Returns a controller reference to `owner`.
pub(crate) fn controller_ref<O: Kind>(owner: &O) -> OwnerReference {
    OwnerReference {
        api_version: O::API_VERSION.to_owned(),
        kind: O::KIND.to_owned(),
        name: owner.name().to_owned(),
        uid: owner.uid().to_owned(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// Decision about one object of the controller's namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// The object is the controller's.
    Keep,
    /// The object is not the controller's.
    Skip,
    /// The object has no controller and matches: add a reference.
    Adopt,
    /// The object no longer matches: remove the reference.
    Release,
}

/// Decides about `object`; `matches` is true if the controller selects it. A controller that is being deleted changes
/// no references.
pub(crate) fn claim<O: Kind, K: Kind>(owner: &O, object: &K, matches: bool) -> Claim {
    match controller_of(object.metadata()) {
        Some(reference) if reference.uid != owner.uid() => Claim::Skip,
        Some(_) if matches => Claim::Keep,
        Some(_) if owner.is_deleting() => Claim::Skip,
        Some(_) => Claim::Release,
        None if owner.is_deleting() || !matches || object.is_deleting() => Claim::Skip,
        None if object.namespace() != owner.namespace() => Claim::Skip,
        None => Claim::Adopt,
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::ReplicaSet;
    use k8s_openapi::api::core::v1::Pod;
    use substrate::json::{from_value, json};

    use super::*;

    fn owner(deleting: bool) -> ReplicaSet {
        let time = deleting.then_some("2026-01-01T00:00:00Z");
        let metadata = json!({ "namespace": "default", "name": "web", "uid": "o", "deletionTimestamp": time });
        from_value(json!({ "metadata": metadata })).unwrap()
    }

    fn pod(controller: Option<&str>, deleting: bool) -> Pod {
        let time = deleting.then_some("2026-01-01T00:00:00Z");
        let owners: Vec<_> = controller
            .map(|uid| json!({ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "x", "uid": uid, "controller": true }))
            .into_iter()
            .collect();
        let metadata = json!({ "namespace": "default", "name": "p", "uid": "p", "ownerReferences": owners, "deletionTimestamp": time });
        from_value(json!({ "metadata": metadata })).unwrap()
    }

    #[test]
    fn a_controller_claims_its_own_and_matching_orphans() {
        let alive = owner(false);
        assert_eq!(claim(&alive, &pod(Some("o"), false), true), Claim::Keep);
        assert_eq!(claim(&alive, &pod(Some("o"), false), false), Claim::Release);
        assert_eq!(claim(&alive, &pod(Some("other"), false), true), Claim::Skip);
        assert_eq!(claim(&alive, &pod(None, false), true), Claim::Adopt);
        assert_eq!(claim(&alive, &pod(None, false), false), Claim::Skip);
        assert_eq!(claim(&alive, &pod(None, true), true), Claim::Skip);
    }

    #[test]
    fn a_controller_that_is_deleted_changes_no_reference() {
        let dying = owner(true);
        assert_eq!(claim(&dying, &pod(Some("o"), false), true), Claim::Keep);
        assert_eq!(claim(&dying, &pod(Some("o"), false), false), Claim::Skip);
        assert_eq!(claim(&dying, &pod(None, false), true), Claim::Skip);
    }
}
