//! I1: no volume with single-node access is writable on two nodes, unless a legitimate forced detach from the other
//! node is on record. An occasion is a volume that becomes writable on a node after it was writable on another.

use std::collections::{BTreeMap, BTreeSet};

use csi_mock::events::{DiskPublished, DiskStaged};
use substrate::Event;

use super::{Checked, Found, Id};
use crate::model::{NodeName, RunModel, VolumeId, VolumeOnNode};

/// Observed writers and reported violations.
#[derive(Debug, Default)]
pub(super) struct OneWriter {
    /// The node on which a volume was last writable.
    last: BTreeMap<VolumeId, NodeName>,
    /// Volumes that are not checked.
    shared: BTreeSet<VolumeId>,
    /// Reported pairs, so that one bug is one violation.
    reported: BTreeSet<(VolumeOnNode, u64)>,
}

impl OneWriter {
    pub fn check(&mut self, model: &RunModel, checked: &mut Checked, event: &Event) -> Option<Found> {
        let staged = event.get::<DiskStaged>().map(|s| (&s.volume, &s.node));
        let (volume, node) = staged.or_else(|| event.get::<DiskPublished>().map(|p| (&p.volume, &p.node)))?;
        let (volume, node) = (volume.as_str(), model.name(node));
        let hold = model.hold(volume, node)?;
        if !hold.writes() {
            return None;
        }
        if model.is_shared(volume) {
            if self.shared.insert(volume.into()) {
                checked.shared_volumes += 1;
            }
            return None;
        }
        let before = self.last.insert(volume.into(), node.into());
        if before.is_some_and(|before| before != *node) {
            checked.add(Id::I1, 1);
        }
        let (other, _) = model.holders(volume).find(|(name, hold)| *name != node && hold.writes())?;
        if !self.reported.insert((VolumeOnNode::new(volume, node), hold.generation)) {
            return None;
        }
        let message = format!(
            "{volume} became writable on {node} while it is writable on {other}, and no legitimate forced detach from {other} is on record"
        );
        Some(Found {
            message,
            operation: event.kind().to_owned(),
            volume: Some(volume.to_owned()),
            node: Some(node.to_owned()),
            details: [("other", other.into())].into(),
        })
    }
}
