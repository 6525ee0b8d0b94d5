//! The storage control loops and the node agent (kubelet's volume side), over the wire APIs only.
//!
//! Every loop has a pure part in the words of its Kubernetes original and a thin async shell
//! (informer → world → executor). [`kube`] is what the shells share.

pub mod all;
pub mod attach_detach;
pub mod attacher;
pub mod binder;
pub mod cli;
pub mod grid;
pub mod kube;
pub mod node_agent;
pub mod node_lifecycle;
pub mod pending;
pub mod pod_gc;
pub mod pod_status;
pub mod protection;
pub mod provisioner;
pub mod resizer;
pub mod scheduler;
pub mod taint_eviction;
pub mod taints;
pub mod timers;

pub use all::{left_out, manager_is_left_out, run_all};
pub use cli::{main_with, node_agent_main_with};
pub use pending::PendingOperations;
pub use timers::Timers;
