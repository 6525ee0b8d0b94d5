//! Status of a snapshot, computed from the status of its content.

use jiff::Timestamp;

use super::super::objects::{VolumeSnapshot, VolumeSnapshotContent, VolumeSnapshotError, VolumeSnapshotStatus};
use crate::binder::quantity;
use crate::kube::time;

/// Returns true if the content changes the snapshot's status (`needsUpdateSnapshotStatus`).
pub fn needs_update(snapshot: &VolumeSnapshot, content: &VolumeSnapshotContent) -> bool {
    let Some(new) = &content.status else { return false };
    let Some(old) = &snapshot.status else { return true };
    old.bound_volume_snapshot_content_name.is_none()
        || (old.creation_time.is_none() && new.creation_time.is_some())
        // Upstream compares pointers here, so two values always differ.
        || new.ready_to_use.is_some()
        || (old.restore_size.is_none() && new.restore_size.is_some())
        || grows(old, new.restore_size)
}

/// Returns true if the old size is zero and the new one is not.
fn grows(old: &VolumeSnapshotStatus, new: Option<i64>) -> bool {
    old.restore_size.as_ref().is_some_and(|size| quantity::value(size) == 0) && new.is_some_and(|size| size > 0)
}

/// Returns the new status of a snapshot that is bound to the content; None if there is nothing to write
/// (`updateSnapshotStatus`). `group` is the name of the group of a member.
pub fn updated(
    snapshot: &VolumeSnapshot,
    content: &VolumeSnapshotContent,
    group: Option<String>,
) -> Option<VolumeSnapshotStatus> {
    let of = content.status.clone().unwrap_or_default();
    let ready = of.ready_to_use == Some(true);
    let created =
        of.creation_time.map(|nanos| time(Timestamp::from_nanosecond(nanos.into()).unwrap_or(Timestamp::UNIX_EPOCH)));
    let name = || content.metadata.name.clone();
    let Some(old) = &snapshot.status else {
        return Some(VolumeSnapshotStatus {
            bound_volume_snapshot_content_name: name(),
            ready_to_use: Some(ready),
            creation_time: created,
            restore_size: of.restore_size.map(quantity::bytes),
            error: of.error,
            volume_group_snapshot_name: group,
        });
    };
    let mut new = old.clone();
    let mut changes = false;
    if new.bound_volume_snapshot_content_name.is_none() {
        new.bound_volume_snapshot_content_name = name();
        changes = true;
    }
    if new.creation_time.is_none() && created.is_some() {
        new.creation_time = created;
        changes = true;
    }
    if new.ready_to_use != Some(ready) {
        new.ready_to_use = Some(ready);
        changes = true;
        if ready {
            new.error = None;
        }
    }
    if let Some(size) = of.restore_size.filter(|_| new.restore_size.is_none() || grows(&new, of.restore_size)) {
        new.restore_size = Some(quantity::bytes(size));
        changes = true;
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
    if new.volume_group_snapshot_name.is_none() && group.is_some() {
        new.volume_group_snapshot_name = group;
        changes = true;
    }
    changes.then_some(new)
}

/// Returns an error with this message; None if the last error has it already.
pub fn new_error(last: Option<&VolumeSnapshotError>, message: &str, now: Timestamp) -> Option<VolumeSnapshotError> {
    let is_known = last.is_some_and(|error| error.message.as_deref() == Some(message));
    (!is_known).then(|| VolumeSnapshotError { time: Some(time(now)), message: Some(message.to_owned()) })
}

/// Returns the status with an error; None if it has this error already (`updateSnapshotErrorStatusWithEvent`). If
/// `unready`, the snapshot cannot be used any more.
pub fn failed(
    status: Option<&VolumeSnapshotStatus>,
    message: &str,
    unready: bool,
    now: Timestamp,
) -> Option<VolumeSnapshotStatus> {
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

    fn snapshot(status: Value) -> VolumeSnapshot {
        from_value(json!({ "metadata": { "name": "s" }, "status": status })).unwrap()
    }

    fn content(status: Value) -> VolumeSnapshotContent {
        from_value(json!({ "metadata": { "name": "c" }, "status": status })).unwrap()
    }

    fn after(old: Value, of: Value) -> Value {
        to_value(&updated(&snapshot(old), &content(of), None)).unwrap()
    }

    #[test]
    fn a_new_content_binds_and_a_finished_one_is_copied() {
        assert_eq!(
            after(Value::Null, Value::Null),
            json!({ "boundVolumeSnapshotContentName": "c", "readyToUse": false })
        );
        let taken =
            json!({ "creationTime": 1_767_225_600_123_456_789_i64, "restoreSize": 1_073_741_824, "readyToUse": true });
        let bound = json!({ "boundVolumeSnapshotContentName": "c", "readyToUse": false, "error": { "message": "m" } });
        let done = json!({
            "boundVolumeSnapshotContentName": "c", "readyToUse": true, "creationTime": "2026-01-01T00:00:00Z",
            "restoreSize": "1Gi",
        });
        assert_eq!(after(bound, taken.clone()), done);
        assert_eq!(after(done.clone(), taken.clone()), Value::Null);
        assert!(needs_update(&snapshot(done), &content(taken)), "upstream compares pointers");
        assert!(!needs_update(&snapshot(Value::Null), &content(Value::Null)));
    }

    #[test]
    fn an_error_is_copied_and_removed() {
        let error = json!({ "message": "m", "time": "2026-01-01T00:00:00Z" });
        let bound = json!({ "boundVolumeSnapshotContentName": "c", "readyToUse": false });
        let mut bad = bound.clone();
        bad["error"] = error.clone();
        let of = json!({ "readyToUse": false, "error": error });
        assert_eq!(after(bound.clone(), of.clone()), bad);
        assert_eq!(after(bad.clone(), of), bad, "it is written again");
        assert_eq!(after(bad, json!({ "readyToUse": false })), bound);
    }

    #[test]
    fn the_same_error_is_written_once() {
        let now = Timestamp::UNIX_EPOCH;
        let first = failed(None, "m", true, now).unwrap();
        assert_eq!((first.ready_to_use, failed(Some(&first), "m", true, now)), (Some(false), None));
        let second = failed(Some(&first), "n", false, now).unwrap();
        assert_eq!(second.error.unwrap().message.as_deref(), Some("n"));
    }

    #[test]
    fn a_member_gets_the_name_of_its_group_once() {
        let bound = json!({ "boundVolumeSnapshotContentName": "c", "readyToUse": false });
        let of = content(json!({ "readyToUse": false }));
        let named = updated(&snapshot(bound), &of, Some("g".to_owned())).unwrap();
        assert_eq!(named.volume_group_snapshot_name.as_deref(), Some("g"));
        let named = snapshot(to_value(&named).unwrap());
        assert_eq!(updated(&named, &of, Some("other".to_owned())), None);
    }
}
