//! PersistentVolume of a new volume (external-provisioner `Provision`, lib `provisionClaimOperation`).

use std::collections::BTreeMap;

use csi_proto::csi::Volume;
use csi_proto::csi::volume_capability::access_mode::Mode;
use k8s_openapi::api::core::v1::{
    CSIPersistentVolumeSource, PersistentVolume, PersistentVolumeClaim, PersistentVolumeSpec,
};
use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::parameters::Secret;
use super::request::{Prepared, is_block};
use super::topology::node_affinity;
use crate::binder::annotations::PROVISIONED_BY;
use crate::binder::bind::claim_reference;
use crate::binder::{object, quantity};

/// Finalizer that the provisioner holds until the volume behind the object is deleted.
pub const FINALIZER: &str = "external-provisioner.volume.kubernetes.io/finalizer";
/// Annotation: name of DeleteVolume's secret.
pub const DELETION_SECRET_NAME: &str = "volume.kubernetes.io/provisioner-deletion-secret-name";
/// Annotation: namespace of DeleteVolume's secret.
pub const DELETION_SECRET_NAMESPACE: &str = "volume.kubernetes.io/provisioner-deletion-secret-namespace";
/// Annotation: name of ControllerModifyVolume's secret.
pub const MODIFY_SECRET_NAME: &str = "volume.kubernetes.io/controller-modify-secret-name";
/// Annotation: namespace of ControllerModifyVolume's secret.
pub const MODIFY_SECRET_NAMESPACE: &str = "volume.kubernetes.io/controller-modify-secret-namespace";
/// Volume attribute with the identity of the provisioner process.
const IDENTITY: &str = "storage.kubernetes.io/csiProvisionerIdentity";

/// Identity and settings of a provisioner.
#[derive(Clone, Copy, Debug)]
pub struct Provisioner<'a> {
    /// The CSI driver's name.
    pub driver: &'a str,
    /// `<milliseconds>-<number>-<driver>`, new for each process.
    pub identity: &'a str,
    /// True if the driver has topology.
    pub topology: bool,
    /// `--controller-publish-readonly`.
    pub controller_publish_readonly: bool,
}

/// Builds the object for a volume that the driver has created. If the driver does not return the size, the requested
/// size applies.
pub fn persistent_volume(
    claim: &PersistentVolumeClaim,
    class: &StorageClass,
    prepared: &Prepared,
    volume: &Volume,
    provisioner: Provisioner<'_>,
) -> PersistentVolume {
    let requested = object::requested_bytes(claim);
    let bytes = if volume.capacity_bytes == 0 { requested } else { volume.capacity_bytes };
    let mut attributes = BTreeMap::from([(IDENTITY.to_owned(), provisioner.identity.to_owned())]);
    attributes.extend(volume.volume_context.clone());
    let secret = |purpose| prepared.secrets.get(&purpose).cloned();
    let deletion = secret(Secret::Provisioner).unwrap_or_default();
    let mut annotations = BTreeMap::from([
        (PROVISIONED_BY.to_owned(), class.provisioner.clone()),
        (DELETION_SECRET_NAME.to_owned(), deletion.name.unwrap_or_default()),
        (DELETION_SECRET_NAMESPACE.to_owned(), deletion.namespace.unwrap_or_default()),
    ]);
    if let Some(modify) = secret(Secret::ControllerModify) {
        annotations.insert(MODIFY_SECRET_NAME.to_owned(), modify.name.unwrap_or_default());
        annotations.insert(MODIFY_SECRET_NAMESPACE.to_owned(), modify.namespace.unwrap_or_default());
    }
    let spec = claim.spec.as_ref();
    let reader_only = matches!(prepared.request.volume_capabilities.as_slice(), [only]
        if only.access_mode.as_ref().is_some_and(|m| m.mode() == Mode::MultiNodeReaderOnly));
    let source = CSIPersistentVolumeSource {
        driver: provisioner.driver.to_owned(),
        volume_handle: volume.volume_id.clone(),
        volume_attributes: Some(attributes),
        fs_type: (!is_block(claim) && !prepared.fs_type.is_empty()).then(|| prepared.fs_type.clone()),
        read_only: (reader_only && provisioner.controller_publish_readonly).then_some(true),
        controller_publish_secret_ref: secret(Secret::ControllerPublish),
        node_stage_secret_ref: secret(Secret::NodeStage),
        node_publish_secret_ref: secret(Secret::NodePublish),
        controller_expand_secret_ref: secret(Secret::ControllerExpand),
        node_expand_secret_ref: secret(Secret::NodeExpand),
    };
    PersistentVolume {
        metadata: ObjectMeta {
            name: Some(prepared.request.name.clone()),
            annotations: Some(annotations),
            finalizers: Some(vec![FINALIZER.to_owned()]),
            ..ObjectMeta::default()
        },
        spec: Some(PersistentVolumeSpec {
            access_modes: spec.and_then(|s| s.access_modes.clone()),
            mount_options: class.mount_options.clone(),
            capacity: Some(BTreeMap::from([("storage".to_owned(), quantity::bytes(bytes))])),
            csi: Some(source),
            persistent_volume_reclaim_policy: class.reclaim_policy.clone(),
            node_affinity: provisioner.topology.then(|| node_affinity(&volume.accessible_topology)).flatten(),
            volume_mode: spec.and_then(|s| s.volume_mode.clone()),
            volume_attributes_class_name: spec
                .and_then(|s| s.volume_attributes_class_name.clone())
                .filter(|name| !name.is_empty()),
            claim_ref: Some(claim_reference(claim)),
            storage_class_name: Some(object::claim_class(claim).to_owned()),
            ..PersistentVolumeSpec::default()
        }),
        status: None,
    }
}
