//! The Node object: its registration, its status loop and its lease.
//!
//! May use the [volume manager](super::volume_manager), for `status.volumesInUse`.

pub(super) mod context;
pub(super) mod lease;
pub mod node_object;
pub(super) mod node_status;
pub(super) mod readiness;
