//! Checks of request fields that several RPCs share. Every refusal names the field.

use csi_proto::csi::VolumeCapability;
use csi_proto::csi::volume_capability::AccessType;
use csi_proto::csi::volume_capability::access_mode::Mode;
use tonic::Status;

/// Longest string field in bytes (CSI: general size limits).
const MAX_STRING: usize = 128;
/// Longest node id in bytes (CSI: NodeGetInfo).
const MAX_NODE_ID: usize = 256;
/// Filesystems that can be asked for.
const FILESYSTEMS: [&str; 3] = ["ext4", "xfs", "btrfs"];
/// What is made when the capability does not say.
const DEFAULT_FILESYSTEM: &str = "ext4";

/// INVALID_ARGUMENT with the field named.
pub fn invalid(field: &str, reason: impl std::fmt::Display) -> Status {
    Status::invalid_argument(format!("{field}: {reason}"))
}

/// A required string of at most 128 bytes.
///
/// # Errors
/// INVALID_ARGUMENT when it is empty or too long.
pub fn required<'a>(field: &str, value: &'a str) -> Result<&'a str, Status> {
    sized(field, value, MAX_STRING)
}

/// A required node id of at most 256 bytes.
///
/// # Errors
/// INVALID_ARGUMENT when it is empty or too long.
pub fn node_id(value: &str) -> Result<&str, Status> {
    sized("node_id", value, MAX_NODE_ID)
}

/// A required absolute path of at most 4096 bytes without `..`.
///
/// # Errors
/// INVALID_ARGUMENT when it is not.
pub fn path<'a>(field: &str, value: &'a str) -> Result<&'a str, Status> {
    sized(field, value, crate::disk::MAX_PATH)?;
    if !value.starts_with('/') {
        return Err(invalid(field, format_args!("`{value}` must be an absolute path")));
    }
    if value.split('/').any(|part| part == "..") {
        return Err(invalid(field, format_args!("`{value}` must not contain `..`")));
    }
    if value.contains('\0') {
        return Err(invalid(field, "must not contain a NUL byte"));
    }
    Ok(value)
}

fn sized<'a>(field: &str, value: &'a str, limit: usize) -> Result<&'a str, Status> {
    match value.len() {
        0 => Err(invalid(field, "is required")),
        n if n > limit => Err(invalid(field, format_args!("is {n} bytes long, at most {limit} are allowed"))),
        _ => Ok(value),
    }
}

/// A volume capability that was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capability {
    /// The access mode.
    pub mode: Mode,
    /// The filesystem.
    pub fs_type: String,
    /// Mount options.
    pub mount_flags: Vec<String>,
}

impl Capability {
    /// Whether the mode lets nobody write.
    pub fn reader_only(&self) -> bool {
        matches!(self.mode, Mode::SingleNodeReaderOnly | Mode::MultiNodeReaderOnly)
    }

    /// Whether one volume may be published at several targets of a node (CSI: NodePublishVolume).
    pub fn many_targets(&self) -> bool {
        matches!(
            self.mode,
            Mode::MultiNodeReaderOnly
                | Mode::MultiNodeSingleWriter
                | Mode::MultiNodeMultiWriter
                | Mode::SingleNodeMultiWriter
        )
    }
}

/// A required capability with a known mode, a mount access type and a filesystem that we know.
///
/// # Errors
/// INVALID_ARGUMENT with the part named.
pub fn capability(field: &str, value: Option<&VolumeCapability>) -> Result<Capability, Status> {
    let value = value.ok_or_else(|| invalid(field, "is required"))?;
    let mode = value.access_mode.as_ref().map_or(Mode::Unknown, |m| m.mode());
    if mode == Mode::Unknown {
        return Err(invalid(field, "access_mode.mode is required"));
    }
    let mount = match &value.access_type {
        Some(AccessType::Mount(mount)) => mount,
        Some(AccessType::Block(_)) => {
            return Err(invalid(field, "block: raw block volumes are not supported, use a mount volume"));
        }
        None => return Err(invalid(field, "access_type is required: mount or block")),
    };
    let fs_type = if mount.fs_type.is_empty() { DEFAULT_FILESYSTEM } else { &mount.fs_type };
    if !FILESYSTEMS.contains(&fs_type) {
        let known = FILESYSTEMS.join(", ");
        return Err(invalid(field, format_args!("mount.fs_type: `{fs_type}` is not one of {known}")));
    }
    if let Some(flag) = mount.mount_flags.iter().find(|f| f.is_empty() || f.contains([',', '\0'])) {
        return Err(invalid(field, format_args!("mount.mount_flags: `{flag}` is not one mount option")));
    }
    Ok(Capability { mode, fs_type: fs_type.to_owned(), mount_flags: mount.mount_flags.clone() })
}

/// Modes that a volume supports which is attached to one node at a time.
///
/// # Errors
/// INVALID_ARGUMENT for a mode with several nodes.
pub fn single_node(field: &str, capability: &Capability) -> Result<(), Status> {
    match capability.mode {
        Mode::SingleNodeWriter
        | Mode::SingleNodeReaderOnly
        | Mode::SingleNodeSingleWriter
        | Mode::SingleNodeMultiWriter => Ok(()),
        mode => Err(invalid(field, format_args!("access_mode.mode: {} is not supported", mode.as_str_name()))),
    }
}
