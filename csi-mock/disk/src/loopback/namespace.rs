//! Private mount namespace, so that no mount outlives the process.

#![expect(unsafe_code, reason = "unshare is unsafe when it parts descriptor tables between threads")]

use rustix::mount::{MountPropagationFlags, mount_change};
use rustix::thread::{UnshareFlags, unshare_unsafe};

use crate::DiskError;

/// Enters a private mount namespace: only this process and its children see later mounts, which end with the last of
/// them. Call it before any thread exists: existing threads stay outside.
///
/// # Errors
/// [`DiskError::Environment`] without permission.
pub fn private_mounts() -> Result<(), DiskError> {
    let refused =
        |e: rustix::io::Errno| DiskError::Environment(format!("no private mount namespace: {e}; run as root"));
    // SAFETY: only the mount namespace and the working directory are unshared, no descriptor table.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS) }.map_err(refused)?;
    // Mounts of the host still propagate in; ours do not propagate out.
    mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::DOWNSTREAM).map_err(refused)
}
