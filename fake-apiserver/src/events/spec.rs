//! Requirements that claims, volumes, classes, pods and nodes state.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use substrate::json::{Text, Value};

use super::is_false;
use super::manifest::{ephemeral_claim, word, words};
use crate::fields::quantity;
use crate::kinds::{Kind, index};

/// Requirements in [`Commit`](super::Commit): of a claim, a volume, a StorageClass, a pod or a node, as far as each has
/// them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// Access modes that a claim asks for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub access_modes: Vec<Text>,
    /// VolumeAttributesClass of a claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attributes_class: Option<Text>,
    /// True for a raw device (`volumeMode: Block`).
    #[serde(default, skip_serializing_if = "is_false")]
    pub block: bool,
    /// Size of a volume, or in the status of a claim, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<u64>,
    /// StorageClass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<Text>,
    /// VolumeAttributesClass that a claim's volume has (`status.currentVolumeAttributesClassName`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_attributes_class: Option<Text>,
    /// Claims of a pod's ephemeral volumes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ephemeral_claims: Vec<Text>,
    /// Filesystem of a volume (`spec.csi.fsType`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fs_type: Option<Text>,
    /// Mount options of a volume or a StorageClass.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mount_options: Vec<Text>,
    /// Keys of NoSchedule taints that a pod tolerates, for at least one value; empty for each taint.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub no_schedule_tolerations: Vec<Text>,
    /// Parameters of a StorageClass or a VolumeAttributesClass for its driver.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<Text, Text>,
    /// True for a volume that may only be read (`spec.csi.readOnly`).
    #[serde(default, skip_serializing_if = "is_false")]
    pub read_only: bool,
    /// Claims that a pod uses for reading only (`persistentVolumeClaim.readOnly`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub read_only_claims: Vec<Text>,
    /// Reclaim policy of a StorageClass; absent for Delete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reclaim: Option<Text>,
    /// Size that a claim asks for, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<u64>,
    /// Node that the scheduler has chosen for the first consumer of a claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selected_node: Option<Text>,
    /// VolumeAttributesClass to which a claim's volume is being modified (`status.modifyVolumeStatus`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_attributes_class: Option<Text>,
    /// Tolerations of NoExecute taints of a pod: the key of the taint, or empty for each taint, and the seconds for
    /// which the pod tolerates it. Tolerations of one value of a taint are left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<(Text, Option<u64>)>,
    /// Zones of a volume, of a node, or in which a StorageClass has its volumes made; empty if none is named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub zones: Vec<Text>,
}

impl Spec {
    pub(super) fn of(kind: &Kind, object: &Value) -> Self {
        let spec = &object["spec"];
        match kind.index {
            index::PERSISTENT_VOLUME_CLAIMS => Self {
                access_modes: words(&spec["accessModes"], word),
                attributes_class: word(&spec["volumeAttributesClassName"]),
                block: spec["volumeMode"] == "Block",
                capacity: bytes(&object["status"]["capacity"]["storage"]),
                class: word(&spec["storageClassName"]),
                current_attributes_class: word(&object["status"]["currentVolumeAttributesClassName"]),
                request: bytes(&spec["resources"]["requests"]["storage"]),
                selected_node: word(&object["metadata"]["annotations"]["volume.kubernetes.io/selected-node"]),
                target_attributes_class: word(
                    &object["status"]["modifyVolumeStatus"]["targetVolumeAttributesClassName"],
                ),
                ..Self::default()
            },
            index::PERSISTENT_VOLUMES => Self {
                block: spec["volumeMode"] == "Block",
                capacity: bytes(&spec["capacity"]["storage"]),
                class: word(&spec["storageClassName"]),
                fs_type: word(&spec["csi"]["fsType"]),
                mount_options: words(&spec["mountOptions"], word),
                read_only: spec["csi"]["readOnly"] == true,
                zones: zones(&spec["nodeAffinity"]["required"]["nodeSelectorTerms"], "matchExpressions"),
                ..Self::default()
            },
            index::STORAGE_CLASSES => Self {
                mount_options: words(&object["mountOptions"], word),
                parameters: parameters(object),
                reclaim: word(&object["reclaimPolicy"]).filter(|policy| policy != "Delete"),
                zones: zones(&object["allowedTopologies"], "matchLabelExpressions"),
                ..Self::default()
            },
            index::VOLUME_ATTRIBUTES_CLASSES => Self { parameters: parameters(object), ..Self::default() },
            index::PODS => {
                let read_only = |volume: &Value| {
                    let source = &volume["persistentVolumeClaim"];
                    word(&source["claimName"]).filter(|_| source["readOnly"] == true)
                };
                Self {
                    ephemeral_claims: words(&spec["volumes"], |volume| ephemeral_claim(object, volume)),
                    read_only_claims: words(&spec["volumes"], read_only),
                    no_schedule_tolerations: words(&spec["tolerations"], |of| {
                        let is_of_no_schedule = of["effect"].as_str().is_none_or(|e| matches!(e, "" | "NoSchedule"));
                        is_of_no_schedule.then(|| word(&of["key"]).unwrap_or_default())
                    }),
                    tolerations: tolerations(&spec["tolerations"]),
                    ..Self::default()
                }
            }
            index::NODES => {
                let labels = &object["metadata"]["labels"];
                let zone = ZONE_KEYS.iter().find_map(|key| word(&labels[*key]));
                Self { zones: zone.into_iter().collect(), ..Self::default() }
            }
            _ => Self::default(),
        }
    }
}

/// A quantity in bytes; nothing if it is absent or no quantity.
fn bytes(quantity: &Value) -> Option<u64> {
    let nanos = quantity.as_str().and_then(quantity::nanos)?;
    u64::try_from(nanos / 1_000_000_000).ok()
}

/// Keys of the topology of zones: upstream's label, and those of the EBS driver.
const ZONE_KEYS: &[&str] = &["topology.kubernetes.io/zone", "topology.ebs.csi.aws.com/zone"];

/// Zones that the expressions of some terms name.
fn zones(terms: &Value, expressions: &str) -> Vec<Text> {
    let terms = terms.as_array().into_iter().flatten();
    let all = terms.flat_map(|term| term[expressions].as_array().into_iter().flatten());
    let of_zones = all.filter(|expression| expression["key"].as_str().is_some_and(|key| ZONE_KEYS.contains(&key)));
    let mut zones: Vec<Text> = of_zones.flat_map(|expression| words(&expression["values"], word)).collect();
    zones.sort_unstable();
    zones.dedup();
    zones
}

/// Returns the tolerations of NoExecute taints, without those of one value.
fn tolerations(list: &Value) -> Vec<(Text, Option<u64>)> {
    let of_no_execute = |of: &&Value| of["effect"].as_str().is_none_or(|e| e.is_empty() || e == "NoExecute");
    let all = list.as_array().into_iter().flatten().filter(of_no_execute);
    all.filter(|of| of["operator"] == "Exists")
        .map(|of| {
            let seconds = of["tolerationSeconds"].as_i64().map(|seconds| u64::try_from(seconds).unwrap_or(0));
            (word(&of["key"]).unwrap_or_default(), seconds)
        })
        .collect()
}

/// Returns the parameters of a class.
fn parameters(object: &Value) -> BTreeMap<Text, Text> {
    let parameters = object["parameters"].as_object().into_iter().flatten();
    parameters.filter_map(|(key, value)| Some((key.clone(), word(value)?))).collect()
}
