//! What the API server tells the trace.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use substrate::json::{Text, Value};

use crate::kinds::{Kind, index};
use crate::state::EventType;

substrate::events! {
    /// A revision was committed.
    pub struct Commit = "api.commit" {
        /// What a node's drivers have said of it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub csinode: Option<Box<CsiNode>>,
        /// The API group of a custom kind; nothing for built-in kinds, whose resources have different names.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub group: Option<Text>,
        /// How a node is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub node: Option<Box<Node>>,
        /// The object's key: `namespace/name`, or `name`.
        pub object: Arc<str>,
        /// How far a pod is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub pod: Option<Box<Pod>>,
        /// What a volume is bound to.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub pv: Option<Box<Volume>>,
        /// What a claim is bound to.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub pvc: Option<Box<Claim>>,
        /// The resource, as URLs name it.
        pub resource: Text,
        /// The revision.
        pub rv: u64,
        /// What became of the object.
        pub r#type: EventType,
        /// Who asked for it.
        pub user: Text,
        /// The verb of the request, or what the server did by itself (`bootstrap`, `expire`).
        pub verb: Text,
        /// How far an attachment is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub volumeattachment: Option<Box<Attachment>>,
    }

    /// A request on a resource was answered, or its connection broken; a watch when its stream begins. Only at the trace
    /// level, and for observers that ask for it.
    pub struct RequestEnded = "api.request" {
        /// Who asks: the User-Agent.
        pub caller: Text,
        /// The namespace, for one namespace of a namespaced kind.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub namespace: Option<Text>,
        /// The object's key, or what is known of it.
        pub object: Text,
        /// The place that a read is answered from in a real server, `cache` or `storage`; empty for writes.
        #[serde(default, skip_serializing_if = "Text::is_empty")]
        pub reads: Text,
        /// The resource, as URLs name it.
        pub resource: Text,
        /// The HTTP status; none where a fault broke the connection.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub status: Option<u16>,
        /// The subresource; empty for none.
        #[serde(default, skip_serializing_if = "Text::is_empty")]
        pub subresource: Text,
        /// The verb.
        pub verb: Text,
    }

    /// A watch stream began. Only for observers, and at the trace level.
    pub struct WatchOpened = "watch.opened" {
        /// Whether the client asked for bookmarks.
        #[serde(default, skip_serializing_if = "is_false")]
        pub bookmarks: bool,
        /// Who watches: the User-Agent.
        pub caller: Text,
        /// Whether labels or fields select other than by name or node.
        #[serde(default, skip_serializing_if = "is_false")]
        pub filtered: bool,
        /// The revision that the stream begins at: that of what is there, or that after which it goes on.
        pub from_rv: u64,
        /// The API group; empty for core.
        pub group: Text,
        /// Whether the stream begins with what is there.
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
        /// The resource, as URLs name it.
        pub resource: Text,
        /// The number of the stream: one of a kind for a server.
        pub stream: u64,
    }

    /// An event went out on a watch stream. Only for observers, and at the trace level.
    pub struct WatchSent = "watch.sent" {
        /// Whether it tells of what was there when the stream began, or that all of that has been told.
        #[serde(default, skip_serializing_if = "is_false")]
        pub initial: bool,
        /// The object's key; none for a bookmark or an error.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub object: Option<Arc<str>>,
        /// The revision that it tells of.
        pub rv: u64,
        /// The number of the stream.
        pub stream: u64,
        /// What the watcher is told.
        pub r#type: Told,
    }

    /// A fault did something to a watch stream. Only for observers, and at the trace level.
    pub struct WatchSpoiled = "watch.spoiled" {
        /// The fault.
        pub fault: String,
        /// The object of the event that it met.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub object: Option<Arc<str>>,
        /// The revision of the event that it met.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub rv: Option<u64>,
        /// The number of the stream.
        pub stream: u64,
    }

    /// A fault had a list answered with what was there some revisions ago, as by a server whose cache lags. Only for observers,
    /// and at the trace level.
    pub struct ListWasStale = "list.was-stale" {
        /// Who lists: the User-Agent.
        pub caller: Text,
        /// The resource, as URLs name it.
        pub resource: Text,
    }

    /// A watch stream ended. Only for observers, and at the trace level.
    pub struct WatchClosed = "watch.closed" {
        /// The number of the stream.
        pub stream: u64,
    }

    /// A saved state took the place of this one; all streams ended.
    pub struct Load = "api.load" {
        /// How many objects it has.
        pub objects: u64,
        /// The revision that it has now.
        pub rv: u64,
    }

    /// Everything was wiped; all streams ended.
    pub struct Reset = "api.reset" {}
}

fn is_false(flag: &bool) -> bool {
    !flag
}

/// What an event of a watch stream says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Told {
    /// An object is there.
    Added,
    /// It is different.
    Modified,
    /// It is gone, or is not selected any more.
    Deleted,
    /// Everything up to a revision has been told.
    Bookmark,
    /// The stream ends with a failure.
    Error,
}

impl From<EventType> for Told {
    fn from(told: EventType) -> Self {
        match told {
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
    /// The claims that it uses, by name.
    pub claims: Vec<Text>,
    /// Whether it is being deleted.
    #[serde(default, skip_serializing_if = "is_false")]
    pub deleting: bool,
    /// The node that it is bound to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<Text>,
    /// Its phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Text>,
}

/// A claim in [`Commit`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// Its phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Text>,
    /// The volume that it is bound to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume: Option<Text>,
}

/// A volume in [`Commit`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Volume {
    /// How it may be mounted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub access_modes: Vec<Text>,
    /// The claim that it is for: `namespace/name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<Text>,
    /// The id that the driver knows it by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handle: Option<Text>,
    /// Its phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Text>,
    /// Its reclaim policy; absent for Delete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reclaim: Option<Text>,
}

/// An attachment in [`Commit`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attachment {
    /// Whether the driver said that it is attached.
    pub attached: bool,
    /// Whether it is being deleted.
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
    /// How many volumes of this driver the node takes; nothing where it does not say.
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

fn is_deleting(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

impl Commit {
    /// One of a built-in kind that says nothing of its object.
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
            r#type,
            user: Text::default(),
            verb: Text::default(),
            volumeattachment: None,
        }
    }

    /// Adds the few words of a storage object by which a reader follows a volume without the API: claims, volumes, pods,
    /// attachments, nodes and what their drivers say: what they are bound to and how far they are; other kinds nothing.
    pub(crate) fn say(&mut self, kind: &Kind, object: &Value) {
        match kind.index {
            index::PERSISTENT_VOLUME_CLAIMS => self.pvc = Some(Box::new(Claim::of(object))),
            index::PERSISTENT_VOLUMES => self.pv = Some(Box::new(Volume::of(object))),
            index::PODS => self.pod = Some(Box::new(Pod::of(object))),
            index::CSI_NODES => {
                self.csinode = Some(CsiNode::of(object)).filter(|is| *is != CsiNode::default()).map(Box::new)
            }
            index::NODES => self.node = Some(Node::of(object)).filter(|node| *node != Node::default()).map(Box::new),
            index::VOLUME_ATTACHMENTS => self.volumeattachment = Some(Box::new(Attachment::of(object))),
            _ => {}
        }
    }

    /// Whether an object of `kind` has something to say.
    pub(crate) fn says(kind: &Kind) -> bool {
        matches!(
            kind.index,
            index::PERSISTENT_VOLUME_CLAIMS
                | index::PERSISTENT_VOLUMES
                | index::PODS
                | index::NODES
                | index::CSI_NODES
                | index::VOLUME_ATTACHMENTS
        )
    }
}

impl WatchOpened {
    /// Whether the stream is about the resource, namespace and name of a commit; what else selects is not looked at.
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
        Self { phase: word(&object["status"]["phase"]), volume: word(&object["spec"]["volumeName"]) }
    }
}

impl Volume {
    fn of(object: &Value) -> Self {
        let spec = &object["spec"];
        let claim = &spec["claimRef"];
        let claim = claim["name"]
            .as_str()
            .map(|name| [claim["namespace"].as_str().unwrap_or_default(), "/", name].into_iter().collect());
        Self {
            access_modes: words(&spec["accessModes"], word),
            claim,
            handle: word(&spec["csi"]["volumeHandle"]),
            phase: word(&object["status"]["phase"]),
            reclaim: word(&spec["persistentVolumeReclaimPolicy"]).filter(|policy| policy != "Delete"),
        }
    }
}

impl Pod {
    fn of(object: &Value) -> Self {
        let spec = &object["spec"];
        Self {
            claims: words(&spec["volumes"], |volume| word(&volume["persistentVolumeClaim"]["claimName"])),
            deleting: is_deleting(object),
            node: word(&spec["nodeName"]),
            phase: word(&object["status"]["phase"]),
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
            deleting: is_deleting(object),
            node: word(&spec["nodeName"]),
            pv: word(&spec["source"]["persistentVolumeName"]),
        }
    }
}
