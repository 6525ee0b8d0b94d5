//! Replacement of names that identify a cluster: each name gets the same new name everywhere, also within other texts.

use std::collections::BTreeMap;

use serde_json::Value;

use super::note::Note;
use super::state::State;

/// Account number in the result.
const ACCOUNT: &str = "000000000000";
/// Parts of the keys of labels, annotations and tags whose values are kept, because Kubernetes and its drivers read
/// them.
const KNOWN: [&str; 4] = ["kubernetes.io/", "k8s.io/", "ebs.csi.aws.com/", "eks.amazonaws.com/nodegroup"];
/// Names that every cluster has.
const COMMON: [&str; 8] = [
    "default",
    "kube-system",
    "kube-public",
    "kube-node-lease",
    "ebs.csi.aws.com",
    "gp2",
    "gp3",
    "system-node-critical",
];

/// Replaces names of nodes, namespaces and objects, ids, account numbers and addresses.
pub(super) fn anonymise(state: &mut State, notes: &mut Vec<Note>) {
    let mut names = Names::default();
    for (kind, short) in [
        ("Namespace", "namespace"),
        ("Node", "node"),
        ("StorageClass", "class"),
        ("VolumeAttributesClass", "attributes"),
        ("PersistentVolume", "volume"),
        ("PersistentVolumeClaim", "claim"),
        ("VolumeAttachment", "attachment"),
        ("Pod", "pod"),
        ("ResourceQuota", "quota"),
        ("PriorityClass", "priority"),
    ] {
        for object in state.objects.iter().filter(|object| object["kind"] == kind) {
            names.learn(&object["metadata"]["name"], |n| format!("{short}-{n}"), short);
            names.learn(&object["metadata"]["uid"], |n| format!("00000000-0000-4000-8000-{n:012x}"), "uid");
        }
    }
    for node in &state.nodes {
        names.learn(&node["instance"], |n| format!("i-{n:017x}"), "instance");
    }
    for volume in &state.volumes {
        names.learn(&volume["id"], |n| format!("vol-{n:017x}"), "vol");
        names.learn(&volume["kmsKeyId"], |n| format!("key-{n}"), "key");
        for attachment in volume["attachments"].as_array().into_iter().flatten() {
            names.learn(&attachment["instance"], |n| format!("i-{n:017x}"), "instance");
        }
    }
    for object in &mut state.objects {
        if let Some(metadata) = object.get_mut("metadata") {
            forget(metadata);
        }
        forget_addresses(object);
    }
    for volume in &mut state.volumes {
        keep_known(volume, "tags");
    }
    let lists = [&mut state.nodes, &mut state.volumes, &mut state.objects];
    lists.into_iter().flatten().for_each(|value| names.replace(value));
    for note in notes {
        note.object = names.text(&note.object);
        note.message = names.text(&note.message);
    }
}

/// New names by old ones.
#[derive(Default)]
struct Names {
    new: BTreeMap<String, String>,
    counts: BTreeMap<&'static str, usize>,
}

impl Names {
    fn learn(&mut self, old: &Value, new: impl Fn(usize) -> String, of: &'static str) {
        let Some(old) = old.as_str().filter(|old| !old.is_empty() && !COMMON.contains(old)) else { return };
        if self.new.contains_key(old) {
            return;
        }
        let count = self.counts.entry(of).or_default();
        *count += 1;
        self.new.insert(old.to_owned(), new(*count));
    }

    fn replace(&self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.text(text),
            Value::Array(list) => list.iter_mut().for_each(|value| self.replace(value)),
            Value::Object(map) => {
                let old = std::mem::take(map);
                map.extend(old.into_iter().map(|(key, mut value)| {
                    self.replace(&mut value);
                    (key, value)
                }));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Returns a text with replaced words. A word ends at a character that no name contains. A name that is part of a
    /// longer word, such as a node's name in its address, is replaced if a dot, a slash or a space follows it.
    fn text(&self, text: &str) -> String {
        if let Some(new) = self.new.get(text) {
            return new.clone();
        }
        let mut out = String::with_capacity(text.len());
        let mut word = String::new();
        for c in text.chars() {
            if c.is_ascii_alphanumeric() || matches!(c, '-' | '.') {
                word.push(c);
            } else {
                self.flush(&mut word, &mut out);
                out.push(c);
            }
        }
        self.flush(&mut word, &mut out);
        out
    }

    fn flush(&self, word: &mut String, out: &mut String) {
        let end = word.trim_end_matches('.').len();
        let (name, rest) = word.split_at(end);
        let is_account = name.len() == 12 && name.bytes().all(|b| b.is_ascii_digit());
        match self.new.get(name) {
            Some(new) => out.push_str(new),
            None if is_account => out.push_str(ACCOUNT),
            None => out.push_str(&self.part(name)),
        }
        out.push_str(rest);
        word.clear();
    }

    /// Replaces the names within a word: `pvc-UID`, or `^vol-…^i-…` of an attachment.
    fn part(&self, word: &str) -> String {
        let uid = |n: usize| word.get(n..n + 36).and_then(|part| Some((part, self.new.get(part)?)));
        match (0..word.len().saturating_sub(35)).find_map(uid) {
            Some((old, new)) => word.replace(old, new),
            None => word.to_owned(),
        }
    }
}

/// Removes labels and annotations that only their owner reads.
fn forget(metadata: &mut Value) {
    for field in ["labels", "annotations"] {
        keep_known(metadata, field);
    }
    let _ = metadata.as_object_mut().map(|map| map.remove("generateName"));
}

/// Keeps the keys of `of`'s map `field` that Kubernetes or its drivers read; removes a map without any.
fn keep_known(of: &mut Value, field: &str) {
    let Some(of) = of.as_object_mut() else { return };
    let Some(map) = of.get_mut(field).and_then(Value::as_object_mut) else { return };
    map.retain(|key, _| KNOWN.iter().any(|known| key.contains(known)));
    if map.is_empty() {
        of.remove(field);
    }
}

/// Removes addresses and images from nodes and pods.
fn forget_addresses(object: &mut Value) {
    let kind = object["kind"].as_str().unwrap_or_default().to_owned();
    if kind == "Node" {
        for (part, fields) in [("status", ["addresses", "nodeInfo"]), ("spec", ["podCIDR", "podCIDRs"])] {
            let Some(part) = object.get_mut(part).and_then(Value::as_object_mut) else { continue };
            fields.iter().for_each(|field| drop(part.remove(*field)));
        }
    }
    if kind != "Pod" {
        return;
    }
    if let Some(status) = object.get_mut("status").and_then(Value::as_object_mut) {
        for field in ["hostIP", "hostIPs", "podIP", "podIPs"] {
            status.remove(field);
        }
        for list in ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"] {
            for container in status.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
                container["image"] = "image".into();
                container["imageID"] = "".into();
            }
        }
    }
    for list in ["containers", "initContainers"] {
        let list = object.get_mut("spec").and_then(|spec| spec.get_mut(list)).and_then(Value::as_array_mut);
        for container in list.into_iter().flatten() {
            container["image"] = "image".into();
        }
    }
}
