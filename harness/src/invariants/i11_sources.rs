//! I11: snapshot-controller frees the source of a snapshot before the snapshot goes. A finalizer that it leaves on the
//! claim stays for ever, because nothing looks at the claim again. An occasion is the end of the last VolumeSnapshot in a
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
    use substrate::json::{Value, from_value, json};

    use super::*;

    fn commit(resource: &str, object: &str, r#type: &str, more: Value) -> Event {
        let mut value = json!({
            "ms": 0, "n": 1, "process": "fake-apiserver", "kind": "api.commit", "object": object, "resource": resource,
            "rv": 1, "type": r#type, "user": "snapshot-controller/v8", "verb": "update",
        });
        value.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        from_value(value).unwrap()
    }

    fn found(frees: bool, other: bool) -> Option<Found> {
        let (mut sources, mut checked) = (Sources::default(), Checked::default());
        let claim = |is_source: bool| {
            commit("persistentvolumeclaims", "default/data", "MODIFIED", json!({ "pvc": { "is_source": is_source } }))
        };
        let snapshot = |name: &str, r#type: &str| commit("volumesnapshots", name, r#type, json!({}));
        let mut events = vec![snapshot("default/monday", "ADDED"), claim(true)];
        if other {
            events.push(snapshot("default/tuesday", "ADDED"));
        }
        if frees {
            events.push(claim(false));
        }
        events.push(snapshot("default/monday", "DELETED"));
        let all = events.iter().filter_map(|event| sources.check(&mut checked, event, |_| false, |_| None)).last();
        assert_eq!(checked.get(Id::I11), u64::from(!other));
        all
    }

    #[test]
    fn the_last_snapshot_goes_after_its_source_is_free() {
        assert!(found(true, false).is_none());
        assert!(found(false, true).is_none(), "another snapshot may be taken of it");
        let found = found(false, false).expect("the claim is held");
        assert_eq!(found.details["claimInCacheIsFree"], false);
    }
}
