//! The status of pods, from the records of the machine to the API server.
//!
//! May use the [rules](super::rules) for containers, the [table of pods](super::pod_table), and the room of the
//! [Node](super::node), for addresses.

mod container_status;
pub(super) mod context;
mod deadline_words;
mod ephemeral_status;
mod pod_conditions;
mod pod_phase;
pub(super) mod pod_report;
pub mod pod_status;
pub(super) mod status_reporter;
