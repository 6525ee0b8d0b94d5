//! Claims that are kept for a pod that pvc-protection has never seen.
//!
//! If no cached pod uses the claim, pvc-protection lists pods from the API server, finds one, and keeps the claim. It
//! checks again when it sees the pod's deletion. It never sees the deletion if its stream ended before the pod was
//! created and the next list does not contain the pod any more.

use std::collections::BTreeMap;

use fake_apiserver::events::Commit;
use fake_apiserver::state::EventType;

use crate::model::{ClaimKey, claims_of};

/// State of a deleted claim that still exists.
#[derive(Debug, Default)]
struct Kept {
    /// True if a pod that used it was gone before pvc-protection saw it, and since then neither the claim has changed
    /// nor another of its pods has gone: pvc-protection checks the claim again when it sees the end of that one.
    unseen: bool,
}

/// Claims that are being deleted.
#[derive(Debug, Default)]
pub(super) struct Unseen {
    claims: BTreeMap<ClaimKey, Kept>,
}

impl Unseen {
    /// Records a commit; `was_seen` is true if kube-controller-manager has ever seen the pod of the commit.
    pub fn on_commit(&mut self, commit: &Commit, was_seen: bool) {
        let object = &*commit.object;
        if commit.pvc.is_some() {
            if commit.r#type == EventType::Deleted {
                self.claims.remove(object);
            } else if &*commit.verb == "delete" || self.claims.contains_key(object) {
                self.claims.insert(object.into(), Kept::default());
            }
            return;
        }
        let Some(pod) = commit.pod.as_ref().filter(|_| commit.r#type == EventType::Deleted) else { return };
        for claim in claims_of(object, pod) {
            if let Some(kept) = self.claims.get_mut(&claim) {
                kept.unseen = !was_seen;
            }
        }
    }

    /// Returns the claims that are kept for such a pod, by namespace and name.
    pub fn kept(&self) -> impl Iterator<Item = &str> {
        self.claims.iter().filter(|(_, kept)| kept.unseen).map(|(claim, _)| &**claim)
    }
}
