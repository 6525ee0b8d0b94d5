//! Pod GC (`pod-garbage-collector-controller`): removes pods that no kubelet will ever remove.

mod collect;
mod shell;

pub use collect::{Collector, Doomed, Reason};
pub use shell::run;
