//! I6: bytes synced before a clean unmount are readable afterwards. An occasion is a start of a writer on a volume that
//! was cleanly unmounted with synced records.
//!
//! The modelled workload writes numbered, checksummed records, syncs each, and says at its start how many it found
//! intact, or that what it found is corrupt. A clean unmount turns what was synced until then into what must be found.
//!
//! A volume that is made from a snapshot has the records that were synced when the snapshot was asked for, and at most
//! one that was being written then. The first start of a writer there is an occasion.

use std::collections::{BTreeMap, BTreeSet};

use controllers::machine::events::{WorkloadCorrupt, WorkloadStarted, WorkloadStopped, WorkloadSynced};
use csi_mock::events::{DiskCrashed, DiskUnpublished};
use mock_ec2::events::{SnapshotChanged, SnapshotPhase, VolumeChanged, VolumePhase};
use substrate::Event;
use substrate::events::ProcessCrashed;

use super::{Checked, Found, Id};

/// The records of one volume.
#[derive(Debug, Default)]
struct Bytes {
    /// Records found at the last start, and synced since.
    synced: u64,
    /// Records that were synced when the volume was last cleanly unmounted.
    promised: u64,
    /// Pods that write now, with their nodes.
    writers: BTreeSet<(String, String)>,
    /// Some records may be there that nobody has counted.
    uncounted: bool,
    /// The snapshot that it was made from, until a writer has looked, and the records that were synced then.
    copied: Option<(String, u64)>,
}

/// The records of every volume.
#[derive(Debug, Default)]
pub(super) struct DurableBytes {
    volumes: BTreeMap<String, Bytes>,
    /// How many records were synced when a snapshot was asked for, where that is known.
    snapshots: BTreeMap<String, u64>,
}

impl DurableBytes {
    pub fn check(&mut self, checked: &mut Checked, event: &Event) -> Option<Found> {
        if let Some(WorkloadSynced { volume, .. }) = event.get() {
            self.of(volume).synced += 1;
        } else if let Some(started) = event.get::<WorkloadStarted>() {
            return self.on_started(checked, started);
        } else if let Some(WorkloadStopped { volume, pod, node }) = event.get() {
            self.of(volume).writers.remove(&(pod.to_string(), node.to_string()));
        } else if let Some(WorkloadCorrupt { volume, pod, node, error }) = event.get() {
            let promised = self.of(volume).promised;
            let message = format!(
                "{pod} cannot read the records on {volume}: {error}; {promised} were synced before the last clean unmount"
            );
            return (promised > 0).then(|| found(message, volume, node));
        } else if let Some(DiskUnpublished { volume, .. }) = event.get() {
            // A crash takes mounts away without this event, so what was promised stays as it was.
            let bytes = self.of(volume);
            bytes.promised = bytes.promised.max(bytes.synced);
        } else if let Some(VolumeChanged { volume, state: VolumePhase::Deleted, .. }) = event.get() {
            // Ids are never used again, but a deleted volume owes nothing.
            self.volumes.remove(volume.as_str());
        } else if let Some(VolumeChanged { volume, state: VolumePhase::Creating, snapshot: Some(of), .. }) = event.get()
        {
            let copied = self.snapshots.get(of.as_str()).map(|synced| (of.to_string(), *synced));
            self.of(volume.as_str()).copied = copied;
        } else if let Some(SnapshotChanged { snapshot, volume, state: SnapshotPhase::Pending, .. }) = event.get() {
            if let Some(bytes) = self.volumes.get(volume.as_str()).filter(|bytes| !bytes.uncounted) {
                self.snapshots.insert(snapshot.to_string(), bytes.synced);
            }
        } else if let Some(DiskCrashed { node }) = event.get() {
            self.crashed(node);
        } else if event.is::<ProcessCrashed>() {
            // The process of a machine has the node's name; its writers end with it, unheard.
            self.crashed(&event.process);
        }
        None
    }

    fn of(&mut self, volume: &str) -> &mut Bytes {
        self.volumes.entry(volume.to_owned()).or_default()
    }

    fn crashed(&mut self, node: &str) {
        for bytes in self.volumes.values_mut() {
            bytes.writers.retain(|(_, on)| on != node);
        }
    }

    fn on_started(&mut self, checked: &mut Checked, started: &WorkloadStarted) -> Option<Found> {
        let WorkloadStarted { pod, node, volume, records_found: found_now, verified } = started;
        let bytes = self.of(volume);
        let alone = bytes.writers.is_empty();
        bytes.writers.insert((pod.to_string(), node.to_string()));
        // Beside another pod that writes at this moment, the count is moving. What is damaged `workload.corrupt` tells.
        if !alone || !verified {
            bytes.uncounted = true;
            return None;
        }
        let promised = bytes.promised;
        bytes.synced = *found_now;
        bytes.uncounted = false;
        if let Some((snapshot, synced)) = bytes.copied.take() {
            checked.add(Id::I6, 1);
            let message = format!(
                "{pod} found {found_now} records on {volume}, and {synced} were synced when {snapshot} was asked for, \
                 which it is made from"
            );
            return (*found_now < synced || *found_now > synced + 1).then(|| found(message, volume, node));
        }
        if promised > 0 {
            checked.add(Id::I6, 1);
        }
        let message = || {
            format!(
                "{pod} found {found_now} records on {volume}, and {promised} were synced before the last clean unmount"
            )
        };
        (*found_now < promised).then(|| found(message(), volume, node))
    }
}

fn found(message: String, volume: &str, node: &str) -> Found {
    let operation = "read".to_owned();
    Found { message, operation, volume: Some(volume.to_owned()), node: Some(node.to_owned()), ..Found::default() }
}
