//! The paths of a kind and their operations.

use substrate::json::{Map, Value, json};

pub(super) use super::schemas::Dialect;
use super::{gvk, schemas};
use crate::kinds::Kind;

/// Patch bodies that the server reads.
const PATCH_TYPES: [&str; 4] = [
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
];

/// Adds the paths of `kind` to `paths`.
pub(super) fn add(kind: &Kind, dialect: Dialect, paths: &mut Map) {
    let root = kind.root();
    let mut collection = root.clone();
    if kind.namespaced {
        let (base, plural) = root.rsplit_once('/').unwrap_or_default();
        collection = format!("{base}/namespaces/{{namespace}}/{plural}");
        paths.insert(root, path(kind, dialect, "", &[("get", "list")]));
    }
    let mut verbs = vec![("get", "list"), ("post", "post")];
    verbs.extend(kind.verbs.contains(&"deletecollection").then_some(("delete", "deletecollection")));
    let one = format!("{collection}/{{name}}");
    paths.insert(collection, path(kind, dialect, "", &verbs));
    let verbs = [("get", "get"), ("put", "put"), ("patch", "patch"), ("delete", "delete")];
    paths.insert(one.clone(), path(kind, dialect, "/{name}", &verbs));
    for sub in kind.subresources {
        let verbs: Vec<_> = sub
            .verbs
            .iter()
            .filter_map(|verb| match *verb {
                "get" => Some(("get", "get")),
                "update" => Some(("put", "put")),
                "patch" => Some(("patch", "patch")),
                "create" => Some(("post", "post")),
                _ => None,
            })
            .collect();
        paths.insert(format!("{one}/{}", sub.name), path(kind, dialect, "/{name}", &verbs));
    }
}

fn path(kind: &Kind, dialect: Dialect, below: &str, verbs: &[(&str, &str)]) -> Value {
    let mut path = Map::new();
    let mut parameters = Vec::new();
    if kind.namespaced && verbs != [("get", "list")] {
        parameters.push(parameter("namespace", "path", "string", dialect));
    }
    if below.contains("{name}") {
        parameters.push(parameter("name", "path", "string", dialect));
    }
    if !parameters.is_empty() {
        path.insert("parameters", parameters.into());
    }
    for (method, action) in verbs {
        path.insert(*method, operation(kind, dialect, action));
    }
    Value::Object(path)
}

fn operation(kind: &Kind, dialect: Dialect, action: &str) -> Value {
    let query: &[(&str, &str)] = match action {
        "list" | "deletecollection" => {
            &[("labelSelector", "string"), ("fieldSelector", "string"), ("limit", "integer"), ("continue", "string")]
        }
        "post" | "put" => &[("dryRun", "string"), ("fieldManager", "string"), ("fieldValidation", "string")],
        "patch" => {
            &[("dryRun", "string"), ("fieldManager", "string"), ("fieldValidation", "string"), ("force", "boolean")]
        }
        "delete" => &[("dryRun", "string"), ("gracePeriodSeconds", "integer"), ("propagationPolicy", "string")],
        _ => &[],
    };
    let mut parameters: Vec<Value> = query.iter().map(|(name, of)| parameter(name, "query", of, dialect)).collect();
    let object = schemas::reference(kind, dialect);
    let answer = if action == "list" { schemas::list_reference(kind, dialect) } else { object.clone() };
    let mut operation = json!({ "x-kubernetes-action": action, "x-kubernetes-group-version-kind": gvk(kind) });
    let body = match action {
        "post" | "put" => Some((vec!["application/json"], object)),
        // Lists of custom kinds do not say how they merge; clients choose their patches by this list.
        "patch" if kind.custom.is_some() => Some((PATCH_TYPES[..3].to_vec(), json!({ "type": "object" }))),
        "patch" => Some((PATCH_TYPES.to_vec(), json!({ "type": "object" }))),
        _ => None,
    };
    match dialect {
        Dialect::V2 => {
            if let Some((types, schema)) = body {
                operation["consumes"] = json!(types);
                parameters.push(json!({ "name": "body", "in": "body", "required": true, "schema": schema }));
            }
            operation["produces"] = json!(["application/json"]);
            operation["responses"] = json!({ "200": { "description": "OK", "schema": answer } });
        }
        Dialect::V3 => {
            if let Some((types, schema)) = body {
                let content: Map = types.into_iter().map(|t| (t.to_owned(), json!({ "schema": schema }))).collect();
                operation["requestBody"] = json!({ "required": true, "content": content });
            }
            operation["responses"] =
                json!({ "200": { "description": "OK", "content": { "application/json": { "schema": answer } } } });
        }
    }
    // What is empty is not said, so that documents are what they were when they have been read and written.
    if !parameters.is_empty() {
        operation["parameters"] = parameters.into();
    }
    operation
}

fn parameter(name: &str, place: &str, of: &str, dialect: Dialect) -> Value {
    let mut parameter = json!({ "name": name, "in": place });
    match dialect {
        Dialect::V2 => parameter["type"] = of.into(),
        Dialect::V3 => parameter["schema"] = json!({ "type": of }),
    }
    if place == "path" {
        parameter["required"] = true.into();
    }
    parameter
}
