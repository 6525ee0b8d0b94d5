//! A write as scenario files show it: client, verb, kind of patch, object, fields.
//!
//! The fields of a PUT are those that differ from the stored object; a removed field is null. All other writes have the
//! fields of the body. Values that differ from run to run are replaced by a name in angle brackets.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, Value, json};

use super::Write;

/// One write.
#[derive(Clone, Debug, PartialEq)]
pub struct Shown {
    /// The client, with the name that the recorded requests have.
    pub by: String,
    /// Verb, kind of patch, resource, object.
    pub does: String,
    /// The fields.
    pub fields: Value,
    /// The HTTP status of a failure.
    pub answer: Option<u16>,
}

static PATTERNS: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    [
        (r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$", "<time>"),
        (r"\bvol-[0-9a-f]{17}\b", "<volume>"),
        (r"\bsnap-[0-9a-f]{17}\b", "<snapshot>"),
        (r"\bgsnap-[0-9a-f]{17}\b", "<group>"),
        (r"\b[0-9a-f]{64}\b", "<digest>"),
        (r"\b\d{1,3}(\.\d{1,3}){3}\b", "<ip>"),
        (r"^\d+-\d+-(.+)$", "<number>-${1}"),
        (r"^(.+)\.[0-9a-f]{12,16}$", "${1}.<event>"),
        // The recorder of the provisioner is named after its driver, its host and a random id.
        (r"^(e[bf]s\.csi\.aws\.com)_.+$", "${1}_<id>"),
    ]
    .into_iter()
    .filter_map(|(pattern, name)| Some((Regex::new(pattern).ok()?, name)))
    .collect()
});

/// Names for the values that differ from run to run, learned from the replies of a whole run.
pub struct Names(Vec<(String, String)>);

impl Names {
    /// Learns the names from `writes`. `nodes` maps nodes to their instances.
    pub fn learn(writes: &[Write], nodes: &BTreeMap<String, String>) -> Self {
        let mut names: Vec<(String, String)> = Vec::new();
        for (node, instance) in nodes {
            names.push((instance.clone(), format!("<instance of {node}>")));
        }
        let mut generated = Generated::default();
        for write in writes {
            let Some(object) = Target::parse(&write.target) else { continue };
            let answer = &write.answer;
            let text = |path: &str| answer.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
            let (uid, name) = (text("/metadata/uid"), text("/metadata/name"));
            if write.status >= 300 || !object.subresource.is_empty() || uid.is_empty() || object.resource == "events" {
                continue;
            }
            let called = if object.resource == "volumeattachments" {
                let called = format!("<attachment to {}>", text("/spec/nodeName"));
                add(&mut names, name, called.clone());
                called.trim_matches(['<', '>']).to_owned()
            } else if object.resource == "persistentvolumes" && !text("/spec/claimRef/name").is_empty() {
                format!("volume of {}", text("/spec/claimRef/name"))
            } else {
                format!("{} {name}", object.resource)
            };
            add(&mut names, uid, format!("<uid of {called}>"));
            if write.method == "POST" {
                generated.learn(&mut names, write);
            }
        }
        // A long value may contain a short one.
        names.sort_by_key(|(from, _)| std::cmp::Reverse(from.len()));
        Self(names)
    }

    fn text(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (from, to) in &self.0 {
            if text.contains(from) {
                text = text.replace(from, to);
            }
        }
        for (pattern, to) in PATTERNS.iter() {
            text = pattern.replace_all(&text, *to).into_owned();
        }
        text
    }

    fn value(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => self.text(text).into(),
            Value::Array(items) => items.iter().map(|item| self.value(item)).collect(),
            Value::Object(fields) => fields
                .iter()
                .map(|(name, value)| {
                    let known = match name.as_str() {
                        "resourceVersion" if value.is_string() => Value::from("<version>"),
                        "containerID" if value.is_string() => Value::from("<container>"),
                        _ => self.value(value),
                    };
                    (self.text(name), known)
                })
                .collect(),
            other => other.clone(),
        }
    }

    /// Converts a write for the comparison. Returns none for writes that no file expects: writes of the scenario
    /// itself, leases, heartbeats, and conflicts, because the winner of a race is not determined.
    pub fn show(&self, write: &Write) -> Option<Shown> {
        let target = Target::parse(&write.target)?;
        let by = client(&write.agent);
        if by == crate::spec::names::RUNNER || target.resource == "leases" || write.status == 409 {
            return None;
        }
        let patch = write.method == "PATCH";
        let kind = match write.media.split(';').next().unwrap_or_default() {
            _ if !patch => "",
            "application/json-patch+json" => " json",
            "application/merge-patch+json" => " merge",
            "application/strategic-merge-patch+json" => " strategic",
            "application/apply-patch+yaml" => " apply",
            _ => " unknown",
        };
        let mut fields = match write.method.as_str() {
            "PUT" => difference(&write.before, &write.body, &target.subresource),
            "POST" | "DELETE" => without_nothing(write.body.clone()).unwrap_or_else(|| json!({})),
            _ => write.body.clone(),
        };
        if patch && target.whole == "nodes/status" && is_heartbeat(&fields) {
            return None;
        }
        if let (false, Some(map)) = (patch, fields.as_object_mut()) {
            map.remove("apiVersion");
            map.remove("kind");
        }
        let made = fields.pointer("/metadata/name").and_then(Value::as_str).map(str::to_owned);
        let name = if target.name.is_empty() { made.unwrap_or_default() } else { target.name };
        if write.method == "POST"
            && let Some(metadata) = fields.get_mut("metadata").and_then(Value::as_object_mut)
        {
            // They are in the path, or follow the resource.
            metadata.remove("name");
            metadata.remove("namespace");
            if metadata.is_empty() {
                fields.as_object_mut().map(|fields| fields.remove("metadata"));
            }
        }
        let does = format!("{}{kind} {} {}", write.method, target.whole, self.text(&name));
        if write.method == "POST" && target.whole == "events" && fields.get("reportingInstance").is_none() {
            // Go writes it even if it is empty.
            fields["reportingInstance"] = "".into();
        }
        let answer = (write.status >= 300).then_some(write.status);
        let manager = target.manager.map(|manager| format!(" as {manager}")).unwrap_or_default();
        Some(Shown { by: by + &manager, does: does.trim().to_owned(), fields: self.value(&fields), answer })
    }
}

/// Labels with the hash that ends the name of an object.
const HASHES: [&str; 3] = ["pod-template-hash", "controller.kubernetes.io/hash", "controller-revision-hash"];

/// Numbers of the ends of generated names: word, and the text before it.
#[derive(Default)]
struct Generated(BTreeMap<(&'static str, String), usize>);

impl Generated {
    /// Learns the end of the name of a created object: a hash or a random suffix, with its number in the order of
    /// creation.
    fn learn(&mut self, names: &mut Vec<(String, String)>, write: &Write) {
        let object = &write.answer;
        let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default();
        let (name, prefix) = (text("/metadata/name"), text("/metadata/generateName"));
        let is_chosen =
            write.body.pointer("/metadata/name").and_then(Value::as_str).is_some_and(|name| !name.is_empty());
        if !is_chosen && !prefix.is_empty() && name.starts_with(prefix) {
            let end = self.next("suffix", prefix);
            add(names, name.to_owned(), prefix.to_owned() + &end);
            return;
        }
        let hash = HASHES.iter().find_map(|label| object.pointer("/metadata/labels")?.get(label)?.as_str());
        if let Some((hash, before)) = hash.and_then(|hash| Some((hash, name.strip_suffix(hash)?)))
            && names.iter().all(|(known, _)| known != hash)
        {
            let end = self.next("hash", before);
            add(names, hash.to_owned(), end);
        }
    }

    fn next(&mut self, word: &'static str, before: &str) -> String {
        let number = self.0.entry((word, before.to_owned())).or_default();
        *number += 1;
        format!("<{word} {number}>")
    }
}

fn add(names: &mut Vec<(String, String)>, from: String, to: String) {
    if !from.is_empty() && !names.iter().any(|(known, _)| *known == from) {
        names.push((from, to));
    }
}

/// Returns the name of a client: the program and, after a slash, the part of it.
fn client(agent: &str) -> String {
    static AGENT: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r"^([^/ ]+)/\S+ \([^)]*\) kubernetes/[^/]+(?:/(.+))?$").ok());
    let parts = AGENT.as_ref().and_then(|agents| agents.captures(agent));
    match parts.map(|parts| (parts[1].to_owned(), parts.get(2).map(|part| part.as_str().to_owned()))) {
        Some((program, Some(part))) => format!("{program}/{part}"),
        Some((program, None)) => program,
        None => agent.to_owned(),
    }
}

/// Object that a path addresses.
struct Target {
    resource: String,
    /// With the subresource, and with the group if the resource is in two groups.
    whole: String,
    subresource: String,
    name: String,
    manager: Option<String>,
}

impl Target {
    fn parse(target: &str) -> Option<Self> {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let mut rest: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let group = match *rest.first()? {
            "api" => {
                rest.drain(..2.min(rest.len()));
                ""
            }
            "apis" if rest.len() > 2 => {
                let group = rest[1];
                rest.drain(..3);
                group
            }
            _ => return None,
        };
        if rest.len() > 2 && rest[0] == "namespaces" {
            rest.drain(..2);
        }
        let part = |i: usize| rest.get(i).map(|part| (*part).to_owned()).unwrap_or_default();
        let (resource, name, subresource) = (part(0), part(1), part(2));
        let mut whole = resource.clone();
        if group == "events.k8s.io" {
            whole = format!("{whole}.{group}");
        }
        if !subresource.is_empty() {
            whole = format!("{whole}/{subresource}");
        }
        let manager = query.split('&').find_map(|pair| pair.strip_prefix("fieldManager=")).map(str::to_owned);
        Some(Self { resource, whole, subresource, name, manager })
    }
}

/// Returns true for a node status in which only the times of the conditions are new.
fn is_heartbeat(patch: &Value) -> bool {
    let Some(status) = patch.get("status").and_then(Value::as_object) else { return false };
    let only_times = |conditions: &Value| {
        conditions.as_array().is_some_and(|conditions| {
            conditions
                .iter()
                .all(|c| c.as_object().is_some_and(|c| c.keys().all(|key| key == "type" || key == "lastHeartbeatTime")))
        })
    };
    patch.as_object().is_some_and(|patch| patch.keys().all(|key| key == "status" || key == "metadata"))
        && patch.get("metadata").is_none_or(|m| m.as_object().is_some_and(Map::is_empty))
        && status.iter().all(|(key, value)| match key.as_str() {
            "$setElementOrder/conditions" => true,
            "conditions" => only_times(value),
            _ => false,
        })
}

/// Removes nulls and empty values: Go's types write them, and they have no meaning in a whole object.
fn without_nothing(value: Value) -> Option<Value> {
    match value {
        Value::Null => None,
        Value::Object(fields) => {
            let fields: Map<String, Value> =
                fields.into_iter().filter_map(|(name, value)| Some((name, without_nothing(value)?))).collect();
            (!fields.is_empty()).then_some(Value::Object(fields))
        }
        Value::Array(items) if items.is_empty() => None,
        Value::Array(items) => {
            Some(items.into_iter().map(|i| without_nothing(i).unwrap_or_else(|| json!({}))).collect())
        }
        other => Some(other),
    }
}

/// Returns the changes of a PUT: only the status for the subresource `status`, otherwise everything except the status.
fn difference(before: &Value, after: &Value, subresource: &str) -> Value {
    let clean = |object: &Value| {
        let mut object = without_nothing(object.clone()).unwrap_or_else(|| json!({}));
        if let Some(fields) = object.as_object_mut() {
            if subresource == "status" {
                fields.retain(|name, _| name == "status");
            } else {
                fields.remove("status");
            }
        }
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
        }
        object
    };
    let mut fields = between(&clean(before), &clean(after)).unwrap_or_else(|| json!({}));
    // Every update of upstream's control loops has a resourceVersion.
    if after.pointer("/metadata/resourceVersion").and_then(Value::as_str).unwrap_or_default().is_empty() {
        fields["metadata"]["resourceVersion"] = "<none was sent>".into();
    }
    fields
}

fn between(before: &Value, after: &Value) -> Option<Value> {
    match (before, after) {
        _ if before == after => None,
        (Value::Object(before), Value::Object(after)) => {
            let mut fields = Map::new();
            for (name, value) in after {
                match before.get(name) {
                    Some(old) => fields.extend(between(old, value).map(|new| (name.clone(), new))),
                    None => {
                        fields.insert(name.clone(), value.clone());
                    }
                }
            }
            fields.extend(before.keys().filter(|name| !after.contains_key(*name)).map(|n| (n.clone(), Value::Null)));
            Some(Value::Object(fields))
        }
        _ => Some(after.clone()),
    }
}
