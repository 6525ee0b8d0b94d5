//! The planted defect `sync-does-nothing`: a disk in memory that keeps nothing but what was there when it was mounted.

use std::path::Path;

use substrate::{Ctx, mutant};

use super::{Backend, Disk, DiskError, Plug};

/// Whether `disk` loses what is written to it.
pub(super) fn is_lossy(ctx: &Ctx, disk: &dyn Disk) -> bool {
    mutant!(ctx, "sync-does-nothing") && disk.backend() == Backend::Memory
}

/// Unmounts as [`Disk::unstage`] does, and writes nothing back: the device is pulled from under the mount for a moment,
/// in which nobody can look.
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
