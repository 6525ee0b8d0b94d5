//! The disruption controller (`disruption-controller`, `pkg/controller/disruption`): computes how many pods of a
//! PodDisruptionBudget may be evicted.

mod async_loop;
mod budget;
mod scale;

pub(crate) use async_loop::run;
