//! Raw devices for pods: the node agent's mapping of a published device, and its reads and writes.

use std::fmt;
use std::path::PathBuf;

use super::DiskFuture;

/// Published raw device and the paths at which kubelet maps it for a pod (`MapBlockVolume`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mapping {
    /// The volume.
    pub volume: String,
    /// Path at which the driver published the device.
    pub device: PathBuf,
    /// Path of the node agent's second bind, below its own directory; its parents are created.
    pub global: PathBuf,
    /// Link for the pod's containers; its parents are created.
    pub link: PathBuf,
}

/// Raw device that is held open: while this value lives, neither the device nor its number can be reused.
///
/// Before every use the kernel must confirm that it is still the opened device; for a loop device by the backing file's
/// inode and device and the tag.
pub trait RawDevice: fmt::Debug + Send + Sync {
    /// Returns its size in bytes.
    ///
    /// # Errors
    /// [`super::DiskError::NotOurs`] if it is another device now, [`super::DiskError::Io`] (EIO) if it was pulled. All
    /// operations can return them.
    fn size(&self) -> DiskFuture<'_, u64>;

    /// Reads at most `length` bytes from `offset`; fewer only at the device's end.
    fn read_at(&self, offset: u64, length: usize) -> DiskFuture<'_, Vec<u8>>;

    /// Writes bytes at `offset`. They are durable only after [`RawDevice::sync`].
    ///
    /// # Errors
    /// [`super::DiskError::Io`]: ENOSPC beyond the device's end, EPERM for a device that is published read-only.
    fn write_at<'a>(&'a self, offset: u64, data: &'a [u8]) -> DiskFuture<'a, ()>;

    /// Makes written bytes durable (fsync).
    fn sync(&self) -> DiskFuture<'_, ()>;
}
