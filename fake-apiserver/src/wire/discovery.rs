//! Discovery: what is served, in the plain form and in the aggregated form (apidiscovery.k8s.io, KEP-3352).

use serde_json::{Map, Value, json};

use super::answer::Answer;
use super::negotiate::{Clause, clauses};
use crate::kinds::{self, Kind};

/// Answers a GET of `/api`, `/apis` and what lies below; nothing for a path that is no discovery document.
pub fn respond(path: &str, accept: &str) -> Option<Answer> {
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    match parts[..] {
        ["api"] => Some(root(accept, true)),
        ["apis"] => Some(root(accept, false)),
        ["api", "v1"] => Some(Answer::json(&resource_list("", "v1"))),
        ["apis", group] => {
            let versions = Some(versions(group)).filter(|versions| !group.is_empty() && !versions.is_empty())?;
            Some(Answer::json(&with_type(api_group(group, &versions), "APIGroup")))
        }
        ["apis", group, version] if !group.is_empty() && versions(group).contains(&version) => {
            Some(Answer::json(&resource_list(group, version)))
        }
        _ => None,
    }
}

/// The groups other than core, in the order of the table.
fn groups() -> Vec<&'static str> {
    let mut groups = Vec::new();
    for kind in kinds::discoverable() {
        if !kind.group.is_empty() && !groups.contains(&kind.group) {
            groups.push(kind.group);
        }
    }
    groups
}

fn versions(group: &str) -> Vec<&'static str> {
    let mut versions: Vec<_> = kinds::discoverable().filter(|k| k.group == group).map(|k| k.version).collect();
    versions.dedup();
    versions
}

fn in_version<'a>(group: &'a str, version: &'a str) -> impl Iterator<Item = &'static Kind> + 'a {
    kinds::discoverable().filter(move |k| k.group == group && k.version == version)
}

fn root(accept: &str, core: bool) -> Answer {
    match clauses(accept).iter().find_map(form) {
        Some(Form::Aggregated(version, content_type)) => Answer::cached(&aggregated(version, core), content_type),
        _ if core => Answer::json(&json!({
            "kind": "APIVersions",
            "versions": versions(""),
            // A client is to keep the address that it came by.
            "serverAddressByClientCIDRs": [],
        })),
        _ => {
            let groups: Vec<Value> = groups().into_iter().map(|group| api_group(group, &versions(group))).collect();
            Answer::json(&json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": groups }))
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
    // The versions stand in the order of preference.
    let preferred = versions.first().cloned().unwrap_or_default();
    json!({ "name": group, "versions": versions, "preferredVersion": preferred })
}

fn resource_list(group: &str, version: &str) -> Value {
    let mut resources = Vec::new();
    for kind in in_version(group, version) {
        let mut entry = json!({
            "name": kind.plural,
            "singularName": kind.singular,
            "namespaced": kind.namespaced,
            "kind": kind.kind,
            "verbs": kind.verbs,
        });
        names(kind, &mut entry);
        resources.push(entry);
        for sub in kind.subresources {
            let (sub_group, sub_version, sub_kind) = sub.response;
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

/// Short names and categories, which are left out where there are none.
fn names(kind: &Kind, entry: &mut Value) {
    if !kind.short_names.is_empty() {
        entry["shortNames"] = json!(kind.short_names);
    }
    if !kind.categories.is_empty() {
        entry["categories"] = json!(kind.categories);
    }
}

fn aggregated(version: &str, core: bool) -> Value {
    let groups = if core { vec![""] } else { groups() };
    let items: Vec<Value> = groups
        .into_iter()
        .map(|group| {
            let mut metadata = Map::new();
            if !group.is_empty() {
                metadata.insert("name".to_owned(), group.into());
            }
            let versions: Vec<Value> = versions(group)
                .into_iter()
                .map(|version| {
                    let resources: Vec<Value> = in_version(group, version).map(aggregated_resource).collect();
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

fn aggregated_resource(kind: &'static Kind) -> Value {
    let gvk = |(group, version, kind): (&str, &str, &str)| json!({ "group": group, "version": version, "kind": kind });
    let mut entry = json!({
        "resource": kind.plural,
        "responseKind": gvk(("", "", kind.kind)),
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
                    "responseKind": gvk(sub.response),
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
