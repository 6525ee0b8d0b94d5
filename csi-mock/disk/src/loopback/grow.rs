//! Growth of devices and filesystems while they are in use.

use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, StatxAttributes, StatxFlags, statx};
use rustix::io::Errno;

use super::ledger::Plugged;
use super::{Inner, superblock, text, tools};
use crate::{DiskError, MountKind, Usage};

/// A filesystem that ends this close to the end of its device, in bytes, is as large as possible.
const SLACK: u64 = 64 << 10;

/// Returns true if an open directory is a mount point, or if the kernel (before 5.8) cannot tell.
fn is_mount(dir: &OwnedFd) -> Result<bool, Errno> {
    let stat = statx(dir, "", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS)?;
    let root = StatxAttributes::MOUNT_ROOT;
    Ok(!stat.stx_attributes_mask.contains(root) || stat.stx_attributes.contains(root))
}

impl Inner {
    pub fn usage(&self, path: &Path) -> Result<Usage, DiskError> {
        let absolute = self.root.absolute(path)?;
        let block = self.mounts()?.into_iter().rfind(|m| m.path == absolute).filter(|m| m.kind.is_raw());
        if let Some(mount) = block {
            let plugged = self.get(&mount.volume).ok_or_else(|| DiskError::errno("stat", text(path), Errno::IO))?;
            return Ok(Usage { total_bytes: plugged.device.size_bytes(), ..Usage::default() });
        }
        let dir = self.root.dir(path)?;
        let fail = |e| DiskError::errno("statfs", text(path), e);
        // After an unmount, the directory belongs to the filesystem below.
        if !is_mount(&dir).map_err(fail)? {
            return Err(fail(Errno::NOENT));
        }
        crate::stat::usage(&dir).map_err(fail)
    }

    /// Updates a device after its file has grown. The file's size is used, not the caller's.
    pub fn resize(&self, volume: &str, _size_bytes: u64) -> Result<bool, DiskError> {
        let Some(plugged) = self.get(volume) else { return Ok(false) };
        let before = plugged.device.size_bytes();
        Ok(plugged.device.refresh()? > before)
    }

    pub fn expand(&self, volume: &str, path: &Path) -> Result<u64, DiskError> {
        let path = self.root.absolute(path)?;
        let mounts = self.mounts()?;
        let Some(asked) = mounts.iter().rfind(|m| m.path == path && m.volume == volume) else {
            return Err(DiskError::NotStaged { volume: volume.to_owned(), path: text(&path) });
        };
        let plugged = self.get(volume).ok_or_else(|| DiskError::NotPlugged(volume.to_owned()))?;
        let size = plugged.device.refresh()?;
        if !asked.kind.is_raw() {
            let staged = mounts.iter().find(|m| m.volume == volume && m.kind == MountKind::Staging).unwrap_or(asked);
            self.grow(&plugged, &staged.path, staged.readonly)?;
        }
        Ok(size)
    }

    /// Grows an unmounted ext4 to its device; other filesystems grow only while mounted.
    pub fn grow_unmounted(&self, plugged: &Plugged) -> Result<(), DiskError> {
        let name = || text(&plugged.device.path());
        let found = superblock::read(&plugged.file).map_err(|e| DiskError::io("read superblock", name(), e))?;
        match found {
            Some(("ext4", bytes)) if bytes.saturating_add(SLACK) < plugged.device.size_bytes() => {
                plugged.device.verify()?;
                tools::grow_ext4_unmounted(&plugged.device.path())
            }
            _ => Ok(()),
        }
    }

    /// Grows the filesystem mounted at `path` to its device.
    pub fn grow(&self, plugged: &Plugged, path: &Path, readonly: bool) -> Result<(), DiskError> {
        let found = superblock::read(&plugged.file);
        let Some((fs_type, bytes)) = found.map_err(|e| DiskError::io("read superblock", text(path), e))? else {
            return Err(DiskError::Environment(format!("the filesystem at {} is not one that can grow", text(path))));
        };
        if bytes.saturating_add(SLACK) >= plugged.device.size_bytes() {
            return Ok(());
        }
        if readonly {
            return Err(DiskError::errno("resize", text(path), Errno::ROFS));
        }
        plugged.device.verify()?;
        tools::grow(&plugged.device.path(), path, fs_type)
    }
}
