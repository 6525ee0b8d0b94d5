//! Objects of a group: its content, and the snapshots and contents of its members.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ObjectReference, PersistentVolume, SecretReference};
use sha2::{Digest, Sha256};

use super::super::super::group::names::{HANDLE, MEMBER_FINALIZER, SECRET_NAME, SECRET_NAMESPACE};
use super::super::super::group::objects::{
    ContentSource, ContentSpec, VolumeGroupSnapshot, VolumeGroupSnapshotClass, VolumeGroupSnapshotContent,
    VolumeSnapshotInfo,
};
use super::super::super::group::owner;
use super::super::super::names;
use super::super::super::objects::{
    VolumeSnapshot, VolumeSnapshotContent, VolumeSnapshotContentSource, VolumeSnapshotContentSpec,
};
use super::super::binding::Misfit;
use super::decide::{dynamic_content_name, group_key};
use crate::binder::object::annotate;
use crate::kube::{Kind, reference};

/// Checks the content with the name of a group's own content (`getDynamicallyProvisionedGroupContentFromStore`).
///
/// # Errors
/// If it is not for this group.
pub fn dynamically_provisioned(
    group: &VolumeGroupSnapshot,
    content: Arc<VolumeGroupSnapshotContent>,
) -> Result<Arc<VolumeGroupSnapshotContent>, Misfit> {
    let (key, name) = (group_key(group), content.name());
    if content.spec.source.group_snapshot_handles.is_some() {
        return Err(Misfit {
            reason: "GroupSnapshotContentMismatch",
            message: format!(
                "VolumeGroupSnapshotContent {name} is pre-provisioned while expecting a dynamically provisioned one"
            ),
            error: format!(
                "group snapshot {key} expects a dynamically provisioned VolumeGroupSnapshotContent {name} but gets a \
                 pre-provisioned one"
            ),
        });
    }
    if !content.is_of(group) {
        let message = format!("VolumeGroupSnapshotContent [{name}] is bound to a different group snapshot");
        return Err(Misfit { reason: "GroupSnapshotContentMisbound", error: message.clone(), message });
    }
    Ok(content)
}

/// Returns the content of a group of volumes (`createGroupSnapshotContent`).
pub fn new_content(
    group: &VolumeGroupSnapshot,
    class: &VolumeGroupSnapshotClass,
    volume_handles: Vec<String>,
    secret: Option<&SecretReference>,
) -> VolumeGroupSnapshotContent {
    let spec = ContentSpec {
        volume_group_snapshot_ref: reference(group),
        deletion_policy: class.deletion_policy.clone(),
        driver: class.driver.clone(),
        volume_group_snapshot_class_name: Some(class.name().to_owned()),
        source: ContentSource { volume_handles, group_snapshot_handles: None },
    };
    let mut content = VolumeGroupSnapshotContent::new(dynamic_content_name(group), spec);
    if let Some(secret) = secret {
        annotate(&mut content.metadata, SECRET_NAME, secret.name.as_deref().unwrap_or_default());
        annotate(&mut content.metadata, SECRET_NAMESPACE, secret.namespace.as_deref().unwrap_or_default());
    }
    content
}

/// Returns the part of a member's names that its group and its volume determine.
fn member_id(group: &VolumeGroupSnapshot, volume_handle: &str) -> String {
    hex::encode(Sha256::digest(format!("{}{volume_handle}", group.uid())))
}

/// Returns the content of a member (`buildVolumeSnapshotContentSpecForGroupSnapshot`).
pub fn member_content(
    group: &VolumeGroupSnapshot,
    content: &VolumeGroupSnapshotContent,
    info: &VolumeSnapshotInfo,
    volume: Option<&PersistentVolume>,
    secret: Option<&SecretReference>,
) -> VolumeSnapshotContent {
    let id = member_id(group, &info.volume_handle);
    let spec = VolumeSnapshotContentSpec {
        volume_snapshot_ref: ObjectReference {
            kind: Some("VolumeSnapshot".to_owned()),
            name: Some(format!("snapshot-{id}")),
            namespace: content.spec.volume_group_snapshot_ref.namespace.clone(),
            ..ObjectReference::default()
        },
        deletion_policy: content.spec.deletion_policy.clone(),
        driver: content.spec.driver.clone(),
        volume_snapshot_class_name: None,
        source: VolumeSnapshotContentSource { volume_handle: Some(info.volume_handle.clone()), snapshot_handle: None },
        source_volume_mode: volume.and_then(|volume| volume.spec.as_ref()?.volume_mode.clone()),
    };
    let mut member = VolumeSnapshotContent::new(format!("snapcontent-{id}"), spec);
    annotate(&mut member.metadata, HANDLE, content.handle().unwrap_or_default());
    if let Some(secret) = secret {
        annotate(&mut member.metadata, names::SECRET_NAME, secret.name.as_deref().unwrap_or_default());
        annotate(&mut member.metadata, names::SECRET_NAMESPACE, secret.namespace.as_deref().unwrap_or_default());
    }
    member
}

/// Returns the snapshot of a member (`buildVolumeSnapshotSpecForGroupSnapshot`). Its claim has no name if the volume is
/// unknown.
pub fn member_snapshot(
    group: &VolumeGroupSnapshot,
    content: &VolumeGroupSnapshotContent,
    info: &VolumeSnapshotInfo,
    volume: Option<&PersistentVolume>,
) -> VolumeSnapshot {
    let id = member_id(group, &info.volume_handle);
    let mut member = VolumeSnapshot::blank();
    member.metadata.name = Some(format!("snapshot-{id}"));
    member.metadata.namespace = content.spec.volume_group_snapshot_ref.namespace.clone();
    member.metadata.owner_references = Some(vec![owner(group)]);
    member.metadata.finalizers = Some(vec![MEMBER_FINALIZER.to_owned()]);
    let claim = volume.and_then(|volume| volume.spec.as_ref()?.claim_ref.as_ref()?.name.clone());
    member.spec.source.persistent_volume_claim_name = Some(claim.unwrap_or_default());
    member
}

#[cfg(test)]
mod tests {
    use substrate::json::{Value, from_value, json, to_value};

    use super::*;

    fn group() -> VolumeGroupSnapshot {
        let metadata = json!({ "namespace": "shop", "name": "g", "uid": "u", "resourceVersion": "7" });
        from_value(json!({ "metadata": metadata })).unwrap()
    }

    fn class() -> VolumeGroupSnapshotClass {
        from_value(json!({ "metadata": { "name": "gold" }, "driver": "ebs", "deletionPolicy": "Retain" })).unwrap()
    }

    fn taken() -> VolumeGroupSnapshotContent {
        let mut content = new_content(&group(), &class(), vec!["vol-1".to_owned()], None);
        content.status = from_value(json!({ "volumeGroupSnapshotHandle": "gsnap-1" })).unwrap();
        content
    }

    #[test]
    fn a_new_content_has_the_volumes_of_the_group() {
        let secret = SecretReference { name: Some("key".to_owned()), namespace: Some("shop".to_owned()) };
        let made = new_content(&group(), &class(), vec!["vol-1".to_owned(), "vol-2".to_owned()], Some(&secret));
        let of = json!({
            "apiVersion": "groupsnapshot.storage.k8s.io/v1", "kind": "VolumeGroupSnapshot", "namespace": "shop",
            "name": "g", "uid": "u", "resourceVersion": "7",
        });
        let expected = json!({
            "apiVersion": "groupsnapshot.storage.k8s.io/v1",
            "kind": "VolumeGroupSnapshotContent",
            "metadata": { "name": "groupsnapcontent-u", "annotations": { SECRET_NAME: "key", SECRET_NAMESPACE: "shop" } },
            "spec": {
                "volumeGroupSnapshotRef": of, "deletionPolicy": "Retain", "driver": "ebs",
                "volumeGroupSnapshotClassName": "gold", "source": { "volumeHandles": ["vol-1", "vol-2"] },
            },
        });
        assert_eq!(to_value(&made).unwrap(), expected);
    }

    #[test]
    fn a_member_is_named_after_its_group_and_its_volume() {
        let info = VolumeSnapshotInfo { volume_handle: "vol-1".to_owned(), ..VolumeSnapshotInfo::default() };
        let volume = json!({ "volumeMode": "Block", "claimRef": { "namespace": "shop", "name": "data" } });
        let volume: PersistentVolume = from_value(json!({ "spec": volume })).unwrap();
        let snapshot = member_snapshot(&group(), &taken(), &info, Some(&volume));
        let content = member_content(&group(), &taken(), &info, Some(&volume), None);
        let name = snapshot.name().to_owned();
        // The digest of "uvol-1".
        let id = hex::encode(Sha256::digest("uvol-1"));
        assert_eq!((name.as_str(), content.name()), (&*format!("snapshot-{id}"), &*format!("snapcontent-{id}")));
        assert_eq!(content.snapshot_key(), ("shop".to_owned(), name));
        assert_eq!(content.annotation(HANDLE), Some("gsnap-1"));
        assert_eq!(
            (&*content.spec.deletion_policy, content.spec.source_volume_mode.as_deref()),
            ("Retain", Some("Block"))
        );
        assert_eq!(snapshot.spec.source.persistent_volume_claim_name.as_deref(), Some("data"));
        assert!(snapshot.has_finalizer(MEMBER_FINALIZER));
        let lost = member_snapshot(&group(), &taken(), &info, None);
        assert_eq!(lost.spec.source.persistent_volume_claim_name.as_deref(), Some(""));
    }

    #[test]
    fn a_content_of_another_group_is_refused() {
        assert!(dynamically_provisioned(&group(), Arc::new(taken())).is_ok());
        let mut other = taken();
        other.spec.volume_group_snapshot_ref.uid = Some("older".to_owned());
        let error = dynamically_provisioned(&group(), Arc::new(other)).unwrap_err();
        assert_eq!(error.reason, "GroupSnapshotContentMisbound");
        let existing: Value = json!({ "groupSnapshotHandles": { "volumeGroupSnapshotHandle": "gsnap-1" } });
        let mut imported = taken();
        imported.spec.source = from_value(existing).unwrap();
        let error = dynamically_provisioned(&group(), Arc::new(imported)).unwrap_err();
        assert_eq!(error.reason, "GroupSnapshotContentMismatch");
    }
}
