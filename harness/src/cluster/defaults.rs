//! Objects of a new cluster: the driver's CSIDriver object and StorageClasses.

use serde_json::{Value, json};

use csi_mock::efs::EFS_DRIVER_NAME;

use super::objects::{ObjectError, Objects};
use crate::spec::ClusterSpec;
use crate::spec::Manifest;
use crate::spec::object::{Kind, ObjectRef};

/// CSIDriver object of the EBS driver's chart.
pub(crate) fn csi_driver(name: &str) -> Manifest {
    let value = json!({
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIDriver",
        "metadata": { "name": name },
        "spec": { "attachRequired": true, "podInfoOnMount": false, "fsGroupPolicy": "File" },
    });
    Manifest { object: ObjectRef::new(Kind::csi_driver(), None, name), value }
}

/// CSIDriver object of the EFS driver's chart, which sets one field.
pub(crate) fn efs_csi_driver() -> Manifest {
    let name = EFS_DRIVER_NAME;
    let value = json!({
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIDriver",
        "metadata": { "name": name },
        "spec": { "attachRequired": false },
    });
    Manifest { object: ObjectRef::new(Kind::csi_driver(), None, name), value }
}

/// CSIDriver objects of the drivers of a cluster.
pub(crate) fn csi_drivers(spec: &ClusterSpec) -> Vec<Manifest> {
    let second = spec.efs.as_ref().map(|_| efs_csi_driver());
    [csi_driver(&spec.driver_name)].into_iter().chain(second).collect()
}

/// StorageClass of the first file system of EFS, for `mooring up`.
fn efs_class(file_system: &str) -> Manifest {
    let value = json!({
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": { "name": "efs" },
        "provisioner": EFS_DRIVER_NAME,
        "parameters": { "provisioningMode": "efs-ap", "fileSystemId": file_system, "directoryPerms": "700" },
    });
    Manifest { object: ObjectRef::new(Kind::storage_class(), None, "efs"), value }
}

fn storage_class(name: &str, parameters: Value) -> Manifest {
    let value: Value = json!({
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": { "name": name },
        "provisioner": "ebs.csi.aws.com",
        "parameters": parameters,
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowVolumeExpansion": true,
    });
    Manifest { object: ObjectRef::new(Kind::storage_class(), None, name), value }
}

/// The default StorageClass.
fn default_class() -> Manifest {
    let mut class = storage_class("gp3", json!({ "type": "gp3" }));
    class.value["metadata"]["annotations"] = json!({ "storageclass.kubernetes.io/is-default-class": "true" });
    class
}

/// Additional classes of `mooring up`: one with the reclaim policy Retain, one with many IOPS, and `standard` for
/// magnetic volumes, which examples use.
fn more_classes() -> [Manifest; 3] {
    let mut retain = storage_class("gp3-retain", json!({ "type": "gp3" }));
    retain.value["reclaimPolicy"] = json!("Retain");
    let fast = storage_class("io2", json!({ "type": "io2", "iops": "3000" }));
    [retain, fast, storage_class("standard", json!({ "type": "standard" }))]
}

/// Creates the CSIDriver objects and the default class.
///
/// # Errors
/// Returns the error of the API server.
pub async fn apply(objects: &Objects, spec: &ClusterSpec) -> Result<(), ObjectError> {
    for driver in &csi_drivers(spec) {
        objects.apply(driver).await?;
    }
    objects.apply(&default_class()).await.map(drop)
}

/// Creates all objects of a cluster for people: these, and the additional classes.
///
/// # Errors
/// Returns the error of the API server.
pub async fn apply_more(objects: &Objects, spec: &ClusterSpec) -> Result<(), ObjectError> {
    apply(objects, spec).await?;
    let first = spec.efs.as_ref().and_then(|file_systems| file_systems.first());
    let shared = first.map(|first| efs_class(&first.id));
    for manifest in more_classes().iter().chain(&shared) {
        objects.apply(manifest).await?;
    }
    Ok(())
}
