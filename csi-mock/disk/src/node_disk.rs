//! Operations of the disk of one node.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use super::backend::Backend;
use super::error::{DiskError, DiskFuture};
use super::mount::{Device, GroupChange, Mount, Plug, Publish, Published, Stage, Staged, Usage};
use super::raw::{Mapping, RawDevice};
use super::share::{FileLock, Share};

/// Operations that emit events; see [`Disk::done`].
pub const EMITTING: &[&str] = &["expand", "plug", "publish", "resize", "stage", "unplug", "unpublish", "unstage"];

/// Block devices, mounts and files of one node.
///
/// All paths are absolute and must lie below the node's root (the memory backend has no root: any absolute path without
/// `..` is valid). No operation follows a symlink that it did not create. Every operation may be repeated.
pub trait Disk: fmt::Debug + Send + Sync {
    /// Returns the backend.
    fn backend(&self) -> Backend;

    /// Returns the node's name.
    fn node(&self) -> &str;

    /// Makes the block device of an attached volume appear. Plugging a plugged volume changes nothing.
    fn plug<'a>(&'a self, plug: &'a Plug) -> DiskFuture<'a, Device>;

    /// Removes the block device of a volume. Returns true if it existed.
    ///
    /// # Errors
    /// [`DiskError::Busy`] while the volume is mounted and not `force`. With `force` the device is pulled from under
    /// its mounts: unsynced writes are lost and every later access fails, until they are unmounted.
    fn unplug<'a>(&'a self, volume: &'a str, force: bool) -> DiskFuture<'a, bool>;

    /// Updates a plugged device after its volume has grown to `size_bytes`. Returns true if the device existed and was
    /// smaller.
    fn resize<'a>(&'a self, volume: &'a str, size_bytes: u64) -> DiskFuture<'a, bool>;

    /// Returns the device of `volume`, found by the volume id and never by the device name alone.
    fn find<'a>(&'a self, volume: &'a str) -> DiskFuture<'a, Option<Device>>;

    /// Returns the plugged devices, ordered by volume.
    fn devices(&self) -> DiskFuture<'_, Vec<Device>>;

    /// Marks the operation `op` as done and recorded: faults of the moment after the effect act here. The caller of an
    /// operation in [`EMITTING`] calls it after emitting the event, so that the effect is recorded even if the answer
    /// is an error. All other operations do this themselves.
    ///
    /// # Errors
    /// The error of a fault.
    fn done<'a>(&'a self, op: &'static str, volume: &'a str, path: &'a Path) -> DiskFuture<'a, ()> {
        let _ = (op, volume, path);
        Box::pin(std::future::ready(Ok(())))
    }

    /// Returns the mounts, ordered by path.
    fn mounts(&self) -> DiskFuture<'_, Vec<Mount>>;

    /// Finds the device, creates a filesystem only on a truly empty device, checks the filesystem and mounts it at the
    /// staging path.
    ///
    /// # Errors
    /// [`DiskError::NotPlugged`]; [`DiskError::Occupied`] if the path holds another volume, or the volume is staged
    /// elsewhere; [`DiskError::Corrupt`] if the device holds something other than the requested filesystem.
    fn stage<'a>(&'a self, stage: &'a Stage) -> DiskFuture<'a, Staged>;

    /// Flushes and unmounts the staging path. Returns true if it was mounted. The directory stays.
    ///
    /// # Errors
    /// [`DiskError::Busy`] while other mounts of the device exist.
    fn unstage<'a>(&'a self, volume: &'a str, path: &'a Path) -> DiskFuture<'a, bool>;

    /// Binds the staged filesystem at the target path.
    ///
    /// # Errors
    /// [`DiskError::NotStaged`]; [`DiskError::Occupied`] if the path holds another volume.
    fn publish<'a>(&'a self, publish: &'a Publish) -> DiskFuture<'a, Published>;

    /// Mounts a directory of a shared file system at the target path.
    ///
    /// # Errors
    /// [`DiskError::Occupied`] if the path holds another volume; [`DiskError::Unsupported`] if the backend has no shared
    /// file systems.
    fn mount_share<'a>(&'a self, share: &'a Share) -> DiskFuture<'a, Published> {
        let reason = format!("mount `{}`: it has no shared file systems", share.file_system);
        Box::pin(std::future::ready(Err(DiskError::Unsupported { backend: self.backend(), reason })))
    }

    /// Locks the directory of the file `path` against other nodes if it belongs to a shared file system, and waits until
    /// it is free. Returns None for other files, which only this node can reach.
    fn lock<'a>(&'a self, path: &'a Path) -> DiskFuture<'a, Option<FileLock>> {
        let _ = path;
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Unmounts the volume from the target path and deletes the path. Returns true if it was mounted.
    fn unpublish<'a>(&'a self, volume: &'a str, path: &'a Path) -> DiskFuture<'a, bool>;

    /// Maps a published raw device for a pod and opens it; it stays open while the value lives. A repeated call opens
    /// the device once more.
    ///
    /// # Errors
    /// [`DiskError::NotPlugged`]; [`DiskError::NotOurs`] if the published device is not the volume's;
    /// [`DiskError::BadPath`] if it is not a device; [`DiskError::Occupied`].
    fn map<'a>(&'a self, mapping: &'a Mapping) -> DiskFuture<'a, Arc<dyn RawDevice>>;

    /// Closes the device opened by [`Disk::map`] and unmaps it from the pod; the published device stays.
    fn unmap<'a>(&'a self, mapping: &'a Mapping) -> DiskFuture<'a, ()>;

    /// Grows the device, and the filesystem if one is mounted at `path`, to the volume's size; returns the size of the
    /// device in bytes. Works while the volume is in use, and may be repeated.
    ///
    /// # Errors
    /// [`DiskError::NotStaged`] if the volume is not mounted at `path`; [`DiskError::Io`] (EROFS) for a read-only
    /// filesystem that would have to grow.
    fn expand<'a>(&'a self, volume: &'a str, path: &'a Path) -> DiskFuture<'a, u64>;

    /// Gives the filesystem mounted at `path` to a group, as kubelet does for fsGroup.
    ///
    /// # Errors
    /// [`DiskError::NotStaged`] if no filesystem is mounted at `path`; [`DiskError::Unsupported`] if the backend cannot
    /// change ownership.
    fn give<'a>(&'a self, path: &'a Path, change: GroupChange) -> DiskFuture<'a, ()>;

    /// Returns the usage of the filesystem mounted at `path`; for raw block only the device's size.
    fn usage<'a>(&'a self, path: &'a Path) -> DiskFuture<'a, Usage>;

    /// Simulates power loss of the node: all its mounts and devices vanish and unsynced writes are lost. Directories
    /// and files outside volumes stay.
    fn crash(&self) -> DiskFuture<'_, ()>;

    /// Creates a directory and its parents; succeeds if it exists.
    fn make_dir<'a>(&'a self, path: &'a Path) -> DiskFuture<'a, ()>;

    /// Removes an empty directory; succeeds if it does not exist.
    ///
    /// # Errors
    /// [`DiskError::Busy`] if it is a mount point, [`DiskError::Io`] (ENOTEMPTY) if it is not empty.
    fn remove_dir<'a>(&'a self, path: &'a Path) -> DiskFuture<'a, ()>;

    /// Returns the names in a directory, sorted; None if it does not exist.
    fn list_dir<'a>(&'a self, path: &'a Path) -> DiskFuture<'a, Option<Vec<String>>>;

    /// Appends bytes to a file, which is created if it is missing (its directory must exist).
    fn append<'a>(&'a self, path: &'a Path, data: &'a [u8]) -> DiskFuture<'a, ()>;

    /// Replaces a file's content atomically and syncs it; for the node agent's own small files.
    fn write<'a>(&'a self, path: &'a Path, data: &'a [u8]) -> DiskFuture<'a, ()>;

    /// Makes a file durable (fsync): a later crash does not lose bytes appended before.
    fn sync<'a>(&'a self, path: &'a Path) -> DiskFuture<'a, ()>;

    /// Returns a file's bytes; None if it does not exist.
    fn read<'a>(&'a self, path: &'a Path) -> DiskFuture<'a, Option<Vec<u8>>>;

    /// Removes a file; succeeds if it does not exist.
    fn remove_file<'a>(&'a self, path: &'a Path) -> DiskFuture<'a, ()>;
}
