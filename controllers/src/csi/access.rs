//! Access modes of Kubernetes as capabilities of CSI (csi-lib-utils `accessmodes`).

use csi_proto::csi::VolumeCapability;
use csi_proto::csi::volume_capability::access_mode::Mode;
use csi_proto::csi::volume_capability::{AccessMode, AccessType, BlockVolume, MountVolume};
use k8s_openapi::api::core::v1::PersistentVolumeSpec;

/// Converts access modes to one CSI mode (`ToCSIAccessMode`). `multi_writer` is the driver's SINGLE_NODE_MULTI_WRITER.
///
/// # Errors
/// If the access modes have no counterpart in CSI.
pub fn access_mode(modes: &[String], multi_writer: bool) -> Result<Mode, String> {
    let has = |mode: &str| modes.iter().any(|m| m == mode);
    if has("ReadWriteOncePod") {
        if modes.iter().any(|m| m != "ReadWriteOncePod") {
            let refusal = "Kubernetes does not support use of ReadWriteOncePod with other access modes on the same PersistentVolume";
            return Err(refusal.to_owned());
        }
        return Ok(if multi_writer { Mode::SingleNodeSingleWriter } else { Mode::SingleNodeWriter });
    }
    if has("ReadWriteMany") {
        Ok(Mode::MultiNodeMultiWriter)
    } else if has("ReadOnlyMany") && has("ReadWriteOnce") {
        Err("CSI does not support ReadOnlyMany and ReadWriteOnce on the same PersistentVolume".to_owned())
    } else if has("ReadOnlyMany") {
        Ok(Mode::MultiNodeReaderOnly)
    } else if has("ReadWriteOnce") {
        Ok(if multi_writer { Mode::SingleNodeMultiWriter } else { Mode::SingleNodeWriter })
    } else {
        Err(format!("unsupported AccessMode combination: [{}]", modes.join(" ")))
    }
}

/// Returns the capability for attach and expand (`GetVolumeCapabilities`): the access type from the volume mode, the
/// access mode from all access modes.
///
/// # Errors
/// If the access modes have no counterpart in CSI.
pub fn volume_capability(pv: &PersistentVolumeSpec, multi_writer: bool) -> Result<VolumeCapability, String> {
    let Some(csi) = &pv.csi else { return Err("CSI volume source was nil".to_owned()) };
    let mode = access_mode(pv.access_modes.as_deref().unwrap_or_default(), multi_writer)?;
    let access_type = if pv.volume_mode.as_deref() == Some("Block") {
        AccessType::Block(BlockVolume {})
    } else {
        AccessType::Mount(MountVolume {
            fs_type: csi.fs_type.clone().unwrap_or_default(),
            mount_flags: pv.mount_options.clone().unwrap_or_default(),
            volume_mount_group: String::new(),
        })
    };
    Ok(VolumeCapability { access_mode: Some(AccessMode { mode: mode.into() }), access_type: Some(access_type) })
}
