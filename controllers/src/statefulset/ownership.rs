//! Owners of a pod's claims by the retention policy of the set (`stateful_set_utils.go`): the garbage collector deletes
//! a claim with its set, or with a pod that is scaled down.

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use super::identity::Ordinals;
use crate::kube::Kind;
use crate::workload::controller_ref::controller_ref;

/// Retention policy of a set's claims; false means that they stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Retention {
    /// If set, claims are deleted with the set.
    pub(super) with_set: bool,
    /// If set, the claims of a pod that is scaled down are deleted with the pod.
    pub(super) with_pod: bool,
}

impl Retention {
    /// Returns the policy of a set; an unknown word means Retain (`getPersistentVolumeClaimRetentionPolicy`).
    pub(super) fn of(set: &StatefulSet) -> Self {
        let policy = set.spec.as_ref().and_then(|spec| spec.persistent_volume_claim_retention_policy.as_ref());
        let deletes = |word: Option<&String>| word.is_some_and(|word| word == "Delete");
        Self {
            with_set: deletes(policy.and_then(|policy| policy.when_deleted.as_ref())),
            with_pod: deletes(policy.and_then(|policy| policy.when_scaled.as_ref())),
        }
    }
}

/// Returns the owners that the policy asks for: the set, and the pod.
fn wanted(set: &StatefulSet, pod: &Pod) -> (bool, bool) {
    let policy = Retention::of(set);
    let is_scaled_down = set.spec.as_ref().is_some_and(|spec| !Ordinals::of(spec).contain(pod));
    let of_pod = policy.with_pod && is_scaled_down;
    (policy.with_set && !of_pod, of_pod)
}

fn matches<K: Kind>(reference: &OwnerReference, object: &K) -> bool {
    reference.api_version == K::API_VERSION && reference.kind == K::KIND && reference.name == object.name()
}

fn owners(claim: &PersistentVolumeClaim) -> &[OwnerReference] {
    claim.metadata.owner_references.as_deref().unwrap_or_default()
}

fn has_owner<K: Kind>(claim: &PersistentVolumeClaim, object: &K) -> bool {
    owners(claim).iter().any(|reference| reference.uid == object.uid())
}

/// Returns true if the claim names an object of this name with another uid (`hasStaleOwnerRef`).
pub(super) fn has_stale_owner<K: Kind>(claim: &PersistentVolumeClaim, object: &K) -> bool {
    owners(claim).iter().find(|reference| matches(reference, object)).is_some_and(|found| found.uid != object.uid())
}

/// Returns true if another controller owns the claim, or one of the same name that is gone (`hasUnexpectedController`).
pub(super) fn has_unexpected_controller(claim: &PersistentVolumeClaim, set: &StatefulSet, pod: &Pod) -> bool {
    let policy = Retention::of(set);
    if !policy.with_pod && !policy.with_set {
        return false;
    }
    owners(claim).iter().any(|reference| {
        if matches(reference, set) {
            reference.uid != set.uid()
        } else if matches(reference, pod) {
            reference.uid != pod.uid()
        } else {
            reference.controller == Some(true)
        }
    })
}

/// Returns true if the set or the pod owns the claim without being its controller (`hasNonControllerOwner`).
fn has_non_controller_owner(claim: &PersistentVolumeClaim, set: &StatefulSet, pod: &Pod) -> bool {
    let ours = owners(claim).iter().filter(|reference| reference.uid == set.uid() || reference.uid == pod.uid());
    ours.into_iter().any(|reference| reference.controller != Some(true))
}

/// Returns true if the claim's owners need no change (`isClaimOwnerUpToDate`): they are those of the policy, or the
/// claim has another owner.
pub(super) fn is_up_to_date(claim: &PersistentVolumeClaim, set: &StatefulSet, pod: &Pod) -> bool {
    if has_stale_owner(claim, set) || has_stale_owner(claim, pod) {
        return true;
    }
    let (of_set, of_pod) = (has_owner(claim, set), has_owner(claim, pod));
    if has_unexpected_controller(claim, set, pod) {
        return !(of_set || of_pod);
    }
    !has_non_controller_owner(claim, set, pod) && (of_set, of_pod) == wanted(set, pod)
}

/// Sets the claim's owners by the policy (`updateClaimOwnerRefForSetAndPod`).
pub(super) fn update(claim: &mut PersistentVolumeClaim, set: &StatefulSet, pod: &Pod) {
    let is_unexpected = has_unexpected_controller(claim, set, pod);
    let present = claim.metadata.owner_references.take().into_iter().flatten();
    let mut next: Vec<OwnerReference> =
        present.filter(|reference| !matches(reference, set) && !matches(reference, pod)).collect();
    if !is_unexpected {
        let (of_set, of_pod) = wanted(set, pod);
        let mut add = |reference: OwnerReference| {
            if next.iter().all(|present| present.uid != reference.uid) {
                next.push(reference);
            }
        };
        if of_pod {
            add(controller_ref(pod));
        }
        if of_set {
            add(controller_ref(set));
        }
    }
    claim.metadata.owner_references = (!next.is_empty()).then_some(next);
}
