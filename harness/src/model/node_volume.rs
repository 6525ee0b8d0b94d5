//! State of a volume on a node.

use std::collections::BTreeMap;

use controllers::attach_detach::ForcedReason;
use substrate::json::Text;

/// A volume on a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NodeVolume {
    /// If staged, true if it is writable.
    pub staged: Option<bool>,
    /// Its staging path.
    pub path: Text,
    /// True for a raw device, whose staging is not visible on the node.
    pub raw: bool,
    /// Target paths; true if writable.
    pub published: BTreeMap<Text, bool>,
    /// True if a legitimate forced detach from this node is on record: mounts there no longer reach the volume.
    pub forced: bool,
    /// Counter of arrivals of the volume on the node, so that one mistake is reported once.
    pub generation: u64,
    /// True if the node's kubelet restarted after the last target path was removed, or after it asked to stage the
    /// volume and before any publish, and has not called the driver for the volume since.
    pub forgotten: bool,
    /// Reason of a forced detach that is not legitimate.
    pub wrongly_forced: Option<ForcedReason>,
    /// True if attach-detach could still see the out-of-service taint when it forced the detach.
    pub taint_in_cache: bool,
    /// True if attach-detach could see a node that is not Ready when it detached the volume.
    pub unready_in_cache: bool,
    /// True if attach-detach detached the volume although the Node had listed it in status.volumesInUse for long.
    pub in_use_at_detach: bool,
    /// True if the Node was created again while the node had the volume, and its status.volumesInUse has not listed the
    /// volume since.
    pub node_lacks: bool,
    /// True if the Node was deleted or created again while the node had the volume, and its status.volumesAttached has not
    /// listed the volume since.
    pub lost_by_node: bool,
    /// True if `lost_by_node` was set when the node's kubelet started.
    pub unattached_at_start: bool,
}

impl NodeVolume {
    /// Records that the volume arrives on the node again, which ends an earlier forced detach.
    pub fn begins(&mut self, forgotten: bool) {
        self.forced = false;
        self.forgotten = forgotten;
        self.wrongly_forced = None;
        (self.taint_in_cache, self.unready_in_cache) = (false, false);
        (self.in_use_at_detach, self.node_lacks, self.unattached_at_start) = (false, false, false);
        self.generation += 1;
    }

    /// Returns the state that a detach would break: `staged`, or `published` if the driver does not stage.
    pub fn state(&self) -> Option<&'static str> {
        match self.staged {
            Some(_) => Some("staged"),
            None => (!self.published.is_empty()).then_some("published"),
        }
    }

    /// Returns true if a process on the node can still write to the volume.
    pub fn writes(&self) -> bool {
        !self.forced && (self.staged == Some(true) || self.published.values().any(|w| *w))
    }
}
