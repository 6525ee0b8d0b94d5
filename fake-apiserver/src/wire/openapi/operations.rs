//! Paths and operations of a kind.

use substrate::json::{Map, Value, json};

pub(super) use super::schemas::Dialect;
use super::{gvk, parameters, schemas};
use crate::kinds::Kind;

/// Media types of patches.
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
        paths.insert(format!("{one}/{}", sub.name), path(kind, dialect, &format!("/{{name}}/{}", sub.name), &verbs));
    }
}

fn path(kind: &Kind, dialect: Dialect, below: &str, verbs: &[(&str, &str)]) -> Value {
    let mut path = Map::new();
    let mut parameters = Vec::new();
    let is_everywhere = kind.namespaced && verbs == [("get", "list")] && below.is_empty();
    if below.contains("{name}") {
        parameters.push(parameters::of_path("name", kind.kind, dialect));
    }
    if kind.namespaced && !is_everywhere {
        parameters.push(parameters::of_path("namespace", kind.kind, dialect));
    }
    if !parameters.is_empty() {
        path.insert("parameters", parameters.into());
    }
    let sub = below.strip_prefix("/{name}/").unwrap_or_default();
    for (method, action) in verbs {
        let mut operation = operation(kind, dialect, action);
        let (id, text) = identified(kind, action, sub, is_everywhere);
        operation["operationId"] = id.into();
        operation["description"] = text.into();
        operation["tags"] = json!([tag(kind)]);
        path.insert(*method, operation);
    }
    Value::Object(path)
}

/// Returns group and version as in operation ids: `coreV1`, `storageV1`.
fn tag(kind: &Kind) -> String {
    let group = kind.group.trim_end_matches(".k8s.io").split('.').enumerate();
    let group: String = group.map(|(i, word)| if i == 0 { word.to_owned() } else { title(word) }).collect();
    let group = if group.is_empty() { "core".to_owned() } else { group };
    format!("{group}{}", title(kind.version))
}

fn title(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// Returns the id of an operation, as generated clients use it (`readCoreV1NamespacedPodStatus`), and its description.
fn identified(kind: &Kind, action: &str, sub: &str, is_everywhere: bool) -> (String, String) {
    let verb = match action {
        "post" => "create",
        "put" => "replace",
        "get" => "read",
        "deletecollection" => "delete",
        other => other,
    };
    let collection = if action == "deletecollection" { "Collection" } else { "" };
    let scope = if kind.namespaced && !is_everywhere { "Namespaced" } else { "" };
    let end = if is_everywhere { "ForAllNamespaces".to_owned() } else { title(sub) };
    let id = format!("{verb}{}{collection}{scope}{}{end}", title(&tag(kind)), kind.kind);
    let object = if sub.is_empty() { kind.kind.to_owned() } else { format!("{sub} of the {}", kind.kind) };
    let text = match action {
        "list" => format!("Lists or watches objects of kind {}.", kind.kind),
        "deletecollection" => format!("Deletes the selected objects of kind {}.", kind.kind),
        "post" => format!("Creates a {object}."),
        "put" => format!("Replaces the {object}."),
        "patch" => format!("Updates fields of the {object}."),
        "delete" => format!("Deletes the {object}."),
        _ => format!("Reads the {object}."),
    };
    (id, text)
}

/// Returns the status codes of an operation with their descriptions.
fn codes(action: &str) -> &'static [(&'static str, &'static str)] {
    const OK: (&str, &str) = ("200", "OK");
    const CREATED: (&str, &str) = ("201", "Created");
    const ACCEPTED: (&str, &str) = ("202", "Accepted");
    match action {
        "post" => &[OK, CREATED, ACCEPTED],
        "put" | "patch" => &[OK, CREATED],
        "delete" => &[OK, ACCEPTED],
        _ => &[OK],
    }
}

fn operation(kind: &Kind, dialect: Dialect, action: &str) -> Value {
    let mut parameters = parameters::of_query(action, dialect);
    let object = schemas::reference(kind, dialect);
    let answer = match action {
        "list" => schemas::list_reference(kind, dialect),
        "delete" | "deletecollection" => json!({ "$ref": dialect.reference("meta/v1.Status") }),
        _ => object.clone(),
    };
    let mut operation = json!({ "x-kubernetes-action": action, "x-kubernetes-group-version-kind": gvk(kind) });
    let body = match action {
        "post" | "put" => Some((vec!["application/json"], object)),
        // Custom kinds have no strategic merge; clients choose their patch type by this list.
        "patch" if kind.custom.is_some() => Some((PATCH_TYPES[..3].to_vec(), json!({ "type": "object" }))),
        "patch" => Some((PATCH_TYPES.to_vec(), json!({ "type": "object" }))),
        _ => None,
    };
    let mut responses = Map::new();
    for (code, text) in codes(action) {
        let mut response = json!({ "description": text });
        match dialect {
            Dialect::V2 => response["schema"] = answer.clone(),
            Dialect::V3 => response["content"] = json!({ "application/json": { "schema": answer } }),
        }
        responses.insert(*code, response);
    }
    responses.insert("401", json!({ "description": "Unauthorized" }));
    operation["responses"] = responses.into();
    match dialect {
        Dialect::V2 => {
            if let Some((types, schema)) = body {
                operation["consumes"] = json!(types);
                parameters.push(json!({ "name": "body", "in": "body", "required": true, "schema": schema }));
            }
            operation["produces"] = json!(["application/json"]);
        }
        Dialect::V3 => {
            if let Some((types, schema)) = body {
                let content: Map = types.into_iter().map(|t| (t.to_owned(), json!({ "schema": schema }))).collect();
                operation["requestBody"] = json!({ "required": true, "content": content });
            }
        }
    }
    operation["parameters"] = parameters.into();
    operation
}
