//! The one door from the live disks to blocking system calls.

use super::DiskError;

/// Runs `work` on a thread that may block. Only the live backends use it: the simulation has no threads.
#[expect(clippy::disallowed_methods, reason = "mounts and mkfs block; the live backends are never part of a replay")]
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, DiskError> + Send + 'static,
) -> Result<T, DiskError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(lost) => Err(DiskError::Environment(format!("a disk operation did not end: {lost}"))),
    }
}
