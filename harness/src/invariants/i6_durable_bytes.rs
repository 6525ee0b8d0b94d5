//! I6: bytes synced before a clean unmount are readable afterwards.
//!
//! The modelled workload writes numbered, checksummed records, syncs each, and says at its start how many it found
//! and whether their checksums were right. A clean unmount turns what was synced until then into what must be found.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use substrate::Event;

/// The records of one volume.
#[derive(Debug, Default)]
struct Bytes {
    /// Records found at the last start, and synced since.
    synced: u64,
    /// Records that were synced when the volume was last cleanly unmounted.
    promised: u64,
    /// Pods that write now.
    writers: BTreeSet<String>,
}

/// The records of every volume.
#[derive(Debug, Default)]
pub(super) struct DurableBytes {
    volumes: BTreeMap<String, Bytes>,
}

impl DurableBytes {
    pub fn check(&mut self, event: &Event) -> Option<String> {
        let kind = event.kind.as_str();
        if !matches!(
            kind,
            "workload.started" | "workload.synced" | "workload.stopped" | "disk.unpublished" | "ec2.volume"
        ) {
            return None;
        }
        let volume = event.str("volume")?;
        let pod = event.str("pod").unwrap_or_default();
        if kind == "ec2.volume" {
            // Ids are never used again, but a deleted volume owes nothing.
            if event.str("state") == Some("deleted") {
                self.volumes.remove(volume);
            }
            return None;
        }
        let bytes = self.volumes.entry(volume.to_owned()).or_default();
        match kind {
            "workload.started" => bytes.start(event, volume, pod),
            "workload.synced" => {
                bytes.synced += 1;
                None
            }
            "workload.stopped" => {
                bytes.writers.remove(pod);
                None
            }
            // A crash takes mounts away without this event, so what was promised stays as it was.
            _ => {
                bytes.promised = bytes.promised.max(bytes.synced);
                None
            }
        }
    }
}

impl Bytes {
    fn start(&mut self, event: &Event, volume: &str, pod: &str) -> Option<String> {
        let found = event.fields.get("records_found").and_then(Value::as_u64).unwrap_or(0);
        let verified = event.fields.get("verified") == Some(&Value::Bool(true));
        let alone = self.writers.is_empty();
        self.writers.insert(pod.to_owned());
        if !alone {
            // Another pod of the same node writes at this moment: the count is moving.
            return None;
        }
        let promised = self.promised;
        self.synced = found;
        if found < promised {
            return Some(format!(
                "{pod} found {found} records on {volume}, and {promised} were synced before the last clean unmount"
            ));
        }
        if !verified && promised > 0 {
            return Some(format!(
                "{pod} found records on {volume} whose checksums are wrong, and {promised} were synced before the last clean unmount"
            ));
        }
        None
    }
}
