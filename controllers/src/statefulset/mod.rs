//! The StatefulSet controller (`statefulset-controller`, `pkg/controller/statefulset`): pods with stable names and
//! claims, created, replaced and removed in the order of their ordinals.

mod async_loop;
mod identity;
mod ownership;
mod plan;
mod pod_control;
mod revisions;
mod status;
#[cfg(test)]
mod tests;

pub(crate) use async_loop::run;
