//! csi-snapshotter (`pkg/sidecar-controller`): CreateSnapshot and DeleteSnapshot for VolumeSnapshotContents.
//!
//! [`decide`] and [`status`] are pure, with the names of the originals; `driver` calls the driver, the other files read
//! caches, send requests and record Events, in upstream's order. [`group`] does the same for groups of snapshots.

mod async_loop;
mod content;
mod create;
pub mod decide;
mod delete;
mod driver;
pub mod group;
pub mod status;
mod write;

pub use async_loop::{Reached, run};
