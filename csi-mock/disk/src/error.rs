//! Errors of disk operations.

use std::sync::Arc;

use futures_util::future::BoxFuture;

/// Result of every disk operation.
pub type DiskFuture<'a, T> = BoxFuture<'a, Result<T, DiskError>>;

/// Error of a disk operation. The text names the object and, if there is one, the remedy.
#[derive(Clone, Debug, displaydoc::Display, thiserror::Error)]
pub enum DiskError {
    /// path `{path}`: {reason}
    BadPath {
        /// The path as given.
        path: String,
        /// Reason why it is invalid.
        reason: String,
    },
    /// volume `{0}` has no device on this node: it is not attached here, or its device has not appeared yet
    NotPlugged(String),
    /// volume `{volume}` is not staged at `{path}`
    NotStaged {
        /// The volume.
        volume: String,
        /// The staging path.
        path: String,
    },
    /// `{path}` is taken: {by}
    Occupied {
        /// The path.
        path: String,
        /// Object at the path.
        by: String,
    },
    /// volume `{volume}` is in use: {by}
    Busy {
        /// The volume, or the path if it belongs to none.
        volume: String,
        /// User of the volume.
        by: String,
    },
    /// volume `{volume}` holds data that must not be touched: {reason}
    Corrupt {
        /// The volume.
        volume: String,
        /// Content found.
        reason: String,
    },
    /// device `{device}` is not one that Mooring made for `{volume}`: {reason}; it was left alone
    NotOurs {
        /// The intended volume.
        volume: String,
        /// The device.
        device: String,
        /// Difference from the ledger.
        reason: String,
    },
    /// the {backend} backend cannot do this: {reason}
    Unsupported {
        /// The backend.
        backend: super::Backend,
        /// Operation and reason, with a remedy.
        reason: String,
    },
    /// this machine cannot do this: {0}
    Environment(String),
    /// {op} `{path}`: {source}
    Io {
        /// The operation.
        op: &'static str,
        /// Object of the operation.
        path: String,
        /// Error of the operating system (or the model).
        source: Arc<std::io::Error>,
    },
}

impl DiskError {
    /// Wraps an operating-system error with the operation and its object.
    pub fn io(op: &'static str, path: impl Into<String>, source: impl Into<std::io::Error>) -> Self {
        Self::Io { op, path: path.into(), source: Arc::new(source.into()) }
    }

    /// Builds an error from an errno, as the kernel would return it; used by the memory model.
    pub fn errno(op: &'static str, path: impl Into<String>, errno: rustix::io::Errno) -> Self {
        Self::io(op, path, errno)
    }

    /// Returns true for ENOENT or ENOTDIR: the file or directory does not exist.
    pub fn is_not_found(&self) -> bool {
        let codes = [rustix::io::Errno::NOENT, rustix::io::Errno::NOTDIR].map(|e| Some(e.raw_os_error()));
        matches!(self, Self::Io { source, .. } if codes.contains(&source.raw_os_error()))
    }

    /// Returns true for EIO: the device under the mount is gone or broken.
    pub fn is_eio(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error()))
    }
}
