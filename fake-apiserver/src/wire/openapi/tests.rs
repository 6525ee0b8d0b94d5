use super::*;

fn get(path: &str) -> Value {
    serde_json::from_slice(&respond(path, "application/json").unwrap().body).unwrap()
}

/// Every `$ref` in a document.
fn references(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            found.extend(map.get("$ref").and_then(Value::as_str).map(str::to_owned));
            map.values().for_each(|v| references(v, found));
        }
        Value::Array(list) => list.iter().for_each(|v| references(v, found)),
        _ => {}
    }
}

#[test]
fn the_index_names_each_group_version_by_a_hashed_url() {
    let index = get("/openapi/v3");
    for kind in kinds::all() {
        let url = index["paths"][place(kind)]["serverRelativeURL"].as_str().unwrap();
        let (path, hash) = url.split_once("?hash=").unwrap();
        assert!(respond(path, "*/*").is_some() && hash.len() == 64, "{url}");
    }
}

#[test]
fn every_kind_has_a_patch_operation_that_takes_field_validation() {
    for kind in kinds::all() {
        let document = get(&format!("/openapi/v3/{}", place(kind)));
        let found = document["paths"].as_object().unwrap().values().any(|path| {
            let patch = &path["patch"];
            patch["x-kubernetes-group-version-kind"] == gvk(kind)
                && patch["parameters"].as_array().unwrap().iter().any(|p| p["name"] == "fieldValidation")
                && !patch["requestBody"]["content"]["application/strategic-merge-patch+json"].is_null()
        });
        assert!(found, "{kind:?}");
    }
}

#[test]
fn every_reference_leads_to_a_schema() {
    for (path, root) in [("/openapi/v2", "#/definitions/")].into_iter().chain(
        ["api/v1", "apis/storage.k8s.io/v1", "apis/events.k8s.io/v1", "apis/coordination.k8s.io/v1"]
            .map(|p| (p, "#/components/schemas/")),
    ) {
        let document = get(&if path.starts_with('/') { path.to_owned() } else { format!("/openapi/v3/{path}") });
        let schemas =
            if root.contains("definitions") { &document["definitions"] } else { &document["components"]["schemas"] };
        let mut found = Vec::new();
        references(&document, &mut found);
        assert!(!found.is_empty());
        for reference in found {
            assert!(schemas.get(reference.strip_prefix(root).unwrap()).is_some_and(Value::is_object), "{reference}");
        }
    }
}

#[test]
fn schemas_say_how_lists_merge() {
    let document = get("/openapi/v3/api/v1");
    let schemas = &document["components"]["schemas"];
    let volumes = &schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["volumes"];
    assert_eq!(volumes["x-kubernetes-patch-strategy"], "merge,retainKeys");
    assert_eq!(volumes["x-kubernetes-patch-merge-key"], "name");
    let pod = &schemas["io.k8s.api.core.v1.Pod"];
    assert_eq!(pod["x-kubernetes-group-version-kind"], json!([{"group": "", "version": "v1", "kind": "Pod"}]));
    assert_eq!(schemas["io.k8s.api.core.v1.Taint"]["required"], json!(["key", "effect"]));
}

#[test]
fn there_is_no_protobuf_form_and_no_other_document() {
    assert_eq!(respond("/openapi/v2", "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"), None);
    for path in ["/openapi", "/openapi/v3/apis/apps/v1", "/openapi/v4", "/api"] {
        assert_eq!(respond(path, "*/*"), None, "{path}");
    }
    assert!(respond("/openapi/v3/", "").is_some());
}
