//! The EndpointSliceMirroring controller (`endpointslice-mirroring-controller`, `pkg/controller/endpointslicemirroring`):
//! copies the Endpoints that a user writes for a Service without a selector to EndpointSlices.

mod async_loop;
mod mirror;
#[cfg(test)]
mod tests;

pub(crate) use async_loop::run;
