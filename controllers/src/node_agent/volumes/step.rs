//! Parts that the steps of operations share: the driver of a volume, the metadata of a volume, and errors of the disk.

use csi_disk::DiskError;

use super::context::VolumeContext;
use super::reconstruct::VolumeData;
use crate::node_agent::names::attachment_name;
use crate::node_agent::plugins::csi::Driver;
use crate::node_agent::volume_manager::{StepError, VolumeSpec};

pub(super) fn driver(room: &VolumeContext, spec: &VolumeSpec, who: &str) -> Result<Driver, StepError> {
    room.drivers.lock().get(&spec.driver).cloned().ok_or_else(|| {
        StepError::Transient(format!(
            "kubernetes.io/csi: {who}: driver name {} not found in the list of registered CSI drivers",
            spec.driver
        ))
    })
}

pub(super) fn disk_error(error: &DiskError) -> StepError {
    StepError::Transient(format!("kubernetes.io/csi: {error}"))
}

pub(super) fn encoded(data: &VolumeData) -> Result<Vec<u8>, StepError> {
    serde_json::to_vec(data).map_err(|e| StepError::Transient(format!("kubernetes.io/csi: {e}")))
}

/// Returns the metadata of a volume that is published on this node.
pub(super) fn volume_data(room: &VolumeContext, spec: &VolumeSpec, life_cycle: &str) -> Result<Vec<u8>, StepError> {
    encoded(&VolumeData {
        spec_vol_id: spec.pv.clone(),
        volume_handle: spec.handle.clone(),
        driver_name: spec.driver.clone(),
        node_name: room.config.node_name.clone(),
        attachment_id: attachment_name(&spec.handle, &spec.driver, &room.config.node_name),
        volume_lifecycle_mode: life_cycle.to_owned(),
    })
}
