//! OpenAPI: the v3 index, a v3 document per group and version, and the v2 document.
//!
//! Built from the kind table and its schema. kubectl reads from it whether a kind supports field validation (`kubectl
//! apply`), how its lists merge, and its fields (`kubectl explain`).

mod custom;
mod gnostic;
mod operations;
mod parameters;
mod schemas;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use substrate::json::{Map, Value, json};

use super::answer::{Answer, hash};
use super::negotiate::clauses;
use crate::kinds::{self, Kind, KindRef};

/// Version of Kubernetes that the documents describe, and that the server reports by default.
pub(crate) const KUBERNETES_VERSION: &str = "v1.36.2";

/// Media type of the v2 document as protobuf.
const V2_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
/// Its older name, which is not a valid media type but which clients still send.
const V2_PROTOBUF_BY_CLIENTS: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";

/// Answers a GET of `/openapi/v2`, `/openapi/v3` and paths below them; `None` for a path without a document, or for a
/// representation that does not exist (v3 as protobuf: clients then use JSON).
pub fn respond(path: &str, accept: &str, custom: &[KindRef]) -> Option<Answer> {
    let clauses = clauses(accept);
    let json = || clauses.iter().any(|c| c.takes_json());
    match path.trim_end_matches('/').strip_prefix("/openapi/")? {
        "v2" => clauses.iter().find_map(|clause| {
            let protobuf = [V2_PROTOBUF, V2_PROTOBUF_BY_CLIENTS].contains(&clause.media);
            match (clause.takes_json(), protobuf, custom) {
                (true, _, []) => Some(V2.clone()),
                (true, _, custom) => Some(Answer::cached(&v2(custom), "application/json")),
                (_, true, []) => Some(V2_AS_PROTOBUF.clone()),
                (_, true, custom) => Some(Answer::cached_bytes(gnostic::encode(&v2(custom)), V2_PROTOBUF)),
                _ => None,
            }
        }),
        "v3" if json() => Some(if custom.is_empty() { INDEX.clone() } else { index(custom) }),
        below if json() => {
            let below = below.strip_prefix("v3/")?;
            V3.get(below).cloned().or_else(|| custom_documents(custom).remove(below))
        }
        _ => None,
    }
}

/// Documents by group and version: `api/v1`, `apis/storage.k8s.io/v1`.
static V3: LazyLock<BTreeMap<String, Answer>> = LazyLock::new(|| {
    let mut documents = BTreeMap::new();
    for kind in kinds::all() {
        documents
            .entry(place(kind))
            .or_insert_with(|| Answer::cached(&document(kind.group, kind.version, &[]), "application/json"));
    }
    documents
});

/// Returns the documents of groups and versions that definitions add.
fn custom_documents(custom: &[KindRef]) -> BTreeMap<String, Answer> {
    let mut documents = BTreeMap::new();
    for kind in custom {
        documents
            .entry(place(kind))
            .or_insert_with(|| Answer::cached(&document(kind.group, kind.version, custom), "application/json"));
    }
    documents
}

static INDEX: LazyLock<Answer> = LazyLock::new(|| index(&[]));

fn index(custom: &[KindRef]) -> Answer {
    let custom = custom_documents(custom);
    let paths: Map = V3
        .iter()
        .chain(&custom)
        .map(|(at, document)| {
            // With the hash in the URL, clients can cache a document forever.
            let url = format!("/openapi/v3/{at}?hash={}", hash(&document.body));
            (at.clone(), json!({ "serverRelativeURL": url }))
        })
        .collect();
    Answer::cached(&json!({ "paths": paths }), "application/json")
}

static V2: LazyLock<Answer> = LazyLock::new(|| Answer::cached(&v2(&[]), "application/json"));

static V2_AS_PROTOBUF: LazyLock<Answer> =
    LazyLock::new(|| Answer::cached_bytes(gnostic::encode(&v2(&[])), V2_PROTOBUF));

fn v2(custom: &[KindRef]) -> Value {
    let mut paths = Map::new();
    let mut definitions = Map::new();
    for kind in kinds::all().iter().chain(custom.iter().map(|kind| &**kind)) {
        operations::add(kind, operations::Dialect::V2, &mut paths);
        schemas::add(kind, schemas::Dialect::V2, &mut definitions);
    }
    json!({ "swagger": "2.0", "info": info(), "paths": paths, "definitions": definitions })
}

fn place(kind: &Kind) -> String {
    if kind.group.is_empty() {
        format!("api/{}", kind.version)
    } else {
        format!("apis/{}/{}", kind.group, kind.version)
    }
}

fn document(group: &str, version: &str, custom: &[KindRef]) -> Value {
    let mut paths = Map::new();
    let mut schemas = Map::new();
    let all = kinds::all().iter().chain(custom.iter().map(|kind| &**kind));
    for kind in all.filter(|k| k.group == group && k.version == version) {
        operations::add(kind, operations::Dialect::V3, &mut paths);
        schemas::add(kind, schemas::Dialect::V3, &mut schemas);
    }
    json!({ "openapi": "3.0.0", "info": info(), "paths": paths, "components": { "schemas": schemas } })
}

fn info() -> Value {
    json!({ "title": "Kubernetes", "version": KUBERNETES_VERSION })
}

/// Returns the `x-kubernetes-group-version-kind` of a kind.
fn gvk(kind: &Kind) -> Value {
    json!({ "group": kind.group, "version": kind.version, "kind": kind.kind })
}

#[cfg(test)]
mod tests;
