//! Maps events to volumes and claims.

use std::collections::BTreeMap;

use fake_apiserver::events::Commit;
use fake_apiserver::state::EventType;
use substrate::Event;

use crate::model::{ClaimKey, PvName, RunModel};

/// Relations between names. The whole trace is read first, because events name a volume before its PV exists.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// State after the last event.
    pub model: RunModel,
    /// Ordinal (in creation order) of the claim of each PV.
    pub claims_of_pv: BTreeMap<PvName, usize>,
    /// Latest ordinal of each claim name: a name can be used again.
    claims: BTreeMap<ClaimKey, usize>,
    pub count: usize,
}

impl Names {
    pub fn learn(&mut self, event: &Event) {
        self.model.observe(event);
        let Some(commit) = event.get::<Commit>() else { return };
        if commit.resource == "persistentvolumeclaims" && commit.r#type == EventType::Added {
            self.claims.insert((&commit.object).into(), self.count);
            self.count += 1;
        } else if let Some(claim) = commit.pv.as_ref().and_then(|pv| pv.claim.as_deref())
            && let Some(index) = self.claims.get(claim)
        {
            self.claims_of_pv.entry((&commit.object).into()).or_insert(*index);
        }
    }

    /// Returns the ordinal of the claim of a volume, which is named by its handle or, while it is created, by its PV.
    pub fn claim(&self, handle: &str) -> Option<usize> {
        self.claims_of_pv.get(self.model.objects.pv_of(handle).unwrap_or(handle)).copied()
    }

    pub fn node(&self, node: &str) -> String {
        self.model.name(node).to_owned()
    }
}
