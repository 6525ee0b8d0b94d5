//! A cluster in virtual time: memory disks and the fabric.

use std::collections::BTreeMap;
use std::sync::Arc;

use csi_disk::{Disk, MemoryDisks};
use mock_ec2::VolumeBytes;
use substrate::World;

use super::assemble::{ClusterError, Parts};
use super::write_recorder::{RecordingFabric, WriteRecorder};
use super::{Cluster, ClusterSpec};
use crate::wiring::{Fabric, Wiring};

/// Connects the cloud's volumes and snapshots to the bytes of the memory disks.
#[derive(Debug)]
struct Bytes(MemoryDisks);

impl VolumeBytes for Bytes {
    fn snapshot(&self, source: &str, snapshot: &str) {
        self.0.copy(source, snapshot, 0);
    }

    fn restore(&self, source: &str, volume: &str, size_bytes: u64) {
        self.0.copy(source, volume, size_bytes);
    }

    fn grow(&self, volume: &str, size_bytes: u64) {
        self.0.grow(volume, size_bytes);
    }

    fn remove(&self, id: &str) {
        self.0.forget(id);
    }

    fn is_held(&self, volume: &str) -> bool {
        self.0.is_held(volume)
    }
}

impl Cluster {
    /// Starts a cluster in a simulated world.
    ///
    /// # Errors
    /// If the cloud rejects its configuration.
    pub fn simulate(world: &World, spec: ClusterSpec) -> Result<Self, ClusterError> {
        let memory = MemoryDisks::new();
        let disks =
            spec.nodes.iter().map(|n| -> (String, Arc<dyn Disk>) { (n.name.clone(), memory.node(&n.name)) }).collect();
        let bytes: Arc<dyn VolumeBytes> = Arc::new(Bytes(memory));
        let recorder = spec.records_writes.then(WriteRecorder::default);
        let wiring: Arc<dyn Wiring> = match &recorder {
            Some(recorder) => Arc::new(RecordingFabric(recorder.clone())),
            None => Arc::new(Fabric),
        };
        let parts = Parts {
            front: None,
            wiring,
            disks,
            volume_dir: None,
            bytes: Some(bytes),
            roots: BTreeMap::new(),
            ca_pem: None,
            authority: None,
            advertised: None,
        };
        let mut cluster = Self::start(world, spec, parts)?;
        cluster.write_recorder = recorder;
        Ok(cluster)
    }
}
