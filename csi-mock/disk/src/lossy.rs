//! The seeded bug `sync-does-nothing`: a memory disk that keeps only the data from before its mount.

use std::path::Path;

use substrate::{Ctx, mutant};

use super::{Backend, Disk, DiskError, Plug};

/// Returns true if `disk` loses its writes.
pub(super) fn is_lossy(ctx: &Ctx, disk: &dyn Disk) -> bool {
    mutant!(ctx, "sync-does-nothing") && disk.backend() == Backend::Memory
}

/// Unmounts like [`Disk::unstage`] without a write-back: it pulls the device from under the mount for a moment in which
/// no other task runs.
pub(super) async fn unstage(disk: &dyn Disk, volume: &str, path: &Path) -> Result<bool, DiskError> {
    let staged = disk.mounts().await?.iter().any(|m| m.volume == volume && m.path == path);
    let shared = disk.mounts().await?.iter().any(|m| m.volume == volume && m.path != path);
    let device = disk.find(volume).await?.filter(|_| staged && !shared);
    let Some(device) = device else { return disk.unstage(volume, path).await };
    disk.unplug(volume, true).await?;
    let unmounted = disk.unstage(volume, path).await;
    let size_bytes = device.size_bytes;
    disk.plug(&Plug { volume: device.volume, device: device.name, file: String::new(), size_bytes }).await?;
    unmounted
}
