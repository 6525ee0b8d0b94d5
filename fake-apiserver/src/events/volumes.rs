//! Details of commits of claims, volumes and attachments.

use serde::{Deserialize, Serialize};
use substrate::json::{Text, Value};

use super::is_false;
use super::manifest::{controller, has_finalizer, is_deleting, word, words};

/// A claim in [`Commit`](super::Commit).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// True if it is being deleted.
    #[serde(default, skip_serializing_if = "is_false")]
    pub deleting: bool,
    /// True if snapshot-controller protects it as the source of a snapshot.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_source: bool,
    /// The uid of its controller, such as the pod of an ephemeral volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Text>,
    /// Its phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Text>,
    /// Its uid.
    #[serde(default, skip_serializing_if = "Text::is_empty")]
    pub uid: Text,
    /// The volume that it is bound to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume: Option<Text>,
}

/// A volume in [`Commit`](super::Commit).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Volume {
    /// Its access modes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub access_modes: Vec<Text>,
    /// The claim that it is bound to: `namespace/name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<Text>,
    /// The uid of that claim; absent if the reference names none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim_uid: Option<Text>,
    /// True if it is being deleted.
    #[serde(default, skip_serializing_if = "is_false")]
    pub deleting: bool,
    /// The driver's id of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handle: Option<Text>,
    /// Its phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Text>,
    /// Its reclaim policy; absent for Delete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reclaim: Option<Text>,
}

/// An attachment in [`Commit`](super::Commit).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attachment {
    /// True if the driver has attached it.
    pub attached: bool,
    /// Name of the device in its metadata (`status.attachmentMetadata.devicePath`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<Text>,
    /// True if it is being deleted.
    #[serde(default, skip_serializing_if = "is_false")]
    pub deleting: bool,
    /// The node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<Text>,
    /// The volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pv: Option<Text>,
}

impl Claim {
    pub(super) fn of(object: &Value) -> Self {
        Self {
            deleting: is_deleting(object),
            is_source: has_finalizer(object, "snapshot.storage.kubernetes.io/pvc-as-source-protection"),
            owner: controller(object),
            phase: word(&object["status"]["phase"]),
            uid: word(&object["metadata"]["uid"]).unwrap_or_default(),
            volume: word(&object["spec"]["volumeName"]),
        }
    }
}

impl Volume {
    pub(super) fn of(object: &Value) -> Self {
        let spec = &object["spec"];
        let claim = &spec["claimRef"];
        let claim_uid = word(&claim["uid"]);
        let claim = claim["name"]
            .as_str()
            .map(|name| [claim["namespace"].as_str().unwrap_or_default(), "/", name].into_iter().collect());
        Self {
            access_modes: words(&spec["accessModes"], word),
            claim,
            claim_uid,
            deleting: is_deleting(object),
            handle: word(&spec["csi"]["volumeHandle"]),
            phase: word(&object["status"]["phase"]),
            reclaim: word(&spec["persistentVolumeReclaimPolicy"]).filter(|policy| policy != "Delete"),
        }
    }
}

impl Attachment {
    pub(super) fn of(object: &Value) -> Self {
        let spec = &object["spec"];
        Self {
            attached: object["status"]["attached"] == true,
            device: word(&object["status"]["attachmentMetadata"]["devicePath"]),
            deleting: is_deleting(object),
            node: word(&spec["nodeName"]),
            pv: word(&spec["source"]["persistentVolumeName"]),
        }
    }
}
