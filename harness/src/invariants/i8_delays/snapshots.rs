//! Steps of snapshots. A snapshot is known by its uid until its VolumeSnapshotContent exists, then by the content's name.
//! Contents of groups and contents that were made beforehand are not judged, nor is the time in which a snapshot is ready
//! to use, which the cloud determines.
//!
//! A failed call of the driver, a Warning about a snapshot and a Warning about a content hold back all snapshots for ten
//! minutes.

use substrate::json::Value;

use super::super::stale_reads::TEN_MINUTES;
use super::super::{Checked, Found};
use super::stored::{Change, is_deleting, text};
use super::{Delays, Step};

const BEING_CREATED: &str = "snapshot.storage.kubernetes.io/volumesnapshot-being-created";
const BEING_DELETED: &str = "snapshot.storage.kubernetes.io/volumesnapshot-being-deleted";
/// Begin of the driver's name of a new snapshot, before the uid of the VolumeSnapshot.
const PREFIX: &str = "snapshot-";

impl Delays {
    /// Holds back the steps of all snapshots.
    pub(super) fn hold_back_snapshots(&mut self, ms: u64) {
        self.due.retain(|(step, ..), _| !step.is_of_snapshot());
        self.snapshots_from = ms + TEN_MINUTES;
    }

    fn begin_of_snapshot(&mut self, step: Step, of: &str, ms: u64) {
        if ms >= self.snapshots_from {
            self.begin(step, of, "", ms);
        }
    }

    /// Awaits the VolumeSnapshotContent of a snapshot that is new, and ends the wait for its readiness.
    pub(super) fn on_snapshot(&mut self, checked: &mut Checked, change: &Change<'_>) -> Option<Found> {
        let uid = text(change.new.or(change.old)?, &["metadata", "uid"])?;
        let Some(new) = change.kept() else {
            self.forget(uid);
            return None;
        };
        if change.old.is_none() && text(new, &["spec", "source", "persistentVolumeClaimName"]).is_some() {
            self.begin_of_snapshot(Step::Content, uid, change.ms);
        }
        if !change.becomes(is_ready) {
            return None;
        }
        let content = text(new, &["status", "boundVolumeSnapshotContentName"])?;
        self.end(checked, (Step::Ready, content, ""), change.ms)
    }

    /// Awaits what follows from a change of a VolumeSnapshotContent.
    pub(super) fn on_content(&mut self, checked: &mut Checked, change: &Change<'_>) -> Option<Found> {
        let (name, ms) = (change.key, change.ms);
        let Some(new) = change.new else {
            self.forget(name);
            return self.end(checked, (Step::Drop, text(change.old?, &["status", "snapshotHandle"])?, ""), ms);
        };
        text(new, &["spec", "source", "volumeHandle"])?;
        let uid = text(new, &["spec", "volumeSnapshotRef", "uid"])?;
        if change.old.is_none() {
            self.begin_of_snapshot(Step::Snapshot, uid, ms);
            return self.end(checked, (Step::Content, uid, ""), ms);
        }
        if change.becomes(is_ready) && !is_deleting(new) {
            self.begin_of_snapshot(Step::Ready, name, ms);
        }
        if is_deleting(new) {
            self.due.remove(&(Step::Ready, name.into(), "".into()));
        }
        if change.becomes(is_to_go) {
            self.begin_of_snapshot(Step::Erase, text(new, &["status", "snapshotHandle"])?, ms);
        }
        None
    }

    /// Checks a call of CreateSnapshot or DeleteSnapshot with this name or id.
    pub(super) fn on_snapshot_call(
        &mut self,
        checked: &mut Checked,
        rpc: &str,
        target: &str,
        ms: u64,
    ) -> Option<Found> {
        match rpc {
            "CreateSnapshot" => self.end(checked, (Step::Snapshot, target.strip_prefix(PREFIX)?, ""), ms),
            _ => {
                if self.due.contains_key(&(Step::Erase, target.into(), "".into())) {
                    self.begin_of_snapshot(Step::Drop, target, ms);
                }
                self.end(checked, (Step::Erase, target, ""), ms)
            }
        }
    }
}

/// Returns true if csi-snapshotter deletes the snapshot of the content (`shouldDelete` of upstream's
/// `pkg/sidecar-controller/snapshot_controller.go`).
fn is_to_go(content: &Value) -> bool {
    let annotations = &content["metadata"]["annotations"];
    is_deleting(content)
        && content["spec"]["deletionPolicy"].as_str() == Some("Delete")
        && annotations[BEING_DELETED].is_string()
        && !annotations[BEING_CREATED].is_string()
        && content["status"]["snapshotHandle"].is_string()
}

fn is_ready(object: &Value) -> bool {
    object["status"]["readyToUse"] == Value::Bool(true)
}

#[cfg(test)]
mod tests {
    use substrate::json::json;

    use super::*;

    const SNAPSHOT: &str = "snap-1";

    fn snapshot(ready: bool) -> Value {
        json!({"metadata": {"name": "s", "uid": "u"}, "spec": {"source": {"persistentVolumeClaimName": "data"}},
            "status": {"boundVolumeSnapshotContentName": "c", "readyToUse": ready}})
    }

    fn content(ready: bool, deleting: bool) -> Value {
        let deleting = deleting.then_some("2026-01-01T00:00:00Z");
        json!({"metadata": {"name": "c", "annotations": {BEING_DELETED: deleting}, "deletionTimestamp": deleting},
            "spec": {"deletionPolicy": "Delete", "source": {"volumeHandle": "vol-1"}, "volumeSnapshotRef": {"uid": "u"}},
            "status": {"snapshotHandle": SNAPSHOT, "readyToUse": ready}})
    }

    fn of_content<'a>(old: Option<&'a Value>, new: Option<&'a Value>, ms: u64) -> Change<'a> {
        Change { object: "volumesnapshotcontent/c".to_owned(), key: "c", old, new, ms }
    }

    /// Returns the findings of a life of a snapshot in which each step takes `seconds`. Before the step with index
    /// `fails`, the driver fails.
    fn found(seconds: u64, fails: Option<usize>) -> Vec<String> {
        let (mut delays, mut checked) = (Delays::default(), Checked::default());
        let snapshots = [snapshot(false), snapshot(true)];
        let contents = [content(false, false), content(true, false), content(true, true)];
        let [whole, taken, marked] = [Some(&contents[0]), Some(&contents[1]), Some(&contents[2])];
        let mut all = Vec::new();
        for step in 0..7 {
            let ms = step as u64 * seconds * 1000;
            if fails == Some(step) {
                delays.hold_back_snapshots(ms);
            }
            let snapshot =
                |old, new| Change { object: "volumesnapshot/default/s".to_owned(), key: "default/s", old, new, ms };
            all.extend(match step {
                0 => delays.on_snapshot(&mut checked, &snapshot(None, Some(&snapshots[0]))),
                1 => delays.on_content(&mut checked, &of_content(None, whole, ms)),
                2 => delays.on_snapshot_call(&mut checked, "CreateSnapshot", "snapshot-u", ms),
                3 => delays.on_content(&mut checked, &of_content(whole, taken, ms)),
                4 => delays.on_snapshot(&mut checked, &snapshot(Some(&snapshots[0]), Some(&snapshots[1]))),
                5 => delays.on_content(&mut checked, &of_content(taken, marked, ms)),
                _ => delays.on_snapshot_call(&mut checked, "DeleteSnapshot", SNAPSHOT, ms),
            });
        }
        all.extend(delays.on_content(&mut checked, &of_content(marked, None, (6 * seconds + 46) * 1000)));
        all.into_iter().map(|found: Found| found.operation).collect()
    }

    #[test]
    fn late_steps_of_a_snapshot_are_found() {
        let went = "its VolumeSnapshotContent went";
        assert_eq!(found(10, None), [went]);
        let ready = "its VolumeSnapshot was ready to use";
        let made = ["its VolumeSnapshotContent was created", "CreateSnapshot was called"];
        assert_eq!(found(11, None), [made[0], made[1], ready, "DeleteSnapshot was called", went]);
        assert_eq!(found(11, Some(1)), [] as [&str; 0], "a failure holds back the rest");
        assert_eq!(found(11, Some(4)), made);
    }
}
