//! Block devices, mounts and files of a node, behind one object-safe trait.
//!
//! One [`Disk`] value represents one node; all nodes of a world share the bytes of the volumes. There are three
//! backends: [`MemoryDisks`] (simulation: page cache, fsync and power loss as a model), `directory` (a volume is a
//! directory, a mount is a symlink; anywhere, without root) and `loop` (loop devices, real filesystems and bind mounts;
//! needs root on Linux).

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde::Serialize;
use substrate::World;

mod blocking;
mod capability;
mod directory;
mod error;
mod faulty;
mod files;
#[cfg(target_os = "linux")]
mod loopback;
mod lossy;
mod memory;
mod paced;
mod raw;
mod root;
mod share;
mod stat;

pub use capability::{Capability, Check, capability};
pub use directory::DirectoryDisk;
pub use error::DiskError;
pub use faulty::{ERRNOS, errno, faulty};
#[cfg(target_os = "linux")]
pub use loopback::{LoopDisk, make_control, private_mounts};
pub use memory::MemoryDisks;
pub use paced::{Pace, paced};
pub use raw::{Mapping, RawDevice};
pub use share::{FileLock, Share};

/// Opens the disk of a live node with the requested backend; `None` selects the best one that works here.
///
/// `run` names the Mooring that owns the devices, `root` is the node's root directory, `volumes` the directory of all
/// volumes' files.
///
/// # Errors
/// [`DiskError::Environment`] if the backend does not work here, with the reasons; [`DiskError::Unsupported`] for the
/// memory backend, which has no files on this machine.
pub fn open(
    backend: Option<Backend>,
    run: &str,
    node: &str,
    root: &Path,
    volumes: &Path,
) -> Result<Arc<dyn Disk>, DiskError> {
    let found = capability();
    match backend.unwrap_or(found.backend) {
        Backend::Directory => Ok(Arc::new(DirectoryDisk::new(node, root, volumes)?)),
        Backend::Memory => Err(DiskError::Unsupported {
            backend: Backend::Memory,
            reason: "it belongs to the simulation; take loop or directory".to_owned(),
        }),
        Backend::Loop => match found.loop_backend {
            Err(missing) => Err(DiskError::Environment(format!("the loop backend does not work here: {missing}"))),
            Ok(()) => open_loop(run, node, root, volumes),
        },
    }
}

#[cfg(target_os = "linux")]
fn open_loop(run: &str, node: &str, root: &Path, volumes: &Path) -> Result<Arc<dyn Disk>, DiskError> {
    Ok(Arc::new(LoopDisk::new(node, root, volumes, run)?))
}

#[cfg(not(target_os = "linux"))]
fn open_loop(_: &str, _: &str, _: &Path, _: &Path) -> Result<Arc<dyn Disk>, DiskError> {
    Err(DiskError::Environment("loop devices exist on Linux only".to_owned()))
}

/// Simulates power loss of a node in `world`: crashes its disk and emits an event. The caller crashes the processes.
///
/// # Errors
/// The disk's error.
pub async fn power_loss(world: &World, disk: &dyn Disk) -> Result<(), DiskError> {
    disk.crash().await?;
    world.trace().info(&disk.node().into(), crate::events::DiskCrashed { node: disk.node().into() });
    Ok(())
}

/// Longest accepted path in bytes (PATH_MAX of Linux).
pub const MAX_PATH: usize = 4096;

/// Result of every disk operation.
pub type DiskFuture<'a, T> = BoxFuture<'a, Result<T, DiskError>>;

/// Backend of a node's disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Backend {
    /// A model in memory: a crash loses unsynced writes. For the simulation.
    Memory,
    /// A volume is a directory and a mount is a symlink. No block device, no filesystem, no power loss.
    Directory,
    /// A volume is a sparse file behind a loop device with a real filesystem, mounted by the kernel.
    Loop,
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Memory => "memory",
            Self::Directory => "directory",
            Self::Loop => "loop",
        })
    }
}

/// Volume that arrives at a node, as in the cloud's device stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plug {
    /// The volume (`vol-…`).
    pub volume: String,
    /// Device name that the cloud gave the attachment (`/dev/xvdaa`). The device is *found* by volume id only.
    pub device: String,
    /// The backing file, relative to the directory of all volumes; never taken from a user.
    pub file: String,
    /// The size of the volume in bytes.
    pub size_bytes: u64,
}

/// Block device plugged into a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Device {
    /// Volume whose bytes it holds; the backend proves it, not the name.
    pub volume: String,
    /// The cloud's device name (`/dev/xvdaa`).
    pub name: String,
    /// Path that opens it on this machine (`/dev/loop7`, a directory, or the cloud's name in memory).
    pub path: PathBuf,
    /// Its size in bytes.
    pub size_bytes: u64,
}

/// Purpose of a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum MountKind {
    /// The filesystem itself, at its staging path: one per volume and node.
    Staging,
    /// A bind of the staged filesystem at a pod's target path.
    Target,
    /// The raw device at a pod's target path.
    Block,
    /// The raw device once more, below the node agent's own directory ([`Mapping::global`]).
    Map,
    /// A directory of a shared file system at a pod's target path ([`Share`]). It has no device.
    Share,
}

impl MountKind {
    /// Returns true if the device itself is mounted instead of a filesystem.
    pub fn is_raw(self) -> bool {
        matches!(self, Self::Block | Self::Map)
    }
}

/// Mount of a volume on a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Mount {
    /// The volume (`vol-…`).
    pub volume: String,
    /// Path.
    pub path: PathBuf,
    /// Purpose.
    pub kind: MountKind,
    /// True if the kernel (or the model) refuses writes.
    pub readonly: bool,
    /// Group that owns the filesystem; absent for raw devices, and for disks without groups.
    pub group: Option<u32>,
}

/// Request to stage a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stage {
    /// The volume; its device must be plugged.
    pub volume: String,
    /// Staging path: an absolute directory path, which exists or whose parents exist.
    pub path: PathBuf,
    /// Filesystem to create on a truly empty device: `ext4`, `xfs` or `btrfs`.
    pub fs_type: String,
    /// Further options of mkfs (`-I`, `512`), for a device that is formatted. Directories and the model ignore them.
    pub format: Vec<String>,
    /// Further mount options (`noatime`).
    pub mount_flags: Vec<String>,
    /// If set, mount read-only. An empty device is then an error, since it cannot be formatted.
    pub readonly: bool,
    /// Group that gets the filesystem, as kubelet does for fsGroup: everything in it becomes the group's, readable and
    /// writable, and new files inherit it.
    pub group: Option<u32>,
}

/// Result of staging.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Staged {
    /// True if the device was empty and got a filesystem.
    pub formatted: bool,
    /// True if the mount refuses writes, as observed afterwards.
    pub readonly: bool,
    /// True if the volume was already staged at this path.
    pub already: bool,
    /// Type of the mounted filesystem; empty if a directory replaces the volume.
    pub fs_type: String,
    /// Options that it was mounted with, besides `ro`.
    pub options: Vec<String>,
    /// Size of the filesystem in bytes, if the backend reports it.
    pub fs_bytes: Option<u64>,
    /// Other nodes that now hold a writable mount of the volume. Only the memory backend, which sees all nodes, fills
    /// it. With a writable mount here, any entry means corruption.
    pub other_writers: Vec<String>,
}

/// Request to publish a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Publish {
    /// Volume; it must be staged at `staging_path`, or plugged for raw block.
    pub volume: String,
    /// Its staging path; ignored for raw block.
    pub staging_path: PathBuf,
    /// Target path. Its parent exists; the last component is created: a directory, or a file for raw block.
    pub path: PathBuf,
    /// If set, publish the device itself instead of a filesystem.
    pub block: bool,
    /// Group that gets the filesystem; see [`Stage::group`].
    pub group: Option<u32>,
    /// Further mount options.
    pub mount_flags: Vec<String>,
    /// If set, refuse writes through this path. For raw block the device itself refuses them, so all its publishes must
    /// agree.
    pub readonly: bool,
}

/// Result of publishing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Published {
    /// True if the mount refuses writes, as observed afterwards.
    pub readonly: bool,
    /// True if the volume was already published at this path.
    pub already: bool,
}

/// Usage of a mounted filesystem.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Total bytes.
    pub total_bytes: u64,
    /// Bytes in use.
    pub used_bytes: u64,
    /// Bytes that an ordinary user can still write.
    pub available_bytes: u64,
    /// Total inodes; 0 if the filesystem has no such limit.
    pub total_inodes: u64,
    /// Inodes in use.
    pub used_inodes: u64,
    /// Free inodes.
    pub available_inodes: u64,
}

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

    /// Gives the filesystem mounted at `path` to a group, as kubelet does for fsGroup; see [`Stage::group`].
    ///
    /// # Errors
    /// [`DiskError::NotStaged`] if no filesystem is mounted at `path`; [`DiskError::Unsupported`] if the backend cannot
    /// change ownership.
    fn give<'a>(&'a self, path: &'a Path, group: u32) -> DiskFuture<'a, ()>;

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
