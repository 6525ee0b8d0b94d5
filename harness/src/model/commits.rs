//! Commits of the API server.

use fake_apiserver::events::{Commit, Node};
use fake_apiserver::state::EventType;
use substrate::json::Text;

use super::{RunModel, VolumeOnNode, claims_of, is_out_of_service, keeps_away};

impl RunModel {
    pub(super) fn on_commit(&mut self, commit: &Commit, ms: u64) {
        let deleted = commit.r#type == EventType::Deleted;
        let object = &*commit.object;
        match commit.resource.as_str() {
            "nodes" if self.is_heartbeat(commit) => return,
            // These fields change all the time and are not progress.
            "leases" | "events" => return,
            _ => {}
        }
        self.stir(ms, || format!("{} {} {object} by {}", commit.verb, commit.resource, commit.user));
        if let Some(pv) = &commit.pv {
            let handle = pv.handle.as_deref().unwrap_or_default();
            if pv.reclaim.is_some() && !handle.is_empty() {
                self.kept.insert(handle.into());
            } else {
                self.kept.remove(handle);
            }
        } else if let Some(node) = &commit.node {
            self.has_node_controller |= commit.user.contains("node-controller");
            let before = self.objects.before.node.as_ref();
            if before.is_some_and(|before| !same(&before.state.volumes_attached, &node.volumes_attached)) {
                self.reported = Some(object.into());
            }
            self.note_lists(object, commit.r#type, node);
            let before = self.in_use_since.remove(object).filter(|_| commit.r#type == EventType::Modified);
            if !deleted {
                let since = |name: &Text| before.as_ref().and_then(|before| before.get(name)).copied().unwrap_or(ms);
                let since = node.volumes_in_use.iter().map(|name| (name.clone(), since(name))).collect();
                self.in_use_since.insert((&commit.object).into(), since);
            }
        } else if let Some(pod) = &commit.pod {
            if pod.deleting && !deleted {
                self.deleting_since.entry((&commit.object).into()).or_insert(ms);
            } else {
                self.deleting_since.remove(object);
            }
            self.rewant(object, ms);
        }
    }

    /// Returns true if a kubelet's write to a node changes nothing but its heartbeat.
    fn is_heartbeat(&self, commit: &Commit) -> bool {
        let (Some(now), Some(before)) = (&commit.node, &self.objects.before.node) else { return false };
        let before = &before.state;
        commit.r#type == EventType::Modified
            && commit.user.starts_with("kubelet")
            && now.ready == before.ready
            && is_out_of_service(now) == is_out_of_service(before)
            && keeps_away(now).eq(keeps_away(before))
            && same(&now.volumes_attached, &before.volumes_attached)
            && same(&now.volumes_in_use, &before.volumes_in_use)
    }

    /// Records which volumes of a node a new Node does not list in volumesInUse yet, and a deleted or a new one in
    /// volumesAttached.
    fn note_lists(&mut self, name: &str, r#type: EventType, node: &Node) {
        for (place, hold) in self.holds.iter_mut().filter(|(place, _)| place.node == *name) {
            let end = format!("^{}", place.volume);
            let lists = |list: &[Text]| list.iter().any(|listed| listed.ends_with(&end));
            hold.node_lacks = !lists(&node.volumes_in_use) && (r#type == EventType::Added || hold.node_lacks);
            let is_attached = r#type != EventType::Deleted && lists(&node.volumes_attached);
            hold.lost_by_node = !is_attached && (r#type != EventType::Modified || hold.lost_by_node);
        }
    }

    /// Updates the time since which no pod wants the volumes of a changed pod, on its node.
    fn rewant(&mut self, object: &str, ms: u64) {
        let Self { objects, unwanted_since, .. } = self;
        for pod in objects.before.pod.iter().chain(objects.pod(object)) {
            let Some(node) = pod.node() else { continue };
            for claim in claims_of(object, &pod.state) {
                let Some(handle) = objects.handle_of_claim(&claim) else { continue };
                let wanted = objects.users(&claim).any(|(_, user)| user.node() == Some(node));
                let place = VolumeOnNode::new(handle, node);
                if wanted {
                    unwanted_since.remove(&place);
                } else {
                    unwanted_since.entry(place).or_insert(ms);
                }
            }
        }
    }
}

/// Returns true if two lists of names are the same in any order.
fn same(one: &[Text], other: &[Text]) -> bool {
    one.len() == other.len() && one.iter().all(|name| other.contains(name))
}
