//! Checks of request fields shared by several RPCs. Every error names the field.

use csi_proto::csi::VolumeCapability;
use csi_proto::csi::volume_capability::AccessType;
use csi_proto::csi::volume_capability::access_mode::Mode;
use tonic::Status;

/// Longest string field in bytes (CSI: general size limits).
const MAX_STRING: usize = 128;
/// Largest map in bytes (CSI: general size limits).
const MAX_MAP: usize = 4096;
/// Longest node id in bytes (CSI: NodeGetInfo).
const MAX_NODE_ID: usize = 256;
/// Supported filesystems.
const FILESYSTEMS: [&str; 3] = ["ext4", "xfs", "btrfs"];
/// Default filesystem.
const DEFAULT_FILESYSTEM: &str = "ext4";

/// Returns INVALID_ARGUMENT with the field named.
pub fn invalid(field: &str, reason: impl std::fmt::Display) -> Status {
    Status::invalid_argument(format!("{field}: {reason}"))
}

/// Checks a required string of at most 128 bytes.
///
/// # Errors
/// INVALID_ARGUMENT if it is empty or too long.
pub fn required<'a>(field: &str, value: &'a str) -> Result<&'a str, Status> {
    sized(field, value, MAX_STRING)
}

/// Checks a required node id of at most 256 bytes.
///
/// # Errors
/// INVALID_ARGUMENT if it is empty or too long.
pub fn node_id(value: &str) -> Result<&str, Status> {
    sized("node_id", value, MAX_NODE_ID)
}

/// Checks a required absolute path of at most 4096 bytes without `..`.
///
/// # Errors
/// INVALID_ARGUMENT if it is invalid.
pub fn path<'a>(field: &str, value: &'a str) -> Result<&'a str, Status> {
    sized(field, value, csi_disk::MAX_PATH)?;
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

/// Checks the path of a volume in a query: a relative path is well-formed, but has no mount.
///
/// # Errors
/// NOT_FOUND for a relative path, as csi-sanity requires; else those of [`path`].
pub fn path_of_volume<'a>(field: &str, value: &'a str) -> Result<&'a str, Status> {
    let relative = !value.is_empty() && !value.starts_with('/');
    if relative && path(field, &format!("/{value}")).is_ok() {
        return Err(Status::not_found(format!("{field}: no volume is mounted at `{value}`, which is not absolute")));
    }
    path(field, value)
}

fn sized<'a>(field: &str, value: &'a str, limit: usize) -> Result<&'a str, Status> {
    match value.len() {
        0 => Err(invalid(field, "is required")),
        n if n > limit => Err(invalid(field, format_args!("is {n} bytes long, at most {limit} are allowed"))),
        _ => Ok(value),
    }
}

/// Checks a map of at most 4 KiB, counting names and values (CSI: general size limits).
///
/// # Errors
/// INVALID_ARGUMENT if it is larger.
pub fn map(field: &str, value: &std::collections::BTreeMap<String, String>) -> Result<(), Status> {
    let bytes: usize = value.iter().map(|(k, v)| k.len() + v.len()).sum();
    if bytes > MAX_MAP {
        return Err(invalid(field, format_args!("is {bytes} bytes long, at most {MAX_MAP} are allowed")));
    }
    Ok(())
}

/// Checks a required name of at most 128 bytes without control characters (CSI: CreateVolumeRequest.name).
///
/// # Errors
/// INVALID_ARGUMENT if it is invalid.
pub fn name<'a>(field: &str, value: &'a str) -> Result<&'a str, Status> {
    required(field, value)?;
    if value.chars().any(|c| c.is_control() && !matches!(c, '\t' | '\n' | '\r')) {
        return Err(invalid(field, "must not contain control characters"));
    }
    Ok(value)
}

/// Returns the largest number of entries on a page; None if the request leaves it open.
///
/// # Errors
/// INVALID_ARGUMENT for a negative number.
pub fn max_entries(field: &str, value: i32) -> Result<Option<usize>, Status> {
    match usize::try_from(value) {
        Ok(0) => Ok(None),
        Ok(n) => Ok(Some(n)),
        Err(_) => Err(invalid(field, "must not be negative")),
    }
}

/// Validated volume capability.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capability {
    /// The access mode.
    pub mode: Mode,
    /// True for a raw device instead of a filesystem.
    pub block: bool,
    /// The filesystem; empty for raw block.
    pub fs_type: String,
    /// Mount options.
    pub mount_flags: Vec<String>,
    /// Group that gets the volume.
    pub group: Option<u32>,
}

impl Capability {
    /// Returns true if writes are refused: by the mode, or by a mount option.
    pub fn reader_only(&self) -> bool {
        matches!(self.mode, Mode::SingleNodeReaderOnly | Mode::MultiNodeReaderOnly)
            || self.mount_flags.iter().any(|f| f == "ro")
    }

    /// Returns true if one volume may be published at several targets of a node (CSI: NodePublishVolume).
    pub fn many_targets(&self) -> bool {
        matches!(
            self.mode,
            Mode::MultiNodeReaderOnly
                | Mode::MultiNodeSingleWriter
                | Mode::MultiNodeMultiWriter
                | Mode::SingleNodeMultiWriter
        )
    }

    /// Returns true if the volume must be available on several nodes at once.
    pub fn many_nodes(&self) -> bool {
        matches!(self.mode, Mode::MultiNodeReaderOnly | Mode::MultiNodeSingleWriter | Mode::MultiNodeMultiWriter)
    }
}

/// Returns true if `flag` is one mount option. Only an SELinux context may contain commas, in its label's categories.
fn is_option(flag: &str) -> bool {
    let label = ["context=", "fscontext=", "defcontext=", "rootcontext="].iter().any(|key| flag.starts_with(key));
    !flag.is_empty() && !flag.contains('\0') && (label || !flag.contains(','))
}

/// Checks a required capability with a known mode, access type and filesystem.
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
            return Ok(Capability { mode, block: true, fs_type: String::new(), mount_flags: Vec::new(), group: None });
        }
        None => return Err(invalid(field, "access_type is required: mount or block")),
    };
    let fs_type = if mount.fs_type.is_empty() { DEFAULT_FILESYSTEM } else { &mount.fs_type };
    if !FILESYSTEMS.contains(&fs_type) {
        let known = FILESYSTEMS.join(", ");
        return Err(invalid(field, format_args!("mount.fs_type: `{fs_type}` is not one of {known}")));
    }
    if let Some(flag) = mount.mount_flags.iter().find(|f| !is_option(f)) {
        return Err(invalid(field, format_args!("mount.mount_flags: `{flag}` is not one mount option")));
    }
    if mount.mount_flags.iter().map(String::len).sum::<usize>() > MAX_MAP {
        return Err(invalid(field, format_args!("mount.mount_flags: more than {MAX_MAP} bytes")));
    }
    let group = match &*mount.volume_mount_group {
        "" => None,
        text => Some(text.parse().ok().filter(|gid| *gid != u32::MAX).ok_or_else(|| {
            invalid(field, format_args!("mount.volume_mount_group: `{text}` is not the number of a group"))
        })?),
    };
    let (fs_type, mount_flags) = (fs_type.to_owned(), mount.mount_flags.clone());
    Ok(Capability { mode, block: false, fs_type, mount_flags, group })
}

/// Checks that the driver supports a capability. `single_node_multi_writer` is true if the service has the capability
/// of that name.
///
/// # Errors
/// INVALID_ARGUMENT for an unsupported mode: several nodes are for raw block only, and the two newer modes for drivers
/// with SINGLE_NODE_MULTI_WRITER.
pub fn supported(field: &str, capability: &Capability, single_node_multi_writer: bool) -> Result<(), Status> {
    let refused = |why: &str| {
        let mode = capability.mode.as_str_name();
        Err(invalid(field, format_args!("access_mode.mode: {mode} is not supported{why}")))
    };
    match capability.mode {
        Mode::SingleNodeWriter | Mode::SingleNodeReaderOnly => Ok(()),
        Mode::SingleNodeSingleWriter | Mode::SingleNodeMultiWriter if single_node_multi_writer => Ok(()),
        Mode::MultiNodeMultiWriter if capability.block => Ok(()),
        Mode::MultiNodeMultiWriter => refused(" for a filesystem: only a raw device can be on several nodes"),
        _ => refused(""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_characters_are_limited_with_the_field_named() {
        for refused in [
            required("volume_id", ""),
            required("volume_id", &"x".repeat(129)),
            node_id(&"x".repeat(257)),
            name("name", "a\u{7f}b"),
            path("target_path", "relative"),
            path("target_path", "/a/../b"),
            path("target_path", "/a\0b"),
            path("target_path", &format!("/{}", "x".repeat(4096))),
        ] {
            let status = refused.unwrap_err();
            assert_eq!(status.code(), tonic::Code::InvalidArgument);
            assert!(status.message().split(':').next().unwrap().contains(['_', 'n']), "{}", status.message());
        }
        let code = |value: &str| path_of_volume("volume_path", value).map_or_else(|s| s.code(), |_| tonic::Code::Ok);
        assert_eq!(code("some/path"), tonic::Code::NotFound);
        assert_eq!([code(""), code("a/../b")], [tonic::Code::InvalidArgument; 2]);
        assert!(required("x", &"x".repeat(128)).is_ok() && node_id(&"x".repeat(256)).is_ok());
        assert!(name("name", "tab\tand ümlaut").is_ok() && path("p", "/a..b/c").is_ok());
        assert!(max_entries("max_entries", -1).is_err());
        let big = [("k".to_owned(), "v".repeat(4096))].into();
        assert!(map("parameters", &big).unwrap_err().message().starts_with("parameters: "));
    }
}
