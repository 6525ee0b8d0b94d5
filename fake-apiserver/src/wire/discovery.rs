//! Discovery documents, in the plain form and in the aggregated form (apidiscovery.k8s.io, KEP-3352).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};
use substrate::json::{Map, Value, json};

use super::answer::Answer;
use super::negotiate::{Clause, clauses};
use crate::kinds::{self, Kind, KindRef};

/// Members of lists of resources, in the order of Go's structs.
const RESOURCES: &[&str] = &[
    "name",
    "singularName",
    "namespaced",
    "group",
    "version",
    "kind",
    "apiVersion",
    "groupVersion",
    "resources",
    "verbs",
    "shortNames",
    "categories",
    "storageVersionHash",
];

/// Members of lists of groups.
const GROUPS: &[&str] = &[
    "kind",
    "apiVersion",
    "name",
    "groups",
    "versions",
    "groupVersion",
    "version",
    "preferredVersion",
    "serverAddressByClientCIDRs",
];

/// Members of the aggregated form.
const AGGREGATED: &[&str] = &[
    "group",
    "version",
    "kind",
    "apiVersion",
    "metadata",
    "items",
    "versions",
    "resource",
    "subresource",
    "responseKind",
    "scope",
    "singularResource",
    "verbs",
    "shortNames",
    "categories",
    "subresources",
    "resources",
    "freshness",
];

/// Answers a GET of `/api`, `/apis` and paths below them; `None` for a path without a discovery document.
pub fn respond(path: &str, accept: &str, custom: &[KindRef]) -> Option<Answer> {
    let served = Served(custom);
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    match parts[..] {
        [""] => Some(Answer::indented(&served.index())),
        ["api"] => Some(served.root(accept, true)),
        ["apis"] => Some(served.root(accept, false)),
        ["api", "v1"] => Some(Answer::json(&served.resource_list("", "v1"), RESOURCES)),
        ["apis", group] => {
            let versions = Some(served.versions(group)).filter(|versions| !group.is_empty() && !versions.is_empty())?;
            Some(Answer::json(&with_type(api_group(group, &versions), "APIGroup"), GROUPS))
        }
        ["apis", group, version] if !group.is_empty() && served.versions(group).contains(&version) => {
            Some(Answer::json(&served.resource_list(group, version), RESOURCES))
        }
        _ => None,
    }
}

/// Served kinds: the built-in ones, then these custom ones.
struct Served<'a>(&'a [KindRef]);

impl Served<'_> {
    /// Returns all kinds.
    fn kinds(&self) -> impl Iterator<Item = &Kind> {
        kinds::discoverable().map(|kind| kind as &Kind).chain(self.0.iter().map(|kind| &**kind))
    }

    /// Returns the groups other than core, in the order of the table.
    fn groups(&self) -> Vec<&'static str> {
        let mut groups = Vec::new();
        for kind in self.kinds() {
            if !kind.group.is_empty() && !groups.contains(&kind.group) {
                groups.push(kind.group);
            }
        }
        groups
    }

    fn versions(&self, group: &str) -> Vec<&'static str> {
        let mut versions: Vec<_> = self.kinds().filter(|k| k.group == group).map(|k| k.version).collect();
        if kinds::all().iter().all(|kind| kind.group != group) {
            versions.sort_by_key(|version| std::cmp::Reverse(kinds::priority(version)));
        }
        versions.dedup();
        versions
    }

    /// Returns the paths for GET, as the root of a server lists them.
    fn index(&self) -> Value {
        let mut paths: Vec<String> = ["/api", "/api/v1", "/apis", "/apis/"].map(str::to_owned).to_vec();
        for group in self.groups() {
            paths.push(format!("/apis/{group}"));
            paths.extend(self.versions(group).into_iter().map(|version| format!("/apis/{group}/{version}")));
        }
        for path in ["/healthz", "/livez", "/metrics", "/openapi/v2", "/openapi/v3", "/readyz", "/version"] {
            paths.push(path.to_owned());
        }
        paths.sort();
        json!({ "paths": paths })
    }

    fn in_version<'b>(&'b self, group: &'b str, version: &'b str) -> impl Iterator<Item = &'b Kind> + 'b {
        self.kinds().filter(move |k| k.group == group && k.version == version)
    }

    fn root(&self, accept: &str, core: bool) -> Answer {
        match clauses(accept).iter().find_map(form) {
            Some(Form::Aggregated(version, content_type)) => {
                Answer::cached_line(&self.aggregated(version, core), AGGREGATED, content_type)
            }
            _ if core => {
                let versions = json!({
                    "kind": "APIVersions",
                    "versions": self.versions(""),
                    // Empty: clients keep the address that they used.
                    "serverAddressByClientCIDRs": [],
                });
                Answer::json(&versions, GROUPS)
            }
            _ => {
                let groups: Vec<Value> =
                    self.groups().into_iter().map(|group| api_group(group, &self.versions(group))).collect();
                Answer::json(&json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": groups }), GROUPS)
            }
        }
    }
}

enum Form {
    Plain,
    Aggregated(&'static str, &'static str),
}

fn form(clause: &Clause<'_>) -> Option<Form> {
    if !clause.takes_json() {
        return None;
    }
    match (clause.parameter("g"), clause.parameter("v"), clause.parameter("as")) {
        (None, _, None) => Some(Form::Plain),
        (Some("apidiscovery.k8s.io"), Some("v2"), Some("APIGroupDiscoveryList")) => {
            Some(Form::Aggregated("v2", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"))
        }
        (Some("apidiscovery.k8s.io"), Some("v2beta1"), Some("APIGroupDiscoveryList")) => Some(Form::Aggregated(
            "v2beta1",
            "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList",
        )),
        _ => None,
    }
}

fn with_type(mut value: Value, kind: &str) -> Value {
    value["kind"] = kind.into();
    value["apiVersion"] = "v1".into();
    value
}

fn api_group(group: &str, versions: &[&str]) -> Value {
    let versions: Vec<Value> = versions
        .iter()
        .map(|version| json!({ "groupVersion": format!("{group}/{version}"), "version": version }))
        .collect();
    // The versions are in the order of preference.
    let preferred = versions.first().cloned().unwrap_or_default();
    json!({ "name": group, "versions": versions, "preferredVersion": preferred })
}

impl Served<'_> {
    fn resource_list(&self, group: &str, version: &str) -> Value {
        let mut resources = Vec::new();
        for kind in self.in_version(group, version) {
            let mut entry = json!({
                "name": kind.plural,
                "singularName": kind.singular,
                "namespaced": kind.namespaced,
                "kind": kind.kind,
                "verbs": kind.verbs,
            });
            names(kind, &mut entry);
            if kind.is_stored() {
                entry["storageVersionHash"] = storage_version_hash(kinds::stored(kind)).into();
            }
            resources.push(entry);
            for sub in kind.subresources {
                let (sub_group, sub_version, sub_kind) = sub.response;
                let sub_kind = if sub_kind.is_empty() { kind.kind } else { sub_kind };
                let mut entry = json!({
                    "name": format!("{}/{}", kind.plural, sub.name),
                    "singularName": "",
                    "namespaced": kind.namespaced,
                    "kind": sub_kind,
                    "verbs": sub.verbs,
                });
                if !sub_group.is_empty() {
                    entry["group"] = sub_group.into();
                    entry["version"] = sub_version.into();
                }
                resources.push(entry);
            }
        }
        let group_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
        with_type(json!({ "groupVersion": group_version, "resources": resources }), "APIResourceList")
    }
}

/// Returns the hash that changes with the storage version (apiserver `StorageVersionHash`).
fn storage_version_hash(stored: &Kind) -> String {
    let digest = Sha256::digest(format!("{}/{}/{}", stored.group, stored.version, stored.kind));
    STANDARD.encode(&digest[..8])
}

/// Adds short names and categories, unless they are empty.
fn names(kind: &Kind, entry: &mut Value) {
    if !kind.short_names.is_empty() {
        entry["shortNames"] = json!(kind.short_names);
    }
    if !kind.categories.is_empty() {
        entry["categories"] = json!(kind.categories);
    }
}

impl Served<'_> {
    fn aggregated(&self, version: &str, core: bool) -> Value {
        let groups = if core { vec![""] } else { self.groups() };
        let items: Vec<Value> = groups
            .into_iter()
            .map(|group| {
                let mut metadata = Map::new();
                if !group.is_empty() {
                    metadata.insert("name", group.into());
                }
                let versions: Vec<Value> = self
                    .versions(group)
                    .into_iter()
                    .map(|version| {
                        let resources: Vec<Value> = self.in_version(group, version).map(aggregated_resource).collect();
                        json!({ "version": version, "resources": resources, "freshness": "Current" })
                    })
                    .collect();
                json!({ "metadata": metadata, "versions": versions })
            })
            .collect();
        json!({
            "kind": "APIGroupDiscoveryList",
            "apiVersion": format!("apidiscovery.k8s.io/{version}"),
            "metadata": {},
            "items": items,
        })
    }
}

/// Returns the response type of a kind. Built-in groups omit group and version, which follow from the context; custom
/// ones include them.
fn own(kind: &Kind) -> (&'static str, &'static str, &'static str) {
    if kind.custom.is_some() { (kind.group, kind.version, kind.kind) } else { ("", "", kind.kind) }
}

fn aggregated_resource(kind: &Kind) -> Value {
    let gvk = |(group, version, kind): (&str, &str, &str)| json!({ "group": group, "version": version, "kind": kind });
    let mut entry = json!({
        "resource": kind.plural,
        "responseKind": gvk(own(kind)),
        "scope": if kind.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": kind.singular,
        "verbs": kind.verbs,
    });
    names(kind, &mut entry);
    if !kind.subresources.is_empty() {
        let subresources: Vec<Value> = kind
            .subresources
            .iter()
            .map(|sub| {
                json!({
                    "subresource": sub.name,
                    "responseKind": gvk(if sub.response.2.is_empty() { own(kind) } else { sub.response }),
                    "verbs": sub.verbs,
                })
            })
            .collect();
        entry["subresources"] = subresources.into();
    }
    entry
}

#[cfg(test)]
mod tests;
