//! external-resizer (`csi-resizer`): ControllerExpandVolume for claims with a larger request, ControllerModifyVolume
//! for claims with another VolumeAttributesClass.
//!
//! Two loops, as upstream. [`size`] and [`class`] decide, from the two objects and the memory of earlier attempts;
//! `size_status` and `class_status` change a copy of the claim; the async loops `expand` and `modify` call the driver
//! and send the difference. Each step leaves in the objects the data that the next one needs after a crash.

mod async_loop;
pub mod class;
mod class_status;
mod expand;
mod modify;
pub mod size;
mod size_status;
mod slow;

pub use async_loop::{Reached, run};
