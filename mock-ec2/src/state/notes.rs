//! Records transitions of the machine.

use super::State;
use super::event::Event;
use super::ids::{InstanceId, SnapshotId, VolumeId};
use super::snapshot::Snapshot;
use super::volume::Volume;
use crate::events::{InstanceChanged, InstancePhase, ModificationChanged, SnapshotChanged, SnapshotPhase, VolumePhase};

impl State {
    /// Records the current state of `volume`.
    pub(super) fn note_volume(&mut self, volume: &VolumeId) {
        if let Some(v) = self.volumes.get(volume) {
            self.events.push(Event::of_volume(v, v.state.into()));
        }
    }

    /// Records the deletion of `volume`, which is already removed.
    pub(super) fn note_deleted(&mut self, volume: &Volume) {
        self.events.push(Event::of_volume(volume, VolumePhase::Deleted));
    }

    /// Records the current state of the attachment of `volume` to `instance`.
    pub(super) fn note_attachment(&mut self, volume: &VolumeId, instance: &InstanceId) {
        let Some(v) = self.volumes.get(volume).filter(|v| !v.root) else { return };
        if let Some(a) = v.attachments.get(instance) {
            self.events.push(Event::of_attachment(v, instance, a));
        }
    }

    /// Records a state or an incident of `instance`.
    pub(super) fn note_instance(&mut self, instance: &InstanceId, state: impl Into<InstancePhase>) {
        self.events.push(Event::Instance(InstanceChanged { instance: instance.clone(), state: state.into() }));
    }

    /// Records the current state of the modification of `volume`.
    pub(super) fn note_modification(&mut self, volume: &VolumeId) {
        if let Some((v, m)) = self.volumes.get(volume).and_then(|v| Some((v, v.modification.as_ref()?))) {
            let event = ModificationChanged {
                volume: v.id.clone(),
                state: m.state,
                size_gib: v.size_gib,
                volume_type: v.volume_type.as_str().into(),
                iops: v.iops,
                throughput: v.throughput,
            };
            self.events.push(Event::Modification(event));
        }
    }

    /// Records the current state of `snapshot`.
    pub(super) fn note_snapshot(&mut self, snapshot: &SnapshotId) {
        if let Some(s) = self.snapshots.get(snapshot) {
            let event = snapshot_event(s, s.state.into());
            self.events.push(event);
        }
    }

    /// Records the deletion of `snapshot`, which is already removed.
    pub(super) fn note_snapshot_deleted(&mut self, snapshot: &Snapshot) {
        self.events.push(snapshot_event(snapshot, SnapshotPhase::Deleted));
    }

    /// Records the end of all objects, for a reset: all devices go, all volumes are deleted.
    pub fn note_end(&mut self) {
        let volumes: Vec<_> = self.volumes.values().filter(|v| !v.root).cloned().collect();
        for v in volumes {
            for (instance, a) in &v.attachments {
                self.events.push(Event::detached(&v, instance, a, true));
            }
            self.note_deleted(&v);
        }
        let snapshots: Vec<_> = self.snapshots.values().cloned().collect();
        for s in snapshots {
            self.note_snapshot_deleted(&s);
        }
    }
}

fn snapshot_event(snapshot: &Snapshot, state: SnapshotPhase) -> Event {
    Event::Snapshot(SnapshotChanged {
        snapshot: snapshot.id.clone(),
        volume: snapshot.volume.clone(),
        state,
        size_gib: snapshot.size_gib,
    })
}
