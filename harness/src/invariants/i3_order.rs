//! I3: publish only after stage, stage only after attached; where the driver stages nothing, publish only after attached.
//! Each stage and each publish is an occasion.

use csi_mock::events::CsiCall;
use substrate::Event;

use super::facts::Facts;
use super::{Checked, Found, Id};

pub(super) fn check(facts: &Facts, checked: &mut Checked, event: &Event) -> Option<Found> {
    let call = event.get::<CsiCall>()?;
    let (Some(volume), Some(node)) = (&call.volume, &call.node) else { return None };
    let (volume, node) = (volume.as_str(), facts.name(node));
    let missing = match call.rpc.as_str() {
        "NodePublishVolume" if call.stages_nothing => (!facts.is_attached(volume, node)).then_some("attached"),
        "NodeStageVolume" => (!facts.is_attached(volume, node)).then_some("attached"),
        "NodePublishVolume" => facts.hold(volume, node).is_none_or(|hold| hold.staged.is_none()).then_some("staged"),
        _ => return None,
    };
    checked.add(Id::I3, 1);
    let missing = missing?;
    Some(Found {
        message: format!("{} was called for {volume} on {node}, where it is not {missing}", call.rpc),
        operation: call.rpc.to_string(),
        volume: Some(volume.to_owned()),
        node: Some(node.to_owned()),
        ..Found::default()
    })
}
