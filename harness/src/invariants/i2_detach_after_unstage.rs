//! I2: no detach while the volume is staged there, unless forced or out-of-service, which is recorded.

use std::collections::BTreeSet;

use substrate::Event;

use super::facts::Facts;

/// The stagings that were reported, so that retries of one mistake are one violation.
#[derive(Debug, Default)]
pub(super) struct DetachAfterUnstage {
    reported: BTreeSet<(String, String, u64)>,
}

impl DetachAfterUnstage {
    pub fn check(&mut self, facts: &Facts, event: &Event) -> Option<String> {
        let (what, node) = match event.kind.as_str() {
            "csi.call" if event.str("rpc") == Some("ControllerUnpublishVolume") => {
                ("ControllerUnpublishVolume was called", event.str("node")?)
            }
            "ec2.attachment" if event.str("state") == Some("detaching") => {
                ("the cloud began to detach", event.str("instance")?)
            }
            _ => return None,
        };
        let (volume, node) = (event.str("volume")?, facts.name(node));
        let hold = facts.hold(volume, node)?;
        if hold.staged.is_none() || hold.forced {
            return None;
        }
        if !self.reported.insert((volume.to_owned(), node.to_owned(), hold.generation)) {
            return None;
        }
        Some(format!("{what} for {volume} on {node} while it is staged there, and no forced detach is on record"))
    }
}
