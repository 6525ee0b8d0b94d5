//! Containers of a pod that runs: their starts with their Events, their hooks and probes, and the stop of those that end
//! alone.
//!
//! May use their [programs](super::programs), the [rules](super::rules) for containers, and the
//! [table of pods](super::pod_table).

pub(super) mod context;
pub(super) mod ephemeral_starts;
mod exec;
pub(super) mod health;
pub(super) mod hooks;
pub(super) mod http_get;
pub(super) mod image_change;
pub(super) mod of_pod;
pub(super) mod prober;
pub(super) mod starts;
