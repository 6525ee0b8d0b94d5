//! Status of a content of a group, computed from the driver's answers.

use jiff::Timestamp;

use super::super::super::group::objects::{ContentStatus, VolumeSnapshotInfo};
use super::super::super::objects::VolumeSnapshotError;
use crate::kube::time;

/// A group, as the driver describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakenGroup {
    /// The driver's id.
    pub handle: String,
    /// True if volumes can be restored from all its snapshots.
    pub ready: bool,
    /// Time at which it was taken.
    pub created: Timestamp,
    /// Its snapshots.
    pub snapshots: Vec<VolumeSnapshotInfo>,
}

/// Returns the new status; None if there is nothing to write (`updateGroupSnapshotContentStatus`). The list of the
/// snapshots is written once.
pub fn updated(old: Option<&ContentStatus>, taken: &TakenGroup) -> Option<ContentStatus> {
    let mut new = old.cloned().unwrap_or_default();
    if new.ready_to_use != Some(taken.ready) {
        new.ready_to_use = Some(taken.ready);
        if taken.ready {
            new.error = None;
        }
    }
    new.volume_group_snapshot_handle.get_or_insert_with(|| taken.handle.clone());
    new.creation_time.get_or_insert_with(|| time(taken.created));
    if new.volume_snapshot_info_list.is_empty() {
        new.volume_snapshot_info_list.clone_from(&taken.snapshots);
    }
    // Upstream writes a status without snapshots each time.
    let has_none = old.is_none_or(|old| old.volume_snapshot_info_list.is_empty());
    (has_none || old != Some(&new)).then_some(new)
}

/// Returns the error of a status; None if it has this error already (`updateGroupSnapshotContentErrorStatusWithEvent`).
pub fn failed(status: Option<&ContentStatus>, message: &str, now: Timestamp) -> Option<VolumeSnapshotError> {
    let present = status.and_then(|status| status.error.as_ref()).and_then(|error| error.message.as_deref());
    (present != Some(message)).then(|| VolumeSnapshotError { time: Some(time(now)), message: Some(message.to_owned()) })
}

/// Returns the status of a content whose group the driver has deleted (`clearGroupSnapshotContentStatus`).
pub fn cleared(status: &ContentStatus) -> ContentStatus {
    ContentStatus { volume_snapshot_info_list: status.volume_snapshot_info_list.clone(), ..ContentStatus::default() }
}

#[cfg(test)]
mod tests {
    use substrate::json::{Value, from_value, json, to_value};

    use super::*;

    fn taken(ready: bool) -> TakenGroup {
        let info = json!({ "volumeHandle": "vol-1", "snapshotHandle": "snap-1", "readyToUse": ready });
        let snapshots = vec![from_value(info).unwrap()];
        TakenGroup { handle: "gsnap-1".to_owned(), ready, created: Timestamp::UNIX_EPOCH, snapshots }
    }

    fn after(old: &Value, taken: &TakenGroup) -> Value {
        let old: Option<ContentStatus> = from_value(old.clone()).unwrap();
        to_value(&updated(old.as_ref(), taken)).unwrap()
    }

    #[test]
    fn the_snapshots_stay_as_the_driver_first_described_them() {
        let info = json!({ "volumeHandle": "vol-1", "snapshotHandle": "snap-1", "readyToUse": false });
        let first = json!({
            "volumeGroupSnapshotHandle": "gsnap-1", "readyToUse": false, "creationTime": "1970-01-01T00:00:00Z",
            "volumeSnapshotInfoList": [info],
        });
        assert_eq!(after(&Value::Null, &taken(false)), first);
        assert_eq!(after(&first, &taken(false)), Value::Null);
        let mut failing = first.clone();
        failing["error"] = json!({ "message": "m" });
        let mut done = first;
        done["readyToUse"] = true.into();
        assert_eq!(after(&failing, &taken(true)), done);
        let status: ContentStatus = from_value(done.clone()).unwrap();
        let left = json!({ "volumeSnapshotInfoList": done["volumeSnapshotInfoList"].clone() });
        assert_eq!(to_value(&cleared(&status)).unwrap(), left);
    }

    #[test]
    fn the_same_error_is_written_once() {
        let status: ContentStatus = from_value(json!({ "error": { "message": "m" } })).unwrap();
        assert_eq!(failed(Some(&status), "m", Timestamp::UNIX_EPOCH), None);
        assert!(failed(Some(&status), "n", Timestamp::UNIX_EPOCH).is_some());
    }
}
