//! I3: publish only after stage, stage only after attached.

use substrate::Event;

use super::facts::Facts;

pub(super) fn check(facts: &Facts, event: &Event) -> Option<String> {
    if event.kind != "csi.call" {
        return None;
    }
    let (volume, node) = (event.str("volume")?, facts.name(event.str("node")?));
    match event.str("rpc")? {
        "NodeStageVolume" if !facts.is_attached(volume, node) => {
            Some(format!("NodeStageVolume was called for {volume} on {node}, where it is not attached"))
        }
        "NodePublishVolume" if facts.hold(volume, node).is_none_or(|hold| hold.staged.is_none()) => {
            Some(format!("NodePublishVolume was called for {volume} on {node}, where it is not staged"))
        }
        _ => None,
    }
}
