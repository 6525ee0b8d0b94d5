//! Ownership of a filesystem by a group (CSI VOLUME_MOUNT_GROUP), as kubelet does it for fsGroup.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, Gid, Mode, OFlags};
use rustix::io::Errno;

use super::{Inner, mountinfo, text};
use crate::{DiskError, GroupChange};

/// Mode bits of the group on files, and on directories.
const FILE: u32 = 0o660;
const DIRECTORY: u32 = 0o2770;

/// Returns true if `mode` and `gid` are as wanted.
fn fits(mode: u32, gid: u32, group: u32, wanted: u32) -> bool {
    gid == group && mode & wanted == wanted
}

impl Inner {
    /// Gives the filesystem mounted at `path` to a group. Without a mount, nothing changes. Another driver may have
    /// mounted it.
    pub fn give_mounted(&self, path: &Path, change: GroupChange) -> Result<(), DiskError> {
        let path = self.root.absolute(path)?;
        if !mountinfo::read()?.iter().any(|entry| entry.path == path) {
            return Err(DiskError::NotStaged { volume: String::new(), path: text(&path) });
        }
        self.change(&path, change)
    }

    /// Gives everything in the mounted filesystem to `group`, unless the root directory is the group's already: a large
    /// volume is walked once.
    pub fn give(&self, path: &Path, group: Option<u32>) -> Result<(), DiskError> {
        group.map_or(Ok(()), |group| self.change(path, GroupChange { group, always: false }))
    }

    fn change(&self, path: &Path, change: GroupChange) -> Result<(), DiskError> {
        let GroupChange { group, always } = change;
        let root = self.root.readable_dir(path)?;
        let fail = |e: Errno| DiskError::errno("chown", text(path), e);
        let stat = rustix::fs::fstat(&root).map_err(fail)?;
        if !always && fits(stat.st_mode, stat.st_gid, group, DIRECTORY) {
            return Ok(());
        }
        let mut open: Vec<OwnedFd> = vec![root.try_clone().map_err(|e| DiskError::io("open", text(path), e))?];
        while let Some(dir) = open.pop() {
            walk(&dir, stat.st_dev, group, &mut open).map_err(fail)?;
        }
        // The root is last: it proves that the rest is done.
        take(&root, group, DIRECTORY).map_err(fail)
    }
}

/// Gives an open file or directory to the group.
fn take(fd: impl AsFd, group: u32, wanted: u32) -> Result<(), Errno> {
    rustix::fs::fchown(&fd, None, Some(Gid::from_raw(group)))?;
    // chown may clear the set-group-id bit, so the mode is set after it.
    let mode = rustix::fs::fstat(&fd)?.st_mode;
    rustix::fs::fchmod(&fd, Mode::from_raw_mode(mode & 0o7777 | wanted))
}

/// Gives the entries of a directory to the group, and adds its subdirectories to `open`. Follows no link and stays on
/// the filesystem.
fn walk(dir: &OwnedFd, device: u64, group: u32, open: &mut Vec<OwnedFd>) -> Result<(), Errno> {
    for entry in Dir::read_from(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        let stat = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
        if stat.st_dev != device {
            continue;
        }
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => {
                let below = rustix::fs::openat(dir, name, flags | OFlags::DIRECTORY, Mode::empty())?;
                take(&below, group, DIRECTORY)?;
                open.push(below);
            }
            FileType::RegularFile => {
                take(rustix::fs::openat(dir, name, flags, Mode::empty())?, group, FILE)?;
            }
            // Links and special files have no mode worth changing.
            _ => {
                rustix::fs::chownat(dir, name, None, Some(Gid::from_raw(group)), AtFlags::SYMLINK_NOFOLLOW)?;
            }
        }
    }
    Ok(())
}
