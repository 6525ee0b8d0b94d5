//! A cluster of containers, as compose.yaml describes it: the helper programs in them, and the access to them from
//! outside.

pub mod addons;
mod check;
mod cluster;
mod container;
mod disk;
mod fault_channel;
pub mod health;
pub mod look;
pub mod node;
pub mod part;
pub mod project;

pub use check::check;
pub(in crate::cluster) use cluster::FaultAdmin;
pub(in crate::cluster) use container::Container;
