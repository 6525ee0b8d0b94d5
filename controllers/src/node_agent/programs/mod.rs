//! Programs of the containers of a pod, or the modelled workload in their place: command, environment, mounts and volumes,
//! and the objects that they need.
//!
//! May use the [rules](super::rules) for containers, the [volumes](super::volumes) with their
//! [manager](super::volume_manager), and the room of the [Node](super::node).

pub(super) mod context;
pub(super) mod entry_point;
mod host_name;
pub(super) mod needed;
mod plain_command;
mod program;
mod program_volumes;
mod references;
mod resource_field;
mod seen;
mod service_variables;
pub(super) mod sub_path;
pub(super) mod unprepared;
pub mod workload;
