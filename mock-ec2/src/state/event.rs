//! Transitions in the cloud, for the trace and for device streams.

use substrate::Ctx;
use substrate::trace::Content;

use super::ids::InstanceId;
use super::volume::{Attachment, Volume};
use crate::events::{
    AttachmentChanged, AttachmentPhase, InstanceChanged, ModificationChanged, SnapshotChanged, VolumeChanged,
    VolumePhase,
};

/// One transition.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A volume entered a state.
    Volume(VolumeChanged),
    /// An attachment entered a state. With the size of its volume in GiB.
    Attachment(AttachmentChanged, u64),
    /// An instance entered a state.
    Instance(InstanceChanged),
    /// A modification entered a state.
    Modification(ModificationChanged),
    /// A snapshot entered a state.
    Snapshot(SnapshotChanged),
}

impl Event {
    /// Returns the event's content.
    pub fn content(&self) -> &dyn Content {
        match self {
            Self::Volume(event) => event,
            Self::Attachment(event, _) => event,
            Self::Instance(event) => event,
            Self::Modification(event) => event,
            Self::Snapshot(event) => event,
        }
    }

    /// Emits the event to the trace.
    pub(crate) fn emit(&self, ctx: &Ctx) {
        match self {
            Self::Volume(event) => ctx.emit(event.clone()),
            Self::Attachment(event, _) => ctx.emit(event.clone()),
            Self::Instance(event) => ctx.emit(event.clone()),
            Self::Modification(event) => ctx.emit(event.clone()),
            Self::Snapshot(event) => ctx.emit(event.clone()),
        }
    }

    pub(super) fn of_volume(volume: &Volume, state: VolumePhase) -> Self {
        Self::Volume(VolumeChanged {
            multi_attach: volume.multi_attach_enabled,
            snapshot: volume.snapshot.clone(),
            volume_type: volume.volume_type.as_str().into(),
            iops: volume.iops,
            throughput: volume.throughput,
            encrypted: volume.encrypted,
            ..VolumeChanged::new(volume.id.clone(), state, volume.zone.as_str(), volume.size_gib)
        })
    }

    pub(super) fn of_attachment(volume: &Volume, instance: &InstanceId, attachment: &Attachment) -> Self {
        let event = AttachmentChanged {
            volume: volume.id.clone(),
            instance: instance.clone(),
            device: attachment.device.as_str().into(),
            state: attachment.state.into(),
            forced: attachment.forced,
        };
        Self::Attachment(event, volume.size_gib)
    }

    /// Returns the event for the end of `attachment` of `volume` to `instance`.
    pub(super) fn detached(volume: &Volume, instance: &InstanceId, attachment: &Attachment, forced: bool) -> Self {
        let event = AttachmentChanged {
            volume: volume.id.clone(),
            instance: instance.clone(),
            device: attachment.device.as_str().into(),
            state: AttachmentPhase::Detached,
            forced,
        };
        Self::Attachment(event, volume.size_gib)
    }
}
