//! What a restarted kubelet finds on its disk: one entry per volume directory of a pod (upstream
//! `reconciler/reconstruct.go`). A directory is enough: after a reboot the mount itself is gone, the rest must
//! still be taken down.

use csi_mock::disk::DiskError;
use serde::{Deserialize, Serialize};

use super::agent::Agent;
use super::names::VOL_DATA;
use super::volume_manager::FoundMount;

/// The content of `vol_data.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VolumeData {
    /// The PersistentVolume's name; absent beside a staging path.
    #[serde(rename = "specVolID", default, skip_serializing_if = "String::is_empty")]
    pub spec_vol_id: String,
    /// The volume handle.
    pub volume_handle: String,
    /// The driver.
    pub driver_name: String,
    /// The node.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub node_name: String,
    /// The VolumeAttachment's name.
    #[serde(rename = "attachmentID", default, skip_serializing_if = "String::is_empty")]
    pub attachment_id: String,
    /// `Persistent` or `Ephemeral`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub volume_lifecycle_mode: String,
}

/// Reads the pods' directories. A directory whose metadata cannot be read is left alone, as upstream does.
///
/// # Errors
/// When the disk cannot be read at all.
pub(super) async fn scan(agent: &Agent) -> Result<Vec<FoundMount>, DiskError> {
    let (disk, paths) = (&agent.config.disk, &agent.paths);
    let mut found = Vec::new();
    for uid in disk.list_dir(&paths.pods()).await?.unwrap_or_default() {
        for pv in disk.list_dir(&paths.pod_volumes(&uid)).await?.unwrap_or_default() {
            let data = disk.read(&paths.volume_dir(&uid, &pv).join(VOL_DATA)).await?;
            let Some(data) = data.and_then(|bytes| serde_json::from_slice::<VolumeData>(&bytes).ok()) else { continue };
            found.push(FoundMount { uid: uid.clone(), driver: data.driver_name, handle: data.volume_handle, pv });
        }
    }
    Ok(found)
}
