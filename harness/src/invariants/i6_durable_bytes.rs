//! I6: bytes synced before a clean unmount are readable afterwards.
//!
//! The modelled workload writes numbered, checksummed records, syncs each, and says at its start how many it found
//! intact, or that what it found is corrupt. A clean unmount turns what was synced until then into what must be found.

use std::collections::{BTreeMap, BTreeSet};

use substrate::Event;
use substrate::json::Value;

/// The records of one volume.
#[derive(Debug, Default)]
struct Bytes {
    /// Records found at the last start, and synced since.
    synced: u64,
    /// Records that were synced when the volume was last cleanly unmounted.
    promised: u64,
    /// Pods that write now, with their nodes.
    writers: BTreeSet<(String, String)>,
}

/// The records of every volume.
#[derive(Debug, Default)]
pub(super) struct DurableBytes {
    volumes: BTreeMap<String, Bytes>,
}

impl DurableBytes {
    pub fn check(&mut self, event: &Event) -> Option<String> {
        match event.kind.as_str() {
            "workload.started" | "workload.synced" | "workload.corrupt" | "workload.stopped" | "disk.unpublished" => {
                let volume = event.str("volume")?;
                self.volumes.entry(volume.to_owned()).or_default().check(event, volume)
            }
            // Ids are never used again, but a deleted volume owes nothing.
            "ec2.volume" if event.str("state") == Some("deleted") => {
                self.volumes.remove(event.str("volume")?);
                None
            }
            "disk.crashed" => self.crashed(event.str("node")?),
            // The process of a node has the node's name; its writers end with it, unheard.
            "process.crashed" => self.crashed(&event.process),
            _ => None,
        }
    }

    fn crashed(&mut self, node: &str) -> Option<String> {
        for bytes in self.volumes.values_mut() {
            bytes.writers.retain(|(_, on)| on != node);
        }
        None
    }
}

impl Bytes {
    fn check(&mut self, event: &Event, volume: &str) -> Option<String> {
        let pod = event.str("pod").unwrap_or_default();
        let writer = || (pod.to_owned(), event.str("node").unwrap_or_default().to_owned());
        match event.kind.as_str() {
            "workload.started" => return self.start(event, volume, writer()),
            "workload.synced" => self.synced += 1,
            "workload.stopped" => {
                self.writers.remove(&writer());
            }
            "workload.corrupt" if self.promised > 0 => {
                let why = event.str("error").unwrap_or("they are corrupt");
                return Some(format!(
                    "{pod} cannot read the records on {volume}: {why}; {} were synced before the last clean unmount",
                    self.promised
                ));
            }
            // A crash takes mounts away without this event, so what was promised stays as it was.
            "disk.unpublished" => self.promised = self.promised.max(self.synced),
            _ => {}
        }
        None
    }

    fn start(&mut self, event: &Event, volume: &str, writer: (String, String)) -> Option<String> {
        let alone = self.writers.is_empty();
        let pod = writer.0.clone();
        self.writers.insert(writer);
        // Beside another pod that writes at this moment, the count is moving. What could not be verified is told
        // apart by what follows: `workload.corrupt`, or a failed read that the workload tries again.
        if !alone || event.fields.get("verified") != Some(&Value::Bool(true)) {
            return None;
        }
        let found = event.fields.get("records_found").and_then(Value::as_u64).unwrap_or(0);
        let promised = self.promised;
        self.synced = found;
        (found < promised).then(|| {
            format!("{pod} found {found} records on {volume}, and {promised} were synced before the last clean unmount")
        })
    }
}
