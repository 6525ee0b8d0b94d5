//! The kinds of `groupsnapshot.storage.k8s.io/v1`.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, Time};
use k8s_openapi::{ClusterResourceScope, Metadata, NamespaceResourceScope, Resource};
use serde::{Deserialize, Serialize};

use super::super::objects::{VolumeSnapshotError, kind, kind_of};
use crate::kube::Kind;

/// API group of the kinds.
pub const GROUP: &str = "groupsnapshot.storage.k8s.io";

/// A user's group of snapshots.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VolumeGroupSnapshot {
    #[serde(default = "version")]
    api_version: String,
    #[serde(default = "kind_of::<VolumeGroupSnapshot>")]
    kind: String,
    /// Name, finalizers and so on.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// The request.
    #[serde(default)]
    pub spec: GroupSpec,
    /// The state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<GroupStatus>,
}

/// Object that represents a group of snapshots of the driver.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VolumeGroupSnapshotContent {
    #[serde(default = "version")]
    api_version: String,
    #[serde(default = "kind_of::<VolumeGroupSnapshotContent>")]
    kind: String,
    /// Name, finalizers and so on.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// The properties.
    #[serde(default)]
    pub spec: ContentSpec,
    /// The state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<ContentStatus>,
}

/// Settings with which a driver takes snapshots of groups.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VolumeGroupSnapshotClass {
    #[serde(default = "version")]
    api_version: String,
    #[serde(default = "kind_of::<VolumeGroupSnapshotClass>")]
    kind: String,
    /// Name, finalizers and so on.
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

/// Request of a group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GroupSpec {
    /// Claims, or a content.
    pub source: GroupSource,
    /// Class; absent for the default class.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_group_snapshot_class_name: Option<String>,
}

/// Source of a group: one of the two.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GroupSource {
    /// Labels of the claims whose volumes are snapshotted (dynamic).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    /// Content of an existing group (pre-provisioned).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_group_snapshot_content_name: Option<String>,
}

/// State of a group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GroupStatus {
    /// Content to which it is bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bound_volume_group_snapshot_content_name: Option<String>,
    /// Time at which the driver took it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub creation_time: Option<Time>,
    /// True if volumes can be restored from all its snapshots.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_to_use: Option<bool>,
    /// The last error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<VolumeSnapshotError>,
}

/// Properties of a content.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContentSpec {
    /// Group to which it is bound.
    pub volume_group_snapshot_ref: ObjectReference,
    /// `Delete` or `Retain`.
    pub deletion_policy: String,
    /// Name of the driver.
    pub driver: String,
    /// Class of the group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_group_snapshot_class_name: Option<String>,
    /// Volumes, or an existing group.
    pub source: ContentSource,
}

/// Source of a content: one of the two.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContentSource {
    /// The driver's ids of the volumes to snapshot.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub volume_handles: Vec<String>,
    /// The driver's ids of an existing group and of its snapshots.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group_snapshot_handles: Option<GroupHandles>,
}

/// An existing group of the driver.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GroupHandles {
    /// The driver's id of the group.
    pub volume_group_snapshot_handle: String,
    /// The driver's ids of its snapshots.
    pub volume_snapshot_handles: Vec<String>,
}

/// State of a content.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContentStatus {
    /// The driver's id of the group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_group_snapshot_handle: Option<String>,
    /// Time at which the driver took it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub creation_time: Option<Time>,
    /// True if volumes can be restored from all its snapshots.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_to_use: Option<bool>,
    /// The last error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<VolumeSnapshotError>,
    /// The snapshots of the group, as the driver first described them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub volume_snapshot_info_list: Vec<VolumeSnapshotInfo>,
}

/// A snapshot of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VolumeSnapshotInfo {
    /// The driver's id of the volume.
    pub volume_handle: String,
    /// The driver's id of the snapshot.
    pub snapshot_handle: String,
    /// Time at which it was taken, in nanoseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub creation_time: Option<i64>,
    /// True if a volume can be restored from it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_to_use: Option<bool>,
    /// Size in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restore_size: Option<i64>,
}

fn version() -> String {
    VolumeGroupSnapshot::API_VERSION.to_owned()
}

kind!(
    "groupsnapshot.storage.k8s.io",
    VolumeGroupSnapshot,
    "VolumeGroupSnapshot",
    "volumegroupsnapshots",
    NamespaceResourceScope
);
kind!(
    "groupsnapshot.storage.k8s.io",
    VolumeGroupSnapshotContent,
    "VolumeGroupSnapshotContent",
    "volumegroupsnapshotcontents",
    ClusterResourceScope
);
kind!(
    "groupsnapshot.storage.k8s.io",
    VolumeGroupSnapshotClass,
    "VolumeGroupSnapshotClass",
    "volumegroupsnapshotclasses",
    ClusterResourceScope
);

impl VolumeGroupSnapshot {
    /// Returns the object that client-go returns for a failed request: its kind and nothing else.
    pub(in crate::snapshot) fn blank() -> Self {
        Self {
            api_version: version(),
            kind: kind_of::<Self>(),
            metadata: ObjectMeta::default(),
            spec: GroupSpec::default(),
            status: None,
        }
    }

    /// Returns `status.boundVolumeGroupSnapshotContentName`, unless it is empty.
    pub fn content(&self) -> Option<&str> {
        let name = self.status.as_ref()?.bound_volume_group_snapshot_content_name.as_deref();
        name.filter(|name| !name.is_empty())
    }

    /// Returns true if volumes can be restored from all its snapshots (`IsGroupSnapshotReady`).
    pub fn is_ready(&self) -> bool {
        self.status.as_ref().is_some_and(|status| status.ready_to_use == Some(true))
    }

    /// Returns true if the driver has taken it (`IsGroupSnapshotCreated`).
    pub fn is_created(&self) -> bool {
        self.status.as_ref().is_some_and(|status| status.creation_time.is_some())
    }
}

impl VolumeGroupSnapshotContent {
    /// Creates a content without metadata but its name.
    pub(in crate::snapshot) fn new(name: String, spec: ContentSpec) -> Self {
        let metadata = ObjectMeta { name: Some(name), ..ObjectMeta::default() };
        Self { api_version: version(), kind: kind_of::<Self>(), metadata, spec, status: None }
    }

    /// Returns true if it is bound to `group` (`IsVolumeGroupSnapshotRefSet`).
    pub fn is_of(&self, group: &VolumeGroupSnapshot) -> bool {
        self.group_key() == (group.namespace().to_owned(), group.name().to_owned()) && self.group_uid() == group.uid()
    }

    /// Returns the uid of the group to which it is bound; empty before the binding of a pre-provisioned one.
    pub fn group_uid(&self) -> &str {
        self.spec.volume_group_snapshot_ref.uid.as_deref().unwrap_or_default()
    }

    /// Returns namespace and name of its group.
    pub fn group_key(&self) -> (String, String) {
        let of = &self.spec.volume_group_snapshot_ref;
        (of.namespace.clone().unwrap_or_default(), of.name.clone().unwrap_or_default())
    }

    /// Returns `status.volumeGroupSnapshotHandle`.
    pub fn handle(&self) -> Option<&str> {
        self.status.as_ref()?.volume_group_snapshot_handle.as_deref()
    }

    /// Returns true if volumes can be restored from all its snapshots (`groupSnapshotContentIsReady`).
    pub fn is_ready(&self) -> bool {
        self.status.as_ref().is_some_and(|status| status.ready_to_use == Some(true))
    }
}
