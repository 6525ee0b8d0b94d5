//! external-provisioner (`csi-provisioner`): makes volumes for claims through the CSI controller service and deletes
//! those that were released.
//!
//! Pure parts: [`decide`] (whether to act), [`topology`], [`parameters`], [`request`] (what CreateVolume is asked),
//! [`source`] (what a volume is made from), [`outcome`] (what an error means), [`persistent_volume`] (the object that is
//! written). `shell` runs them.

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
