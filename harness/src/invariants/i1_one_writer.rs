//! I1: no volume is writable on two nodes, unless it is multi-attach, or a forced detach from the other node is on
//! record.

use std::collections::BTreeSet;

use substrate::Event;

use super::facts::Facts;

/// The pairs that were reported, so that one mistake is one violation.
#[derive(Debug, Default)]
pub(super) struct OneWriter {
    reported: BTreeSet<(String, String, u64)>,
}

impl OneWriter {
    pub fn check(&mut self, facts: &Facts, event: &Event) -> Option<String> {
        if !matches!(event.kind.as_str(), "disk.staged" | "disk.published") {
            return None;
        }
        let (volume, node) = (event.str("volume")?, facts.name(event.str("node")?));
        let hold = facts.hold(volume, node)?;
        if !hold.writes() || facts.is_multi_attach(volume) {
            return None;
        }
        let (other, _) = facts.holders(volume).find(|(name, hold)| *name != node && hold.writes())?;
        if !self.reported.insert((volume.to_owned(), node.to_owned(), hold.generation)) {
            return None;
        }
        Some(format!(
            "{volume} became writable on {node} while it is writable on {other}, and no forced detach from {other} is on record"
        ))
    }
}
