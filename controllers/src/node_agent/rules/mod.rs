//! Rules for the containers of a pod, as pure machines: which of them starts again, which one waits for its image, and
//! which one is unhealthy by its probes.
//!
//! May use the [table of pods](super::pod_table), for the pace of a worker.

pub(super) mod ephemeral;
pub(super) mod image_name;
pub(super) mod image_pulls;
pub(super) mod probes;
pub(super) mod restarts;
