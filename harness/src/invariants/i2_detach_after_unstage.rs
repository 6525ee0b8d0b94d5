//! I2: no detach while the volume is staged or published there, unless that detach is legitimately forced. An occasion is
//! a detach of a volume that had been staged or published there.

use std::collections::BTreeSet;

use csi_mock::events::CsiCall;
use mock_ec2::events::{AttachmentChanged, AttachmentPhase};
use substrate::Event;

use super::facts::Facts;
use super::{Checked, Found, Id};

/// What was counted and reported.
#[derive(Debug, Default)]
pub(super) struct DetachAfterUnstage {
    /// The attachments whose detach was counted: retries of one are one.
    counted: BTreeSet<(String, String)>,
    /// The holds that were reported, so that retries of one mistake are one violation.
    reported: BTreeSet<(String, String, u64)>,
}

impl DetachAfterUnstage {
    pub fn check(&mut self, facts: &Facts, checked: &mut Checked, event: &Event) -> Option<Found> {
        let (what, operation, volume, node) = if let Some(call) = event.get::<CsiCall>() {
            if call.rpc != "ControllerUnpublishVolume" {
                return None;
            }
            let (Some(volume), Some(node)) = (&call.volume, &call.node) else { return None };
            ("ControllerUnpublishVolume was called", "ControllerUnpublishVolume", volume.as_str(), node.as_str())
        } else {
            let changed = event.get::<AttachmentChanged>()?;
            let (volume, node) = (changed.volume.as_str(), changed.instance.as_str());
            match changed.state {
                AttachmentPhase::Detaching => ("the cloud began to detach", "DetachVolume", volume, node),
                AttachmentPhase::Attaching => {
                    self.counted.remove(&(volume.to_owned(), facts.name(node).to_owned()));
                    return None;
                }
                _ => return None,
            }
        };
        let node = facts.name(node);
        let key = (volume.to_owned(), node.to_owned());
        if facts.held_since_attached.contains(&key) && self.counted.insert(key) {
            checked.add(Id::I2, 1);
        }
        let hold = facts.hold(volume, node)?;
        let state = hold.state().filter(|_| !hold.forced)?;
        if !self.reported.insert((volume.to_owned(), node.to_owned(), hold.generation)) {
            return None;
        }
        let message = format!(
            "{what} for {volume} on {node} while it is {state} there, and no legitimate forced detach is on record"
        );
        Some(Found {
            message,
            operation: operation.to_owned(),
            volume: Some(volume.to_owned()),
            node: Some(node.to_owned()),
            details: [
                ("published", hold.published.len().into()),
                ("kubeletRestartedSinceUnpublish", hold.forgotten.into()),
                ("wronglyForced", serde_json::to_value(hold.wrongly_forced).unwrap_or_default()),
            ]
            .into(),
        })
    }
}
