//! Shared file systems of the model. A write reaches the server at once, so a crash of a node loses none.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use rustix::io::Errno;

use super::model::{Node, clean, text};
use super::mounting::occupied;
use crate::{DiskError, Mount, MountKind, Published, Share, Usage};

/// Size that EFS reports: 8 EiB.
const SIZE: u64 = 1 << 63;

/// File systems by id.
pub(super) type Shares = BTreeMap<String, ShareFiles>;

/// One shared file system.
#[derive(Debug, Default)]
pub(super) struct ShareFiles {
    /// Files by path, `/a/b`.
    files: BTreeMap<String, Vec<u8>>,
    /// Locks of files by path.
    locks: BTreeMap<String, Arc<tokio::sync::Mutex<()>>>,
}

/// Place of a mount in its file system.
#[derive(Clone, Debug)]
pub(super) struct ShareMount {
    pub file_system: String,
    pub directory: String,
}

/// File of a shared file system, as a path on a node names it.
#[derive(Clone, Debug)]
pub(super) struct ShareFile {
    pub file_system: String,
    /// Path in the file system.
    pub path: String,
    /// True if the path on the node refuses writes.
    pub readonly: bool,
}

impl ShareMount {
    /// Returns the file `name` below the mount.
    pub fn file(&self, mount: &Mount, name: &str) -> ShareFile {
        let path = format!("{}/{name}", self.directory.trim_end_matches('/'));
        ShareFile { file_system: self.file_system.clone(), path, readonly: mount.readonly }
    }
}

impl ShareFile {
    /// Returns the bytes of the file.
    pub fn read(&self, shares: &Shares) -> Option<Vec<u8>> {
        shares.get(&self.file_system)?.files.get(&self.path).cloned()
    }

    /// Returns the names in the directory, in order.
    pub fn list(&self, shares: &Shares) -> Vec<String> {
        let prefix = format!("{}/", self.path.trim_end_matches('/'));
        let files = shares.get(&self.file_system).into_iter().flat_map(|share| share.files.keys());
        let below = files.filter_map(|file| file.strip_prefix(&prefix)?.split('/').next().map(str::to_owned));
        let mut names: Vec<String> = below.collect();
        names.dedup();
        names
    }

    /// Returns the bytes of the file for a change; creates it if it does not exist.
    pub fn edit<'a>(&self, shares: &'a mut Shares, op: &'static str) -> Result<&'a mut Vec<u8>, DiskError> {
        if self.readonly {
            return Err(DiskError::errno(op, self.path.clone(), Errno::ROFS));
        }
        if self.path.ends_with('/') {
            return Err(DiskError::errno(op, self.path.clone(), Errno::ISDIR));
        }
        Ok(shares.entry(self.file_system.clone()).or_default().files.entry(self.path.clone()).or_default())
    }

    /// Removes the file.
    pub fn remove(&self, shares: &mut Shares) -> Result<(), DiskError> {
        if self.readonly {
            return Err(DiskError::errno("unlink", self.path.clone(), Errno::ROFS));
        }
        if let Some(share) = shares.get_mut(&self.file_system) {
            share.files.remove(&self.path);
        }
        Ok(())
    }

    /// Returns the lock of the file.
    pub fn lock(&self, shares: &mut Shares) -> Arc<tokio::sync::Mutex<()>> {
        let share = shares.entry(self.file_system.clone()).or_default();
        share.locks.entry(self.path.clone()).or_default().clone()
    }

    /// Returns the usage of the whole file system.
    pub fn usage(&self, shares: &Shares) -> Usage {
        let files = shares.get(&self.file_system).into_iter().flat_map(|share| share.files.values());
        let used_bytes = files.map(|bytes| bytes.len() as u64).sum();
        Usage { total_bytes: SIZE, used_bytes, available_bytes: SIZE - used_bytes, ..Usage::default() }
    }
}

impl Node {
    pub fn mount_share(&mut self, share: &Share) -> Result<Published, DiskError> {
        let path = clean(&share.path)?;
        if let Some(there) = self.mounts.get(&path) {
            return match there.volume == share.volume {
                true => Ok(Published { readonly: there.readonly, already: true, options: None }),
                false => Err(occupied(&path, format!("volume {} is mounted", there.volume))),
            };
        }
        if !path.parent().is_some_and(|parent| self.is_dir(parent)) {
            return Err(DiskError::errno("mkdir", text(&path), Errno::NOENT));
        }
        self.make_dirs(&path)?;
        let (volume, kind, readonly) = (share.volume.clone(), MountKind::Share, share.readonly);
        self.mounts.insert(&path, Mount { volume, path: path.clone(), kind, readonly, group: None });
        let (file_system, directory) = (share.file_system.clone(), share.directory.clone());
        self.shares.insert(path, ShareMount { file_system, directory });
        Ok(Published { readonly, already: false, options: Some(share.mount_flags.clone()) })
    }

    /// Returns the file of a shared file system at a path.
    pub fn share_file(&self, path: &Path) -> Result<Option<ShareFile>, DiskError> {
        if self.shares.is_empty() {
            return Ok(None);
        }
        let Some((mount, name)) = self.mounts.nearest(&clean(path)?) else { return Ok(None) };
        Ok(self.shares.get(&mount.path).map(|place| place.file(mount, &name)))
    }
}
