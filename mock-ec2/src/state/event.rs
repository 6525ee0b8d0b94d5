//! What happened in the cloud, for the trace and for device streams.

use serde_json::{Value, json};

use super::State;
use super::ids::{InstanceId, SnapshotId, VolumeId};

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
        /// `attaching`, `attached`, `detaching`, `busy` or `detached`.
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
        /// `pending`, `running`, `impaired`, `rebooted`, `stopping`, `stopped`, `shutting-down`, `terminated`.
        state: &'static str,
    },
    /// A modification entered a state.
    Modification {
        /// The volume.
        volume: VolumeId,
        /// `modifying`, `optimizing`, `completed` or `failed`.
        state: &'static str,
        /// The volume's size in GiB now.
        size_gib: u64,
    },
    /// A snapshot entered a state.
    Snapshot {
        /// The snapshot.
        snapshot: SnapshotId,
        /// The volume that it is of.
        volume: VolumeId,
        /// `pending`, `completed`, `error` or `deleted`.
        state: &'static str,
        /// Its size in GiB.
        size_gib: u64,
    },
}

impl Event {
    /// The event's kind in the trace.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Volume { .. } => "ec2.volume",
            Self::Attachment { .. } => "ec2.attachment",
            Self::Instance { .. } => "ec2.instance",
            Self::Modification { .. } => "ec2.modification",
            Self::Snapshot { .. } => "ec2.snapshot",
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
            Self::Modification { volume, state, size_gib } => {
                json!({ "volume": volume, "state": state, "size_gib": size_gib })
            }
            Self::Snapshot { snapshot, volume, state, size_gib } => {
                json!({ "snapshot": snapshot, "volume": volume, "state": state, "size_gib": size_gib })
            }
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

    /// Records that the modification of `volume` is now in its state.
    pub(super) fn note_modification(&mut self, volume: &VolumeId) {
        if let Some((v, m)) = self.volumes.get(volume).and_then(|v| Some((v, v.modification.as_ref()?))) {
            let (volume, state) = (v.id.clone(), m.state.as_str());
            self.events.push(Event::Modification { volume, state, size_gib: v.size_gib });
        }
    }

    /// Records that `snapshot` is now in its state.
    pub(super) fn note_snapshot(&mut self, snapshot: &SnapshotId) {
        if let Some(s) = self.snapshots.get(snapshot) {
            let (snapshot, volume) = (s.id.clone(), s.volume.clone());
            self.events.push(Event::Snapshot { snapshot, volume, state: s.state.as_str(), size_gib: s.size_gib });
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
        let snapshots: Vec<_> = self.snapshots.values().cloned().collect();
        for s in snapshots {
            let (snapshot, volume) = (s.id.clone(), s.volume.clone());
            self.events.push(Event::Snapshot { snapshot, volume, state: "deleted", size_gib: s.size_gib });
        }
    }
}
