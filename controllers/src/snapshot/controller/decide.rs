//! Decisions about snapshots, contents and claims (`pkg/utils/util.go`, `snapshot_controller.go`).

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};

use super::super::names::{CONTENT_FINALIZER, DEFAULT_CLASS, SNAPSHOT_BOUND_FINALIZER, SNAPSHOT_SOURCE_FINALIZER};
use super::super::objects::{DELETE, GROUP, VolumeSnapshot, VolumeSnapshotClass, VolumeSnapshotContent};
use crate::binder::object::claim_phase;
use crate::kube::Kind;

/// Returns `namespace/name` of a snapshot, as in messages (`SnapshotKey`).
pub fn snapshot_key(snapshot: &VolumeSnapshot) -> String {
    format!("{}/{}", snapshot.namespace(), snapshot.name())
}

/// Returns the name of the content of a snapshot that is taken of a claim (`GetDynamicSnapshotContentNameForSnapshot`).
pub fn dynamic_content_name(snapshot: &VolumeSnapshot) -> String {
    format!("snapcontent-{}", snapshot.uid())
}

/// Returns true if the content must get its finalizer (`NeedToAddContentFinalizer`).
pub fn need_to_add_content_finalizer(content: &VolumeSnapshotContent) -> bool {
    !content.is_deleting() && !content.has_finalizer(CONTENT_FINALIZER)
}

/// Returns true if the snapshot is being deleted and has a finalizer of this loop (`IsSnapshotDeletionCandidate`).
pub fn is_snapshot_deletion_candidate(snapshot: &VolumeSnapshot) -> bool {
    let ours = [SNAPSHOT_SOURCE_FINALIZER, SNAPSHOT_BOUND_FINALIZER];
    snapshot.is_deleting() && ours.iter().any(|finalizer| snapshot.has_finalizer(finalizer))
}

/// Returns true if the snapshot names a content (`IsBoundVolumeSnapshotContentNameSet`).
pub fn is_bound_content_name_set(snapshot: &VolumeSnapshot) -> bool {
    snapshot.content().is_some_and(|name| !name.is_empty())
}

/// Returns true if the driver has taken the snapshot (`IsSnapshotCreated`).
pub fn is_snapshot_created(snapshot: &VolumeSnapshot) -> bool {
    snapshot.status.as_ref().is_some_and(|status| status.creation_time.is_some())
}

/// Returns the finalizers that the snapshot lacks, given its content (`checkandAddSnapshotFinalizers`).
pub fn missing_finalizers(snapshot: &VolumeSnapshot, content: Option<&VolumeSnapshotContent>) -> Vec<&'static str> {
    if snapshot.is_deleting() {
        return Vec::new();
    }
    let mut missing = Vec::new();
    if !snapshot.has_finalizer(SNAPSHOT_SOURCE_FINALIZER) {
        missing.push(SNAPSHOT_SOURCE_FINALIZER);
    }
    if content.is_some_and(|content| content.spec.deletion_policy == DELETE)
        && !snapshot.has_finalizer(SNAPSHOT_BOUND_FINALIZER)
        && is_bound_content_name_set(snapshot)
    {
        missing.push(SNAPSHOT_BOUND_FINALIZER);
    }
    missing
}

/// Returns true if a snapshot of the claim is not ready (`isPVCBeingUsed`). `besides` names a snapshot that is ignored.
pub fn is_claim_being_used<'a>(
    claim: &PersistentVolumeClaim,
    snapshots: impl IntoIterator<Item = &'a VolumeSnapshot>,
    besides: Option<&str>,
) -> bool {
    snapshots
        .into_iter()
        .filter(|one| one.namespace() == claim.namespace() && Some(one.name()) != besides)
        .any(|one| one.spec.source.persistent_volume_claim_name.as_deref() == Some(claim.name()) && !one.is_ready())
}

/// Returns true if a claim is being restored from the snapshot (`isVolumeBeingCreatedFromSnapshot`).
pub fn is_volume_being_created<'a>(
    snapshot: &VolumeSnapshot,
    claims: impl IntoIterator<Item = &'a PersistentVolumeClaim>,
) -> bool {
    claims.into_iter().filter(|claim| claim.namespace() == snapshot.namespace()).any(|claim| {
        let source = claim.spec.as_ref().and_then(|spec| spec.data_source.as_ref());
        source.is_some_and(|source| {
            source.name == snapshot.name()
                && source.kind == <VolumeSnapshot as k8s_openapi::Resource>::KIND
                && source.api_group.as_deref() == Some(GROUP)
        }) && claim_phase(claim) == "Pending"
    })
}

/// Returns true if the volume is bound to the claim, or reserved for it (`isVolumeBoundToClaim`).
pub fn is_volume_bound_to_claim(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    let Some(of) = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref()) else { return false };
    of.name.as_deref() == Some(claim.name())
        && of.namespace.as_deref() == Some(claim.namespace())
        && of.uid.as_deref().is_none_or(|uid| uid.is_empty() || uid == claim.uid())
}

/// Returns the default class of a driver (`SetDefaultSnapshotClass`).
///
/// # Errors
/// If there is none, or more than one.
pub fn default_class<T: AsRef<VolumeSnapshotClass>>(classes: Vec<T>, driver: &str) -> Result<T, String> {
    let is_default =
        |class: &VolumeSnapshotClass| class.annotation(DEFAULT_CLASS) == Some("true") && class.driver == driver;
    let mut found: Vec<T> = classes.into_iter().filter(|class| is_default(class.as_ref())).collect();
    match found.len() {
        0 => Err("cannot find default snapshot class".to_owned()),
        1 => Ok(found.remove(0)),
        many => Err(format!("{many} default snapshot classes were found")),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use substrate::json::{Value, from_value, json};

    use super::*;

    fn snapshot(name: &str, ready: bool) -> VolumeSnapshot {
        from_value(json!({
            "metadata": { "namespace": "shop", "name": name },
            "spec": { "source": { "persistentVolumeClaimName": "data" } },
            "status": { "boundVolumeSnapshotContentName": "c", "readyToUse": ready },
        }))
        .unwrap()
    }

    fn claim(name: &str, spec: &Value, phase: &str) -> PersistentVolumeClaim {
        let metadata = json!({ "namespace": "shop", "name": name, "uid": "u" });
        from_value(json!({ "metadata": metadata, "spec": spec.clone(), "status": { "phase": phase } })).unwrap()
    }

    #[test]
    fn a_claim_is_used_until_its_snapshots_are_ready() {
        let (data, other) = (claim("data", &json!({}), "Bound"), claim("other", &json!({}), "Bound"));
        let snapshots = [snapshot("a", true), snapshot("b", false)];
        assert!(is_claim_being_used(&data, &snapshots, None));
        assert!(!is_claim_being_used(&data, &snapshots, Some("b")));
        assert!(!is_claim_being_used(&other, &snapshots, None));
    }

    #[test]
    fn a_snapshot_is_in_use_while_a_claim_from_it_is_pending() {
        let source = json!({ "dataSource": { "apiGroup": GROUP, "kind": "VolumeSnapshot", "name": "a" } });
        let (pending, bound) = (claim("copy", &source, "Pending"), claim("copy", &source, "Bound"));
        assert!(is_volume_being_created(&snapshot("a", true), [&pending]));
        assert!(!is_volume_being_created(&snapshot("a", true), [&bound]));
        assert!(!is_volume_being_created(&snapshot("b", true), [&pending]));
    }

    #[test]
    fn only_a_bound_snapshot_whose_content_goes_with_it_gets_the_second_finalizer() {
        let content = |policy: &str| -> VolumeSnapshotContent {
            from_value(json!({ "metadata": { "name": "c" }, "spec": { "deletionPolicy": policy } })).unwrap()
        };
        let both = [SNAPSHOT_SOURCE_FINALIZER, SNAPSHOT_BOUND_FINALIZER];
        let mut bound = snapshot("a", false);
        assert_eq!(missing_finalizers(&bound, Some(&content("Delete"))), both);
        assert_eq!(missing_finalizers(&bound, Some(&content("Retain"))), both[..1]);
        assert_eq!(missing_finalizers(&bound, None), both[..1]);
        bound.status = None;
        assert_eq!(missing_finalizers(&bound, Some(&content("Delete"))), both[..1]);
        assert!(!is_snapshot_deletion_candidate(&bound));
    }

    #[test]
    fn a_driver_has_one_default_class() {
        let class = |name: &str, driver: &str, value: &str| -> Arc<VolumeSnapshotClass> {
            let metadata = json!({ "name": name, "annotations": { DEFAULT_CLASS: value } });
            from_value(json!({ "metadata": metadata, "driver": driver, "deletionPolicy": "Delete" })).unwrap()
        };
        let of = |classes: Vec<Arc<VolumeSnapshotClass>>| default_class(classes, "ebs").map(|c| c.name().to_owned());
        let (a, b) = (class("a", "ebs", "true"), class("b", "ebs", "true"));
        assert_eq!(of(vec![a.clone(), class("n", "nfs", "true"), class("x", "ebs", "yes")]), Ok("a".to_owned()));
        assert_eq!(of(vec![a, b]), Err("2 default snapshot classes were found".to_owned()));
        assert_eq!(of(Vec::new()), Err("cannot find default snapshot class".to_owned()));
    }

    #[test]
    fn a_volume_without_the_claims_uid_is_reserved_for_it() {
        let data = claim("data", &json!({}), "Bound");
        let volume =
            |claim: Value| -> PersistentVolume { from_value(json!({ "spec": { "claimRef": claim } })).unwrap() };
        for (of, expected) in [
            (json!({ "namespace": "shop", "name": "data", "uid": "u" }), true),
            (json!({ "namespace": "shop", "name": "data" }), true),
            (json!({ "namespace": "shop", "name": "data", "uid": "older" }), false),
            (json!({ "namespace": "shop", "name": "other" }), false),
        ] {
            assert_eq!(is_volume_bound_to_claim(&volume(of.clone()), &data), expected, "{of}");
        }
    }
}
