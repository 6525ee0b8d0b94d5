//! Devices and mounts of a node, and requests for them.

use std::path::PathBuf;

use serde::Serialize;

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
    /// The raw device once more, below the node agent's own directory ([`Mapping::global`](super::Mapping::global)).
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

/// Change of the group of a mounted filesystem: everything in it becomes the group's, as with [`Stage::group`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupChange {
    /// The group.
    pub group: u32,
    /// If not set, nothing changes where the root directory is the group's already (kubelet's policy OnRootMismatch).
    pub always: bool,
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// True if the mount refuses writes, as observed afterwards.
    pub readonly: bool,
    /// True if the volume was already published at this path.
    pub already: bool,
    /// Options that a shared file system was mounted with, besides `ro`. None if it was mounted before, if a directory
    /// replaces it, and for other volumes, whose options are those of their staging.
    pub options: Option<Vec<String>>,
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
