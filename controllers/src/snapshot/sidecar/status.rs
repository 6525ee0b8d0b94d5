//! Status of a content, computed from the driver's answers.

use jiff::Timestamp;

use super::super::objects::{VolumeSnapshotContentStatus, VolumeSnapshotError};
use crate::kube::time;

/// A snapshot, as the driver describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The driver's id.
    pub handle: String,
    /// True if a volume can be restored from it.
    pub ready: bool,
    /// Time at which it was taken, in nanoseconds since 1970.
    pub created: i64,
    /// Size in bytes; 0 if unknown.
    pub size: i64,
    /// The driver's id of its group; empty if it has none.
    pub group: String,
}

/// Returns the new status; None if there is nothing to write (`updateSnapshotContentStatus`).
pub fn updated(old: Option<&VolumeSnapshotContentStatus>, taken: &Taken) -> Option<VolumeSnapshotContentStatus> {
    let size = (taken.size > 0).then_some(taken.size);
    let group = Some(taken.group.clone()).filter(|group| !group.is_empty());
    let old = match old {
        Some(old) => old,
        None => {
            return Some(VolumeSnapshotContentStatus {
                snapshot_handle: Some(taken.handle.clone()),
                ready_to_use: Some(taken.ready),
                creation_time: Some(taken.created),
                restore_size: size,
                volume_group_snapshot_handle: group,
                error: None,
            });
        }
    };
    let mut new = old.clone();
    if new.ready_to_use != Some(taken.ready) {
        new.ready_to_use = Some(taken.ready);
        if taken.ready {
            new.error = None;
        }
    }
    new.snapshot_handle.get_or_insert_with(|| taken.handle.clone());
    new.creation_time.get_or_insert(taken.created);
    new.restore_size = new.restore_size.or(size);
    new.volume_group_snapshot_handle = new.volume_group_snapshot_handle.or(group);
    (new != *old).then_some(new)
}

/// Returns the error of a status; None if it has this error already (`updateContentErrorStatusWithEvent`).
pub fn failed(
    status: Option<&VolumeSnapshotContentStatus>,
    message: &str,
    now: Timestamp,
) -> Option<VolumeSnapshotError> {
    let present = status.and_then(|status| status.error.as_ref()).and_then(|error| error.message.as_deref());
    (present != Some(message)).then(|| VolumeSnapshotError { time: Some(time(now)), message: Some(message.to_owned()) })
}

/// Returns the status of a content whose snapshot the driver has deleted (`clearVolumeContentStatus`).
pub fn cleared(status: &VolumeSnapshotContentStatus) -> VolumeSnapshotContentStatus {
    VolumeSnapshotContentStatus {
        error: status.error.clone(),
        volume_group_snapshot_handle: status.volume_group_snapshot_handle.clone(),
        ..VolumeSnapshotContentStatus::default()
    }
}

#[cfg(test)]
mod tests {
    use substrate::json::{Value, from_value, json, to_value};

    use super::*;

    fn taken(ready: bool) -> Taken {
        Taken { handle: "snap-1".to_owned(), ready, created: 7, size: 1 << 30, group: String::new() }
    }

    fn after(old: &Value, taken: &Taken) -> Value {
        let old: Option<VolumeSnapshotContentStatus> = from_value(old.clone()).unwrap();
        to_value(&updated(old.as_ref(), taken)).unwrap()
    }

    #[test]
    fn the_first_status_stays_except_for_readiness() {
        let first =
            json!({ "snapshotHandle": "snap-1", "readyToUse": false, "creationTime": 7, "restoreSize": 1 << 30 });
        assert_eq!(after(&Value::Null, &taken(false)), first);
        assert_eq!(after(&first, &Taken { created: 8, size: 9, ..taken(false) }), Value::Null);
        let mut failed = first.clone();
        failed["error"] = json!({ "message": "m" });
        let mut done = first;
        done["readyToUse"] = true.into();
        assert_eq!(after(&failed, &taken(true)), done);
        let unknown = after(&Value::Null, &Taken { size: 0, ..taken(true) });
        assert_eq!(unknown.get("restoreSize"), None, "a size of 0 is unknown");
    }

    #[test]
    fn an_error_keeps_what_is_known_and_a_deletion_forgets_it() {
        let status: VolumeSnapshotContentStatus =
            from_value(json!({ "snapshotHandle": "snap-1", "readyToUse": true, "error": { "message": "m" } })).unwrap();
        assert_eq!(failed(Some(&status), "m", Timestamp::UNIX_EPOCH), None);
        assert!(failed(Some(&status), "n", Timestamp::UNIX_EPOCH).is_some());
        assert_eq!(to_value(&cleared(&status)).unwrap(), json!({ "error": { "message": "m" } }));
    }
}
