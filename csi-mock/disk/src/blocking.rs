//! Entry of the live disks to blocking system calls.

use parking_lot::RwLock;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{DiskError, DiskFuture};

/// Separates a disk's operations from its power loss. An operation that was requested before the loss and starts after
/// it fails. The loss waits for operations that have started. Otherwise a mount could appear on a node that is down.
#[derive(Debug, Default)]
pub(super) struct Gate {
    /// Number of power losses.
    losses: AtomicU64,
    /// Shared by operations, exclusive for a loss.
    lock: RwLock<()>,
}

impl Gate {
    /// Runs `act` on a blocking thread, unless the power is lost before it starts.
    pub fn run<'a, D, T>(
        disk: &Arc<D>,
        gate: fn(&D) -> &Gate,
        act: impl FnOnce(&D) -> Result<T, DiskError> + Send + 'static,
    ) -> DiskFuture<'a, T>
    where
        D: Send + Sync + 'static,
        T: Send + 'static,
    {
        let asked = gate(disk).losses.load(Ordering::SeqCst);
        let disk = disk.clone();
        Box::pin(blocking(Box::new(move || {
            let _shared = gate(&disk).lock.read();
            if gate(&disk).losses.load(Ordering::SeqCst) == asked {
                act(&disk)
            } else {
                Err(DiskError::Environment("the node lost its power before this began".to_owned()))
            }
        })))
    }

    /// Runs `crash` on a blocking thread, exclusively. No operation that was requested before starts after it.
    pub fn shut<'a, D>(
        disk: &Arc<D>,
        gate: fn(&D) -> &Gate,
        crash: impl FnOnce(&D) -> Result<(), DiskError> + Send + 'static,
    ) -> DiskFuture<'a, ()>
    where
        D: Send + Sync + 'static,
    {
        let disk = disk.clone();
        Box::pin(blocking(Box::new(move || {
            let _alone = gate(&disk).lock.write();
            gate(&disk).losses.fetch_add(1, Ordering::SeqCst);
            crash(&disk)
        })))
    }
}

/// Runs `work` on a blocking thread. Boxed, because tokio compiles much code for each type of work. Only the live
/// backends use it: the simulation has no threads.
#[expect(clippy::disallowed_methods, reason = "mounts and mkfs block; the live backends are never part of a replay")]
pub(super) async fn blocking<T: Send + 'static>(
    work: Box<dyn FnOnce() -> Result<T, DiskError> + Send>,
) -> Result<T, DiskError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(lost) => Err(DiskError::Environment(format!("a disk operation did not end: {lost}"))),
    }
}
