//! external-resizer (`csi-resizer`): ControllerExpandVolume for claims that ask for more, ControllerModifyVolume for
//! claims that name another VolumeAttributesClass (storage-controllers §6).
//!
//! What is to be done is decided by [`plan`], from the two objects alone; the shell does it step by step, and each step
//! leaves in the objects what the next one needs after a crash.

mod driver;
mod patches;
pub mod plan;
mod shell;

pub use shell::{Reached, run};
