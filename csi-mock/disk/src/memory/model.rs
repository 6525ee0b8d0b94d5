//! The model: volumes with durable bytes; nodes with devices, mounts and page caches.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use rustix::io::Errno;

use super::share::{ShareMount, Shares};
use super::tree::Tree;
use crate::{Device, DiskError, MAX_PATH, Mount};

/// State of all disks of a world.
#[derive(Debug, Default)]
pub(super) struct State {
    /// Volumes and snapshots, by id.
    pub volumes: BTreeMap<String, Volume>,
    /// Shared file systems, by id.
    pub shares: Shares,
    pub nodes: BTreeMap<Arc<str>, Node>,
}

/// Durable bytes of a volume.
#[derive(Clone, Debug, Default)]
pub(super) struct Volume {
    pub fs_type: Option<String>,
    pub size_bytes: u64,
    /// Size of its filesystem: the room at its creation or last growth.
    pub fs_bytes: u64,
    /// Files by name. The bytes of a raw block volume are the file with the empty name.
    pub files: BTreeMap<String, Vec<u8>>,
    /// Group of the filesystem.
    pub group: Option<u32>,
}

/// One machine: its devices, its mounts and its root disk.
#[derive(Debug, Default)]
pub(super) struct Node {
    pub devices: BTreeMap<String, Device>,
    /// Page caches by volume: of the mounted filesystem, or of the open raw block device.
    pub caches: BTreeMap<String, Cache>,
    /// Mounts by path.
    pub mounts: Tree<Mount>,
    /// Places of the mounts of shared file systems, by path.
    pub shares: BTreeMap<PathBuf, ShareMount>,
    /// The root disk: directories (no content) and files. A link is a file that holds its target.
    pub root: Tree<Option<Vec<u8>>>,
    /// Open raw devices by opening number: the volume and the published path.
    pub open: BTreeMap<u64, (String, PathBuf)>,
    /// Number of openings of raw devices so far.
    pub openings: u64,
}

/// Page cache of one mounted filesystem.
#[derive(Debug, Default)]
pub(super) struct Cache {
    pub readonly: bool,
    /// True if the device was pulled: every access fails with EIO.
    pub dead: bool,
    pub files: BTreeMap<String, Cached>,
}

/// File in a page cache, or the written prefix of a raw device.
#[derive(Debug, Default)]
pub(super) struct Cached {
    pub data: Vec<u8>,
    /// Number of leading durable bytes. The file is clean if it equals the length and `exists`.
    pub synced: usize,
    /// True if the durable state has the file.
    pub exists: bool,
}

impl Cached {
    pub fn dirty(&self) -> bool {
        !self.exists || self.synced != self.data.len()
    }
}

impl State {
    pub fn writers(&self, volume: &str) -> Vec<String> {
        let writes = |node: &Node| node.caches.get(volume).is_some_and(|c| !c.readonly && !c.dead);
        self.nodes.iter().filter(|(_, node)| writes(node)).map(|(name, _)| name.to_string()).collect()
    }
}

impl Volume {
    /// Returns the room for files in bytes: that of the filesystem, or the whole device without one.
    pub fn room(&self) -> u64 {
        if self.fs_type.is_some() { self.fs_bytes } else { self.size_bytes }
    }

    pub fn used(&self) -> u64 {
        self.files.values().map(|f| f.len() as u64).sum()
    }

    /// Copies one cached file to the durable state. Usually only the appended tail moves.
    pub fn take(&mut self, name: &str, cached: &mut Cached) {
        let file = self.files.entry(name.to_owned()).or_default();
        if file.len() == cached.synced {
            file.extend_from_slice(&cached.data[cached.synced..]);
        } else {
            // Another node wrote it meanwhile: the later sync wins, as on a shared disk.
            file.clone_from(&cached.data);
        }
        cached.synced = cached.data.len();
        cached.exists = true;
    }
}

impl Cache {
    pub fn of(volume: &Volume, readonly: bool) -> Self {
        let files = volume
            .files
            .iter()
            .map(|(name, data)| (name.clone(), Cached { data: data.clone(), synced: data.len(), exists: true }));
        Self { readonly, dead: false, files: files.collect() }
    }

    pub fn flush(&mut self, volume: &mut Volume) {
        if self.dead || self.readonly {
            return;
        }
        for (name, cached) in self.files.iter_mut().filter(|(_, c)| c.dirty()) {
            volume.take(name, cached);
        }
    }
}

/// Checks a path and normalizes it: absolute, without `..`.
pub(super) fn clean(path: &Path) -> Result<PathBuf, DiskError> {
    let bad = |reason: &str| DiskError::BadPath { path: text(path), reason: reason.to_owned() };
    if !path.is_absolute() {
        return Err(bad("must be absolute"));
    }
    // Fast path: most paths are normalized already.
    let bytes = path.as_os_str().as_encoded_bytes();
    let odd = |name: &[u8]| matches!(name, [] | [b'.', ..]);
    let plain = bytes.len() > 1 && !bytes[1..].split(|b| *b == b'/').any(odd);
    if !plain && path.components().any(|c| matches!(c, Component::ParentDir)) {
        return Err(bad("must not contain `..`"));
    }
    if bytes.contains(&0) {
        return Err(bad("must not contain NUL"));
    }
    if bytes.len() > MAX_PATH {
        return Err(bad("is longer than 4096 bytes"));
    }
    Ok(if plain { path.to_owned() } else { path.components().collect() })
}

pub(super) fn text(path: &Path) -> String {
    path.to_str().map_or_else(|| path.display().to_string(), str::to_owned)
}

/// Target of a path.
pub(super) enum PathTarget {
    /// File of a mounted volume: the volume, the name in it, true if the path refuses writes, and true for a raw
    /// device.
    Volume { volume: String, name: String, readonly: bool, block: bool },
    /// Node's own root disk.
    Root,
}

impl Node {
    pub fn place(&self, path: &Path) -> PathTarget {
        match self.mounts.nearest(path) {
            Some((mount, name)) => PathTarget::Volume {
                volume: mount.volume.clone(),
                name,
                readonly: mount.readonly,
                block: mount.kind.is_raw(),
            },
            None => PathTarget::Root,
        }
    }

    pub fn is_dir(&self, path: &Path) -> bool {
        path.parent().is_none() || matches!(self.root.get(path), Some(None)) || self.mounts.contains(path)
    }

    /// Returns the paths of a volume's mounts, as text.
    pub fn held_at(&self, volume: &str) -> String {
        self.mounts_of(volume).map(|m| text(&m.path)).collect::<Vec<_>>().join(", ")
    }

    pub fn mounts_of<'a>(&'a self, volume: &'a str) -> impl Iterator<Item = &'a Mount> {
        self.mounts.values().filter(move |m| m.volume == volume)
    }

    pub fn alive(&mut self, volume: &str, op: &'static str, path: &Path) -> Result<&mut Cache, DiskError> {
        match self.caches.get_mut(volume) {
            Some(cache) if !cache.dead => Ok(cache),
            _ => Err(DiskError::errno(op, text(path), Errno::IO)),
        }
    }

    pub fn make_dirs(&mut self, path: &Path) -> Result<(), DiskError> {
        let made = self.root.fill_upwards(path, || None, Option::is_none);
        made.map_err(|file| DiskError::errno("mkdir", text(&file), Errno::NOTDIR))
    }
}

impl Node {
    pub fn root_file(&mut self, op: &'static str, path: &Path) -> Result<&mut Vec<u8>, DiskError> {
        if !path.parent().is_some_and(|p| self.is_dir(p)) {
            return Err(DiskError::errno(op, text(path), Errno::NOENT));
        }
        match self.root.get_or_insert_with(path, || Some(Vec::new())) {
            Some(data) => Ok(data),
            None => Err(DiskError::errno(op, text(path), Errno::ISDIR)),
        }
    }
}
