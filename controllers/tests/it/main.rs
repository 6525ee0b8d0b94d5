//! Control loops and sidecars with the API server, the driver and the cloud, in virtual time. One binary, which links
//! once.

mod attach_detach;
mod attach_detach_upstream;
mod binding;
mod capacity;
mod common;
mod election;
mod ephemeral;
mod garbage;
mod kube;
mod late;
mod left_out;
mod mutants;
mod node_lifecycle;
mod preemption;
mod provisioning;
mod sidecars;
mod snapshot_mutants;
mod snapshots;
mod statefulset;
mod workloads;
