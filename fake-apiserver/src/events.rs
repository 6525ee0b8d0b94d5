//! Trace events of the API server.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use substrate::json::{Text, Value};

use crate::fields::quantity;
use crate::kinds::{Kind, index};
use crate::state::EventType;

mod workload;

pub use workload::Workload;

substrate::events! {
    /// A revision was committed.
    pub struct Commit = "api.commit" {
        /// A CSINode.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub csinode: Option<Box<CsiNode>>,
        /// The API group of a custom kind; absent for built-in kinds, whose resources have distinct names.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub group: Option<Text>,
        /// The state of a node.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub node: Option<Box<Node>>,
        /// The object's key: `namespace/name`, or `name`.
        pub object: Arc<str>,
        /// The state of a pod.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub pod: Option<Box<Pod>>,
        /// The binding of a volume.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub pv: Option<Box<Volume>>,
        /// The binding of a claim.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub pvc: Option<Box<Claim>>,
        /// The resource, as in URLs.
        pub resource: Text,
        /// The revision.
        pub rv: u64,
        /// Requirements that a claim, volume, StorageClass, pod or node states.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub spec: Option<Box<Spec>>,
        /// The type of the change.
        pub r#type: EventType,
        /// The user who made the change.
        pub user: Text,
        /// The verb of the request, or the server's own action (`bootstrap`, `expire`).
        pub verb: Text,
        /// The state of an attachment.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub volumeattachment: Option<Box<Attachment>>,
        /// The state of a workload, of a disruption budget, or of a pod that has labels or a controller.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub workload: Option<Box<Workload>>,
    }

    /// A request on a resource was answered, or its connection broken; a watch counts when its stream starts. Only at
    /// the trace level, and for observers of such events.
    pub struct RequestEnded = "api.request" {
        /// The client: its User-Agent.
        pub caller: Text,
        /// The namespace, for one namespace of a namespaced kind.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub namespace: Option<Text>,
        /// The object's key, or the known part of it.
        pub object: Text,
        /// The place that a read is answered from in a real server, `cache` or `storage`; empty for writes.
        #[serde(default, skip_serializing_if = "Text::is_empty")]
        pub reads: Text,
        /// The resource, as in URLs.
        pub resource: Text,
        /// The HTTP status; absent if a fault broke the connection.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub status: Option<u16>,
        /// The subresource; empty for none.
        #[serde(default, skip_serializing_if = "Text::is_empty")]
        pub subresource: Text,
        /// The verb.
        pub verb: Text,
    }

    /// A watch stream started. Only for observers, and at the trace level.
    pub struct WatchOpened = "watch.opened" {
        /// True if the client asked for bookmarks.
        #[serde(default, skip_serializing_if = "is_false")]
        pub bookmarks: bool,
        /// The client: its User-Agent.
        pub caller: Text,
        /// True if labels or fields other than name and node select.
        #[serde(default, skip_serializing_if = "is_false")]
        pub filtered: bool,
        /// The revision at which the stream starts: that of the initial state, or the one after which it resumes.
        pub from_rv: u64,
        /// The API group; empty for core.
        pub group: Text,
        /// True if the stream starts with the present objects.
        #[serde(default, skip_serializing_if = "is_false")]
        pub initial: bool,
        /// The namespace, for a watch of one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub namespace: Option<Text>,
        /// The node whose pods are watched (`spec.nodeName=`).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub node: Option<Text>,
        /// The name of the one object that is watched (`metadata.name=`).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub object: Option<Text>,
        /// The resource, as in URLs.
        pub resource: Text,
        /// The number of the stream, unique within a server.
        pub stream: u64,
    }

    /// A watch stream sent an event. Only for observers, and at the trace level.
    pub struct WatchSent = "watch.sent" {
        /// True for initial objects, and for the bookmark at their end.
        #[serde(default, skip_serializing_if = "is_false")]
        pub initial: bool,
        /// The object's key; absent for a bookmark or an error.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub object: Option<Arc<str>>,
        /// The revision of the event.
        pub rv: u64,
        /// The number of the stream.
        pub stream: u64,
        /// The type of the event.
        pub r#type: WatchEventType,
    }

    /// A fault acted on a watch stream. Only for observers, and at the trace level.
    pub struct WatchSpoiled = "watch.spoiled" {
        /// The fault.
        pub fault: String,
        /// The object of the affected event.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub object: Option<Arc<str>>,
        /// The revision of the affected event.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub rv: Option<u64>,
        /// The number of the stream.
        pub stream: u64,
    }

    /// A fault made a list answer with the state of some revisions ago, as a server with a stale cache does. Only for
    /// observers, and at the trace level.
    pub struct ListWasStale = "list.was-stale" {
        /// The client: its User-Agent.
        pub caller: Text,
        /// The resource, as in URLs.
        pub resource: Text,
    }

    /// A watch stream ended. Only for observers, and at the trace level.
    pub struct WatchClosed = "watch.closed" {
        /// The number of the stream.
        pub stream: u64,
    }

    /// A saved state replaced the present one; all streams ended.
    pub struct Load = "api.load" {
        /// The number of its objects.
        pub objects: u64,
        /// The new revision.
        pub rv: u64,
    }

    /// All objects were removed; all streams ended.
    pub struct Reset = "api.reset" {}
}

fn is_false(flag: &bool) -> bool {
    !flag
}

/// Type of a watch event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum WatchEventType {
    /// An object was added.
    Added,
    /// An object changed.
    Modified,
    /// An object was deleted, or no longer matches the selector.
    Deleted,
    /// All events up to a revision were sent.
    Bookmark,
    /// The stream fails and ends.
    Error,
}

impl From<EventType> for WatchEventType {
    fn from(event_type: EventType) -> Self {
        match event_type {
            EventType::Added => Self::Added,
            EventType::Modified => Self::Modified,
            EventType::Deleted => Self::Deleted,
        }
    }
}

/// A pod in [`Commit`].
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
}

/// A claim in [`Commit`].
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

/// A volume in [`Commit`].
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

/// Requirements in [`Commit`]: of a claim, a volume, a StorageClass, a pod or a node, as far as each has them.
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
    /// Tolerations of NoExecute taints of a pod: the key of the taint, or empty for each taint, and the seconds for
    /// which the pod tolerates it. Tolerations of one value of a taint are left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<(Text, Option<u64>)>,
    /// Zones of a volume, of a node, or in which a StorageClass has its volumes made; empty if none is named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub zones: Vec<Text>,
}

/// An attachment in [`Commit`].
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

/// A node in [`Commit`].
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

/// A CSINode in [`Commit`].
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

fn word(value: &Value) -> Option<Text> {
    match value {
        Value::String(text) => Some(text.clone()),
        _ => None,
    }
}

fn words<'a>(list: &'a Value, word: impl Fn(&'a Value) -> Option<Text>) -> Vec<Text> {
    list.as_array().into_iter().flatten().filter_map(word).collect()
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

fn is_deleting(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

fn has_finalizer(object: &Value, name: &str) -> bool {
    object["metadata"]["finalizers"].as_array().is_some_and(|all| all.iter().any(|finalizer| finalizer == name))
}

/// Returns the claim of a pod's volume, if the volume is ephemeral.
fn ephemeral_claim(pod: &Value, volume: &Value) -> Option<Text> {
    let name = volume["name"].as_str().filter(|_| !volume["ephemeral"].is_null())?;
    Some([pod["metadata"]["name"].as_str()?, "-", name].into_iter().collect())
}

/// Returns the uid of the owner that controls an object.
fn controller(object: &Value) -> Option<Text> {
    let mut owners = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    word(&owners.find(|owner| owner["controller"] == true)?["uid"])
}

/// Returns the parameters of a class.
fn parameters(object: &Value) -> BTreeMap<Text, Text> {
    let parameters = object["parameters"].as_object().into_iter().flatten();
    parameters.filter_map(|(key, value)| Some((key.clone(), word(value)?))).collect()
}

impl Commit {
    /// Creates the event of a built-in kind, without details of the object.
    pub fn new(resource: impl Into<Text>, object: impl Into<Arc<str>>, rv: u64, r#type: EventType) -> Self {
        Self {
            csinode: None,
            group: None,
            node: None,
            object: object.into(),
            pod: None,
            pv: None,
            pvc: None,
            resource: resource.into(),
            rv,
            spec: None,
            r#type,
            user: Text::default(),
            verb: Text::default(),
            volumeattachment: None,
            workload: None,
        }
    }

    /// Returns the event of an object as a manifest describes it, with the same details as a commit of the object.
    pub fn of_manifest(kind: &Kind, object: impl Into<Arc<str>>, manifest: &Value) -> Self {
        let mut commit = Self::new(kind.plural, object, 0, EventType::Added);
        commit.say(kind, manifest);
        commit
    }

    /// Adds details of storage objects, with which a reader can follow a volume without the API: bindings and states of
    /// claims, volumes, pods, attachments, nodes and CSINodes; and those of workloads. Other kinds have none.
    pub(crate) fn say(&mut self, kind: &Kind, object: &Value) {
        match kind.index {
            index::PERSISTENT_VOLUME_CLAIMS => self.pvc = Some(Box::new(Claim::of(object))),
            index::PERSISTENT_VOLUMES => self.pv = Some(Box::new(Volume::of(object))),
            index::PODS => {
                self.pod = Some(Box::new(Pod::of(object)));
                self.workload = Workload::of(kind, object);
            }
            index::CSI_NODES => {
                self.csinode = Some(CsiNode::of(object)).filter(|is| *is != CsiNode::default()).map(Box::new)
            }
            index::NODES => self.node = Some(Node::of(object)).filter(|node| *node != Node::default()).map(Box::new),
            index::VOLUME_ATTACHMENTS => self.volumeattachment = Some(Box::new(Attachment::of(object))),
            _ => self.workload = Workload::of(kind, object),
        }
        self.spec = Some(Spec::of(kind, object)).filter(|spec| *spec != Spec::default()).map(Box::new);
    }

    /// Returns true if commits of a kind have details.
    pub(crate) fn has_details(kind: &Kind) -> bool {
        matches!(
            kind.index,
            index::PERSISTENT_VOLUME_CLAIMS
                | index::PERSISTENT_VOLUMES
                | index::PODS
                | index::NODES
                | index::CSI_NODES
                | index::STORAGE_CLASSES
                | index::VOLUME_ATTACHMENTS
                | index::VOLUME_ATTRIBUTES_CLASSES
        ) || workload::has_details(kind)
    }
}

impl WatchOpened {
    /// Returns true if the stream watches the resource, namespace and name of a commit. Other selectors are ignored.
    pub fn concerns(&self, commit: &Commit) -> bool {
        let built_in = |kind: &Kind| kind.plural == self.resource && kind.group == self.group;
        let own_group = match &commit.group {
            Some(group) => *group == self.group,
            None => crate::kinds::all().iter().any(built_in),
        };
        let (namespace, name) = commit.object.split_once('/').unwrap_or(("", &commit.object));
        self.resource == commit.resource
            && own_group
            && self.namespace.as_ref().is_none_or(|wanted| *wanted == namespace)
            && self.object.as_ref().is_none_or(|wanted| *wanted == name)
    }
}

impl Claim {
    fn of(object: &Value) -> Self {
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
    fn of(object: &Value) -> Self {
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
            handle: word(&spec["csi"]["volumeHandle"]),
            phase: word(&object["status"]["phase"]),
            reclaim: word(&spec["persistentVolumeReclaimPolicy"]).filter(|policy| policy != "Delete"),
        }
    }
}

impl Spec {
    fn of(kind: &Kind, object: &Value) -> Self {
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

impl Pod {
    fn of(object: &Value) -> Self {
        let spec = &object["spec"];
        Self {
            claims: words(&spec["volumes"], |volume| {
                word(&volume["persistentVolumeClaim"]["claimName"]).or_else(|| ephemeral_claim(object, volume))
            }),
            deleting: is_deleting(object),
            node: word(&spec["nodeName"]),
            phase: word(&object["status"]["phase"]),
            uid: word(&object["metadata"]["uid"]).unwrap_or_default(),
        }
    }
}

impl Node {
    fn of(object: &Value) -> Self {
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
    fn of(object: &Value) -> Self {
        let drivers = object["spec"]["drivers"].as_array().into_iter().flatten();
        let driver = |driver: &Value| {
            let name = word(&driver["name"])?;
            Some(Driver { limit: driver["allocatable"]["count"].as_u64(), name })
        };
        Self { drivers: drivers.filter_map(driver).collect() }
    }
}

impl Attachment {
    fn of(object: &Value) -> Self {
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
