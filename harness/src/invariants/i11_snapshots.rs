//! I11: no driver deletes a snapshot that its VolumeSnapshotContent keeps (deletionPolicy Retain), or whose content is
//! not being deleted (upstream `csi-snapshotter`, `shouldDelete`). An occasion is a driver that is asked to delete a
//! snapshot which a content names.
//!
//! The content of objects is in events for observers of the same OS process, so clusters of containers are not checked.

use std::collections::BTreeMap;

use csi_mock::events::CsiCall;
use fake_apiserver::events::ObjectStored;
use substrate::Event;
use substrate::json::Value;

use super::stale_reads::{StaleReads, TEN_MINUTES};
use super::{Checked, Found, Id};

/// Time in milliseconds after which csi-snapshotter has the new state of a content in its cache.
const NOTICE: u64 = 60 * 1000;

/// VolumeSnapshotContents by name, each with the time in milliseconds at which a former state that allowed the deletion
/// ended; none if there was no such state.
#[derive(Debug, Default)]
pub(super) struct Snapshots {
    contents: BTreeMap<String, (Content, Option<u64>)>,
    stale_reads: StaleReads,
}

/// A VolumeSnapshotContent, or the last state of one that is gone.
#[derive(Debug)]
struct Content {
    handle: String,
    is_kept: bool,
    /// Deletion has begun.
    ends: bool,
}

impl Content {
    fn may_be_deleted(&self) -> bool {
        self.ends && !self.is_kept
    }
}

impl Snapshots {
    /// Records the content of a commit.
    pub fn learn(&mut self, event: &Event) {
        let stored = event.get::<ObjectStored>().filter(|stored| !stored.dry_run);
        let change = stored.and_then(|stored| stored.change.get());
        if let Some(change) = change.filter(|change| change.kind.plural == "volumesnapshotcontents") {
            self.store(&change.key, change.new.as_ref().map(|object| object.value.read()).as_deref(), event.ms);
        }
    }

    /// Records a VolumeSnapshotContent, or its end.
    fn store(&mut self, name: &str, object: Option<&Value>, ms: u64) {
        let former = self.contents.get_mut(name);
        let Some(object) = object else {
            return former.into_iter().for_each(|(content, _)| content.ends = true);
        };
        let Some(content) = content(object) else { return };
        let allowed = former.and_then(|(former, allowed)| if former.may_be_deleted() { Some(ms) } else { *allowed });
        self.contents.insert(name.to_owned(), (content, allowed));
    }

    /// Checks a call of a driver.
    pub fn check(&mut self, checked: &mut Checked, event: &Event) -> Option<Found> {
        self.stale_reads.note(event, &["patch", "update"]);
        let call = event.get::<CsiCall>().filter(|call| call.rpc == "DeleteSnapshot")?;
        let snapshot = call.target.as_deref()?;
        let of_snapshot = || self.contents.iter().filter(|(_, (content, _))| content.handle == snapshot);
        let (name, (content, _)) = of_snapshot().next()?;
        checked.add(Id::I11, 1);
        let is_late = self.stale_reads.within(2 * TEN_MINUTES, event.ms);
        // The cache of csi-snapshotter may still have the former state.
        let may_believe = |allowed: &Option<u64>| allowed.is_some_and(|ended| is_late || event.ms < ended + NOTICE);
        if of_snapshot().any(|(_, (content, allowed))| content.may_be_deleted() || may_believe(allowed)) {
            return None;
        }
        let why = if content.is_kept { "has the deletionPolicy Retain" } else { "is not being deleted" };
        let message = format!("DeleteSnapshot was called for {snapshot}, and volumesnapshotcontent/{name} {why}");
        Some(Found { message, operation: "DeleteSnapshot".to_owned(), ..Found::default() })
    }
}

/// Reads a VolumeSnapshotContent that names a snapshot.
fn content(object: &Value) -> Option<Content> {
    let handles = [&object["status"]["snapshotHandle"], &object["spec"]["source"]["snapshotHandle"]];
    Some(Content {
        handle: handles.into_iter().find_map(Value::as_str)?.to_owned(),
        is_kept: object["spec"]["deletionPolicy"].as_str() == Some("Retain"),
        ends: object["metadata"]["deletionTimestamp"].is_string(),
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use substrate::json::json;
    use substrate::world::{Options, simulate};

    use super::*;

    const SNAPSHOT: &str = "snap-0123456789abcdef0";

    /// Returns the finding of a driver that deletes a snapshot `seconds` after the last change of its content, which has
    /// had these policies, and may be deleted or gone.
    fn found(policies: &[&str], ends: bool, is_gone: bool, seconds: u64) -> Option<String> {
        let mut snapshots = Snapshots::default();
        for (second, policy) in (0..).zip(policies) {
            let content = json!({
                "metadata": {"name": "c", "deletionTimestamp": ends.then_some("2026-01-01T00:00:00Z")},
                "spec": {"deletionPolicy": policy, "source": {"volumeHandle": "vol-1"}},
                "status": {"snapshotHandle": SNAPSHOT},
            });
            snapshots.store("c", Some(&content), second * 1000);
        }
        if is_gone {
            snapshots.store("c", None, policies.len() as u64 * 1000);
        }
        let events = simulate(Options::default(), async |world| {
            world.clock().sleep_until(Duration::from_secs(policies.len() as u64 - 1 + seconds)).await;
            let call = CsiCall { target: Some(SNAPSHOT.into()), ..CsiCall::new("DeleteSnapshot", 1) };
            world.trace().info(&"csi-controller".into(), call);
            world.trace().events()
        });
        let mut checked = Checked::default();
        let found = snapshots.check(&mut checked, &events[0]);
        assert_eq!(checked.get(Id::I11), 1);
        found.map(|found| found.message)
    }

    #[test]
    fn a_snapshot_that_is_kept_or_in_use_is_not_deleted() {
        let called =
            |why: &str| Some(format!("DeleteSnapshot was called for {SNAPSHOT}, and volumesnapshotcontent/c {why}"));
        let kept = called("has the deletionPolicy Retain");
        assert_eq!(found(&["Retain"], true, false, 1), kept);
        assert_eq!(found(&["Retain"], true, true, 1), kept, "the content is gone");
        assert_eq!(found(&["Delete"], false, false, 1), called("is not being deleted"));
        assert_eq!(found(&["Delete"], true, false, 1), None);
        assert_eq!(found(&["Delete"], false, true, 1), None, "the content was removed without a finalizer");
        assert_eq!(found(&["Delete", "Retain"], true, false, 60), kept);
        assert_eq!(found(&["Delete", "Retain"], true, false, 59), None, "the decision may be older than the policy");
    }
}
