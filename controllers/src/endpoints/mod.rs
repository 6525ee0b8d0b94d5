//! The Endpoints controller (`endpoints-controller`, `pkg/controller/endpoint`): lists the addresses of the pods that a
//! Service selects in one object.

mod async_loop;
mod capacity;
mod order;
pub(crate) mod subsets;

pub(crate) use async_loop::run;
