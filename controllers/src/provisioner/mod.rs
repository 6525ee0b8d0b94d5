//! external-provisioner (`csi-provisioner`): creates volumes for claims through the CSI controller service and deletes
//! released ones.
//!
//! Pure parts: [`decide`] (responsibility), [`topology`], [`parameters`], [`request`] (the CreateVolume request),
//! [`source`] (content of a new volume), [`outcome`] (meaning of an error), [`persistent_volume`] (the object to
//! write). `shell` runs them.

pub mod decide;
pub mod outcome;
pub mod parameters;
pub mod persistent_volume;
pub mod request;
mod shell;
pub mod snapshot;
pub mod source;
pub mod topology;

pub use shell::{Config, Reached, run};
