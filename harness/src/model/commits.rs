//! Commits of the API server.

use std::collections::BTreeSet;

use fake_apiserver::events::Commit;
use fake_apiserver::state::EventType;
use substrate::json::Text;

use super::objects::namespace;
use super::{Attachment, Node, RunModel};

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
                self.kept.insert(handle.to_owned());
            } else {
                self.kept.remove(handle);
            }
        } else if let Some(va) = &commit.volumeattachment {
            let text = |text: &Option<substrate::json::Text>| text.as_deref().unwrap_or_default().to_owned();
            let (pv, node) = (text(&va.pv), text(&va.node));
            let device = va.device.as_deref().map(str::to_owned);
            let since = self.attachments.get(object).map_or(ms, |before| before.since);
            let attachment = Attachment { pv, node, attached: va.attached, deleting: va.deleting, device, since };
            if deleted {
                self.attachments.remove(object);
            } else {
                self.attachments.insert(object.to_owned(), attachment);
            }
        } else if let Some(node) = &commit.node {
            self.has_node_controller |= commit.user.contains("node-controller");
            let strings = |list: &[substrate::json::Text]| list.iter().map(ToString::to_string).collect();
            let before = self.nodes.get(object).filter(|_| commit.r#type == EventType::Modified);
            let since = |volume: &str| before.and_then(|node| node.in_use_since.get(volume)).copied().unwrap_or(ms);
            let in_use_since = node.volumes_in_use.iter().map(|name| (name.to_string(), since(name))).collect();
            let node = Node {
                ready: node.ready.as_deref().map(str::to_owned),
                out_of_service: node.taints.iter().any(|t| t.starts_with("node.kubernetes.io/out-of-service:")),
                keeps_away: keeping_away(&node.taints),
                attached: strings(&node.volumes_attached),
                in_use: strings(&node.volumes_in_use),
                in_use_since,
            };
            if self.nodes.get(object).is_some_and(|before| before.attached != node.attached) {
                self.reported = Some(object.to_owned());
            }
            self.note_lists(object, commit.r#type, &node);
            if deleted {
                self.nodes.remove(object);
            } else {
                self.nodes.insert(object.to_owned(), node);
            }
        } else if let Some(pod) = &commit.pod {
            if pod.deleting && !deleted {
                self.deleting_since.entry(commit.object.clone()).or_insert(ms);
            } else {
                self.deleting_since.remove(object);
            }
            self.rewant(object, ms);
        }
    }

    /// Returns true if a kubelet's write to a node changes nothing but its heartbeat.
    pub(super) fn is_heartbeat(&self, commit: &Commit) -> bool {
        let (Some(now), Some(before)) = (&commit.node, self.nodes.get(&*commit.object)) else { return false };
        let same = |new: &[substrate::json::Text], old: &BTreeSet<String>| {
            new.len() == old.len() && new.iter().all(|name| old.contains(name.as_str()))
        };
        commit.r#type == EventType::Modified
            && commit.user.starts_with("kubelet")
            && now.ready.as_deref() == before.ready.as_deref()
            && now.taints.iter().any(|t| t.starts_with("node.kubernetes.io/out-of-service:")) == before.out_of_service
            && keeping_away(&now.taints) == before.keeps_away
            && same(&now.volumes_attached, &before.attached)
            && same(&now.volumes_in_use, &before.in_use)
    }

    /// Records which volumes of a node a new Node does not list in volumesInUse yet, and a deleted or a new one in
    /// volumesAttached.
    fn note_lists(&mut self, name: &str, r#type: EventType, node: &Node) {
        for ((volume, _), hold) in self.holds.iter_mut().filter(|((_, on), _)| on == name) {
            let end = format!("^{volume}");
            let lists = |list: &BTreeSet<String>| list.iter().any(|listed| listed.ends_with(&end));
            hold.node_lacks = !lists(&node.in_use) && (r#type == EventType::Added || hold.node_lacks);
            let is_attached = r#type != EventType::Deleted && lists(&node.attached);
            hold.lost_by_node = !is_attached && (r#type != EventType::Modified || hold.lost_by_node);
        }
    }

    /// Updates the time since which no pod wants the volumes of a changed pod, on its node.
    fn rewant(&mut self, object: &str, ms: u64) {
        let Self { objects, unwanted_since, .. } = self;
        let namespace = namespace(object);
        for pod in objects.before.pod.iter().chain(objects.pod(object)) {
            let Some(node) = pod.node() else { continue };
            for claim in &pod.state.claims {
                let claim = format!("{namespace}/{claim}");
                let Some(handle) = objects.handle_of_claim(&claim) else { continue };
                let wanted = objects.users(&claim).any(|(_, user)| user.node() == Some(node));
                let key = (handle.to_owned(), node.to_owned());
                if wanted {
                    unwanted_since.remove(&key);
                } else {
                    unwanted_since.entry(key).or_insert(ms);
                }
            }
        }
    }
}

/// Returns those taints of a node, `key:effect`, that say that it is not Ready.
fn keeping_away(taints: &[Text]) -> Vec<String> {
    let ours = |taint: &&Text| {
        ["node.kubernetes.io/unreachable:", "node.kubernetes.io/not-ready:"].iter().any(|key| taint.starts_with(*key))
    };
    taints.iter().filter(ours).map(ToString::to_string).collect()
}
