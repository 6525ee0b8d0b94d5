//! Backends of disks.

use std::fmt;

use serde::Serialize;

/// Backend of a node's disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Backend {
    /// A model in memory: a crash loses unsynced writes. For the simulation.
    Memory,
    /// A volume is a directory and a mount is a symlink. No block device, no filesystem, no power loss.
    Directory,
    /// A volume is a sparse file behind a loop device with a real filesystem, mounted by the kernel.
    Loop,
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Memory => "memory",
            Self::Directory => "directory",
            Self::Loop => "loop",
        })
    }
}
