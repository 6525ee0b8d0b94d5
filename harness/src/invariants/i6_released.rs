//! I6, for claims: a released volume has the bytes of a deleted claim, so no other claim gets it. A user who changes
//! the PersistentVolume by hand may give it to another claim.

use std::collections::BTreeMap;

use fake_apiserver::events::Commit;
use fake_apiserver::state::EventType;
use substrate::Event;
use substrate::json::Text;

use super::Found;

/// Released PersistentVolumes, each with the uid of the claim that released it.
#[derive(Debug, Default)]
pub(super) struct Released(BTreeMap<String, Option<Text>>);

impl Released {
    /// Checks an event. `former` returns true if the binder may have a deleted claim in its cache.
    pub fn check(&mut self, event: &Event, former: impl Fn(&str) -> bool) -> Option<Found> {
        let commit = event.get::<Commit>()?;
        let pv = commit.pv.as_ref()?;
        let name = commit.object.to_string();
        let by_loop = ["kube-controller-manager", "csi-"].iter().any(|user| commit.user.starts_with(user));
        if commit.r#type == EventType::Deleted || !by_loop {
            self.0.remove(&name);
            return None;
        }
        match pv.phase.as_deref() {
            Some("Released") => {
                self.0.insert(name, pv.claim_uid.clone());
                None
            }
            Some("Bound") => {
                let released_by = self.0.remove(&name)?;
                let claim = pv.claim.as_deref().unwrap_or_default();
                let message = format!("{name} was released by a claim that is gone, and is bound to {claim}");
                let volume = pv.handle.as_deref().map(str::to_owned);
                // A binder that still has the former claim does not bind the volume to another claim.
                let is_former = pv.claim_uid == released_by && former(claim);
                let details = [("formerClaimInCache", is_former.into())].into();
                Some(Found { message, operation: "bind".to_owned(), volume, details, ..Found::default() })
            }
            _ => None,
        }
    }
}
