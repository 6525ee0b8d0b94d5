//! I11: snapshot-controller frees the source of a snapshot before the snapshot goes. A finalizer that it leaves on the
//! claim stays for ever, because it does not look at the claim again. An occasion is the end of the last VolumeSnapshot in a
//! namespace.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fake_apiserver::events::Commit;
use fake_apiserver::state::EventType;
use substrate::Event;

use super::{Checked, Found, Id};

/// Program that adds the finalizer and removes it.
const CONTROLLER: &str = "snapshot-controller";

/// Claims with the finalizer of a source, and VolumeSnapshots.
#[derive(Debug, Default)]
pub(super) struct Sources {
    /// By `namespace/name`.
    held: BTreeSet<Arc<str>>,
    /// Number of VolumeSnapshots in each namespace.
    snapshots: BTreeMap<String, usize>,
}

fn namespace(object: &str) -> &str {
    object.split_once('/').map_or("", |(namespace, _)| namespace)
}

impl Sources {
    /// Checks an event. `may_lack` returns true if snapshot-controller may have the claim without the finalizer in its
    /// cache. `volume_of` returns the volume of a claim.
    pub fn check(
        &mut self,
        checked: &mut Checked,
        event: &Event,
        may_lack: impl Fn(&str) -> bool,
        volume_of: impl Fn(&str) -> Option<String>,
    ) -> Option<Found> {
        let commit = event.get::<Commit>()?;
        let (object, is_gone) = (&commit.object, commit.r#type == EventType::Deleted);
        if let Some(claim) = &commit.pvc {
            if claim.is_source && !is_gone {
                self.held.insert(object.clone());
            } else {
                self.held.remove(object);
            }
            return None;
        }
        if commit.resource != "volumesnapshots" {
            return None;
        }
        let count = self.snapshots.entry(namespace(object).to_owned()).or_default();
        match commit.r#type {
            EventType::Added => *count += 1,
            EventType::Deleted => *count = count.saturating_sub(1),
            _ => {}
        }
        if !is_gone || *count > 0 || !commit.user.starts_with(CONTROLLER) {
            return None;
        }
        checked.add(Id::I11, 1);
        let claim = self.held.iter().find(|claim| namespace(claim) == namespace(object))?;
        let message =
            format!("pvc/{claim} is protected as the source of a snapshot, and the last snapshot, {object}, is gone");
        let details = [("claimInCacheIsFree", may_lack(claim).into())].into();
        Some(Found {
            message,
            operation: commit.verb.to_string(),
            volume: volume_of(claim),
            details,
            ..Found::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use fake_apiserver::events::Claim;
    use substrate::clock::TimeScale;
    use substrate::{Clock, Level, Trace};

    use super::*;
    use crate::invariants::{Invariants, Violation};

    /// Returns the findings of a run in which a claim is the source of a snapshot that goes, whether the claim is freed
    /// before, and whether another snapshot is there.
    fn found(is_freed: bool, other: bool) -> Vec<Violation> {
        let trace = Trace::new(Clock::live(), Level::Info);
        let mut rv = 0;
        let mut commit = |resource: &str, object: &str, r#type: EventType, pvc: Option<Claim>| {
            rv += 1;
            let mut commit = Commit::new(resource, object, rv, r#type);
            (commit.user, commit.verb) = ("snapshot-controller/v8".into(), "update".into());
            commit.pvc = pvc.map(Box::new);
            trace.info(&"fake-apiserver".into(), commit);
        };
        let claim = |is_source: bool| Some(Claim { is_source, ..Claim::default() });
        commit("persistentvolumeclaims", "default/data", EventType::Added, claim(false));
        commit("volumesnapshots", "default/monday", EventType::Added, None);
        commit("persistentvolumeclaims", "default/data", EventType::Modified, claim(true));
        if other {
            commit("volumesnapshots", "default/tuesday", EventType::Added, None);
        }
        if is_freed {
            commit("persistentvolumeclaims", "default/data", EventType::Modified, claim(false));
        }
        commit("volumesnapshots", "default/monday", EventType::Deleted, None);
        let invariants = Invariants::new(TimeScale::default());
        trace.events().iter().for_each(|event| invariants.observe(event));
        invariants.violations().into_iter().filter(|violation| violation.id == "I11").collect()
    }

    #[test]
    fn the_last_snapshot_goes_after_its_source_is_free() {
        assert_eq!(found(true, false), []);
        assert_eq!(found(false, true), [], "another snapshot may be taken of it");
        let [violation] = &found(false, false)[..] else { panic!("the claim is held") };
        assert!(violation.message.starts_with("pvc/default/data is protected"), "{}", violation.message);
    }
}
