//! Mounts of shared file systems, such as NFS: no device, and the same bytes on all nodes.

use std::any::Any;
use std::fmt;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;

use super::DiskError;
use super::blocking::blocking;

/// Request to mount a directory of a shared file system.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// The volume's handle.
    pub volume: String,
    /// The file system (`fs-…`).
    pub file_system: String,
    /// Directory of the file system, absolute and without `..`.
    pub directory: String,
    /// Target path. Its parent exists; the last component is created.
    pub path: PathBuf,
    /// Further mount options.
    pub mount_flags: Vec<String>,
    /// If set, refuse writes through this path.
    pub readonly: bool,
}

/// Lock on a directory of a shared file system. It ends when the value is dropped.
pub struct FileLock(Box<dyn Any + Send + Sync>);

/// Returns true if `volume` is the handle of a shared file system (`fs-…` or `efs:fs-…`), which has no device.
pub(super) fn is_shared(volume: &str) -> bool {
    volume.strip_prefix("efs:").unwrap_or(volume).starts_with("fs-")
}

impl FileLock {
    /// Wraps the guard of a backend.
    pub(super) fn new(guard: impl Send + Sync + 'static) -> Self {
        Self(Box::new(guard))
    }
}

impl Share {
    /// Returns the directory of the bytes below the directory of all volumes.
    pub(super) fn bytes(&self, volumes: &Path) -> Result<PathBuf, DiskError> {
        super::plain_name::plain_name("a file system", &self.file_system)?;
        Ok(volumes.join(format!("{}.share", self.file_system)).join(self.directory.trim_start_matches('/')))
    }
}

impl FileLock {
    /// Locks an open directory with flock(2), and waits for other holders on its own thread.
    pub(super) async fn of_directory(directory: Option<OwnedFd>) -> Result<Option<Self>, DiskError> {
        let Some(directory) = directory else { return Ok(None) };
        let wait = move || {
            let done = rustix::fs::flock(&directory, FlockOperation::LockExclusive);
            done.map(|()| Self::new(directory)).map_err(|error| DiskError::errno("flock", "a shared directory", error))
        };
        blocking(Box::new(wait)).await.map(Some)
    }
}

impl fmt::Debug for FileLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(_held) = self;
        f.write_str("FileLock")
    }
}
