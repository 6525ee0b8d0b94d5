//! The Endpoints controller (`endpoints-controller`, `pkg/controller/endpoint`): lists the addresses of the pods that a
//! Service selects in one object. Endpoints of more than 1000 addresses are not truncated.

mod async_loop;
mod subsets;

pub(crate) use async_loop::run;
