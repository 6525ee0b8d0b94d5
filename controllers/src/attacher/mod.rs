//! external-attacher (`csi-attacher`): turns VolumeAttachments into ControllerPublish and ControllerUnpublish calls.
//!
//! It emits no Kubernetes events; errors go to the VolumeAttachment's status.

mod driver;
mod handler;
mod patches;
mod shell;

pub use shell::{Reached, run};
