//! What a node can do with block devices, mounts and files, behind one object-safe trait.
//!
//! One [`Disk`] value stands for one node; all nodes of a world share the bytes of the volumes. There are three
//! backends: [`MemoryDisks`] (simulation: page cache, fsync and power loss as a model), `directory` (a volume is a
//! directory, a mount is a symlink; anywhere, without root) and `loop` (loop devices, real filesystems and bind
//! mounts; root on Linux).

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

/// The disk of a live node with the backend that was asked for; `None` takes the best one that works here.
///
/// `run` names the Mooring that owns the devices, `root` is the node's root directory, `volumes` the directory of all
/// volumes' files.
///
/// # Errors
/// [`DiskError::Environment`] when the backend does not work here, with the reasons; [`DiskError::Unsupported`] for
/// the memory backend, which has no place on this machine.
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

/// Power loss of a node in `world`: its disk crashes, and the trace says so. The caller crashes the processes.
///
/// # Errors
/// What the disk says.
pub async fn power_loss(world: &World, disk: &dyn Disk) -> Result<(), DiskError> {
    disk.crash().await?;
    world.trace().info(&disk.node().into(), crate::events::DiskCrashed { node: disk.node().into() });
    Ok(())
}

/// Longest path that is accepted, in bytes (PATH_MAX of Linux).
pub const MAX_PATH: usize = 4096;

/// What every operation of a disk returns.
pub type DiskFuture<'a, T> = BoxFuture<'a, Result<T, DiskError>>;

/// How the disk of a node works.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Backend {
    /// A model in memory: unsynced writes are lost by a crash. For the simulation.
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

/// A volume that arrives at a node, as the cloud's device stream tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plug {
    /// The volume (`vol-…`).
    pub volume: String,
    /// The device name that the cloud gave the attachment (`/dev/xvdaa`). The device is *found* by volume id only.
    pub device: String,
    /// The backing file, relative to the directory of all volumes; never taken from a user.
    pub file: String,
    /// The size of the volume in bytes.
    pub size_bytes: u64,
}

/// A block device that is plugged into a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Device {
    /// The volume whose bytes it holds, proved by the backend and not by its name.
    pub volume: String,
    /// The cloud's device name (`/dev/xvdaa`).
    pub name: String,
    /// What opens it on this machine (`/dev/loop7`, a directory, or the cloud's name in memory).
    pub path: PathBuf,
    /// Its size in bytes.
    pub size_bytes: u64,
}

/// What a mount is for.
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
}

impl MountKind {
    /// Whether the device itself is mounted and not a filesystem on it.
    pub fn is_raw(self) -> bool {
        matches!(self, Self::Block | Self::Map)
    }
}

/// A mount of a volume on a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Mount {
    /// The volume (`vol-…`).
    pub volume: String,
    /// Where.
    pub path: PathBuf,
    /// What for.
    pub kind: MountKind,
    /// Whether the kernel (or the model) refuses writes.
    pub readonly: bool,
}

/// What to stage and where.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stage {
    /// The volume; its device must be plugged.
    pub volume: String,
    /// The staging path: an absolute directory path, which exists or whose parents exist.
    pub path: PathBuf,
    /// The filesystem to make when the device is truly empty: `ext4`, `xfs` or `btrfs`.
    pub fs_type: String,
    /// Further mount options (`noatime`).
    pub mount_flags: Vec<String>,
    /// Mount read-only; then an empty device is an error, since it cannot be formatted.
    pub readonly: bool,
    /// Give the filesystem to this group, as kubelet does for fsGroup: everything in it becomes the group's, readable
    /// and writable, and new files inherit it.
    pub group: Option<u32>,
}

/// What staging did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Staged {
    /// Whether the device was empty and got a filesystem.
    pub formatted: bool,
    /// Whether the mount refuses writes, as seen after the fact.
    pub readonly: bool,
    /// Nothing was done: the volume was staged at this path already.
    pub already: bool,
    /// Filesystem that is mounted; empty where a directory stands for the volume.
    pub fs_type: String,
    /// Options that it was mounted with, besides `ro`.
    pub options: Vec<String>,
    /// Size of the filesystem in bytes, if the backend tells it.
    pub fs_bytes: Option<u64>,
    /// Other nodes that hold a writable mount of the volume at this moment. Only a backend that sees all nodes
    /// (memory) fills it; more than none with a writable mount here is what corrupts filesystems.
    pub other_writers: Vec<String>,
}

/// What to publish and where.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Publish {
    /// The volume; it must be staged at `staging_path`, or plugged for raw block.
    pub volume: String,
    /// Where it is staged; not looked at for raw block.
    pub staging_path: PathBuf,
    /// The target path; its parent exists, its last component is made: a directory, or a file for raw block.
    pub path: PathBuf,
    /// Publish the device itself and not a filesystem on it.
    pub block: bool,
    /// Give the filesystem to this group; see [`Stage::group`].
    pub group: Option<u32>,
    /// Further mount options.
    pub mount_flags: Vec<String>,
    /// Refuse writes through this path. For raw block the device itself refuses them, so all publishes of it must agree.
    pub readonly: bool,
}

/// What publishing did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Published {
    /// Whether the mount refuses writes, as seen after the fact.
    pub readonly: bool,
    /// Nothing was done: the volume was published at this path already.
    pub already: bool,
}

/// How full a mounted filesystem is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes in all.
    pub total_bytes: u64,
    /// Bytes in use.
    pub used_bytes: u64,
    /// Bytes that an ordinary user can still write.
    pub available_bytes: u64,
    /// Inodes in all; 0 where the filesystem has no such limit.
    pub total_inodes: u64,
    /// Inodes in use.
    pub used_inodes: u64,
    /// Inodes left.
    pub available_inodes: u64,
}

/// The operations that events tell of; see [`Disk::done`].
pub const TOLD: &[&str] = &["expand", "plug", "publish", "resize", "stage", "unplug", "unpublish", "unstage"];

/// The block devices, mounts and files of one node.
///
/// All paths are absolute and must lie under the node's root (the memory backend has no root: any absolute path
/// without `..` is good). No operation follows a symlink that it did not make. Every operation may be repeated.
pub trait Disk: fmt::Debug + Send + Sync {
    /// How it works.
    fn backend(&self) -> Backend;

    /// The node whose disk it is.
    fn node(&self) -> &str;

    /// Makes the block device of an attached volume appear. Plugging a plugged volume changes nothing.
    fn plug<'a>(&'a self, plug: &'a Plug) -> DiskFuture<'a, Device>;

    /// Takes the block device of a volume away; true when it was there.
    ///
    /// # Errors
    /// [`DiskError::Busy`] while the volume is mounted and not `force`. With `force` the device is pulled from
    /// under its mounts: unsynced writes are lost and every later access fails, until they are unmounted.
    fn unplug<'a>(&'a self, volume: &'a str, force: bool) -> DiskFuture<'a, bool>;

    /// Tells a plugged device that its volume has grown to `size_bytes`; true when the device was there and smaller.
    fn resize<'a>(&'a self, volume: &'a str, size_bytes: u64) -> DiskFuture<'a, bool>;

    /// The device that holds `volume`, found by the volume id and never by the device name alone.
    fn find<'a>(&'a self, volume: &'a str) -> DiskFuture<'a, Option<Device>>;

    /// What is plugged, ordered by volume.
    fn devices(&self) -> DiskFuture<'_, Vec<Device>>;

    /// The operation `op` is done and on record: here act the faults of the moment after it. Who asks for one of [`TOLD`]
    /// says so, after the event that tells of it: what was done is on record also where the answer is an error. All other
    /// operations have this in themselves.
    ///
    /// # Errors
    /// The error of a fault.
    fn done<'a>(&'a self, op: &'static str, volume: &'a str, path: &'a Path) -> DiskFuture<'a, ()> {
        let _ = (op, volume, path);
        Box::pin(std::future::ready(Ok(())))
    }

    /// What is mounted, ordered by path.
    fn mounts(&self) -> DiskFuture<'_, Vec<Mount>>;

    /// Finds the device, makes a filesystem only when the device is truly empty, checks the filesystem and mounts
    /// it at the staging path.
    ///
    /// # Errors
    /// [`DiskError::NotPlugged`]; [`DiskError::Occupied`] when the path holds another volume, or the volume is
    /// staged elsewhere; [`DiskError::Corrupt`] when the device holds something that is not the filesystem asked for.
    fn stage<'a>(&'a self, stage: &'a Stage) -> DiskFuture<'a, Staged>;

    /// Flushes and unmounts the staging path; true when it was mounted. The directory stays.
    ///
    /// # Errors
    /// [`DiskError::Busy`] while other mounts of the device exist.
    fn unstage<'a>(&'a self, volume: &'a str, path: &'a Path) -> DiskFuture<'a, bool>;

    /// Makes the staged filesystem visible at the target path.
    ///
    /// # Errors
    /// [`DiskError::NotStaged`]; [`DiskError::Occupied`] when the path holds another volume.
    fn publish<'a>(&'a self, publish: &'a Publish) -> DiskFuture<'a, Published>;

    /// Takes the volume away from the target path and deletes the path; true when it was mounted.
    fn unpublish<'a>(&'a self, volume: &'a str, path: &'a Path) -> DiskFuture<'a, bool>;

    /// Makes a published raw device known to a pod and opens it; it stays open for as long as the value lives. It may be
    /// repeated, and then opens the device once more.
    ///
    /// # Errors
    /// [`DiskError::NotPlugged`]; [`DiskError::NotOurs`] when what is published is another device than the volume's;
    /// [`DiskError::BadPath`] when it is no device; [`DiskError::Occupied`].
    fn map<'a>(&'a self, mapping: &'a Mapping) -> DiskFuture<'a, Arc<dyn RawDevice>>;

    /// Closes the device that was opened by [`Disk::map`] and takes it away from the pod; the published device stays.
    fn unmap<'a>(&'a self, mapping: &'a Mapping) -> DiskFuture<'a, ()>;

    /// Makes the device, and the filesystem when one is mounted at `path`, as large as the volume; returns the size of
    /// the device in bytes. It may be done while the volume is in use, and repeated.
    ///
    /// # Errors
    /// [`DiskError::NotStaged`] when the volume is not mounted at `path`; [`DiskError::Io`] (EROFS) for a read-only
    /// filesystem that would have to grow.
    fn expand<'a>(&'a self, volume: &'a str, path: &'a Path) -> DiskFuture<'a, u64>;

    /// Gives the filesystem mounted at `path` to a group, as kubelet does for fsGroup; see [`Stage::group`].
    ///
    /// # Errors
    /// [`DiskError::NotStaged`] when no filesystem is mounted at `path`; [`DiskError::Unsupported`] where files cannot be
    /// given away.
    fn give<'a>(&'a self, path: &'a Path, group: u32) -> DiskFuture<'a, ()>;

    /// How full the filesystem mounted at `path` is; for raw block only the device's size is known.
    fn usage<'a>(&'a self, path: &'a Path) -> DiskFuture<'a, Usage>;

    /// Power loss of the node: every mount and device of it vanishes and unsynced writes are lost. Directories and
    /// files outside of volumes stay.
    fn crash(&self) -> DiskFuture<'_, ()>;

    /// Makes a directory and its parents; nothing when it exists.
    fn make_dir<'a>(&'a self, path: &'a Path) -> DiskFuture<'a, ()>;

    /// Removes an empty directory; nothing when it does not exist.
    ///
    /// # Errors
    /// [`DiskError::Busy`] when something is mounted there, [`DiskError::Io`] (ENOTEMPTY) when it is not empty.
    fn remove_dir<'a>(&'a self, path: &'a Path) -> DiskFuture<'a, ()>;

    /// The names in a directory, sorted; nothing when there is no such directory.
    fn list_dir<'a>(&'a self, path: &'a Path) -> DiskFuture<'a, Option<Vec<String>>>;

    /// Adds bytes to the end of a file, which is made when it is missing (its directory must exist).
    fn append<'a>(&'a self, path: &'a Path, data: &'a [u8]) -> DiskFuture<'a, ()>;

    /// Replaces a file's content in one step and syncs it; for the node agent's own small files.
    fn write<'a>(&'a self, path: &'a Path, data: &'a [u8]) -> DiskFuture<'a, ()>;

    /// Makes a file durable (fsync): a crash after it returns does not lose what was appended before.
    fn sync<'a>(&'a self, path: &'a Path) -> DiskFuture<'a, ()>;

    /// A file's bytes; nothing when there is no such file.
    fn read<'a>(&'a self, path: &'a Path) -> DiskFuture<'a, Option<Vec<u8>>>;

    /// Removes a file; nothing when it does not exist.
    fn remove_file<'a>(&'a self, path: &'a Path) -> DiskFuture<'a, ()>;
}
