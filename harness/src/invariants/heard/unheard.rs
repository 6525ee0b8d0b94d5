//! Claims that are kept for a pod of which pvc-protection has never heard.
//!
//! It asks the API server for pods when it has none in its cache that uses the claim, finds one, and keeps the claim. It looks
//! again when it hears that the pod is gone, which it does not if its stream ended before the pod came and the list that
//! follows does not have it any more.

use std::collections::BTreeMap;

use fake_apiserver::events::Commit;
use fake_apiserver::state::EventType;

/// How a claim that was deleted and is still there stands.
#[derive(Debug, Default)]
struct Kept {
    /// A pod that used it was gone before pvc-protection had heard of it, and nothing has happened to the claim since.
    unheard: bool,
}

/// Claims that are being deleted.
#[derive(Debug, Default)]
pub(super) struct Unheard {
    /// By namespace and name.
    claims: BTreeMap<String, Kept>,
}

impl Unheard {
    /// Takes in a commit; `was_heard` says whether kube-controller-manager has ever heard of the pod that it is about.
    pub fn on_commit(&mut self, commit: &Commit, was_heard: bool) {
        let object = &*commit.object;
        if commit.pvc.is_some() {
            if commit.r#type == EventType::Deleted {
                self.claims.remove(object);
            } else if &*commit.verb == "delete" || self.claims.contains_key(object) {
                self.claims.insert(object.to_owned(), Kept::default());
            }
            return;
        }
        let Some(pod) = commit.pod.as_ref().filter(|_| commit.r#type == EventType::Deleted && !was_heard) else {
            return;
        };
        let namespace = object.split_once('/').map_or("default", |(namespace, _)| namespace);
        for name in &pod.claims {
            if let Some(kept) = self.claims.get_mut(&format!("{namespace}/{name}")) {
                kept.unheard = true;
            }
        }
    }

    /// Claims that are kept for such a pod, by namespace and name.
    pub fn kept(&self) -> impl Iterator<Item = &str> {
        self.claims.iter().filter(|(_, kept)| kept.unheard).map(|(claim, _)| claim.as_str())
    }
}
