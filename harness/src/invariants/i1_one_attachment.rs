//! I1, before any write: the attach-detach controller does not begin to attach a volume with single-node access while
//! another node has it. The other node has it if an attached VolumeAttachment stays, and the status of that node lists
//! the volume.

use std::collections::BTreeSet;

use controllers::events::{Attach, Detach};
use substrate::Event;
use substrate::json::Text;

use super::Found;
use super::staleness::handle;
use crate::model::{RunModel, VolumeOnNode};

/// Detaches that attach-detach began because of the node in its cache, and that its look at the stored node refuses. It
/// then takes the attachment for uncertain.
#[derive(Debug, Default)]
pub(super) struct OneAttachment {
    refused: BTreeSet<VolumeOnNode>,
}

impl OneAttachment {
    /// Checks an event. `may_lack_use` returns true if attach-detach may have a node in its cache that does not list a
    /// volume in use.
    pub fn check(
        &mut self,
        model: &RunModel,
        event: &Event,
        may_lack_use: impl Fn(&str, &str) -> bool,
    ) -> Option<Found> {
        let is_it = |name: &Text, volume: &str| handle(name) == Some(volume);
        if let Some(Detach { volume, node, forced, .. }) = event.get() {
            let key = VolumeOnNode::new(volume, node);
            let stored = model.objects.nodes.get(node.as_str());
            let is_in_use = stored.is_some_and(|node| node.state.volumes_in_use.iter().any(|name| is_it(name, volume)));
            if *forced {
                self.refused.remove(&key);
            } else if is_in_use && may_lack_use(node, volume) {
                self.refused.insert(key);
            }
            return None;
        }
        let Attach { volume, pv, node, .. } = event.get()?;
        self.refused.remove(&VolumeOnNode::new(volume, node));
        if model.is_shared(volume) {
            return None;
        }
        let stays = |node: &str| {
            let node = model.objects.nodes.get(node);
            node.is_some_and(|node| node.state.volumes_attached.iter().any(|name| is_it(name, volume)))
        };
        let all = model.objects.attachments.values();
        let mut others = all.filter(|other| other.pv() == pv.as_str() && other.node() != node.as_str());
        let other = others.find(|other| other.state.attached && !other.state.deleting && stays(other.node()))?;
        let is_refused = self.refused.contains(&VolumeOnNode::new(volume, other.node()));
        Some(Found {
            message: format!("an attach of {volume} to {node} began while it is attached to {}", other.node()),
            operation: "attach".to_owned(),
            volume: Some(volume.to_string()),
            node: Some(node.to_string()),
            details: [("detachRefused", is_refused.into())].into(),
        })
    }
}
