//! Planted defects of the machine: rules that are wrong when a run asks for it (see [`crate::mutants`]).

use std::collections::BTreeMap;
use std::sync::Arc;

use super::State;
use super::ids::{InstanceId, VolumeId};
use super::volume::{Attachment, Volume};

/// Which rules are wrong; none of them without the feature `mutants`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Planted {
    /// A mounted device goes without force.
    pub busy_ignored: bool,
    /// A volume is attached to whoever asks.
    pub attach_twice: bool,
    /// A volume is deleted where it is attached.
    pub delete_while_attached: bool,
    /// A snapshot takes its bytes when it is completed.
    pub snapshot_late: bool,
    /// Client tokens of CreateVolume are new each time.
    pub client_token_ignored: bool,
    /// An attachment is hidden at its end instead of removed.
    pub attachment_lingers: bool,
}

/// Attachments that no caller of the API sees, and whose devices are there.
pub(super) type Lingering = BTreeMap<(VolumeId, InstanceId), Attachment>;

impl State {
    /// Says which rules are wrong.
    pub fn plant(&mut self, planted: Planted) {
        self.planted = planted;
    }

    /// Which rules are wrong.
    pub fn planted(&self) -> Planted {
        self.planted
    }

    /// A volume with all its attachments.
    pub fn with_lingering(&self, volume: &Arc<Volume>) -> Arc<Volume> {
        if self.lingering.is_empty() {
            return volume.clone();
        }
        let mut whole = Volume::clone(volume);
        let hidden = self.lingering.iter().filter(|((id, _), _)| *id == volume.id);
        whole.attachments.extend(hidden.map(|((_, instance), attachment)| (instance.clone(), attachment.clone())));
        Arc::new(whole)
    }
}
