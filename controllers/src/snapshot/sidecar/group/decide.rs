//! Decisions about contents of groups.

use super::super::super::group::names::{BEING_CREATED, BEING_DELETED};
use super::super::super::group::objects::VolumeGroupSnapshotContent;
use crate::kube::Kind;

/// Returns true if the content is to be removed (`shouldDeleteGroupSnapshotContent`): the controller has marked it, and
/// no CreateVolumeGroupSnapshot is unsettled.
pub fn should_delete(content: &VolumeGroupSnapshotContent) -> bool {
    content.is_deleting() && content.annotation(BEING_CREATED).is_none() && content.annotation(BEING_DELETED).is_some()
}

/// Returns the driver's ids of the snapshots of a group.
pub fn snapshot_ids(content: &VolumeGroupSnapshotContent) -> Vec<String> {
    let infos = content.status.iter().flat_map(|status| &status.volume_snapshot_info_list);
    infos.map(|info| info.snapshot_handle.clone()).collect()
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
}
