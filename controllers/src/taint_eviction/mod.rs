//! Taint eviction (`taint-eviction-controller`): pods that do not tolerate a NoExecute taint are deleted.

mod async_loop;
mod timers;

pub use async_loop::run;
pub use timers::{Effect, Evictions, PodKey, PodView};

/// Source of its events.
pub const EVENT_SOURCE: &str = "taint-eviction-controller";
