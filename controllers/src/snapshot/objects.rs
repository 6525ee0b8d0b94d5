//! The kinds of `snapshot.storage.k8s.io/v1`. They are custom resources: a cluster may not have them.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::{ClusterResourceScope, Metadata, NamespaceResourceScope, Resource};
use serde::{Deserialize, Serialize};

use crate::kube::{ApiError, Kind};

/// API group of the kinds.
pub const GROUP: &str = "snapshot.storage.k8s.io";

/// A user's snapshot of a volume.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VolumeSnapshot {
    #[serde(default = "version")]
    api_version: String,
    #[serde(default = "kind_of::<VolumeSnapshot>")]
    kind: String,
    /// Name, finalizers and so on.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// The request.
    #[serde(default)]
    pub spec: VolumeSnapshotSpec,
    /// The state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<VolumeSnapshotStatus>,
}

/// Request of a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VolumeSnapshotSpec {
    /// A claim, or a content.
    pub source: VolumeSnapshotSource,
    /// Class; absent for the default class.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_snapshot_class_name: Option<String>,
}

/// Source of a snapshot: one of the two.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VolumeSnapshotSource {
    /// Claim of the volume to snapshot (dynamic).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub persistent_volume_claim_name: Option<String>,
    /// Content of an existing snapshot (pre-provisioned).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_snapshot_content_name: Option<String>,
}

/// State of a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VolumeSnapshotStatus {
    /// Content to which it is bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bound_volume_snapshot_content_name: Option<String>,
    /// Time at which the driver took it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub creation_time: Option<Time>,
    /// True if a volume can be restored from it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_to_use: Option<bool>,
    /// Smallest size of a restored volume.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restore_size: Option<Quantity>,
    /// The last error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<VolumeSnapshotError>,
    /// Group of which it is a member.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_group_snapshot_name: Option<String>,
}

/// Error of a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VolumeSnapshotError {
    /// Time of the error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<Time>,
    /// Text of the error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// Object that represents a snapshot of the driver.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VolumeSnapshotContent {
    #[serde(default = "version")]
    api_version: String,
    #[serde(default = "kind_of::<VolumeSnapshotContent>")]
    kind: String,
    /// Name, annotations and so on.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// The properties.
    #[serde(default)]
    pub spec: VolumeSnapshotContentSpec,
    /// The state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<VolumeSnapshotContentStatus>,
}

/// Properties of a content.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VolumeSnapshotContentSpec {
    /// Snapshot to which it is bound.
    pub volume_snapshot_ref: ObjectReference,
    /// `Delete` or `Retain`.
    pub deletion_policy: String,
    /// Name of the driver.
    pub driver: String,
    /// Class of the snapshot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_snapshot_class_name: Option<String>,
    /// A volume, or an existing snapshot.
    pub source: VolumeSnapshotContentSource,
    /// Mode of the volume.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_volume_mode: Option<String>,
}

/// Source of a content: one of the two.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VolumeSnapshotContentSource {
    /// The driver's id of the volume to snapshot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_handle: Option<String>,
    /// The driver's id of an existing snapshot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot_handle: Option<String>,
}

/// State of a content.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VolumeSnapshotContentStatus {
    /// The driver's id of the snapshot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot_handle: Option<String>,
    /// Time at which the driver took it, in nanoseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub creation_time: Option<i64>,
    /// Size in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restore_size: Option<i64>,
    /// True if a volume can be restored from it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_to_use: Option<bool>,
    /// The last error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<VolumeSnapshotError>,
    /// The driver's id of the group of which it is a member.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_group_snapshot_handle: Option<String>,
}

/// Settings with which a driver takes snapshots.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VolumeSnapshotClass {
    #[serde(default = "version")]
    api_version: String,
    #[serde(default = "kind_of::<VolumeSnapshotClass>")]
    kind: String,
    /// Name, annotations and so on.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// Name of the driver.
    #[serde(default)]
    pub driver: String,
    /// Parameters of the driver and of the sidecar.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<String, String>,
    /// `Delete` or `Retain`.
    #[serde(default)]
    pub deletion_policy: String,
}

/// Deletion policy: the driver's snapshot is deleted with its VolumeSnapshot.
pub const DELETE: &str = "Delete";

fn version() -> String {
    VolumeSnapshot::API_VERSION.to_owned()
}

/// Returns the name of a kind.
pub(super) fn kind_of<K: Resource>() -> String {
    K::KIND.to_owned()
}

/// Declares a type as a kind of version v1 of an API group.
macro_rules! kind {
    ($group:literal, $kind:ident, $name:literal, $plural:literal, $scope:ty) => {
        impl Resource for $kind {
            const API_VERSION: &'static str = concat!($group, "/v1");
            const GROUP: &'static str = $group;
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

pub(super) use kind;

kind!("snapshot.storage.k8s.io", VolumeSnapshot, "VolumeSnapshot", "volumesnapshots", NamespaceResourceScope);
kind!(
    "snapshot.storage.k8s.io",
    VolumeSnapshotContent,
    "VolumeSnapshotContent",
    "volumesnapshotcontents",
    ClusterResourceScope
);
kind!(
    "snapshot.storage.k8s.io",
    VolumeSnapshotClass,
    "VolumeSnapshotClass",
    "volumesnapshotclasses",
    ClusterResourceScope
);

impl VolumeSnapshot {
    /// Returns the object that client-go returns for a failed request: its kind and nothing else.
    pub(super) fn blank() -> Self {
        Self {
            api_version: version(),
            kind: kind_of::<Self>(),
            metadata: ObjectMeta::default(),
            spec: VolumeSnapshotSpec::default(),
            status: None,
        }
    }

    /// Returns `status.boundVolumeSnapshotContentName`.
    pub fn content(&self) -> Option<&str> {
        self.status.as_ref()?.bound_volume_snapshot_content_name.as_deref()
    }

    /// Returns `status.volumeGroupSnapshotName`.
    pub fn group(&self) -> Option<&str> {
        self.status.as_ref()?.volume_group_snapshot_name.as_deref()
    }

    /// Returns true if a volume can be restored from it (`IsSnapshotReady`).
    pub fn is_ready(&self) -> bool {
        self.status.as_ref().is_some_and(|status| status.ready_to_use == Some(true))
    }

    /// Returns `status.restoreSize`.
    pub fn restore_size(&self) -> Option<&Quantity> {
        self.status.as_ref()?.restore_size.as_ref()
    }
}

impl VolumeSnapshotContent {
    /// Creates a content without metadata but its name.
    pub(super) fn new(name: String, spec: VolumeSnapshotContentSpec) -> Self {
        let metadata = ObjectMeta { name: Some(name), ..ObjectMeta::default() };
        Self { api_version: version(), kind: kind_of::<Self>(), metadata, spec, status: None }
    }

    /// Returns true if it is bound to `snapshot` (`IsVolumeSnapshotRefSet`).
    pub fn is_of(&self, snapshot: &VolumeSnapshot) -> bool {
        let of = &self.spec.volume_snapshot_ref;
        let [name, namespace, uid] = [&of.name, &of.namespace, &of.uid].map(|part| part.as_deref().unwrap_or_default());
        (name, namespace, uid) == (snapshot.name(), snapshot.namespace(), snapshot.uid())
    }

    /// Returns the uid of the snapshot to which it is bound; empty before the binding of a pre-provisioned one.
    pub fn snapshot_uid(&self) -> &str {
        self.spec.volume_snapshot_ref.uid.as_deref().unwrap_or_default()
    }

    /// Returns namespace and name of its snapshot.
    pub fn snapshot_key(&self) -> (String, String) {
        let of = &self.spec.volume_snapshot_ref;
        let text = |part: &Option<String>| part.clone().unwrap_or_default();
        (text(&of.namespace), text(&of.name))
    }

    /// Returns `status.snapshotHandle`.
    pub fn handle(&self) -> Option<&str> {
        self.status.as_ref()?.snapshot_handle.as_deref()
    }

    /// Returns true if a volume can be restored from it (`contentIsReady`).
    pub fn is_ready(&self) -> bool {
        self.status.as_ref().is_some_and(|status| status.ready_to_use == Some(true))
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
