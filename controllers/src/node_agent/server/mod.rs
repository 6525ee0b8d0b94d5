//! The node's own server: logs, programs in containers, and statistics.
//!
//! May use the [volumes](super::volumes) with their [manager](super::volume_manager), the drivers as
//! [plugins](super::plugins), the [status](super::status) of pods, and the [table of pods](super::pod_table). No other room
//! uses it.

pub(super) mod context;
pub(super) mod log_service;
mod log_target;
mod resource_metrics;
pub(super) mod stats;
mod summary;
mod volume_stats;
