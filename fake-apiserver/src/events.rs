//! Trace events of the API server.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use substrate::json::{Text, Value};

use crate::kinds::{Kind, index};
use crate::state::{Event, EventType, Object};

mod asked;
mod held;
mod manifest;
mod nodes;
mod spec;
mod volumes;
mod workload;

pub use asked::Asked;
pub use held::Held;
pub use nodes::{CsiNode, Driver, Node, Pod};
pub use spec::Spec;
pub use volumes::{Attachment, Claim, Volume};
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

    /// A write of an object, with its content before and after; it belongs to the commit before it. None for Leases and
    /// Events. Only for observers, and at the trace level.
    pub struct ObjectStored = "api.stored" {
        /// The request, if it names this object; absent for further objects, and for writes of the server itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub asked: Option<Box<Asked>>,
        /// The object before and after. Only for observers in the same OS process.
        #[serde(skip)]
        pub change: Held<Event>,
        /// True for a dry run, which must write nothing.
        #[serde(default, skip_serializing_if = "is_false")]
        pub dry_run: bool,
        /// The revision.
        pub rv: u64,
        /// The verb of the request, or the server's own action (`bootstrap`, `expire`).
        pub verb: Text,
    }

    /// A get or a write was answered with an object, a get found none, or a delete was answered. Not for dry runs, Leases
    /// and Events. Only for observers, and at the trace level.
    pub struct ObjectShown = "api.shown" {
        /// The revision before the request.
        pub before: u64,
        /// The API group of a custom kind; absent for built-in kinds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub group: Option<Text>,
        /// The object in the answer. Only for observers in the same OS process.
        #[serde(skip)]
        pub held: Held<Object>,
        /// The object's key.
        pub object: Arc<str>,
        /// The resource, as in URLs.
        pub resource: Text,
        /// The revision of the object; absent if there is none, and for a delete.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub rv: Option<u64>,
        /// True if a fault made the answer some revisions old.
        #[serde(default, skip_serializing_if = "is_false")]
        pub stale: bool,
        /// The verb.
        pub verb: Text,
    }

    /// A list was answered. Not for Leases and Events. Only for observers, and at the trace level.
    pub struct ListShown = "api.listed" {
        /// The selector of fields; empty for none.
        #[serde(default, skip_serializing_if = "Text::is_empty")]
        pub fields: Text,
        /// The API group of a custom kind; absent for built-in kinds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub group: Option<Text>,
        /// The objects in the answer. Only for observers in the same OS process.
        #[serde(skip)]
        pub held: Held<Vec<Arc<Object>>>,
        /// The selector of labels; empty for none.
        #[serde(default, skip_serializing_if = "Text::is_empty")]
        pub labels: Text,
        /// The maximum number of objects; 0 for none.
        pub limit: u64,
        /// The `resourceVersionMatch` of the request; empty for none.
        #[serde(default, skip_serializing_if = "Text::is_empty")]
        pub matching: Text,
        /// The namespace, for a list of one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub namespace: Option<Text>,
        /// The continue token in the answer; empty for the last page.
        #[serde(default, skip_serializing_if = "Text::is_empty")]
        pub next: Text,
        /// The resource, as in URLs.
        pub resource: Text,
        /// The revision of the list.
        pub rv: u64,
        /// True if a fault made the answer some revisions old.
        #[serde(default, skip_serializing_if = "is_false")]
        pub stale: bool,
        /// The continue token of the request; empty for the first page.
        #[serde(default, skip_serializing_if = "Text::is_empty")]
        pub token: Text,
        /// The `resourceVersion` of the request; empty for none.
        #[serde(default, skip_serializing_if = "Text::is_empty")]
        pub version: Text,
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
