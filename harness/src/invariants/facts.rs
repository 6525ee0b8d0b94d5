//! What the trace has shown so far: who holds which volume where, and what was forced.

use std::collections::{BTreeMap, BTreeSet};

use substrate::Event;
use substrate::json::Value;

/// A volume on a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Hold {
    /// Staged, and whether it may be written.
    pub staged: Option<bool>,
    /// It is a raw device: that it is staged shows nowhere on the node.
    pub raw: bool,
    /// Target paths, and whether they may be written.
    pub published: BTreeMap<String, bool>,
    /// A forced detach from this node is on record: what is mounted there no longer reaches the volume.
    pub forced: bool,
    /// Grows with every stage, so that one mistake is reported once.
    pub generation: u64,
}

impl Hold {
    /// Whether anything on the node can still write to the volume.
    pub fn writes(&self) -> bool {
        !self.forced && (self.staged == Some(true) || self.published.values().any(|w| *w))
    }
}

/// A VolumeAttachment object.
#[derive(Clone, Debug, Default)]
struct Attachment {
    pv: String,
    node: String,
    attached: bool,
}

/// All facts. Volumes are cloud volume ids, nodes are node names.
#[derive(Debug, Default)]
pub(super) struct Facts {
    nodes: BTreeMap<String, String>,
    holds: BTreeMap<(String, String), Hold>,
    handles: BTreeMap<String, String>,
    known: BTreeSet<String>,
    attachments: BTreeMap<String, Attachment>,
    cloud: BTreeSet<(String, String)>,
    multi_attach: BTreeSet<String>,
}

impl Facts {
    pub fn add_node(&mut self, node: &str, instance: &str) {
        self.nodes.insert(instance.to_owned(), node.to_owned());
    }

    /// The node's name, whether `node` is a name or an instance id.
    pub fn name<'a>(&'a self, node: &'a str) -> &'a str {
        self.nodes.get(node).map_or(node, String::as_str)
    }

    /// What a node holds of a volume.
    pub fn hold(&self, volume: &str, node: &str) -> Option<&Hold> {
        self.holds.get(&(volume.to_owned(), self.name(node).to_owned()))
    }

    /// Every node that holds a volume.
    pub fn holders<'a>(&'a self, volume: &'a str) -> impl Iterator<Item = (&'a str, &'a Hold)> {
        let from = (volume.to_owned(), String::new());
        self.holds
            .range(from..)
            .take_while(move |((v, _), _)| v == volume)
            .map(|((_, node), hold)| (node.as_str(), hold))
    }

    pub fn is_multi_attach(&self, volume: &str) -> bool {
        self.multi_attach.contains(volume)
    }

    /// Whether the volume is attached to the node: by a VolumeAttachment where Kubernetes knows the volume, in the
    /// cloud where somebody drives CSI without Kubernetes.
    pub fn is_attached(&self, volume: &str, node: &str) -> bool {
        let node = self.name(node);
        if self.known.contains(volume) {
            let of_volume = |a: &Attachment| self.handles.get(&a.pv).is_some_and(|handle| handle == volume);
            // The node is the cheaper question, and few attachments are of one node.
            return self.attachments.values().any(|a| a.attached && a.node == node && of_volume(a));
        }
        self.cloud.contains(&(volume.to_owned(), node.to_owned()))
    }

    pub fn observe(&mut self, event: &Event) {
        match event.kind.as_str() {
            "cluster.node" => {
                if let (Some(node), Some(instance)) = (event.str("node"), event.str("instance")) {
                    self.add_node(node, instance);
                }
            }
            "ec2.volume" => self.on_volume(event),
            "ec2.attachment" => self.on_cloud_attachment(event),
            "ad.detach" if event.fields.get("forced") == Some(&Value::Bool(true)) => self.on_forced(event, "node"),
            "disk.staged" | "disk.published" | "disk.unpublished" | "disk.unstaged" => self.on_mount(event),
            "disk.crashed" => self.on_crash(event),
            "csi.done" if event.str("rpc") == Some("NodeUnstageVolume") && event.str("code") == Some("OK") => {
                self.on_unstaged(event);
            }
            "api.commit" => self.on_commit(event),
            _ => {}
        }
    }

    fn on_volume(&mut self, event: &Event) {
        let Some(volume) = event.str("volume") else { return };
        if event.fields.get("multi_attach") == Some(&Value::Bool(true)) {
            self.multi_attach.insert(volume.to_owned());
        }
    }

    fn on_cloud_attachment(&mut self, event: &Event) {
        let (Some(volume), Some(instance)) = (event.str("volume"), event.str("instance")) else { return };
        let key = (volume.to_owned(), self.name(instance).to_owned());
        match event.str("state") {
            Some("attached") => {
                self.cloud.insert(key);
            }
            Some("detached") => {
                self.cloud.remove(&key);
            }
            _ => {}
        }
        if event.fields.get("forced") == Some(&Value::Bool(true)) {
            self.on_forced(event, "instance");
        }
    }

    fn on_forced(&mut self, event: &Event, field: &str) {
        let (Some(volume), Some(node)) = (event.str("volume"), event.str(field)) else { return };
        let key = (volume.to_owned(), self.name(node).to_owned());
        if let Some(hold) = self.holds.get_mut(&key) {
            hold.forced = true;
        }
    }

    fn on_mount(&mut self, event: &Event) {
        let (Some(volume), Some(node)) = (event.str("volume"), event.str("node")) else { return };
        let key = (volume.to_owned(), self.name(node).to_owned());
        let writable = event.fields.get("readonly") != Some(&Value::Bool(true));
        let path = event.str("path").unwrap_or_default().to_owned();
        let hold = self.holds.entry(key.clone()).or_default();
        match event.kind.as_str() {
            "disk.staged" => {
                hold.staged = Some(writable);
                hold.raw = event.fields.get("raw") == Some(&Value::Bool(true));
                hold.forced = false;
                hold.generation += 1;
            }
            "disk.unstaged" => hold.staged = None,
            "disk.published" => {
                hold.published.insert(path, writable);
            }
            _ if path.is_empty() => hold.published.clear(),
            _ => {
                hold.published.remove(&path);
            }
        }
        if hold.staged.is_none() && hold.published.is_empty() {
            self.holds.remove(&key);
        }
    }

    /// A driver that was started anew does not remember that it staged a raw device, and no mount tells it: what counts is
    /// that it said so. Of a filesystem the mount must have gone.
    fn on_unstaged(&mut self, event: &Event) {
        let (Some(volume), Some(node)) = (event.str("volume"), event.str("node")) else { return };
        let key = (volume.to_owned(), self.name(node).to_owned());
        if let Some(hold) = self.holds.get_mut(&key).filter(|hold| hold.raw) {
            hold.staged = None;
            if hold.published.is_empty() {
                self.holds.remove(&key);
            }
        }
    }

    fn on_crash(&mut self, event: &Event) {
        let Some(node) = event.str("node") else { return };
        let node = self.name(node).to_owned();
        self.holds.retain(|(_, n), _| *n != node);
    }

    fn on_commit(&mut self, event: &Event) {
        let Some(object) = event.str("object") else { return };
        let deleted = event.str("type") == Some("DELETED");
        let text = |of: &str, field: &str| {
            event.fields.get(of).and_then(|v| v.get(field)).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        match event.str("resource") {
            Some("persistentvolumes") => {
                let handle = text("pv", "handle");
                if !handle.is_empty() {
                    self.known.insert(handle.clone());
                    self.handles.insert(object.to_owned(), handle);
                }
            }
            Some("volumeattachments") if deleted => {
                self.attachments.remove(object);
            }
            Some("volumeattachments") => {
                let attached = event.fields.get("volumeattachment").and_then(|v| v.get("attached"));
                let attachment = Attachment {
                    pv: text("volumeattachment", "pv"),
                    node: text("volumeattachment", "node"),
                    attached: attached == Some(&Value::Bool(true)),
                };
                self.attachments.insert(object.to_owned(), attachment);
            }
            _ => {}
        }
    }
}
