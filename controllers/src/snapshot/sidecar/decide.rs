//! Decisions about contents (`snapshot_controller.go`, `utils.ShouldEnqueueContentChange`).

use substrate::json::{self, Value};

use super::super::names::{BEING_CREATED, BEING_DELETED};
use super::super::objects::VolumeSnapshotContent;
use crate::kube::Kind;

/// Returns true if the content is to be removed (`shouldDelete`): the controller has marked it, and no CreateSnapshot is
/// unsettled.
pub fn should_delete(content: &VolumeSnapshotContent) -> bool {
    if !content.is_deleting() {
        return false;
    }
    if content.spec.source.snapshot_handle.is_some() && content.snapshot_uid().is_empty() {
        return true;
    }
    content.annotation(BEING_CREATED).is_none() && content.annotation(BEING_DELETED).is_some()
}

/// Returns true if a change of a content may need work (`ShouldEnqueueContentChange`). The sidecar's own changes do
/// not: status, finalizers and its annotation.
pub fn should_enqueue_change(old: &VolumeSnapshotContent, new: &VolumeSnapshotContent) -> bool {
    // A resync, or the end of a creation during which the content was deleted.
    old.resource_version() == new.resource_version() || (!old.is_ready() && new.is_ready()) || rest(old) != rest(new)
}

/// Returns the parts of a content that others change.
fn rest(content: &VolumeSnapshotContent) -> Option<Value> {
    let mut rest = content.clone();
    rest.status = None;
    let metadata = &mut rest.metadata;
    (metadata.resource_version, metadata.managed_fields, metadata.finalizers) = (None, None, None);
    if let Some(annotations) = &mut metadata.annotations {
        annotations.remove(BEING_CREATED);
        if annotations.is_empty() {
            metadata.annotations = None;
        }
    }
    json::to_value(&rest).ok()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use substrate::json::{from_value, json};

    use super::*;

    fn content(metadata: Value, more: Value) -> VolumeSnapshotContent {
        let mut object = json!({
            "metadata": { "name": "c", "resourceVersion": "1" },
            "spec": { "source": { "volumeHandle": "vol-1" }, "volumeSnapshotRef": { "uid": "u" } },
        });
        for (key, value) in metadata.as_object().unwrap() {
            object["metadata"][key] = value.clone();
        }
        for (key, value) in more.as_object().unwrap() {
            object[key] = value.clone();
        }
        from_value(object).unwrap()
    }

    #[rstest]
    #[case(json!({}), false)]
    #[case(json!({ BEING_DELETED: "yes" }), true)]
    #[case(json!({ BEING_DELETED: "yes", BEING_CREATED: "yes" }), false)]
    fn a_deletion_waits_for_the_creation(#[case] annotations: Value, #[case] expected: bool) {
        let going = json!({ "deletionTimestamp": "2026-01-01T00:00:00Z", "annotations": annotations.clone() });
        assert_eq!(should_delete(&content(going, json!({}))), expected);
        assert!(!should_delete(&content(json!({ "annotations": annotations }), json!({}))));
        let free = json!({ "source": { "snapshotHandle": "snap-1" }, "volumeSnapshotRef": {} });
        let going = json!({ "deletionTimestamp": "2026-01-01T00:00:00Z" });
        assert!(should_delete(&content(going, json!({ "spec": free }))), "it is bound to no snapshot");
    }

    #[rstest]
    #[case(json!({ "annotations": { BEING_CREATED: "yes" } }), json!({}), false)]
    #[case(json!({ "finalizers": ["f"] }), json!({ "status": { "readyToUse": false } }), false)]
    #[case(json!({}), json!({ "status": { "readyToUse": true } }), true)]
    #[case(json!({ "annotations": { BEING_DELETED: "yes" } }), json!({}), true)]
    #[case(json!({ "deletionTimestamp": "2026-01-01T00:00:00Z" }), json!({}), true)]
    #[case(json!({ "resourceVersion": "1" }), json!({}), true)]
    fn own_changes_need_no_work(#[case] mut metadata: Value, #[case] more: Value, #[case] expected: bool) {
        if metadata["resourceVersion"].is_null() {
            metadata["resourceVersion"] = "2".into();
        }
        let old = content(json!({}), json!({}));
        assert_eq!(should_enqueue_change(&old, &content(metadata, more)), expected);
    }
}
