//! Block devices, mounts and files of a node, behind one object-safe trait; and the plug that adds and removes devices.
//!
//! One [`Disk`] value represents one node; all nodes of a world share the bytes of the volumes. There are three
//! backends: [`MemoryDisks`] (simulation: page cache, fsync and power loss as a model), `directory` (a volume is a
//! directory, a mount is a symlink; anywhere, without root) and `loop` (loop devices, real filesystems and bind mounts;
//! needs root on Linux).
//!
//! ```
//! use csi_disk::MemoryDisks;
//! use substrate::world::{Options, simulate};
//!
//! let found = simulate(Options::default(), async |_world| {
//!     let disk = MemoryDisks::new().node("node-a");
//!     disk.find("vol-0123456789abcdef0").await
//! });
//! assert!(found.unwrap().is_none(), "no device was plugged");
//! ```
//!
//! # Modules
//!
//! - `memory`, `directory` and `loopback` are the backends; [`open`] selects one of a live node.
//! - [`faulty`] wraps a disk with the fault points of [`faults`]; [`paced`] gives its operations a duration.
//! - [`plug`] follows the device stream of the cloud.
//! - [`events`] holds the trace events, [`mutants`] the seeded bugs.
//!
//! # Never
//!
//! A disk formats and detaches only devices of its own ledger. No path and no command comes from the network.

mod backend;
mod blocking;
mod capability;
mod directory;
mod errnos;
mod error;
pub mod events;
pub mod faults;
mod faulty;
mod files;
#[cfg(target_os = "linux")]
mod loopback;
mod lossy;
mod memory;
mod mount;
pub mod mutants;
mod node_disk;
mod paced;
mod path_limit;
mod plain_name;
pub mod plug;
mod raw;
mod root;
mod share;
mod stat;

use std::path::Path;
use std::sync::Arc;

use substrate::World;

pub use backend::Backend;
pub use capability::{Capability, Check, capability};
pub use directory::DirectoryDisk;
pub use errnos::{ERRNOS, errno};
pub use error::{DiskError, DiskFuture};
pub use faulty::faulty;
pub use memory::MemoryDisks;
pub use mount::{Device, GroupChange, Mount, MountKind, Plug, Publish, Published, Stage, Staged, Usage};
pub use node_disk::{Disk, EMITTING};
pub use paced::{Pace, paced};
pub use path_limit::MAX_PATH;
pub use raw::{Mapping, RawDevice};
pub use share::{FileLock, Share};

#[cfg(target_os = "linux")]
pub use loopback::{LoopDisk, make_control, private_mounts};

/// Opens the disk of a live node with the requested backend; `None` selects the best one that works here.
///
/// `run` names the Mooring that owns the devices, `root` is the node's root directory, `volumes` the directory of all
/// volumes' files.
///
/// # Errors
/// [`DiskError::Environment`] if the backend does not work here, with the reasons; [`DiskError::Unsupported`] for the
/// memory backend, which has no files on this machine.
pub fn open(
    backend: Option<Backend>,
    run: &str,
    node: &str,
    root: &Path,
    volumes: &Path,
) -> Result<Arc<dyn Disk>, DiskError> {
    let found = capability();
    match backend.unwrap_or(found.backend) {
        Backend::Directory => Ok(Arc::new(DirectoryDisk::new(node, root, volumes)?)),
        Backend::Memory => Err(DiskError::Unsupported {
            backend: Backend::Memory,
            reason: "it belongs to the simulation; take loop or directory".to_owned(),
        }),
        Backend::Loop => match found.loop_backend {
            Err(missing) => Err(DiskError::Environment(format!("the loop backend does not work here: {missing}"))),
            Ok(()) => open_loop(run, node, root, volumes),
        },
    }
}

#[cfg(target_os = "linux")]
fn open_loop(run: &str, node: &str, root: &Path, volumes: &Path) -> Result<Arc<dyn Disk>, DiskError> {
    Ok(Arc::new(LoopDisk::new(node, root, volumes, run)?))
}

#[cfg(not(target_os = "linux"))]
fn open_loop(_: &str, _: &str, _: &Path, _: &Path) -> Result<Arc<dyn Disk>, DiskError> {
    Err(DiskError::Environment("loop devices exist on Linux only".to_owned()))
}

/// Simulates power loss of a node in `world`: crashes its disk and emits an event. The caller crashes the processes.
///
/// # Errors
/// The disk's error.
pub async fn power_loss(world: &World, disk: &dyn Disk) -> Result<(), DiskError> {
    disk.crash().await?;
    world.trace().info(&disk.node().into(), crate::events::DiskCrashed { node: disk.node().into() });
    Ok(())
}
