//! Snapshot objects of external-snapshotter, as far as the provisioner reads them. They are custom resources: a cluster
//! may not have them.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::{ClusterResourceScope, Metadata, NamespaceResourceScope, Resource};
use serde::{Deserialize, Serialize};
use substrate::json::Value;

use crate::kube::{ApiError, Kind};

/// API group of the snapshot kinds.
pub const GROUP: &str = "snapshot.storage.k8s.io";

/// A user's snapshot of a volume.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VolumeSnapshot {
    #[serde(default = "version")]
    api_version: String,
    #[serde(default = "snapshot")]
    kind: String,
    metadata: ObjectMeta,
    /// Kept as read, for updates.
    #[serde(default)]
    spec: Value,
    #[serde(default, skip_serializing_if = "Value::is_null")]
    status: Value,
}

/// Content object of a snapshot at the driver.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VolumeSnapshotContent {
    #[serde(default = "version")]
    api_version: String,
    #[serde(default = "content")]
    kind: String,
    metadata: ObjectMeta,
    #[serde(default)]
    spec: Value,
    #[serde(default, skip_serializing_if = "Value::is_null")]
    status: Value,
}

fn version() -> String {
    VolumeSnapshot::API_VERSION.to_owned()
}

fn snapshot() -> String {
    VolumeSnapshot::KIND.to_owned()
}

fn content() -> String {
    VolumeSnapshotContent::KIND.to_owned()
}

macro_rules! kind {
    ($kind:ident, $name:literal, $plural:literal, $scope:ty) => {
        impl Resource for $kind {
            const API_VERSION: &'static str = "snapshot.storage.k8s.io/v1";
            const GROUP: &'static str = GROUP;
            const KIND: &'static str = $name;
            const URL_PATH_SEGMENT: &'static str = $plural;
            const VERSION: &'static str = "v1";
            type Scope = $scope;
        }

        impl Metadata for $kind {
            type Ty = ObjectMeta;

            fn metadata(&self) -> &ObjectMeta {
                &self.metadata
            }

            fn metadata_mut(&mut self) -> &mut ObjectMeta {
                &mut self.metadata
            }
        }
    };
}

kind!(VolumeSnapshot, "VolumeSnapshot", "volumesnapshots", NamespaceResourceScope);
kind!(VolumeSnapshotContent, "VolumeSnapshotContent", "volumesnapshotcontents", ClusterResourceScope);

fn text<'a>(value: &'a Value, path: &[&str]) -> Option<&'a str> {
    path.iter().try_fold(value, |value, name| value.get(name))?.as_str()
}

impl VolumeSnapshot {
    /// Returns `status.boundVolumeSnapshotContentName`.
    pub fn content(&self) -> Option<&str> {
        text(&self.status, &["boundVolumeSnapshotContentName"])
    }

    /// Returns `status.readyToUse`.
    pub fn is_ready(&self) -> bool {
        self.status.get("readyToUse").and_then(Value::as_bool) == Some(true)
    }

    /// Returns `status.restoreSize`.
    pub fn restore_size(&self) -> Option<Quantity> {
        text(&self.status, &["restoreSize"]).map(|size| Quantity(size.to_owned()))
    }
}

impl VolumeSnapshotContent {
    /// Returns true if it is bound to `snapshot` (`spec.volumeSnapshotRef`).
    pub fn is_of(&self, snapshot: &VolumeSnapshot) -> bool {
        let names = |field, value: &str| text(&self.spec, &["volumeSnapshotRef", field]) == Some(value);
        names("uid", snapshot.uid()) && names("namespace", snapshot.namespace()) && names("name", snapshot.name())
    }

    /// Returns `spec.driver`.
    pub fn driver(&self) -> &str {
        text(&self.spec, &["driver"]).unwrap_or_default()
    }

    /// Returns `spec.sourceVolumeMode`.
    pub fn source_mode(&self) -> Option<&str> {
        text(&self.spec, &["sourceVolumeMode"])
    }

    /// Returns `status.snapshotHandle`.
    pub fn handle(&self) -> Option<&str> {
        text(&self.status, &["snapshotHandle"])
    }
}

/// Formats a refusal like client-go, which adds the request if the server does not have the kind.
pub fn refusal<K: Kind>(error: &ApiError, name: &str) -> String {
    const NO_KIND: &str = "the server could not find the requested resource";
    let text = error.to_string();
    if error.is_not_found() && (text == NO_KIND || text.contains("404 page not found")) {
        return format!("{NO_KIND} (get {}.{} {name})", K::URL_PATH_SEGMENT, K::GROUP);
    }
    text
}
