//! The CreateVolume request (external-provisioner `prepareProvision`).

use std::collections::BTreeMap;

use csi_proto::csi::controller_service_capability::rpc::Type as Rpc;
use csi_proto::csi::plugin_capability::service::Type as Service;
use csi_proto::csi::volume_capability::{AccessMode, AccessType, BlockVolume, MountVolume};
use csi_proto::csi::{CapacityRange, CreateVolumeRequest, VolumeCapability};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, SecretReference};
use k8s_openapi::api::storage::v1::StorageClass;

use super::parameters::{self, ParameterError, Secret};
use super::source::{self, Source};
use crate::binder::object::{claim_modes, requested_bytes};
use crate::csi::{Driver, access_mode};

/// Capabilities that the driver reports.
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
    /// Controller CREATE_DELETE_SNAPSHOT.
    pub create_delete_snapshot: bool,
    /// Controller CLONE_VOLUME.
    pub clone_volume: bool,
    /// Controller MODIFY_VOLUME.
    pub modify_volume: bool,
    /// Controller GET_CAPACITY.
    pub get_capacity: bool,
}

impl From<&Driver> for Capabilities {
    fn from(driver: &Driver) -> Self {
        Self {
            controller_service: driver.serves(Service::ControllerService),
            topology: driver.serves(Service::VolumeAccessibilityConstraints),
            create_delete_volume: driver.can(Rpc::CreateDeleteVolume),
            single_node_multi_writer: driver.can(Rpc::SingleNodeMultiWriter),
            create_delete_snapshot: driver.can(Rpc::CreateDeleteSnapshot),
            clone_volume: driver.can(Rpc::CloneVolume),
            modify_volume: driver.can(Rpc::ModifyVolume),
            get_capacity: driver.can(Rpc::GetCapacity),
        }
    }
}

/// Flags of the sidecar that change requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flags {
    /// `--default-fstype`.
    pub default_fs_type: String,
    /// `--extra-create-metadata`: adds the names of claim and volume to the parameters.
    pub extra_create_metadata: bool,
    /// `--volume-name-prefix`.
    pub volume_name_prefix: String,
}

/// Reason why a claim cannot be provisioned.
#[derive(Clone, Debug, PartialEq, Eq, displaydoc::Display, thiserror::Error)]
pub enum PrepareError {
    /// CSI driver does not support dynamic provisioning: plugin CONTROLLER_SERVICE capability is not reported
    NoControllerService,
    /// CSI driver does not support dynamic provisioning: controller CREATE_DELETE_VOLUME capability is not reported
    NoCreateDelete,
    /// claim Selector is not supported
    Selector,
    /// CSI driver does not support snapshot restore: controller CREATE_DELETE_SNAPSHOT capability is not reported
    NoSnapshots,
    /// CSI driver does not support clone operations: controller CLONE_VOLUME capability is not reported
    NoClones,
    /// CSI driver does not support VolumeAttributesClass: controller MODIFY_VOLUME capability is not reported
    NoModify,
    /// the PVC source not found for PVC {0}
    NoSourceName(String),
    /// the PVC source does not belong to the right APIGroup. Expected snapshot.storage.k8s.io, Got {0}
    SourceGroup(String),
    /// dataSourceRef namespace specified but the CrossNamespaceVolumeDataSource feature is disabled
    OtherNamespace,
    /// data source ({0}) is not handled by the provisioner, assuming an external populator will provision it
    Populator(String),
    /// corrupted PVC object, it is missing UID
    NoUid,
    /// {0}
    FsType(ParameterError),
    /// {0}
    Secret(ParameterError),
    /// failed to strip CSI Parameters of prefixed keys: {0}
    Strip(ParameterError),
    /// Kubernetes does not support use of ReadWriteOncePod with other access modes on the same PersistentVolume
    OncePodWithOthers,
    /// {0}
    AccessMode(String),
}

/// Prepared request without the content of other objects: topology, secrets, the source's handle and the parameters of
/// a VolumeAttributesClass.
#[derive(Clone, Debug, PartialEq)]
pub struct Prepared {
    /// The request.
    pub request: CreateVolumeRequest,
    /// Filesystem type, or an empty string.
    pub fs_type: String,
    /// Secrets that the class names.
    pub secrets: BTreeMap<Secret, SecretReference>,
    /// Source of the volume's content.
    pub source: Option<Source>,
    /// Initial VolumeAttributesClass.
    pub attributes_class: Option<String>,
}

/// Returns the name of the volume and of its PersistentVolume.
pub fn volume_name(prefix: &str, claim: &PersistentVolumeClaim) -> String {
    format!("{prefix}-{}", claim.metadata.uid.as_deref().unwrap_or_default())
}

/// Returns true if the claim requests a raw block volume.
pub fn is_block(claim: &PersistentVolumeClaim) -> bool {
    claim.spec.as_ref().and_then(|s| s.volume_mode.as_deref()) == Some("Block")
}

/// Prepares the request for a claim, up to the first lookup of another object.
///
/// # Errors
/// If driver, class or claim do not allow it.
pub fn prepare(
    claim: &PersistentVolumeClaim,
    class: &StorageClass,
    capabilities: Capabilities,
    flags: &Flags,
) -> Result<Prepared, PrepareError> {
    let source = source::of(claim)?;
    let spec = claim.spec.as_ref();
    let attributes_class = spec.and_then(|s| s.volume_attributes_class_name.clone()).filter(|name| !name.is_empty());
    check_capabilities(capabilities, source.as_ref(), attributes_class.is_some())?;
    if spec.is_some_and(|s| s.selector.is_some()) {
        return Err(PrepareError::Selector);
    }
    if claim.metadata.uid.as_deref().unwrap_or_default().is_empty() {
        return Err(PrepareError::NoUid);
    }
    let name = volume_name(&flags.volume_name_prefix, claim);
    let none = BTreeMap::new();
    let given = class.parameters.as_ref().unwrap_or(&none);
    let fs_type = match parameters::fs_type(given).map_err(PrepareError::FsType)? {
        "" => flags.default_fs_type.clone(),
        chosen => chosen.to_owned(),
    };
    let modes = claim_modes(claim);
    if modes.len() > 1 && modes.iter().any(|m| m == "ReadWriteOncePod") {
        return Err(PrepareError::OncePodWithOthers);
    }
    let capability = |mode: &String| {
        let mode = access_mode(std::slice::from_ref(mode), capabilities.single_node_multi_writer)
            .map_err(PrepareError::AccessMode)?;
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
    let request = CreateVolumeRequest {
        name,
        capacity_range: Some(CapacityRange { required_bytes: requested_bytes(claim), limit_bytes: 0 }),
        volume_capabilities,
        ..CreateVolumeRequest::default()
    };
    Ok(Prepared { request, fs_type, secrets: BTreeMap::new(), source, attributes_class })
}

/// Adds the secrets and parameters of the class.
///
/// # Errors
/// If the class is invalid.
pub fn add_parameters(
    prepared: &mut Prepared,
    claim: &PersistentVolumeClaim,
    class: &StorageClass,
    flags: &Flags,
) -> Result<(), PrepareError> {
    let none = BTreeMap::new();
    let given = class.parameters.as_ref().unwrap_or(&none);
    let name = &prepared.request.name;
    for purpose in [
        Secret::Provisioner,
        Secret::ControllerPublish,
        Secret::NodeStage,
        Secret::NodePublish,
        Secret::ControllerExpand,
        Secret::NodeExpand,
        Secret::ControllerModify,
    ] {
        if let Some(reference) = parameters::secret(purpose, given, name, claim).map_err(PrepareError::Secret)? {
            prepared.secrets.insert(purpose, reference);
        }
    }
    let mut ours = parameters::for_driver(given).map_err(PrepareError::Strip)?;
    if flags.extra_create_metadata {
        let text = |value: &Option<String>| value.clone().unwrap_or_default();
        ours.insert("csi.storage.k8s.io/pvc/name".to_owned(), text(&claim.metadata.name));
        ours.insert("csi.storage.k8s.io/pvc/namespace".to_owned(), text(&claim.metadata.namespace));
        ours.insert("csi.storage.k8s.io/pv/name".to_owned(), name.clone());
    }
    prepared.request.parameters = ours;
    Ok(())
}

/// Checks the driver's capabilities (`checkDriverCapabilities`).
fn check_capabilities(
    capabilities: Capabilities,
    source: Option<&Source>,
    attributes_class: bool,
) -> Result<(), PrepareError> {
    if !capabilities.controller_service {
        return Err(PrepareError::NoControllerService);
    }
    if !capabilities.create_delete_volume {
        return Err(PrepareError::NoCreateDelete);
    }
    match source {
        Some(Source::Snapshot(_)) if !capabilities.create_delete_snapshot => Err(PrepareError::NoSnapshots),
        Some(Source::Claim(_)) if !capabilities.clone_volume => Err(PrepareError::NoClones),
        _ if attributes_class && !capabilities.modify_volume => Err(PrepareError::NoModify),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use csi_proto::csi::volume_capability::access_mode::Mode;
    use rstest::rstest;
    use substrate::json::{Value, json};

    use super::*;
    use crate::provisioner::persistent_volume::{Provisioner, persistent_volume};

    fn claim(spec: Value) -> PersistentVolumeClaim {
        let mut all = json!({
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "gp3",
            "resources": { "requests": { "storage": "4Gi" } },
        });
        for (key, value) in spec.as_object().unwrap() {
            all[key] = value.clone();
        }
        substrate::json::from_value(json!({
            "metadata": { "name": "data", "namespace": "shop", "uid": "1-2-3", "resourceVersion": "9" },
            "spec": all,
        }))
        .unwrap()
    }

    fn class() -> StorageClass {
        substrate::json::from_value(json!({
            "metadata": { "name": "gp3" },
            "provisioner": "ebs.csi.aws.com",
            "reclaimPolicy": "Delete",
            "mountOptions": ["noatime"],
            "parameters": { "type": "gp3", "csi.storage.k8s.io/fstype": "xfs" },
        }))
        .unwrap()
    }

    fn able() -> Capabilities {
        Capabilities { controller_service: true, topology: true, create_delete_volume: true, ..Default::default() }
    }

    fn flags() -> Flags {
        Flags { default_fs_type: "ext4".into(), extra_create_metadata: true, volume_name_prefix: "pvc".into() }
    }

    /// Prepares the whole request.
    fn prepare(
        claim: &PersistentVolumeClaim,
        class: &StorageClass,
        capabilities: Capabilities,
        flags: &Flags,
    ) -> Result<Prepared, PrepareError> {
        let mut prepared = super::prepare(claim, class, capabilities, flags)?;
        add_parameters(&mut prepared, claim, class, flags)?;
        Ok(prepared)
    }

    #[test]
    fn a_request_carries_size_capabilities_and_the_drivers_parameters() {
        let prepared = prepare(&claim(json!({})), &class(), able(), &flags()).unwrap();
        assert_eq!(prepared.fs_type, "xfs");
        let request = prepared.request;
        assert_eq!((request.name.as_str(), request.capacity_range.unwrap().required_bytes), ("pvc-1-2-3", 4 << 30));
        let expected = json!({
            "type": "gp3",
            "csi.storage.k8s.io/pvc/name": "data",
            "csi.storage.k8s.io/pvc/namespace": "shop",
            "csi.storage.k8s.io/pv/name": "pvc-1-2-3",
        });
        assert_eq!(substrate::json::to_value(&request.parameters).unwrap(), expected);
        let capability = &request.volume_capabilities[0];
        assert_eq!(capability.access_mode.as_ref().unwrap().mode(), Mode::SingleNodeWriter);
        let Some(AccessType::Mount(mount)) = &capability.access_type else { panic!("{capability:?}") };
        assert_eq!((mount.fs_type.as_str(), mount.mount_flags.as_slice()), ("xfs", ["noatime".to_owned()].as_slice()));
    }

    #[rstest]
    #[case(json!({ "selector": {} }), "claim Selector is not supported")]
    #[case(
        json!({ "dataSource": { "apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "s" } }),
        "CSI driver does not support snapshot restore: controller CREATE_DELETE_SNAPSHOT capability is not reported"
    )]
    #[case(
        json!({ "dataSource": { "kind": "PersistentVolumeClaim", "name": "s" } }),
        "CSI driver does not support clone operations: controller CLONE_VOLUME capability is not reported"
    )]
    #[case(
        json!({ "dataSourceRef": { "apiGroup": "x.io", "kind": "Backup", "name": "s" } }),
        "data source (Backup) is not handled by the provisioner, assuming an external populator will provision it"
    )]
    #[case(
        json!({ "volumeAttributesClassName": "fast" }),
        "CSI driver does not support VolumeAttributesClass: controller MODIFY_VOLUME capability is not reported"
    )]
    #[case(
        json!({ "accessModes": ["ReadWriteOncePod", "ReadWriteOnce"] }),
        "Kubernetes does not support use of ReadWriteOncePod with other access modes on the same PersistentVolume"
    )]
    fn claims_that_cannot_be_served_say_why(#[case] spec: Value, #[case] why: &str) {
        let error = prepare(&claim(spec), &class(), able(), &flags()).unwrap_err();
        assert_eq!(error.to_string(), why);
    }

    #[test]
    fn a_block_volume_has_no_filesystem_and_an_unknown_size_is_the_asked_one() {
        let claim = claim(json!({ "volumeMode": "Block" }));
        let prepared = prepare(&claim, &class(), able(), &flags()).unwrap();
        assert!(matches!(prepared.request.volume_capabilities[0].access_type, Some(AccessType::Block(_))));
        let volume = csi_proto::csi::Volume {
            volume_id: "vol-1".into(),
            volume_context: BTreeMap::from([("partition".to_owned(), "0".to_owned())]),
            ..Default::default()
        };
        let provisioner = Provisioner {
            driver: "ebs.csi.aws.com",
            identity: "1-2-ebs.csi.aws.com",
            topology: true,
            controller_publish_readonly: false,
        };
        let object = persistent_volume(&claim, &class(), &prepared, &volume, provisioner);
        let expected = json!({
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {
                "name": "pvc-1-2-3",
                "annotations": {
                    "pv.kubernetes.io/provisioned-by": "ebs.csi.aws.com",
                    "volume.kubernetes.io/provisioner-deletion-secret-name": "",
                    "volume.kubernetes.io/provisioner-deletion-secret-namespace": "",
                },
                "finalizers": ["external-provisioner.volume.kubernetes.io/finalizer"],
            },
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "capacity": { "storage": "4Gi" },
                "claimRef": {
                    "apiVersion": "v1",
                    "kind": "PersistentVolumeClaim",
                    "name": "data",
                    "namespace": "shop",
                    "resourceVersion": "9",
                    "uid": "1-2-3",
                },
                "csi": {
                    "driver": "ebs.csi.aws.com",
                    "volumeAttributes": {
                        "partition": "0",
                        "storage.kubernetes.io/csiProvisionerIdentity": "1-2-ebs.csi.aws.com",
                    },
                    "volumeHandle": "vol-1",
                },
                "mountOptions": ["noatime"],
                "persistentVolumeReclaimPolicy": "Delete",
                "storageClassName": "gp3",
                "volumeMode": "Block",
            },
        });
        assert_eq!(substrate::json::to_value(&object).unwrap(), expected);
    }
}
