//! The private mount namespace of the live world, entered in `main` before any thread exists.
//!
//! All mounts live in it. When the last process in it ends, even by `kill -9`, the kernel unmounts them, and loop
//! devices with autoclear vanish with their last mount.

use std::path::{Path, PathBuf};

use rustix::mount::{MountPropagationFlags, UnmountFlags, mount_bind, mount_change, unmount};
use rustix::thread::UnshareFlags;

/// Reason why the process has no private mount namespace.
#[derive(Clone, Debug, PartialEq, Eq, displaydoc::Display, thiserror::Error)]
pub enum NamespaceError {
    /// a private mount namespace needs root (CAP_SYS_ADMIN): {0}
    Unshare(rustix::io::Errno),
    /// the mount tree could not be made a slave of the host's: {0}
    Propagation(rustix::io::Errno),
    /// mounts there could not be shared with other namespaces: {0}
    Share(rustix::io::Errno),
}

/// Moves the calling process into a private mount namespace that receives the host's mounts and returns none.
///
/// Call it before the first thread starts: a thread keeps the namespace in which it began.
///
/// # Errors
/// If the process is not privileged.
pub fn enter_private() -> Result<(), NamespaceError> {
    #[expect(unsafe_code, reason = "rustix marks unshare as unsafe for the sake of UnshareFlags::FILES")]
    // SAFETY: only NEWNS is unshared, the table of file descriptors is not touched.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS) }.map_err(NamespaceError::Unshare)?;
    mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)
        .map_err(NamespaceError::Propagation)
}

/// A directory whose mounts are visible in this mount namespace and in those created from it, in both directions:
/// kubelet requires that of its root directory. Dropping the value unmounts the directory and all mounts in it.
#[derive(Debug)]
pub struct Shared(PathBuf);

impl Shared {
    /// Shares `directory`.
    ///
    /// # Errors
    /// [`NamespaceError::Share`] if the process is not privileged.
    pub fn new(directory: &Path) -> Result<Self, NamespaceError> {
        mount_bind(directory, directory).map_err(NamespaceError::Share)?;
        let shared = Self(directory.to_owned());
        mount_change(directory, MountPropagationFlags::SHARED).map_err(NamespaceError::Share)?;
        Ok(shared)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // If this fails, the mount ends with the namespace.
        let _ = unmount(&self.0, UnmountFlags::DETACH);
    }
}
