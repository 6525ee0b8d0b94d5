//! Drivers as plugins of kubelet: the watch of their sockets, their registration at the Node and the CSINode, the limits
//! that they report, and the calls to them.
//!
//! May use the [volume manager](super::volume_manager), for the volume of a call and its errors, and the room of the
//! [Node](super::node).

pub(super) mod allocatable;
pub(super) mod context;
pub mod csi;
pub(super) mod plugin_dir;
pub(super) mod registration;
pub(super) mod socket;
