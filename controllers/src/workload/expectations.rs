//! Expectations (`ControllerExpectations`, `UIDTrackingControllerExpectations`): the creations and deletions of a
//! controller's pods that its cache has not shown yet. A controller with open expectations writes no pods, so that a
//! stale cache does not make it create or delete twice.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use parking_lot::Mutex;

use super::{Key, key};
use crate::kube::{Delta, Kind};

/// Age at which open expectations are ignored (`ExpectationsTimeout`).
const TIMEOUT: Duration = Duration::from_secs(5 * 60);

#[derive(Debug)]
struct Entry {
    creations: i64,
    deletions: i64,
    at: Duration,
    /// Keys of the pods whose deletion is expected; a pod that is seen twice counts once.
    deleted: BTreeSet<Key>,
}

/// Expectations of one controller, by the key of the owner.
#[derive(Debug, Default)]
pub(crate) struct Expectations(Mutex<BTreeMap<Key, Entry>>);

impl Expectations {
    /// Returns true if the owner has no open expectations, or they are too old (`SatisfiedExpectations`).
    pub(crate) fn satisfied(&self, owner: &Key, now: Duration) -> bool {
        self.0.lock().get(owner).is_none_or(|entry| {
            (entry.creations <= 0 && entry.deletions <= 0) || now.saturating_sub(entry.at) > TIMEOUT
        })
    }

    /// Returns the key of an owner that changed. Its expectations are forgotten if it is gone, or is another object of
    /// that name.
    pub(crate) fn of_changed<K: Kind>(&self, delta: &Delta<K>) -> Key {
        let (owner, is_former) = match delta {
            Delta::Applied { old, new } => (key(&**new), old.as_ref().is_some_and(|old| old.uid() != new.uid())),
            Delta::Deleted(owner) => (key(&**owner), true),
        };
        if is_former {
            self.forget(&owner);
        }
        owner
    }

    /// Expects so many creations (`ExpectCreations`).
    pub(crate) fn expect_creations(&self, owner: &Key, count: usize, now: Duration) {
        self.set(owner, count, 0, BTreeSet::new(), now);
    }

    /// Expects the deletion of these pods (`ExpectDeletions`).
    pub(crate) fn expect_deletions(&self, owner: &Key, pods: impl IntoIterator<Item = Key>, now: Duration) {
        let pods: BTreeSet<Key> = pods.into_iter().collect();
        self.set(owner, 0, pods.len(), pods, now);
    }

    /// Expects creations and deletions together (`SetExpectations`); the pods are counted, not tracked.
    pub(crate) fn set_counts(&self, owner: &Key, creations: usize, deletions: usize, now: Duration) {
        self.set(owner, creations, deletions, BTreeSet::new(), now);
    }

    fn set(&self, owner: &Key, creations: usize, deletions: usize, deleted: BTreeSet<Key>, now: Duration) {
        let count = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        let entry = Entry { creations: count(creations), deletions: count(deletions), at: now, deleted };
        self.0.lock().insert(owner.clone(), entry);
    }

    /// Notes a creation that the cache showed, or that will not happen (`CreationObserved`).
    pub(crate) fn creation_observed(&self, owner: &Key) {
        if let Some(entry) = self.0.lock().get_mut(owner) {
            entry.creations -= 1;
        }
    }

    /// Notes the deletion of a tracked pod (`UIDTrackingControllerExpectations.DeletionObserved`).
    pub(crate) fn deletion_observed(&self, owner: &Key, pod: &Key) {
        if let Some(entry) = self.0.lock().get_mut(owner)
            && entry.deleted.remove(pod)
        {
            entry.deletions -= 1;
        }
    }

    /// Notes a deletion of pods that are only counted (`ControllerExpectations.DeletionObserved`).
    pub(crate) fn counted_deletion_observed(&self, owner: &Key) {
        if let Some(entry) = self.0.lock().get_mut(owner) {
            entry.deletions -= 1;
        }
    }

    /// Forgets an owner (`DeleteExpectations`).
    pub(crate) fn forget(&self, owner: &Key) {
        self.0.lock().remove(owner);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_expectations_hold_writes_until_they_are_seen_or_old() {
        let (all, owner) = (Expectations::default(), ("default".to_owned(), "web".to_owned()));
        let s = Duration::from_secs;
        assert!(all.satisfied(&owner, s(0)));
        all.expect_creations(&owner, 2, s(0));
        all.creation_observed(&owner);
        assert!(!all.satisfied(&owner, s(1)));
        assert!(!all.satisfied(&owner, s(300)) && all.satisfied(&owner, s(301)));
        all.creation_observed(&owner);
        assert!(all.satisfied(&owner, s(1)));
    }

    #[test]
    fn a_deletion_counts_once() {
        let (all, owner) = (Expectations::default(), ("default".to_owned(), "web".to_owned()));
        let pod = |name: &str| ("default".to_owned(), name.to_owned());
        all.expect_deletions(&owner, [pod("a"), pod("b")], Duration::ZERO);
        all.deletion_observed(&owner, &pod("a"));
        all.deletion_observed(&owner, &pod("a"));
        assert!(!all.satisfied(&owner, Duration::ZERO));
        all.deletion_observed(&owner, &pod("b"));
        assert!(all.satisfied(&owner, Duration::ZERO));
    }
}
