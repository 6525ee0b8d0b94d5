//! external-resizer (`csi-resizer`): ControllerExpandVolume for claims that ask for more, ControllerModifyVolume for
//! claims that name another VolumeAttributesClass (storage-controllers §6).
//!
//! Two loops, as upstream: [`size`] and [`class`] decide, from the two objects and from what is remembered of earlier
//! tries, `size_status` and `class_status` change a copy of the claim, and the shells `expand` and `modify` call the
//! driver and send the difference. Each step leaves in the objects what the next one needs after a crash.

pub mod class;
mod class_status;
mod expand;
mod modify;
mod shell;
pub mod size;
mod size_status;
mod slow;

pub use shell::{Reached, run};
