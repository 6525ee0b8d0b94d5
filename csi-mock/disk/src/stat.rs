//! Usage of a filesystem, from fstatvfs.

use std::os::fd::OwnedFd;

use rustix::io::Errno;

use super::Usage;

/// Reads the usage of the open directory's filesystem.
pub(super) fn usage(dir: &OwnedFd) -> Result<Usage, Errno> {
    let stat = rustix::fs::fstatvfs(dir)?;
    let blocks = |n: u64| n.saturating_mul(stat.f_frsize);
    Ok(Usage {
        total_bytes: blocks(stat.f_blocks),
        used_bytes: blocks(stat.f_blocks.saturating_sub(stat.f_bfree)),
        available_bytes: blocks(stat.f_bavail),
        total_inodes: stat.f_files,
        used_inodes: stat.f_files.saturating_sub(stat.f_ffree),
        available_inodes: stat.f_favail,
    })
}
