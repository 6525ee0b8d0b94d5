//! Kubelet's own check of each pod that is bound to its node.
//!
//! May use the room of the [Node](super::node), the drivers as [plugins](super::plugins), the
//! [volume manager](super::volume_manager), and the [table of pods](super::pod_table).

pub(super) mod context;
pub(super) mod predicates;

pub use predicates::{Refusal, check};
