//! What a cluster has before its user does anything: the driver's CSIDriver object and a default StorageClass.

use serde_json::{Value, json};

use super::objects::{ObjectError, Objects};
use crate::scenario::model::Manifest;
use crate::scenario::object::{Kind, ObjectRef};

/// The CSIDriver object that the EBS driver's chart installs.
pub(crate) fn csi_driver(name: &str) -> Manifest {
    let value = json!({
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIDriver",
        "metadata": { "name": name },
        "spec": { "attachRequired": true, "podInfoOnMount": false, "fsGroupPolicy": "File" },
    });
    Manifest { object: ObjectRef::new(Kind::csi_driver(), None, name), value }
}

fn storage_class() -> Manifest {
    let value: Value = json!({
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": { "name": "gp3", "annotations": { "storageclass.kubernetes.io/is-default-class": "true" } },
        "provisioner": "ebs.csi.aws.com",
        "parameters": { "type": "gp3" },
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowVolumeExpansion": true,
    });
    Manifest { object: ObjectRef::new(Kind::storage_class(), None, "gp3"), value }
}

/// Puts them in place.
///
/// # Errors
/// What the API server says.
pub async fn apply(objects: &Objects) -> Result<(), ObjectError> {
    objects.apply(&csi_driver("ebs.csi.aws.com")).await?;
    objects.apply(&storage_class()).await
}
