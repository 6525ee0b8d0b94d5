//! Maps events to volumes, claims and nodes.

use std::collections::BTreeMap;

use fake_apiserver::events::Commit;
use fake_apiserver::state::EventType;
use substrate::Event;

use crate::events::ClusterNode;

/// Relations between names. The whole trace is read first, because events name a volume before its PV exists.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// Node name of each instance id.
    pub nodes: BTreeMap<String, String>,
    /// Ordinal (in creation order) of the claim of each PV.
    pub claims_of_pv: BTreeMap<String, usize>,
    /// PV of each handle.
    pub pv_of_handle: BTreeMap<String, String>,
    /// Latest ordinal of each claim name: a name can be used again.
    claims: BTreeMap<String, usize>,
    pub count: usize,
}

impl Names {
    pub fn learn(&mut self, event: &Event) {
        if let Some(ClusterNode { node, instance, .. }) = event.get() {
            self.nodes.insert(instance.to_string(), node.to_string());
            return;
        }
        let Some(commit) = event.get::<Commit>() else { return };
        if commit.resource == "persistentvolumeclaims" && commit.r#type == EventType::Added {
            self.claims.insert(commit.object.to_string(), self.count);
            self.count += 1;
        } else if let Some(pv) = &commit.pv {
            if let Some(handle) = pv.handle.as_ref().filter(|handle| !handle.is_empty()) {
                self.pv_of_handle.insert(handle.to_string(), commit.object.to_string());
            }
            if let Some(index) = pv.claim.as_ref().and_then(|claim| self.claims.get(claim.as_str())) {
                self.claims_of_pv.entry(commit.object.to_string()).or_insert(*index);
            }
        }
    }

    pub fn node(&self, node: &str) -> String {
        self.nodes.get(node).map_or(node, String::as_str).to_owned()
    }
}
