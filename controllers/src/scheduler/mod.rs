//! The scheduler (`kube-scheduler`), as far as volumes, zones, limits, taints and basic resources go.
//!
//! [`queue`] decides which pod is next, [`cycle`] where it goes: a pure function over the [`world`]. Then the pod is
//! assumed, its volumes are bound ([`binding`]) and it is bound, in a task of its own, while the next pod is scheduled.
//!
//! Differences from upstream, all meant: of the nodes that pass, the one with the fewest pods wins, ties by name, so that
//! a run replays and can be foretold (upstream weighs many scores and draws among the best); pods are not spread and
//! inter-pod affinity is not looked at; nothing is ever preempted, and the message says what upstream says when there
//! is nobody to preempt.

pub mod assume;
pub mod binding;
pub mod cycle;
mod events;
pub mod fit_error;
pub mod hints;
pub mod node_filters;
pub mod queue;
pub mod resources;
mod shell;
mod status;
pub mod volume_binding;
pub mod volume_filters;
pub mod world;

#[cfg(test)]
mod tests;

pub(crate) use shell::NAME;
pub use shell::{Config, run, warm};
