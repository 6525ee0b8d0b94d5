//! The private mount namespace of the live world, entered in `main` before any thread exists.
//!
//! Everything that is mounted lives in it, so when the last process in it ends, even by `kill -9`, the kernel
//! unmounts all of it, and loop devices with autoclear vanish with their last mount.

use rustix::mount::{MountPropagationFlags, mount_change};
use rustix::thread::UnshareFlags;

/// Why the process has no mount namespace of its own.
#[derive(Clone, Debug, PartialEq, Eq, displaydoc::Display, thiserror::Error)]
pub enum NamespaceError {
    /// a private mount namespace needs root (CAP_SYS_ADMIN): {0}
    Unshare(rustix::io::Errno),
    /// the mount tree could not be made a slave of the host's: {0}
    Propagation(rustix::io::Errno),
}

/// Moves the calling process into a mount namespace of its own that receives the host's mounts and returns none.
///
/// Call it before the first thread starts: a thread keeps the namespace that it began in.
///
/// # Errors
/// When the process is not privileged.
pub fn enter_private() -> Result<(), NamespaceError> {
    #[expect(unsafe_code, reason = "rustix marks unshare as unsafe for the sake of UnshareFlags::FILES")]
    // SAFETY: only NEWNS is unshared, the table of file descriptors is not touched.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS) }.map_err(NamespaceError::Unshare)?;
    mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)
        .map_err(NamespaceError::Propagation)
}
