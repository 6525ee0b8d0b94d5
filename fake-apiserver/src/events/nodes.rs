//! Details of commits of pods, nodes and CSINodes.

use serde::{Deserialize, Serialize};
use substrate::json::{Text, Value};

use super::is_false;
use super::manifest::{ephemeral_claim, is_deleting, word, words};

/// A pod in [`Commit`](super::Commit).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pod {
    /// The claims that it mounts, by name, with those of its ephemeral volumes.
    pub claims: Vec<Text>,
    /// True if it is being deleted.
    #[serde(default, skip_serializing_if = "is_false")]
    pub deleting: bool,
    /// The node that it is bound to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<Text>,
    /// Its phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Text>,
    /// Its uid.
    #[serde(default, skip_serializing_if = "Text::is_empty")]
    pub uid: Text,
    /// The reason for which a container cannot start, such as `ImagePullBackOff`, `InvalidImageName`,
    /// `CreateContainerConfigError` or `CrashLoopBackOff`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<Text>,
}

/// A node in [`Commit`](super::Commit).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// The status of its condition `Ready`: `True`, `False` or `Unknown`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<Text>,
    /// Its taints, `key:Effect`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<Text>,
    /// The volumes that are attached to it, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volumes_attached: Vec<Text>,
    /// The volumes that its kubelet uses, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volumes_in_use: Vec<Text>,
}

/// A CSINode in [`Commit`](super::Commit).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CsiNode {
    /// The drivers that have registered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drivers: Vec<Driver>,
}

/// A driver in [`CsiNode`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Driver {
    /// The maximum number of volumes of this driver on the node; absent if the driver reports none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// Its name.
    pub name: Text,
}

impl Pod {
    pub(super) fn of(object: &Value) -> Self {
        let spec = &object["spec"];
        Self {
            claims: words(&spec["volumes"], |volume| {
                word(&volume["persistentVolumeClaim"]["claimName"]).or_else(|| ephemeral_claim(object, volume))
            }),
            deleting: is_deleting(object),
            node: word(&spec["nodeName"]),
            phase: word(&object["status"]["phase"]),
            uid: word(&object["metadata"]["uid"]).unwrap_or_default(),
            waiting: waiting(&object["status"]),
        }
    }
}

/// Returns the reason for which a container cannot start. One that is being created, or that waits for an init
/// container, has none.
fn waiting(status: &Value) -> Option<Text> {
    let all = ["initContainerStatuses", "containerStatuses"].into_iter().filter_map(|field| status[field].as_array());
    let reasons = all.flatten().filter_map(|status| word(&status["state"]["waiting"]["reason"]));
    reasons.into_iter().find(|reason| !["ContainerCreating", "PodInitializing"].contains(&&**reason))
}

impl Node {
    pub(super) fn of(object: &Value) -> Self {
        let status = &object["status"];
        let mut conditions = status["conditions"].as_array().into_iter().flatten();
        let taint =
            |taint: &Value| Some([taint["key"].as_str()?, ":", taint["effect"].as_str()?].into_iter().collect());
        Self {
            ready: conditions.find(|c| c["type"] == "Ready").and_then(|c| word(&c["status"])),
            taints: words(&object["spec"]["taints"], taint),
            volumes_attached: words(&status["volumesAttached"], |volume| word(&volume["name"])),
            volumes_in_use: words(&status["volumesInUse"], word),
        }
    }
}

impl CsiNode {
    pub(super) fn of(object: &Value) -> Self {
        let drivers = object["spec"]["drivers"].as_array().into_iter().flatten();
        let driver = |driver: &Value| {
            let name = word(&driver["name"])?;
            Some(Driver { limit: driver["allocatable"]["count"].as_u64(), name })
        };
        Self { drivers: drivers.filter_map(driver).collect() }
    }
}
