//! Status of a group, computed from the status of its content.

use jiff::Timestamp;

use super::super::super::group::objects::{GroupStatus, VolumeGroupSnapshot, VolumeGroupSnapshotContent};
use super::super::status::new_error;

/// Returns true if the content changes the group's status (`needsUpdateGroupSnapshotStatus`).
pub fn needs_update(group: &VolumeGroupSnapshot, content: &VolumeGroupSnapshotContent) -> bool {
    let Some(new) = &content.status else { return false };
    let Some(old) = &group.status else { return true };
    old.bound_volume_group_snapshot_content_name.is_none()
        || (old.creation_time.is_none() && new.creation_time.is_some())
        // Upstream compares pointers here, so two values always differ.
        || new.ready_to_use.is_some()
}

/// Returns the new status of a group that is bound to the content; None if there is nothing to write
/// (`updateGroupSnapshotStatus`).
pub fn updated(group: &VolumeGroupSnapshot, content: &VolumeGroupSnapshotContent) -> Option<GroupStatus> {
    let of = content.status.clone().unwrap_or_default();
    let ready = of.ready_to_use == Some(true);
    let name = || content.metadata.name.clone();
    let Some(old) = &group.status else {
        return Some(GroupStatus {
            bound_volume_group_snapshot_content_name: name(),
            ready_to_use: Some(ready),
            creation_time: of.creation_time,
            error: of.error,
        });
    };
    let mut new = old.clone();
    let mut changes = false;
    if new.bound_volume_group_snapshot_content_name.is_none() {
        new.bound_volume_group_snapshot_content_name = name();
        changes = true;
    }
    if new.creation_time.is_none() && of.creation_time.is_some() {
        new.creation_time = of.creation_time;
        changes = true;
    }
    if new.ready_to_use != Some(ready) {
        new.ready_to_use = Some(ready);
        changes = true;
        if ready {
            new.error = None;
        }
    }
    let has_news = match (&new.error, &of.error) {
        (None, None) => false,
        // Upstream compares pointers here, so two times always differ.
        (Some(old), Some(new)) => old.time.is_some() && new.time.is_some(),
        (None, Some(_)) | (Some(_), None) => true,
    };
    if has_news {
        new.error = of.error;
        changes = true;
    }
    changes.then_some(new)
}

/// Returns the status with an error; None if it has this error already (`updateGroupSnapshotErrorStatusWithEvent`). If
/// `unready`, the group cannot be used any more.
pub fn failed(status: Option<&GroupStatus>, message: &str, unready: bool, now: Timestamp) -> Option<GroupStatus> {
    let error = new_error(status.and_then(|status| status.error.as_ref()), message, now)?;
    let mut status = status.cloned().unwrap_or_default();
    status.error = Some(error);
    if unready {
        status.ready_to_use = Some(false);
    }
    Some(status)
}

#[cfg(test)]
mod tests {
    use substrate::json::{Value, from_value, json, to_value};

    use super::*;

    fn group(status: Value) -> VolumeGroupSnapshot {
        from_value(json!({ "metadata": { "name": "g" }, "status": status })).unwrap()
    }

    fn content(status: Value) -> VolumeGroupSnapshotContent {
        from_value(json!({ "metadata": { "name": "c" }, "status": status })).unwrap()
    }

    fn after(old: Value, of: Value) -> Value {
        to_value(&updated(&group(old), &content(of))).unwrap()
    }

    #[test]
    fn a_new_content_binds_and_a_finished_one_is_copied() {
        let bound = json!({ "boundVolumeGroupSnapshotContentName": "c", "readyToUse": false });
        assert_eq!(after(Value::Null, Value::Null), bound);
        let taken = json!({ "creationTime": "2026-01-01T00:00:00Z", "readyToUse": true });
        let done = json!({
            "boundVolumeGroupSnapshotContentName": "c", "readyToUse": true, "creationTime": "2026-01-01T00:00:00Z",
        });
        let mut failing = bound;
        failing["error"] = json!({ "message": "m" });
        assert_eq!(after(failing, taken.clone()), done);
        assert_eq!(after(done.clone(), taken.clone()), Value::Null);
        assert!(needs_update(&group(done), &content(taken)), "upstream compares pointers");
        assert!(!needs_update(&group(Value::Null), &content(Value::Null)));
    }

    #[test]
    fn the_same_error_is_written_once() {
        let now = Timestamp::UNIX_EPOCH;
        let first = failed(None, "m", true, now).unwrap();
        assert_eq!((first.ready_to_use, failed(Some(&first), "m", true, now)), (Some(false), None));
        assert!(failed(Some(&first), "n", false, now).is_some());
    }
}
