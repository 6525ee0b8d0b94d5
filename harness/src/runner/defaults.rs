//! Objects of a new cluster: the driver's CSIDriver object and StorageClasses.

use serde_json::{Value, json};

use super::objects::{ObjectError, Objects};
use crate::scenario::model::Manifest;
use crate::scenario::object::{Kind, ObjectRef};

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

/// Additional classes of `mooring up`: one that retains its volumes, one with many IOPS, and `standard`, which examples
/// use, for magnetic volumes.
fn more_classes() -> [Manifest; 3] {
    let mut retain = storage_class("gp3-retain", json!({ "type": "gp3" }));
    retain.value["reclaimPolicy"] = json!("Retain");
    let fast = storage_class("io2", json!({ "type": "io2", "iops": "3000" }));
    [retain, fast, storage_class("standard", json!({ "type": "standard" }))]
}

/// Creates the CSIDriver object and the default class.
///
/// # Errors
/// Returns the error of the API server.
pub async fn apply(objects: &Objects) -> Result<(), ObjectError> {
    objects.apply(&csi_driver("ebs.csi.aws.com")).await?;
    objects.apply(&default_class()).await.map(drop)
}

/// Creates all objects of a cluster for people: these, and the additional classes.
///
/// # Errors
/// Returns the error of the API server.
pub async fn apply_more(objects: &Objects) -> Result<(), ObjectError> {
    apply(objects).await?;
    for class in &more_classes() {
        objects.apply(class).await?;
    }
    Ok(())
}
