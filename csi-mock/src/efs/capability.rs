//! Volume capabilities of the EFS driver: filesystems only, for one writer or for many.

use csi_proto::csi::VolumeCapability;
use csi_proto::csi::volume_capability::AccessType;
use csi_proto::csi::volume_capability::access_mode::Mode;
use tonic::Status;

use crate::check::invalid;

/// Access modes of the driver. It enforces neither: each node may mount a file system.
const MODES: [Mode; 2] = [Mode::SingleNodeWriter, Mode::MultiNodeMultiWriter];

/// Checks a capability and returns its mount options.
///
/// # Errors
/// INVALID_ARGUMENT for another mode, a raw device, or another filesystem than `efs`.
pub(super) fn check<'a>(field: &str, value: Option<&'a VolumeCapability>) -> Result<&'a [String], Status> {
    let capability = value.ok_or_else(|| invalid(field, "is required"))?;
    let mode = capability.access_mode.as_ref().map_or(Mode::Unknown, |mode| mode.mode());
    if !MODES.contains(&mode) {
        return Err(invalid(field, format_args!("invalid access mode: {}", mode.as_str_name())));
    }
    let Some(AccessType::Mount(mount)) = &capability.access_type else {
        return Err(invalid(field, "only filesystem volumes are supported"));
    };
    if !matches!(&*mount.fs_type, "" | "efs") {
        return Err(invalid(field, format_args!("invalid fstype: {}", mount.fs_type)));
    }
    if mount.mount_flags.iter().any(|flag| flag == "crossaccount") {
        return Err(invalid(field, "mount option 'crossaccount' cannot be set manually"));
    }
    Ok(&mount.mount_flags)
}
