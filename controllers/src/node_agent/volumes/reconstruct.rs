//! Reconstruction after a kubelet restart: one entry per volume directory or raw-device link of a pod (upstream
//! `reconciler/reconstruct.go`). A directory without a mount is included: a reboot removes the mount, and the rest must
//! still be removed. For a raw device, a mount without a link is included too.

use std::path::Path;
use std::sync::Arc;

use csi_disk::{Disk, DiskError, MountKind};
use serde::{Deserialize, Serialize};

use super::context::VolumeContext;
use super::step::disk_error;
use crate::node_agent::names::VOL_DATA;
use crate::node_agent::volume_manager::spec::EPHEMERAL;
use crate::node_agent::volume_manager::{FailedMount, FoundMount, StepError};

/// The content of `vol_data.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VolumeData {
    /// Name of the PersistentVolume. Absent beside a staging path.
    #[serde(rename = "specVolID", default, skip_serializing_if = "String::is_empty")]
    pub spec_vol_id: String,
    /// The volume handle.
    pub volume_handle: String,
    /// The driver.
    pub driver_name: String,
    /// The node.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub node_name: String,
    /// Name of the VolumeAttachment.
    #[serde(rename = "attachmentID", default, skip_serializing_if = "String::is_empty")]
    pub attachment_id: String,
    /// `Persistent` or `Ephemeral`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub volume_lifecycle_mode: String,
}

/// Reads the pods' directories: the volumes found, and those with unreadable metadata.
///
/// # Errors
/// If the disk cannot be read.
pub(crate) async fn scan(room: &VolumeContext) -> Result<(Vec<FoundMount>, Vec<FailedMount>), DiskError> {
    let (disk, paths) = (&room.config.disk, &room.paths);
    let (mut found, mut failed) = (Vec::new(), Vec::new());
    for uid in disk.list_dir(&paths.pods()).await?.unwrap_or_default() {
        for pv in disk.list_dir(&paths.pod_volumes(&uid)).await?.unwrap_or_default() {
            match data_of(disk, &paths.volume_dir(&uid, &pv)).await? {
                Some(data) => found.push(mount(&uid, pv, data, false)),
                None => failed.push(FailedMount { uid: uid.clone(), pv }),
            }
        }
        for pv in disk.list_dir(&paths.pod_devices(&uid)).await?.unwrap_or_default() {
            match data_of(disk, &paths.device_data_dir(&pv)).await? {
                Some(data) => found.push(mount(&uid, pv, data, true)),
                None => failed.push(FailedMount { uid: uid.clone(), pv }),
            }
        }
    }
    // The link of a raw device is created last and removed first. Without it, the device is found by its mounts, and at
    // the very end by its staging directory. Upstream reads links only, and so can leave a device behind.
    for published in disk.mounts().await?.into_iter().filter(|m| m.kind == MountKind::Block) {
        let Some((pv, uid)) = paths.published_device(&published.path) else { continue };
        let known = found.iter().any(|f| f.block && f.pv == pv && f.uid.as_ref() == Some(&uid));
        if let (false, Some(data)) = (known, data_of(disk, &paths.device_data_dir(&pv)).await?) {
            found.push(mount(&uid, pv, data, true));
        }
    }
    for pv in disk.list_dir(&paths.staged_devices()).await?.unwrap_or_default() {
        let known = found.iter().any(|f| f.block && f.pv == pv);
        if let (false, Some(data)) = (known, data_of(disk, &paths.device_data_dir(&pv)).await?) {
            found.push(FoundMount { uid: None, ..mount("", pv, data, true) });
        }
    }
    Ok((found, failed))
}

/// Returns the metadata in a directory, if it can be read.
pub(crate) async fn data_of(disk: &Arc<dyn Disk>, dir: &Path) -> Result<Option<VolumeData>, DiskError> {
    let data = disk.read(&dir.join(VOL_DATA)).await?;
    Ok(data.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
}

/// Returns the metadata in a directory, or the error of its file (`loadVolumeData`).
pub(super) async fn recorded(disk: &Arc<dyn Disk>, dir: &Path) -> Result<Result<VolumeData, String>, StepError> {
    let (path, data) = (dir.join(VOL_DATA), disk.read(&dir.join(VOL_DATA)).await.map_err(|e| disk_error(&e))?);
    let Some(bytes) = data else {
        let path = path.display();
        return Ok(Err(format!(
            "kubernetes.io/csi: failed to open volume data file [{path}]: open {path}: no such file or directory"
        )));
    };
    let failed =
        |e| StepError::Transient(format!("kubernetes.io/csi: failed to parse volume data file [{path:?}]: {e}"));
    serde_json::from_slice(&bytes).map(Ok).map_err(failed)
}

fn mount(uid: &str, pv: String, data: VolumeData, block: bool) -> FoundMount {
    let inline = data.volume_lifecycle_mode == EPHEMERAL;
    FoundMount { uid: Some(uid.to_owned()), driver: data.driver_name, handle: data.volume_handle, pv, block, inline }
}
