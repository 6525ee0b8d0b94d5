//! Short descriptions for `kubectl explain`: of every kind, and of the fields that storage turns on.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::Kind;

/// What a kind is, in one sentence.
pub fn kind(kind: &Kind) -> &'static str {
    match (kind.group, kind.kind) {
        (_, "ConfigMap") => "ConfigMap holds configuration for pods to read.",
        (_, "Event") => "Event is a report of something that happened to an object.",
        (_, "Namespace") => "Namespace is a scope for names.",
        (_, "Node") => "Node is a machine that runs pods.",
        (_, "PersistentVolumeClaim") => "PersistentVolumeClaim is a request for a volume and its use.",
        (_, "PersistentVolume") => "PersistentVolume is a volume that the cluster knows of.",
        (_, "Pod") => "Pod is a set of containers that run on one node.",
        (_, "Secret") => "Secret holds secret data for pods to read.",
        (_, "ServiceAccount") => "ServiceAccount is an identity for what runs in pods.",
        (_, "Lease") => "Lease says who holds a role, and until when.",
        (_, "CSIDriver") => "CSIDriver says how the cluster is to treat a CSI driver.",
        (_, "CSINode") => "CSINode lists the CSI drivers on a node.",
        (_, "CSIStorageCapacity") => {
            "CSIStorageCapacity says how much storage of a class a part of the cluster has left."
        }
        (_, "StorageClass") => "StorageClass says how volumes of a class are made.",
        (_, "VolumeAttachment") => "VolumeAttachment is the intent to attach a volume to a node, and what came of it.",
        (_, "VolumeAttributesClass") => {
            "VolumeAttributesClass is a set of volume attributes that can be changed later."
        }
        _ => "",
    }
}

/// What a field is for, when there is something to say.
pub fn field(of: &str, name: &str) -> Option<&'static str> {
    COMMON.iter().find(|(n, _)| *n == name).map(|(_, text)| *text).or_else(|| FIELDS.get(&(of, name)).copied())
}

/// Fields that mean the same wherever they are.
const COMMON: &[(&str, &str)] = &[
    ("apiVersion", "Group and version of the object's type."),
    ("metadata", "Name, namespace, labels and what the server keeps about the object."),
];

/// `Type field text`, a line each.
const TEXT: &str = include_str!("descriptions.txt");

static FIELDS: LazyLock<BTreeMap<(&'static str, &'static str), &'static str>> = LazyLock::new(|| {
    TEXT.lines()
        .filter_map(|line| {
            let (of, rest) = line.split_once(' ')?;
            let (field, text) = rest.split_once(' ')?;
            Some(((of, field), text))
        })
        .collect()
});

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::{self, schema};

    #[test]
    fn every_kind_is_described_and_every_description_has_its_field() {
        for kind in kinds::all() {
            assert!(!super::kind(kind).is_empty(), "{kind:?}");
        }
        assert_eq!(FIELDS.len(), TEXT.lines().count());
        for (of, name) in FIELDS.keys() {
            assert!(schema::find(of).is_some_and(|t| t.field(name).is_some()), "{of} {name}");
        }
    }
}
