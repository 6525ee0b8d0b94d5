//! Node lifecycle (`node-lifecycle-controller`): nodes without heartbeats become Unknown and get taints.

mod health;
mod mirror;
mod shell;
mod zones;

pub use health::{Heartbeat, NodeHealth, Observation, Ready};
pub use shell::run;
pub use zones::{TaintQueue, ZoneState, zone_key, zone_state};

/// Source of its events.
pub const EVENT_SOURCE: &str = "node-controller";
