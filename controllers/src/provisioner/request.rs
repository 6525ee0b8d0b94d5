//! What CreateVolume is asked (external-provisioner `prepareProvision`).

use std::collections::BTreeMap;

use csi_proto::csi::volume_capability::access_mode::Mode;
use csi_proto::csi::volume_capability::{AccessMode, AccessType, BlockVolume, MountVolume};
use csi_proto::csi::{CapacityRange, CreateVolumeRequest, VolumeCapability};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, SecretReference};
use k8s_openapi::api::storage::v1::StorageClass;

use super::parameters::{self, ParameterError, Secret};
use crate::binder::object::{claim_modes, requested_bytes};

/// What the driver said it can do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// Plugin CONTROLLER_SERVICE.
    pub controller_service: bool,
    /// Plugin VOLUME_ACCESSIBILITY_CONSTRAINTS.
    pub topology: bool,
    /// Controller CREATE_DELETE_VOLUME.
    pub create_delete_volume: bool,
    /// Controller SINGLE_NODE_MULTI_WRITER.
    pub single_node_multi_writer: bool,
}

/// Flags of the sidecar that change requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flags {
    /// `--default-fstype`.
    pub default_fs_type: String,
    /// `--extra-create-metadata`: names of claim and volume are added to the parameters.
    pub extra_create_metadata: bool,
    /// `--volume-name-prefix`.
    pub volume_name_prefix: String,
}

/// A claim that cannot be provisioned as it is.
#[derive(Clone, Debug, PartialEq, Eq, displaydoc::Display, thiserror::Error)]
pub enum PrepareError {
    /// CSI driver does not support dynamic provisioning: plugin CONTROLLER_SERVICE capability is not reported
    NoControllerService,
    /// CSI driver does not support dynamic provisioning: controller CREATE_DELETE_VOLUME capability is not reported
    NoCreateDelete,
    /// claim Selector is not supported
    Selector,
    /// the data source {0} of the claim is not supported by this provisioner
    DataSource(String),
    /// corrupted PVC object, it is missing UID
    NoUid,
    /// {0}
    Parameters(#[from] ParameterError),
    /// failed to strip CSI Parameters of prefixed keys: {0}
    Strip(ParameterError),
    /// Kubernetes does not support use of ReadWriteOncePod with other access modes on the same PersistentVolume
    OncePodWithOthers,
    /// unsupported AccessMode combination: {0}
    AccessMode(String),
}

/// A prepared request, without topology and secrets' contents.
#[derive(Clone, Debug, PartialEq)]
pub struct Prepared {
    /// The request.
    pub request: CreateVolumeRequest,
    /// The filesystem, or an empty string.
    pub fs_type: String,
    /// The secrets that the class names.
    pub secrets: BTreeMap<Secret, SecretReference>,
}

/// Name of the volume and of its PersistentVolume.
pub fn volume_name(prefix: &str, claim: &PersistentVolumeClaim) -> String {
    format!("{prefix}-{}", claim.metadata.uid.as_deref().unwrap_or_default())
}

/// Whether the claim asks for a raw block volume.
pub fn is_block(claim: &PersistentVolumeClaim) -> bool {
    claim.spec.as_ref().and_then(|s| s.volume_mode.as_deref()) == Some("Block")
}

/// Prepares the request for a claim.
///
/// # Errors
/// When the driver, the class or the claim cannot be served.
pub fn prepare(
    claim: &PersistentVolumeClaim,
    class: &StorageClass,
    capabilities: Capabilities,
    flags: &Flags,
) -> Result<Prepared, PrepareError> {
    if !capabilities.controller_service {
        return Err(PrepareError::NoControllerService);
    }
    if !capabilities.create_delete_volume {
        return Err(PrepareError::NoCreateDelete);
    }
    let spec = claim.spec.as_ref();
    if let Some(source) = spec.and_then(|s| s.data_source_ref.as_ref()) {
        return Err(PrepareError::DataSource(format!("{} {}", source.kind, source.name)));
    }
    if let Some(source) = spec.and_then(|s| s.data_source.as_ref()) {
        return Err(PrepareError::DataSource(format!("{} {}", source.kind, source.name)));
    }
    if spec.is_some_and(|s| s.selector.is_some()) {
        return Err(PrepareError::Selector);
    }
    if claim.metadata.uid.as_deref().unwrap_or_default().is_empty() {
        return Err(PrepareError::NoUid);
    }
    let name = volume_name(&flags.volume_name_prefix, claim);
    let none = BTreeMap::new();
    let given = class.parameters.as_ref().unwrap_or(&none);
    let fs_type = match parameters::fs_type(given)? {
        "" => flags.default_fs_type.clone(),
        chosen => chosen.to_owned(),
    };
    let modes = claim_modes(claim);
    if modes.len() > 1 && modes.iter().any(|m| m == "ReadWriteOncePod") {
        return Err(PrepareError::OncePodWithOthers);
    }
    let capability = |mode: &String| {
        let mode = access_mode(mode, capabilities.single_node_multi_writer)?;
        let access_type = if is_block(claim) {
            AccessType::Block(BlockVolume {})
        } else {
            AccessType::Mount(MountVolume {
                fs_type: fs_type.clone(),
                mount_flags: class.mount_options.clone().unwrap_or_default(),
                ..MountVolume::default()
            })
        };
        let access_mode = Some(AccessMode { mode: mode.into() });
        Ok(VolumeCapability { access_mode, access_type: Some(access_type) })
    };
    let volume_capabilities = modes.iter().map(capability).collect::<Result<_, PrepareError>>()?;
    let mut secrets = BTreeMap::new();
    for purpose in [
        Secret::Provisioner,
        Secret::ControllerPublish,
        Secret::NodeStage,
        Secret::NodePublish,
        Secret::ControllerExpand,
        Secret::NodeExpand,
        Secret::ControllerModify,
    ] {
        if let Some(reference) = parameters::secret(purpose, given, &name, claim)? {
            secrets.insert(purpose, reference);
        }
    }
    let mut ours = parameters::for_driver(given).map_err(PrepareError::Strip)?;
    if flags.extra_create_metadata {
        let text = |value: &Option<String>| value.clone().unwrap_or_default();
        ours.insert("csi.storage.k8s.io/pvc/name".to_owned(), text(&claim.metadata.name));
        ours.insert("csi.storage.k8s.io/pvc/namespace".to_owned(), text(&claim.metadata.namespace));
        ours.insert("csi.storage.k8s.io/pv/name".to_owned(), name.clone());
    }
    let request = CreateVolumeRequest {
        name,
        capacity_range: Some(CapacityRange { required_bytes: requested_bytes(claim), limit_bytes: 0 }),
        volume_capabilities,
        parameters: ours,
        ..CreateVolumeRequest::default()
    };
    Ok(Prepared { request, fs_type, secrets })
}

/// csi-lib-utils `accessmodes.ToCSIAccessMode` for one mode.
fn access_mode(mode: &str, single_node_multi_writer: bool) -> Result<Mode, PrepareError> {
    Ok(match (mode, single_node_multi_writer) {
        ("ReadWriteOncePod", true) => Mode::SingleNodeSingleWriter,
        ("ReadWriteOnce", true) => Mode::SingleNodeMultiWriter,
        ("ReadWriteOncePod" | "ReadWriteOnce", false) => Mode::SingleNodeWriter,
        ("ReadWriteMany", _) => Mode::MultiNodeMultiWriter,
        ("ReadOnlyMany", _) => Mode::MultiNodeReaderOnly,
        (other, _) => return Err(PrepareError::AccessMode(format!("[{other}]"))),
    })
}
