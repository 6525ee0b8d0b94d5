//! A cluster of containers, as compose.yaml describes it: what runs in them beside the components, and how it is
//! reached and broken from outside.

pub mod addons;
mod check;
mod cluster;
mod container;
mod disk;
pub mod health;
pub mod look;
pub mod node;
pub mod part;
pub mod project;
mod voice;

pub use check::check;
pub(in crate::cluster) use cluster::Desk;
pub(in crate::cluster) use container::Container;
