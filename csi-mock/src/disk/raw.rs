//! Raw devices in the hands of a pod: what the node agent makes of a published device, and how it is read and written.

use std::fmt;
use std::path::PathBuf;

use super::DiskFuture;

/// A published raw device and the places at which kubelet makes it known to a pod (`MapBlockVolume`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mapping {
    /// The volume.
    pub volume: String,
    /// Where the driver published the device.
    pub device: PathBuf,
    /// Where the node agent binds it a second time, below its own directory; the parents are made.
    pub global: PathBuf,
    /// The link by which the pod's containers find it; the parents are made.
    pub link: PathBuf,
}

/// A raw device that is held open: as long as this value lives, neither the device nor its number can become
/// another's.
///
/// Before every use the kernel is asked whether the device is still the one that was opened; for a loop device that is
/// the backing file's inode and device and our tag.
pub trait RawDevice: fmt::Debug + Send + Sync {
    /// Its size in bytes.
    ///
    /// # Errors
    /// [`super::DiskError::NotOurs`] when it is another device now, [`super::DiskError::Io`] (EIO) when it was pulled;
    /// those of all operations.
    fn size(&self) -> DiskFuture<'_, u64>;

    /// At most `length` bytes from `offset` on: fewer only at the device's end.
    fn read_at(&self, offset: u64, length: usize) -> DiskFuture<'_, Vec<u8>>;

    /// Writes bytes at `offset`; they are durable after [`RawDevice::sync`] only.
    ///
    /// # Errors
    /// [`super::DiskError::Io`]: ENOSPC beyond the device's end, EPERM for a device that is published read-only.
    fn write_at<'a>(&'a self, offset: u64, data: &'a [u8]) -> DiskFuture<'a, ()>;

    /// Makes what was written durable (fsync).
    fn sync(&self) -> DiskFuture<'_, ()>;
}
