//! Pods on this node: their source, their admission, and the worker of each, from its first sync to its last unmount.
//!
//! May use all rooms but the [server](super::server).

pub mod admission;
pub(super) mod context;
mod deadline;
mod housekeeping;
mod pod_volumes;
mod pod_worker;
pub(super) mod runtime_news;
pub(super) mod source;
