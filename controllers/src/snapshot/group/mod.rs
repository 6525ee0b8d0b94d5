//! Kinds of groups of snapshots (`groupsnapshot.storage.k8s.io`), and the names around them.
//!
//! A VolumeGroupSnapshot selects claims. snapshot-controller creates a VolumeGroupSnapshotContent with their volumes,
//! csi-snapshotter has the driver take snapshots of all of them at one moment, and snapshot-controller makes a
//! VolumeSnapshot and a VolumeSnapshotContent of each: the members of the group.

pub mod names;
pub mod objects;

use k8s_openapi::Resource;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use super::objects::{VolumeSnapshot, VolumeSnapshotContent};
use crate::kube::Kind;
pub use objects::GROUP;
use objects::VolumeGroupSnapshot;

/// Returns the reference to the group that owns a member (`BuildVolumeGroupSnapshotOwnerReference`).
pub fn owner(group: &VolumeGroupSnapshot) -> OwnerReference {
    OwnerReference {
        api_version: VolumeGroupSnapshot::API_VERSION.to_owned(),
        kind: VolumeGroupSnapshot::KIND.to_owned(),
        name: group.name().to_owned(),
        uid: group.uid().to_owned(),
        ..OwnerReference::default()
    }
}

/// Returns the name of the group that owns a snapshot (`getVolumeGroupSnapshotParentObjectName`).
pub fn group_name(snapshot: &VolumeSnapshot) -> Option<&str> {
    let mut owners = snapshot.metadata.owner_references.iter().flatten();
    let group = owners
        .find(|owner| owner.kind == VolumeGroupSnapshot::KIND && owner.api_version == VolumeGroupSnapshot::API_VERSION);
    group.map(|owner| owner.name.as_str()).filter(|name| !name.is_empty())
}

/// Returns the error of a lister without a class of this name.
pub(super) fn class_missing(name: &str) -> String {
    format!("volumegroupsnapshotclass.{GROUP} {name:?} not found")
}

/// Returns true if a content is a member of a group that was taken from claims.
pub fn is_member(content: &VolumeSnapshotContent) -> bool {
    content.annotation(names::HANDLE).is_some()
}

#[cfg(test)]
mod tests {
    use substrate::json::{from_value, json};

    use super::*;

    #[test]
    fn a_member_refers_to_its_group() {
        let group: VolumeGroupSnapshot =
            from_value(json!({ "metadata": { "namespace": "shop", "name": "g", "uid": "u" } })).unwrap();
        let mut snapshot: VolumeSnapshot = from_value(json!({ "metadata": { "name": "s" } })).unwrap();
        assert_eq!(group_name(&snapshot), None);
        let other = OwnerReference { api_version: "apps/v1".to_owned(), ..owner(&group) };
        snapshot.metadata.owner_references = Some(vec![other, owner(&group)]);
        assert_eq!(group_name(&snapshot), Some("g"));
    }
}
