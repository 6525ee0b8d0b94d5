//! Pods on this node: their source, and the worker of each, from its admission to its last unmount.
//!
//! May use the rooms of [admission](super::admission), [volumes](super::volumes), [containers](super::containers) with their
//! [programs](super::programs) and [rules](super::rules), the [status](super::status), and the
//! [table of pods](super::pod_table).

pub(super) mod context;
mod deadline;
mod housekeeping;
mod pod_volumes;
mod pod_worker;
pub(super) mod runtime_news;
pub(super) mod source;
