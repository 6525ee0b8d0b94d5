//! The storage control loops, the scheduler and the node agent (Mooring's kubelet), over the wire APIs only.
//!
//! Each loop has a pure part that follows its Kubernetes original, and a thin async loop (informer → world → executor).
//! The async loops share [`kube`].

pub mod attach_detach;
pub mod attacher;
mod autoscaler;
pub mod binder;
pub mod cli;
mod cronjob;
pub mod csi;
mod daemonset;
mod deployment;
mod disruption;
pub mod election;
mod endpoints;
mod endpointslice;
mod endpointslicemirroring;
mod ephemeral;
pub mod events;
pub mod expander;
pub mod flags;
mod garbage_collector;
mod job;
pub mod kube;
pub mod machine;
pub mod metrics;
pub mod mirror_pod;
pub mod mutants;
pub mod node_agent;
pub mod node_lifecycle;
pub mod pending;
pub mod pod_gc;
pub mod pod_status;
pub mod processes;
pub mod protection;
pub mod provisioner;
mod replicaset;
pub mod resizer;
mod run;
pub mod scheduler;
pub mod snapshot;
mod state_publisher;
mod statefulset;
pub mod taint_eviction;
pub mod taints;
pub mod tick_schedule;
pub mod timers;
mod ttl;
mod workload;

pub use cli::{main_with, node_agent_main_with};
pub use election::Election;
pub use machine::machine_main_with;
pub use metrics::Metrics;
pub use pending::PendingOperations;
pub use processes::{
    EPHEMERAL_VOLUME, GARBAGE_COLLECTOR, LOOPS, PROCESSES, RARE_WORKLOADS, SNAPSHOT_CONTROLLER, SNAPSHOTTER, TTL,
    WORKLOADS, can_be_left_out, left_out, manager_is_left_out, runs,
};
pub use run::{LoopsConfig, run};
pub use timers::Timers;
