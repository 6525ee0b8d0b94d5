//! The EndpointSlice controller (`endpointslice-controller`, `pkg/controller/endpointslice` and the staging repository
//! `endpointslice`): lists the addresses of the pods that a Service selects, with hints by the sizes of zones or by
//! `spec.trafficDistribution`.

mod async_loop;
pub(crate) mod endpoints;
mod hints;
pub(crate) mod ports;
mod reconcile;
pub(crate) mod selection;
pub(crate) mod slices;
#[cfg(test)]
mod tests;
mod topology;
pub(crate) mod tracker;
pub(crate) mod trigger_time;

pub(crate) use async_loop::run;
