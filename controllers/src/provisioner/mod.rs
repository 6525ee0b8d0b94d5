//! external-provisioner (`csi-provisioner`): creates volumes for claims through the CSI controller service and deletes
//! released ones.
//!
//! Pure parts: [`decide`] (responsibility), [`topology`], [`parameters`], [`request`] (the CreateVolume request),
//! [`source`] (content of a new volume), [`outcome`] (meaning of an error), [`persistent_volume`] (the object to
//! write), [`capacity`] (published capacity). `async_loop` runs them.

mod async_loop;
pub mod capacity;
pub mod decide;
pub mod outcome;
pub mod parameters;
pub mod persistent_volume;
pub mod request;
pub mod source;
pub mod topology;

pub use async_loop::{Config, Reached, run};
