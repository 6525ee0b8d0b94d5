//! external-attacher (`csi-attacher`): turns VolumeAttachments into ControllerPublish and ControllerUnpublish calls.
//!
//! It records no events; errors go into the VolumeAttachment's status.

mod driver;
mod handler;
mod patches;
mod shell;

pub use shell::{Reached, run};
