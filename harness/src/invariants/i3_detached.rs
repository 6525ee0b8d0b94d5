//! I3: the driver answers that a volume is detached only after it is: ControllerUnpublishVolume ends with OK when the cloud
//! has no attachment of that volume there.

use csi_mock::events::CsiDone;
use substrate::Event;

use super::Found;
use super::facts::Facts;

pub(super) fn check(facts: &Facts, event: &Event) -> Option<Found> {
    let done = event.get::<CsiDone>()?;
    if done.rpc != "ControllerUnpublishVolume" || done.code != "OK" {
        return None;
    }
    let volume = done.volume.as_deref()?;
    // Without a node, all are meant.
    let asked = done.node.as_deref().map(|node| facts.name(node));
    let mut there = facts.cloud.keys().filter(|(of, on)| of == volume && asked.is_none_or(|node| node == on));
    let (_, node) = there.next()?;
    Some(Found {
        message: format!("ControllerUnpublishVolume answered OK for {volume} on {node}, where it is still attached"),
        operation: done.rpc.to_string(),
        volume: Some(volume.to_owned()),
        node: Some(node.clone()),
        ..Found::default()
    })
}
