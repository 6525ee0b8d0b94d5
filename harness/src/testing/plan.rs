//! Commands to start a cluster.

use std::path::PathBuf;
use std::time::Duration;

use substrate::WorldKind;
use substrate::fabric::Latency;

use crate::cluster::ClusterSpec;
use crate::cluster::live::BackendChoice;

/// Command to the thread of a cluster.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) kind: WorldKind,
    pub(super) spec: ClusterSpec,
    pub(super) seed: u64,
    pub(super) scale: f64,
    pub(super) link: Latency,
    pub(super) limit: Duration,
    pub(super) trace: Option<PathBuf>,
    pub(super) backend: Option<BackendChoice>,
    /// If set, no StorageClass is created at the start.
    pub(super) is_bare: bool,
}
