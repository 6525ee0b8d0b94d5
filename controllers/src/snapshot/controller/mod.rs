//! The snapshot-controller (`pkg/common-controller`): it binds VolumeSnapshots to VolumeSnapshotContents.
//!
//! Two work queues, as upstream: snapshots and contents; [`group`] has two more. [`decide`], [`binding`] and [`status`] are pure, with the names
//! of the originals; the other files read caches, send requests and record Events, in upstream's order.

mod async_loop;
pub mod binding;
mod claim;
mod content;
mod create;
pub mod decide;
mod delete;
pub mod group;
mod snapshot;
pub mod status;
mod write;

pub use async_loop::run;
