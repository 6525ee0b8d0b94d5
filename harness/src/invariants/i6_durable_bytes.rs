//! I6: bytes synced before a clean unmount are readable afterwards. An occasion is a start of a writer on a volume that
//! was cleanly unmounted with synced records.
//!
//! The modelled workload writes numbered records with checksums, and syncs each. At its start it reports the number of
//! intact records that it found, or that the bytes are corrupt. After a clean unmount, all records that were synced
//! until then must be found.
//!
//! A volume of a shared file system may have writers on several nodes. Its writers always find at least the records that
//! were synced, on any node, when the volume was published on their node.
//!
//! A volume that is created from a snapshot has the records that were synced when the snapshot was requested, and at
//! most one more, which was being written at that moment. The first start of a writer there is an occasion.

use std::collections::{BTreeMap, BTreeSet};

use controllers::machine::events::{WorkloadCorrupt, WorkloadStarted, WorkloadStopped, WorkloadSynced};
use csi_disk::events::DiskCrashed;
use csi_mock::efs::is_handle;
use csi_mock::events::{DiskPublished, DiskStaged, DiskUnpublished};
use mock_ec2::events::{SnapshotChanged, SnapshotPhase, VolumeChanged, VolumePhase};
use substrate::Event;
use substrate::events::ProcessCrashed;

use super::{Checked, Found, Id};

/// The records of one volume.
#[derive(Debug, Default)]
struct Bytes {
    /// Number of records that were found at the last start or synced since.
    synced: u64,
    /// Number of records that were synced when the volume was last cleanly unmounted.
    promised: u64,
    /// Pods that are writing, with their nodes.
    writers: BTreeSet<(String, String)>,
    /// True if writers share a raw device: two records of one number are one.
    raw: bool,
    /// True if there may be uncounted records.
    uncounted: bool,
    /// For each node of a shared file system, the number of records that were synced when it was last published there.
    published: BTreeMap<String, u64>,
    /// The source snapshot, until a writer has read the volume, and the number of records that were synced then.
    copied: Option<(String, u64)>,
}

/// The records of every volume.
#[derive(Debug, Default)]
pub(super) struct DurableBytes {
    volumes: BTreeMap<String, Bytes>,
    /// Number of records that were synced when a snapshot was requested, if known.
    snapshots: BTreeMap<String, u64>,
}

impl DurableBytes {
    pub fn check(&mut self, checked: &mut Checked, event: &Event) -> Option<Found> {
        if let Some(WorkloadSynced { volume, record, .. }) = event.get() {
            let bytes = self.of(volume);
            let is_one_history = bytes.raw || is_handle(volume);
            bytes.synced = if is_one_history { bytes.synced.max(*record) } else { bytes.synced + 1 };
        } else if let Some(DiskStaged { volume, raw, .. }) = event.get() {
            self.of(volume).raw = *raw;
        } else if let Some(started) = event.get::<WorkloadStarted>() {
            return self.on_started(checked, started);
        } else if let Some(WorkloadStopped { volume, pod, node }) = event.get() {
            self.of(volume).writers.remove(&(pod.to_string(), node.to_string()));
        } else if let Some(WorkloadCorrupt { volume, pod, node, error }) = event.get() {
            let bytes = self.of(volume);
            let promised = if is_handle(volume) { bytes.synced } else { bytes.promised };
            let message = format!(
                "{pod} cannot read the records on {volume}: {error}; {promised} were synced before the last clean unmount"
            );
            return (promised > 0).then(|| found(message, volume, node));
        } else if let Some(DiskUnpublished { volume, .. }) = event.get() {
            // A crash removes mounts without this event, so the promised records do not change.
            let bytes = self.of(volume);
            bytes.promised = bytes.promised.max(bytes.synced);
        } else if let Some(DiskPublished { volume, node, .. }) = event.get() {
            if is_handle(volume) {
                let bytes = self.of(volume);
                bytes.published.insert(node.to_string(), bytes.synced);
            }
        } else if let Some(VolumeChanged { volume, state: VolumePhase::Deleted, .. }) = event.get() {
            // Ids are never used again, and a deleted volume has no promised records.
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
            // The process of a machine has the node's name; its writers end with it, without an event.
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
        if is_handle(volume) {
            let promised = bytes.published.get(&**node).copied().unwrap_or_default();
            bytes.synced = bytes.synced.max(*found_now);
            checked.add(Id::I6, u64::from(promised > 0));
            let message = format!(
                "{pod} found {found_now} records on {volume}, and {promised} were synced before it was published on {node}"
            );
            return (*verified && *found_now < promised).then(|| found(message, volume, node));
        }
        let alone = bytes.writers.is_empty();
        bytes.writers.insert((pod.to_string(), node.to_string()));
        // While another pod writes, the count changes. `workload.corrupt` reports damaged records.
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

#[cfg(test)]
mod tests {
    use substrate::{Clock, Level, Trace};

    use super::*;

    const VOLUME: &str = "vol-1";

    /// Returns the findings after two pods have written record 1 on a volume, and a third finds this many.
    fn found_after_two_writers(raw: bool, finds: u64) -> usize {
        let trace = Trace::new(Clock::live(), Level::Info);
        let staged = DiskStaged {
            volume: VOLUME.into(),
            node: "node-a".into(),
            path: "/staging".into(),
            readonly: false,
            formatted: false,
            raw,
            fs_type: "".into(),
            format: Vec::new(),
            options: Vec::new(),
            size_bytes: None,
        };
        trace.info(&"node-a/csi-node".into(), staged);
        let starts = |pod: &str, records_found: u64| {
            let (pod, node, volume) = (pod.into(), "node-a".into(), VOLUME.into());
            trace.info(&"node-a".into(), WorkloadStarted { pod, node, volume, records_found, verified: true });
        };
        for pod in ["default/one", "default/two"] {
            starts(pod, 0);
            let synced = WorkloadSynced { pod: pod.into(), node: "node-a".into(), volume: VOLUME.into(), record: 1 };
            trace.info(&"node-a".into(), synced);
        }
        for pod in ["default/one", "default/two"] {
            let stopped = WorkloadStopped { pod: pod.into(), node: "node-a".into(), volume: VOLUME.into() };
            trace.info(&"node-a".into(), stopped);
        }
        let unpublished = DiskUnpublished { volume: VOLUME.into(), node: "node-a".into(), path: "/target".into() };
        trace.info(&"node-a/csi-node".into(), unpublished);
        starts("default/three", finds);
        let (mut rule, mut checked) = (DurableBytes::default(), Checked::default());
        trace.events().iter().filter_map(|event| rule.check(&mut checked, event)).count()
    }

    #[test]
    fn two_writers_share_the_records_of_a_raw_device_and_append_to_a_file() {
        assert_eq!(found_after_two_writers(true, 1), 0);
        assert_eq!(found_after_two_writers(true, 0), 1);
        assert_eq!(found_after_two_writers(false, 2), 0);
        assert_eq!(found_after_two_writers(false, 1), 1);
    }

    const SHARED: &str = "fs-0123456789abcdef0::fsap-0123456789abcdef0";

    /// Returns the messages of I6 about a history of a shared file system, and the number of occasions.
    fn found(report_all: impl FnOnce(&dyn Fn(&str, Report))) -> (Vec<String>, u64) {
        let trace = Trace::new(Clock::live(), Level::Info);
        report_all(&|node, report| {
            let (volume, pod) = (SHARED.into(), "default/web".into());
            let process = std::sync::Arc::from(node);
            match report {
                Report::Published => {
                    let (volume, node, path) = (SHARED.into(), node.into(), "/t".into());
                    trace.info(&process, DiskPublished { volume, node, path, readonly: false, options: None });
                }
                Report::Synced(record) => {
                    trace.info(&process, WorkloadSynced { node: node.into(), pod, record, volume });
                }
                Report::Started(records_found) => {
                    let started = WorkloadStarted { node: node.into(), pod, records_found, verified: true, volume };
                    trace.info(&process, started);
                }
                Report::Corrupt => {
                    let error = "gone".to_owned();
                    trace.info(&process, WorkloadCorrupt { error, node: node.into(), pod, volume });
                }
            }
        });
        let (mut bytes, mut checked) = (DurableBytes::default(), Checked::default());
        let events = trace.events();
        let all = events.iter().filter_map(|event| bytes.check(&mut checked, event));
        (all.map(|found| found.message.replace(SHARED, "V")).collect(), checked.get(Id::I6))
    }

    #[derive(Clone, Copy)]
    enum Report {
        Published,
        Synced(u64),
        Started(u64),
        Corrupt,
    }
    use Report::*;

    #[test]
    fn two_writers_of_a_shared_file_system_are_no_loss() {
        let (messages, occasions) = found(|say| {
            say("node-a", Published);
            say("node-a", Started(0));
            say("node-a", Synced(1));
            say("node-b", Published);
            // Record 2 is written between the publish and the reading.
            say("node-a", Synced(2));
            say("node-b", Started(1));
            say("node-b", Synced(3));
            say("node-a", Synced(4));
            say("node-a", Published);
            say("node-a", Started(4));
        });
        assert_eq!((messages, occasions), (Vec::new(), 2));
    }

    #[test]
    fn records_that_were_synced_on_another_node_must_be_found() {
        let (messages, _) = found(|say| {
            say("node-a", Published);
            say("node-a", Started(0));
            say("node-a", Synced(1));
            say("node-a", Synced(2));
            say("node-b", Published);
            say("node-b", Started(1));
            say("node-b", Corrupt);
        });
        assert_eq!(
            messages,
            [
                "default/web found 1 records on V, and 2 were synced before it was published on node-b",
                "default/web cannot read the records on V: gone; 2 were synced before the last clean unmount",
            ]
        );
    }
}
