//! Readiness of the node.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// Readiness of the node: only once the CSINode object exists, the node may become Ready.
#[derive(Default)]
pub(crate) struct Readiness {
    csi_node_exists: AtomicBool,
    /// Wakes the status loop before its next tick.
    pub(super) status_due: Notify,
}

impl Readiness {
    /// Records that the CSINode object exists, and wakes the status loop.
    pub fn csi_node_is_there(&self) {
        self.csi_node_exists.store(true, Ordering::Relaxed);
        self.status_due.notify_one();
    }

    /// Returns true once the CSINode object exists.
    pub fn csi_node_exists(&self) -> bool {
        self.csi_node_exists.load(Ordering::Relaxed)
    }
}
