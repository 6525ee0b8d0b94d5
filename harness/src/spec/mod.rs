//! Descriptions that all other parts share: the cluster, its processes and programs, its objects, and the names of the
//! invariants. Nothing here runs.

pub(crate) mod begin;
pub mod cluster;
pub mod containers;
pub(crate) mod custom;
pub(crate) mod invariant;
mod kind;
pub(crate) mod manifest;
pub mod names;
pub mod object;
mod program;
pub(crate) mod snapshots;
pub(crate) mod unserved;
pub(crate) mod upstream_bugs;

pub use begin::Begin;
pub use cluster::{ClusterSpec, DriverSettings, NodeSpec, Requests};
pub use containers::Containers;
pub use invariant::Id;
pub use manifest::Manifest;
pub use object::{Kind, ObjectRef, State};
pub use program::ProgramSpec;
pub(crate) use unserved::Unserved;
