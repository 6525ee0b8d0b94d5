//! The ReplicaSet controller (`replicaset-controller`, `pkg/controller/replicaset`): keeps a number of equal pods.

mod async_loop;
mod manage;
mod status;

pub(crate) use async_loop::run;
