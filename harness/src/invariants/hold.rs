//! What a node holds of a volume.

use std::collections::BTreeMap;

use controllers::attach_detach::ForcedReason;
use substrate::json::Text;

/// A volume on a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Hold {
    /// Staged, and whether it may be written.
    pub staged: Option<bool>,
    /// Where it is staged.
    pub path: Text,
    /// It is a raw device: that it is staged shows nowhere on the node.
    pub raw: bool,
    /// Target paths, and whether they may be written.
    pub published: BTreeMap<String, bool>,
    /// A legitimate forced detach from this node is on record: what is mounted there no longer reaches the volume.
    pub forced: bool,
    /// Grows each time the volume comes to the node, so that one mistake is reported once.
    pub generation: u64,
    /// The kubelet of the node has started anew since the last target path went, or since it asked for the volume to be
    /// staged where nothing was published yet, and has not asked the driver about it since.
    pub forgotten: bool,
    /// Why somebody forces a detach that is not legitimate.
    pub wrongly_forced: Option<ForcedReason>,
    /// True if attach-detach could still see the out-of-service taint when it detached by force.
    pub taint_in_cache: bool,
}

impl Hold {
    /// The volume came to the node anew: what was forced before is over.
    pub fn begins(&mut self, forgotten: bool) {
        self.forced = false;
        self.forgotten = forgotten;
        self.wrongly_forced = None;
        self.taint_in_cache = false;
        self.generation += 1;
    }

    /// What is there that a detach would break, if anything is: `staged`, or `published` where the driver stages
    /// nothing.
    pub fn state(&self) -> Option<&'static str> {
        match self.staged {
            Some(_) => Some("staged"),
            None => (!self.published.is_empty()).then_some("published"),
        }
    }

    /// Whether anything on the node can still write to the volume.
    pub fn writes(&self) -> bool {
        !self.forced && (self.staged == Some(true) || self.published.values().any(|w| *w))
    }
}
