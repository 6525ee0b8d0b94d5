//! Decisions about contents of groups.

use super::super::super::group::names::{BEING_CREATED, BEING_DELETED};
use super::super::super::group::objects::VolumeGroupSnapshotContent;
use crate::kube::Kind;

/// Returns true if the content is to be removed (`shouldDeleteGroupSnapshotContent`): the controller has marked it, and
/// no CreateVolumeGroupSnapshot is unsettled. A pre-provisioned content that is not bound needs no mark.
pub fn should_delete(content: &VolumeGroupSnapshotContent) -> bool {
    if !content.is_deleting() {
        return false;
    }
    let is_unbound = content.spec.source.group_snapshot_handles.is_some() && content.group_uid().is_empty();
    is_unbound || (content.annotation(BEING_CREATED).is_none() && content.annotation(BEING_DELETED).is_some())
}

/// Returns the driver's ids of the snapshots of a group (`deleteCSIGroupSnapshotOperation`).
pub fn snapshot_ids(content: &VolumeGroupSnapshotContent) -> Vec<String> {
    let Some(status) = &content.status else { return Vec::new() };
    let infos = &status.volume_snapshot_info_list;
    match &content.spec.source.group_snapshot_handles {
        Some(existing) if infos.is_empty() => existing.volume_snapshot_handles.clone(),
        _ => infos.iter().map(|info| info.snapshot_handle.clone()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use substrate::json::{Value, from_value, json};

    use super::*;

    #[rstest]
    #[case(json!({}), false)]
    #[case(json!({ BEING_DELETED: "yes" }), true)]
    #[case(json!({ BEING_DELETED: "yes", BEING_CREATED: "yes" }), false)]
    fn a_deletion_waits_for_the_creation(#[case] annotations: Value, #[case] expected: bool) {
        let going = json!({ "deletionTimestamp": "2026-01-01T00:00:00Z", "annotations": annotations.clone() });
        let content = |metadata: Value| -> VolumeGroupSnapshotContent {
            let infos = json!([{ "volumeHandle": "vol-1", "snapshotHandle": "snap-1" }]);
            let status = json!({ "volumeSnapshotInfoList": infos });
            from_value(json!({ "metadata": metadata, "status": status })).unwrap()
        };
        assert_eq!(should_delete(&content(going)), expected);
        let there = content(json!({ "annotations": annotations }));
        assert!(!should_delete(&there));
        assert_eq!(snapshot_ids(&there), ["snap-1"]);
    }

    #[test]
    fn a_pre_provisioned_group_is_removed_without_a_mark_until_it_is_bound() {
        let handles = json!({ "volumeGroupSnapshotHandle": "gsnap-1", "volumeSnapshotHandles": ["snap-2"] });
        let content = |of: Value| -> VolumeGroupSnapshotContent {
            let spec = json!({ "source": { "groupSnapshotHandles": handles }, "volumeGroupSnapshotRef": of });
            let metadata = json!({ "deletionTimestamp": "2026-01-01T00:00:00Z" });
            from_value(json!({ "metadata": metadata, "spec": spec, "status": {} })).unwrap()
        };
        assert!(should_delete(&content(json!({ "name": "g" }))));
        let bound = content(json!({ "name": "g", "uid": "u" }));
        assert!(!should_delete(&bound));
        assert_eq!(snapshot_ids(&bound), ["snap-2"]);
    }
}
