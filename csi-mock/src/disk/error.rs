//! Why a disk operation failed.

use std::sync::Arc;

/// Why a disk operation failed. The text names what it was about and, where there is one, the way out.
#[derive(Clone, Debug, displaydoc::Display, thiserror::Error)]
pub enum DiskError {
    /// path `{path}`: {reason}
    BadPath {
        /// The path as given.
        path: String,
        /// What is wrong with it.
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
        /// What is there.
        by: String,
    },
    /// volume `{volume}` is in use: {by}
    Busy {
        /// The volume, or the path when it is not a volume.
        volume: String,
        /// Who holds it.
        by: String,
    },
    /// volume `{volume}` holds data that must not be touched: {reason}
    Corrupt {
        /// The volume.
        volume: String,
        /// What was found.
        reason: String,
    },
    /// device `{device}` is not one that Mooring made for `{volume}`: {reason}; it was left alone
    NotOurs {
        /// The volume that was meant.
        volume: String,
        /// The device.
        device: String,
        /// What differs from the ledger.
        reason: String,
    },
    /// the {backend} backend cannot do this: {reason}
    Unsupported {
        /// The backend.
        backend: super::Backend,
        /// What and why, with a way out.
        reason: String,
    },
    /// this machine cannot do this: {0}
    Environment(String),
    /// {op} `{path}`: {source}
    Io {
        /// The operation.
        op: &'static str,
        /// On what.
        path: String,
        /// What the system (or the model) said.
        source: Arc<std::io::Error>,
    },
}

impl DiskError {
    /// An operating-system error, with what was done and to what.
    pub fn io(op: &'static str, path: impl Into<String>, source: impl Into<std::io::Error>) -> Self {
        Self::Io { op, path: path.into(), source: Arc::new(source.into()) }
    }

    /// An error by errno, as the kernel would give it; the memory model uses it.
    pub fn errno(op: &'static str, path: impl Into<String>, errno: rustix::io::Errno) -> Self {
        Self::io(op, path, errno)
    }

    /// Whether the disk said ENOENT or ENOTDIR: there is no such file or directory.
    pub fn is_not_found(&self) -> bool {
        let codes = [rustix::io::Errno::NOENT, rustix::io::Errno::NOTDIR].map(|e| Some(e.raw_os_error()));
        matches!(self, Self::Io { source, .. } if codes.contains(&source.raw_os_error()))
    }

    /// Whether the disk said EIO: the device is gone or broken under its mount.
    pub fn is_eio(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error()))
    }
}
