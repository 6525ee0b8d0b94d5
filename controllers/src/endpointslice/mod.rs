//! The EndpointSlice controller (`endpointslice-controller`, `pkg/controller/endpointslice` and the staging repository
//! `endpointslice`): lists the addresses of the pods that a Service selects. It sets no topology hints.

mod async_loop;
mod endpoints;
mod reconcile;
mod slices;
#[cfg(test)]
mod tests;
mod trigger_time;

pub(crate) use async_loop::run;
