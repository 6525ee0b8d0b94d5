//! A cluster in virtual time: memory disks and the fabric.

use std::collections::BTreeMap;
use std::sync::Arc;

use csi_mock::disk::{Disk, MemoryDisks};
use substrate::World;

use super::assemble::{ClusterError, Parts};
use super::wiring::Fabric;
use super::{Cluster, ClusterSpec};

impl Cluster {
    /// Starts a cluster in a simulated world.
    ///
    /// # Errors
    /// When the cloud refuses its configuration.
    pub fn simulate(world: &World, spec: ClusterSpec) -> Result<Self, ClusterError> {
        let memory = MemoryDisks::new();
        let disks =
            spec.nodes.iter().map(|n| -> (String, Arc<dyn Disk>) { (n.name.clone(), memory.node(&n.name)) }).collect();
        let parts = Parts { wiring: Arc::new(Fabric), disks, volume_dir: None, roots: BTreeMap::new() };
        Self::start(world, spec, parts)
    }
}
