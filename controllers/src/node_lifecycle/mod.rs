//! Node lifecycle (`node-lifecycle-controller`): nodes without heartbeats become Unknown and get taints.

mod async_loop;
mod health;
mod labels;
mod mirror;
mod zones;

pub use async_loop::run;
pub use health::{Heartbeat, NodeHealth, Observation, Ready};
pub use zones::{TaintQueue, ZoneState, zone_key, zone_state};

/// Source of its events.
pub const EVENT_SOURCE: &str = "node-controller";
