//! Files of mounted volumes and of the root disk, on one node of the model.

use std::collections::BTreeMap;
use std::path::Path;

use rustix::io::Errno;

use super::model::{Cached, Node, PathTarget, Volume, clean, text};
use crate::{DiskError, Usage};

type Volumes = BTreeMap<String, Volume>;

/// Bytes of filesystem per inode: default of mke2fs.
const BYTES_PER_INODE: u64 = 16384;
/// Inodes that ext4 reserves.
const RESERVED_INODES: u64 = 11;

impl Node {
    pub fn usage(&mut self, volumes: &Volumes, path: &Path) -> Result<Usage, DiskError> {
        let path = clean(path)?;
        let PathTarget::Volume { volume, block, .. } = self.place(&path) else {
            return Err(DiskError::errno("statfs", text(&path), Errno::NOENT));
        };
        let (total, durable) = volumes.get(&volume).map_or((0, 0), |v| (v.room(), v.used()));
        let cache = self.alive(&volume, "statfs", &path)?;
        if block {
            return Ok(Usage { total_bytes: total, ..Usage::default() });
        }
        let used = cache.files.values().map(|c| c.data.len() as u64).sum::<u64>().max(durable);
        let (inodes, used_inodes) = (total / BYTES_PER_INODE, cache.files.len() as u64 + RESERVED_INODES);
        Ok(Usage {
            total_bytes: total,
            used_bytes: used,
            available_bytes: total.saturating_sub(used),
            total_inodes: inodes,
            used_inodes,
            available_inodes: inodes.saturating_sub(used_inodes),
        })
    }

    pub fn remove_dir(&mut self, path: &Path) -> Result<(), DiskError> {
        let path = clean(path)?;
        if self.mounts.contains(&path) {
            return Err(DiskError::Busy { volume: text(&path), by: "something is mounted there".to_owned() });
        }
        match self.root.get(&path) {
            None => return Ok(()),
            Some(Some(_)) => return Err(DiskError::errno("rmdir", text(&path), Errno::NOTDIR)),
            Some(None) => {}
        }
        // The file that a raw device is bound to is not stored.
        if self.root.names_below(&path).chain(self.mounts.names_below(&path)).next().is_some() {
            return Err(DiskError::errno("rmdir", text(&path), Errno::NOTEMPTY));
        }
        self.root.remove(&path);
        Ok(())
    }

    pub fn list_dir(&mut self, path: &Path) -> Result<Option<Vec<String>>, DiskError> {
        let path = clean(path)?;
        if let PathTarget::Volume { volume, name, .. } = self.place(&path) {
            let prefix = if name.is_empty() { name } else { format!("{name}/") };
            let cache = self.alive(&volume, "readdir", &path)?;
            let mut names: Vec<String> = cache
                .files
                .keys()
                .filter_map(|file| file.strip_prefix(&prefix))
                .filter_map(|rest| rest.split('/').next())
                .map(str::to_owned)
                .collect();
            names.dedup();
            return Ok((!names.is_empty() || prefix.is_empty()).then_some(names));
        }
        Ok(self.is_dir(&path).then(|| self.root.names_below(&path).collect()))
    }

    pub fn append(&mut self, volumes: &Volumes, path: &Path, data: &[u8]) -> Result<(), DiskError> {
        let path = clean(path)?;
        match self.place(&path) {
            PathTarget::Volume { readonly: true, .. } => Err(DiskError::errno("write", text(&path), Errno::ROFS)),
            PathTarget::Volume { volume, name, block, .. } => {
                if name.is_empty() != block {
                    let errno = if block { Errno::NOTDIR } else { Errno::ISDIR };
                    return Err(DiskError::errno("write", text(&path), errno));
                }
                let room = volumes.get(&volume).map_or(0, Volume::room);
                let cache = self.alive(&volume, "write", &path)?;
                let file = cache.files.entry(name).or_default();
                // Checks one file only: a sum over all files at every write would cost more than it shows.
                if file.data.len() as u64 + data.len() as u64 > room {
                    return Err(DiskError::errno("write", text(&path), Errno::NOSPC));
                }
                file.data.extend_from_slice(data);
                Ok(())
            }
            PathTarget::Root => {
                self.root_file("write", &path)?.extend_from_slice(data);
                Ok(())
            }
        }
    }

    pub fn write(&mut self, volumes: &mut Volumes, path: &Path, data: &[u8]) -> Result<(), DiskError> {
        let path = clean(path)?;
        match self.place(&path) {
            PathTarget::Volume { readonly: true, .. } => Err(DiskError::errno("write", text(&path), Errno::ROFS)),
            PathTarget::Volume { volume, name, .. } => {
                let durable = volumes.entry(volume.clone()).or_default();
                let cache = self.alive(&volume, "write", &path)?;
                cache.files.insert(name.clone(), Cached { data: data.to_vec(), synced: data.len(), exists: true });
                durable.files.insert(name, data.to_vec());
                Ok(())
            }
            PathTarget::Root => {
                *self.root_file("write", &path)? = data.to_vec();
                Ok(())
            }
        }
    }

    pub fn sync(&mut self, volumes: &mut Volumes, path: &Path) -> Result<(), DiskError> {
        let path = clean(path)?;
        let PathTarget::Volume { volume, name, .. } = self.place(&path) else {
            return self.root_file("fsync", &path).map(drop);
        };
        let durable = volumes.entry(volume.clone()).or_default();
        let cache = self.alive(&volume, "fsync", &path)?;
        if let Some(cached) = cache.files.get_mut(&name) {
            durable.take(&name, cached);
            return Ok(());
        }
        Err(DiskError::errno("fsync", text(&path), Errno::NOENT))
    }

    pub fn read(&mut self, path: &Path) -> Result<Option<Vec<u8>>, DiskError> {
        let path = clean(path)?;
        match self.place(&path) {
            PathTarget::Volume { volume, name, .. } => {
                Ok(self.alive(&volume, "read", &path)?.files.get(&name).map(|c| c.data.clone()))
            }
            PathTarget::Root => match self.root.get(&path) {
                Some(None) => Err(DiskError::errno("read", text(&path), Errno::ISDIR)),
                found => Ok(found.cloned().flatten()),
            },
        }
    }

    pub fn remove_file(&mut self, volumes: &mut Volumes, path: &Path) -> Result<(), DiskError> {
        let path = clean(path)?;
        match self.place(&path) {
            PathTarget::Volume { readonly: true, .. } => Err(DiskError::errno("unlink", text(&path), Errno::ROFS)),
            PathTarget::Volume { volume, name, .. } => {
                self.alive(&volume, "unlink", &path)?.files.remove(&name);
                if let Some(durable) = volumes.get_mut(&volume) {
                    durable.files.remove(&name);
                }
                Ok(())
            }
            PathTarget::Root => {
                if matches!(self.root.get(&path), Some(None)) {
                    return Err(DiskError::errno("unlink", text(&path), Errno::ISDIR));
                }
                self.root.remove(&path);
                Ok(())
            }
        }
    }
}
