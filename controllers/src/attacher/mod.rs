//! external-attacher (`csi-attacher`): turns VolumeAttachments into ControllerPublish and ControllerUnpublish calls.
//!
//! It emits no Kubernetes events; errors go to the VolumeAttachment's status.

mod async_loop;
mod driver;
mod handler;
mod patches;

pub use async_loop::{Reached, run};
