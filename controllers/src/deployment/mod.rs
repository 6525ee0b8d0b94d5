//! The Deployment controller (`deployment-controller`, `pkg/controller/deployment`): makes a ReplicaSet for each pod
//! template, and moves the pods from the old ones to the new one.

mod annotations;
mod async_loop;
mod conditions;
mod proportions;
mod replica_sets;
mod rollback;
mod rollout;
mod scale;
mod status;
mod sync;

pub(crate) use async_loop::run;
