//! The scheduler (`kube-scheduler`), with upstream's filters for volumes, zones, volume limits, storage capacity, taints,
//! node affinity, host ports, resources, spreading and affinity between pods, its scores, and preemption.
//!
//! [`queue`] selects the next pod, [`cycle`] its node: a pure function over the [`cache`]. Then the pod is assumed, its
//! volumes are bound ([`binding`]) and it is bound, in a separate task, while the next pod is scheduled. If no node fits,
//! [`preemption`] looks for pods that can yield, and [`preemptor`] removes them in the background.
//!
//! Intended differences from upstream: of the nodes with the highest score, the one with the fewest pods wins, ties by
//! name, so that a run replays and is predictable (upstream picks randomly). Dry runs of preemption go through the nodes
//! by name (upstream begins at a random one). ReplicationControllers do not spread their pods.
//! `preventPodSchedulingIfMissing` of a CSIDriver has its effect without the gate VolumeLimitScaling.

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
mod image_locality;
pub mod incoming;
mod inline_disks;
pub mod node_filters;
mod node_hints;
pub mod node_info;
pub mod node_ports;
pub mod nominations;
pub mod pod_affinity;
mod pod_affinity_scores;
pub mod preemption;
mod preemptor;
pub mod queue;
pub mod resources;
pub mod scores;
mod sources;
pub mod spread;
mod status;
mod status_writer;
pub mod volume_binding;
pub mod volume_filters;
mod watch;

#[cfg(test)]
mod preemption_tests;
#[cfg(test)]
mod tests;

pub(crate) use async_loop::NAME;
pub use async_loop::{Config, run, warm};
