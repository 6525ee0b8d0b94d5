//! Pod GC (`pod-garbage-collector-controller`): removes pods that no kubelet will ever remove.

mod async_loop;
mod collect;

pub use async_loop::run;
pub use collect::{Collector, Doomed, Reason};
