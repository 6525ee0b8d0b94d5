//! A CSI driver with real disks: controller service over the EC2 API, node service over a [`disk::Disk`].
//!
//! The node service never touches a block device or a path by itself: everything below the RPCs is the
//! [`disk::Disk`] of its node, which in the simulation is a memory model and in the live world real mounts.

mod admin;
pub mod calls;
mod check;
mod cli;
pub mod controller;
pub mod disk;
mod identity;
pub mod node;
pub mod plug;
pub mod registration;
pub mod serve;

pub use cli::main_with;
pub use identity::{DRIVER_NAME, WELL_KNOWN_ZONE_KEY, ZONE_KEY};
