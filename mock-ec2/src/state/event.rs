//! What happened in the cloud, for the trace and for device streams.

use serde_json::{Value, json};

use super::State;
use super::ids::{InstanceId, VolumeId};

/// One transition.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A volume entered a state.
    Volume {
        /// The volume.
        volume: VolumeId,
        /// `creating`, `available`, `in-use`, `deleting` or `deleted`.
        state: &'static str,
        /// Its zone.
        zone: String,
        /// Its size in GiB.
        size_gib: u64,
    },
    /// An attachment entered a state. Root volumes have no such events: their device is the instance's own.
    Attachment {
        /// The volume.
        volume: VolumeId,
        /// The instance.
        instance: InstanceId,
        /// The device name.
        device: String,
        /// `attaching`, `attached`, `detaching` or `detached`.
        state: &'static str,
        /// Whether the detach is forced.
        forced: bool,
        /// Size of the volume in GiB.
        size_gib: u64,
    },
    /// An instance entered a state.
    Instance {
        /// The instance.
        instance: InstanceId,
        /// `pending`, `running` or `impaired`.
        state: &'static str,
    },
}

impl Event {
    /// The event's kind in the trace.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Volume { .. } => "ec2.volume",
            Self::Attachment { .. } => "ec2.attachment",
            Self::Instance { .. } => "ec2.instance",
        }
    }

    /// The event's fields in the trace.
    pub fn fields(&self) -> Value {
        match self {
            Self::Volume { volume, state, zone, size_gib } => {
                json!({ "volume": volume, "state": state, "zone": zone, "size_gib": size_gib })
            }
            Self::Attachment { volume, instance, device, state, forced, .. } => {
                json!({ "volume": volume, "instance": instance, "device": device, "state": state, "forced": forced })
            }
            Self::Instance { instance, state } => json!({ "instance": instance, "state": state }),
        }
    }
}

impl State {
    /// Records that `volume` is now in its state.
    pub(super) fn note_volume(&mut self, volume: &VolumeId) {
        if let Some(v) = self.volumes.get(volume) {
            let (volume, zone) = (v.id.clone(), v.zone.clone());
            self.events.push(Event::Volume { volume, state: v.state.as_str(), zone, size_gib: v.size_gib });
        }
    }

    /// Records that the attachment of `volume` to `instance` is now in its state.
    pub(super) fn note_attachment(&mut self, volume: &VolumeId, instance: &InstanceId) {
        let Some(v) = self.volumes.get(volume).filter(|v| !v.root) else { return };
        if let Some(a) = v.attachments.get(instance) {
            self.events.push(Event::Attachment {
                volume: volume.clone(),
                instance: instance.clone(),
                device: a.device.clone(),
                state: a.state.as_str(),
                forced: a.forced,
                size_gib: v.size_gib,
            });
        }
    }

    /// Records the end of everything, as a reset makes it: all devices go, all volumes are deleted.
    pub fn note_end(&mut self) {
        let volumes: Vec<_> = self.volumes.values().filter(|v| !v.root).cloned().collect();
        for v in volumes {
            for (instance, a) in &v.attachments {
                self.events.push(Event::Attachment {
                    volume: v.id.clone(),
                    instance: instance.clone(),
                    device: a.device.clone(),
                    state: "detached",
                    forced: true,
                    size_gib: v.size_gib,
                });
            }
            let (volume, zone) = (v.id.clone(), v.zone.clone());
            self.events.push(Event::Volume { volume, state: "deleted", zone, size_gib: v.size_gib });
        }
    }
}
