//! I3: publish only after stage, and stage only after attach. If the driver does not stage, publish only after attach.
//! Each stage and each publish is an occasion, except for a driver whose volumes need no attachment.

use std::collections::BTreeSet;

use csi_mock::events::CsiCall;
use mock_ec2::events::{AttachmentChanged, AttachmentPhase};
use substrate::Event;

use super::{Checked, Found, Id};
use crate::model::{RunModel, VolumeOnNode};

/// The order of calls, and the volumes that were detached because of a removed VolumeAttachment.
#[derive(Debug, Default)]
pub(super) struct Order {
    /// Volumes and nodes that were detached although their current VolumeAttachment exists, because the attacher may
    /// have had a former one in its list.
    taken: BTreeSet<VolumeOnNode>,
}

impl Order {
    /// Checks an event; `former` returns true if the attacher may have a former VolumeAttachment of a PersistentVolume
    /// and a node in its cache.
    pub fn check(
        &mut self,
        model: &RunModel,
        checked: &mut Checked,
        event: &Event,
        former: impl Fn(&str, &str) -> bool,
    ) -> Option<Found> {
        if let Some(AttachmentChanged { volume, instance, state: AttachmentPhase::Attached, .. }) = event.get() {
            self.taken.remove(&model.place(volume.as_str(), instance.as_str()));
            return None;
        }
        let call = event.get::<CsiCall>()?;
        let (Some(volume), Some(node)) = (&call.volume, &call.node) else { return None };
        if call.needs_no_attachment {
            return None;
        }
        let (volume, node) = (volume.as_str(), model.name(node));
        let missing = match call.rpc.as_str() {
            "ControllerUnpublishVolume" => {
                if model.wants_attached(volume, node) && model.objects.pv_of(volume).is_some_and(|pv| former(pv, node))
                {
                    self.taken.insert(VolumeOnNode::new(volume, node));
                }
                return None;
            }
            "NodePublishVolume" if call.stages_nothing => (!model.is_attached(volume, node)).then_some("attached"),
            "NodeStageVolume" => (!model.is_attached(volume, node)).then_some("attached"),
            "NodePublishVolume" => {
                model.hold(volume, node).is_none_or(|hold| hold.staged.is_none()).then_some("staged")
            }
            _ => return None,
        };
        checked.add(Id::I3, 1);
        let missing = missing?;
        let taken = missing == "attached" && self.taken.contains(&VolumeOnNode::new(volume, node));
        Some(Found {
            message: format!("{} was called for {volume} on {node}, where it is not {missing}", call.rpc),
            operation: call.rpc.to_string(),
            details: [("detachedForFormerAttachment", taken.into())].into(),
            volume: Some(volume.to_owned()),
            node: Some(node.to_owned()),
        })
    }
}
