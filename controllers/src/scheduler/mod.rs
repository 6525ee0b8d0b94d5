//! The scheduler (`kube-scheduler`), with upstream's filters for volumes, zones, volume limits, taints, node affinity, host
//! ports and resources.
//!
//! [`queue`] selects the next pod, [`cycle`] its node: a pure function over the [`cache`]. Then the pod is assumed, its
//! volumes are bound ([`binding`]) and it is bound, in a separate task, while the next pod is scheduled.
//!
//! Intended differences from upstream: of the passing nodes, the one with the fewest pods wins, ties by name, so that a
//! run replays and is predictable (upstream weighs many scores and picks randomly among the best). Topology spread and
//! inter-pod affinity are ignored. Pods are never preempted; the message is upstream's for a cluster without victims.

pub mod assume;
mod async_loop;
pub mod binding;
pub mod budgets;
pub mod cache;
pub mod candidates;
pub mod cycle;
mod events;
pub mod fit_error;
pub mod hints;
pub mod incoming;
pub mod node_filters;
pub mod node_info;
pub mod node_ports;
pub mod nominations;
pub mod preemption;
mod preemptor;
pub mod queue;
pub mod resources;
pub mod scores;
mod sources;
mod status;
pub mod volume_binding;
pub mod volume_filters;
mod watch;

#[cfg(test)]
mod tests;

pub(crate) use async_loop::NAME;
pub use async_loop::{Config, run, warm};
