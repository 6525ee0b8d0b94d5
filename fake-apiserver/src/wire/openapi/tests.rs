use std::collections::BTreeSet;

use super::*;

fn get(path: &str) -> Value {
    serde_json::from_slice(&respond(path, "application/json", &[]).unwrap().body).unwrap()
}

/// Collects every `$ref` of a document.
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
        assert!(respond(path, "*/*", &[]).is_some() && hash.len() == 64, "{url}");
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

/// Documents have no empty members. The types of kube-openapi omit them, so a document that these read and write again
/// stays the same.
#[test]
fn no_document_says_anything_empty() {
    fn check(at: &str, value: &Value) {
        match value {
            Value::Object(map) => {
                assert!(!map.is_empty(), "{at}");
                map.iter().for_each(|(name, value)| check(&format!("{at}.{name}"), value));
            }
            Value::Array(list) => {
                assert!(!list.is_empty(), "{at}");
                list.iter().for_each(|value| check(at, value));
            }
            Value::String(text) => assert!(!text.is_empty() || at.ends_with(".group") || at.ends_with(".enum"), "{at}"),
            other => assert!(!other.is_null(), "{at}"),
        }
    }
    for kind in kinds::all() {
        let at = place(kind);
        check(&at, &get(&format!("/openapi/v3/{at}")));
    }
    check("v2", &get("/openapi/v2"));
}

#[test]
fn fields_with_few_values_name_them() {
    let enums = |document: &Value, name: &str, field: &str| {
        let root = if document.get("swagger").is_some() {
            &document["definitions"]
        } else {
            &document["components"]["schemas"]
        };
        root[format!("io.k8s.api.{name}")]["properties"][field].clone()
    };
    for document in [get("/openapi/v3/api/v1"), get("/openapi/v2")] {
        let policy = enums(&document, "core.v1.Container", "imagePullPolicy");
        assert_eq!(policy["enum"], json!(["Always", "IfNotPresent", "Never"]));
        let text = policy["description"].as_str().unwrap();
        assert!(
            text.ends_with("\n\nPossible enum values:\n - `\"Always\"`\n - `\"IfNotPresent\"`\n - `\"Never\"`"),
            "{text}"
        );
        let modes = enums(&document, "core.v1.PersistentVolumeClaimSpec", "volumeMode");
        assert_eq!(modes["enum"], json!(["Block", "Filesystem"]));
        let modes = enums(&document, "core.v1.PersistentVolumeClaimSpec", "accessModes");
        assert!(modes.get("enum").is_none(), "{modes}");
        assert!(modes["items"]["enum"].as_array().unwrap().contains(&json!("ReadWriteOncePod")), "{modes}");
    }
    let storage = get("/openapi/v3/apis/storage.k8s.io/v1");
    assert_eq!(
        enums(&storage, "storage.v1.StorageClass", "volumeBindingMode")["enum"],
        json!(["Immediate", "WaitForFirstConsumer"])
    );
    assert!(enums(&storage, "storage.v1.StorageClass", "provisioner").get("enum").is_none());
}

#[test]
fn operations_have_names_and_texts() {
    let mut names = std::collections::BTreeSet::new();
    let document = get("/openapi/v2");
    for (at, path) in document["paths"].as_object().unwrap() {
        for (method, operation) in path.as_object().unwrap().iter().filter(|(method, _)| *method != "parameters") {
            let name = operation["operationId"].as_str().unwrap();
            assert!(names.insert(name.to_owned()), "{name} of {method} {at} is the name of another operation, too");
            let parameters = [&path["parameters"], &operation["parameters"]].into_iter().filter_map(Value::as_array);
            for parameter in parameters.flatten().filter(|parameter| parameter["in"] != "body") {
                assert!(!parameter["description"].as_str().unwrap().is_empty(), "{at}");
            }
            let responses = operation["responses"].as_object().unwrap();
            assert!(responses.iter().all(|(_, response)| response["description"].is_string()), "{at}");
            assert_eq!(operation["responses"]["401"]["description"], "Unauthorized");
        }
    }
    for name in [
        "listCoreV1PodForAllNamespaces",
        "readCoreV1NamespacedPodStatus",
        "createStorageV1StorageClass",
        "deleteStorageV1CollectionVolumeAttachment",
        "patchAppsV1NamespacedDeploymentScale",
    ] {
        assert!(names.contains(name), "{name}");
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

/// Checks the properties of each kind's schema, and of all that it refers to, as `kubectl explain` needs them.
#[test]
fn every_field_of_every_kind_has_a_description() {
    let (mut fields, mut bare) = (0, Vec::new());
    let documents: BTreeSet<String> = kinds::all().iter().map(|kind| format!("/openapi/v3/{}", place(kind))).collect();
    for path in documents.into_iter().chain(["/openapi/v2".to_owned()]) {
        let document = get(&path);
        let schemas = document.get("definitions").unwrap_or(&document["components"]["schemas"]);
        for (name, schema) in schemas.as_object().unwrap() {
            let properties = schema["properties"].as_object().into_iter().flatten();
            let parts = properties.map(|(field, property)| (field.to_string(), property));
            for (field, described) in parts.chain([(String::new(), schema)]) {
                fields += 1;
                if described["description"].as_str().is_none_or(|text| text.len() < 3) {
                    bare.push(format!("{path} {name} {field}"));
                }
            }
        }
    }
    assert!(bare.is_empty() && fields > 2 * 2600, "{fields}: {bare:#?}");
    let document = get("/openapi/v3/api/v1");
    let containers = &document["components"]["schemas"]["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"];
    let text = containers["description"].as_str().unwrap();
    assert!(text.starts_with("List of containers belonging to the pod."), "{text}");
}

/// Reads the fields of a message, without the code that wrote it.
fn fields(mut bytes: &[u8]) -> Vec<(u64, &[u8])> {
    fn varint(bytes: &mut &[u8]) -> u64 {
        let (mut value, mut shift) = (0, 0);
        loop {
            let byte = bytes[0];
            *bytes = &bytes[1..];
            value |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte < 0x80 {
                return value;
            }
        }
    }
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        let length = if tag & 7 == 2 { varint(&mut bytes) as usize } else { 1 };
        fields.push((tag >> 3, &bytes[..length]));
        bytes = &bytes[length..];
    }
    fields
}

fn all(message: &[u8], number: u64) -> Vec<&[u8]> {
    fields(message).into_iter().filter(|(n, _)| *n == number).map(|(_, bytes)| bytes).collect()
}

fn one(message: &[u8], path: &[u64]) -> String {
    let bytes = path.iter().fold(message, |message, number| all(message, *number)[0]);
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn named<'a>(list: &[&'a [u8]], name: &str) -> &'a [u8] {
    all(list.iter().find(|entry| one(entry, &[1]) == name).unwrap_or_else(|| panic!("{name}")), 2)[0]
}

#[test]
fn the_protobuf_form_says_what_the_json_form_says() {
    let document = respond("/openapi/v2", "application/com.github.proto-openapi.spec.v2@v1.0+protobuf", &[]).unwrap();
    assert_eq!(document.content_type, "application/com.github.proto-openapi.spec.v2.v1.0+protobuf");
    let json = get("/openapi/v2");
    assert_eq!(one(&document.body, &[1]), "2.0");
    assert_eq!(one(&document.body, &[2, 1]), "Kubernetes");
    let definitions = all(all(&document.body, 9)[0], 1);
    assert_eq!(definitions.len(), json["definitions"].as_object().unwrap().len());
    let spec = named(&definitions, "io.k8s.api.core.v1.PersistentVolumeClaimSpec");
    let properties = all(all(spec, 25)[0], 1);
    assert_eq!(one(named(&properties, "storageClassName"), &[22, 1]), "string");
    assert_eq!(one(named(&properties, "accessModes"), &[23, 1, 22, 1]), "string");
    let claim = named(&definitions, "io.k8s.api.core.v1.PersistentVolumeClaim");
    let metadata = named(&all(all(claim, 25)[0], 1), "metadata");
    assert_eq!(one(metadata, &[1]), "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta");
    assert_eq!(
        one(metadata, &[4]),
        json["definitions"]["io.k8s.api.core.v1.PersistentVolumeClaim"]["properties"]["metadata"]["description"]
    );
    assert_eq!(
        serde_json::from_str::<Value>(&one(claim, &[31, 2, 2])).unwrap(),
        json!([{"group": "", "version": "v1", "kind": "PersistentVolumeClaim"}])
    );
    let taint = named(&definitions, "io.k8s.api.core.v1.Taint");
    assert_eq!(all(taint, 19), [&b"key"[..], b"effect"]);
    let paths = all(all(&document.body, 8)[0], 2);
    assert_eq!(paths.len(), json["paths"].as_object().unwrap().len());
    let patch = all(named(&paths, "/api/v1/nodes/{name}"), 8)[0];
    assert_eq!(one(patch, &[7]), "application/apply-patch+yaml");
    assert!(all(patch, 8).iter().any(|p| all(all(p, 1)[0], 2).first().is_some_and(|p| one(p, &[3, 4]) == "dryRun")));
    assert!(all(patch, 13).iter().any(|x| one(x, &[1]) == "x-kubernetes-group-version-kind"));
}

#[test]
fn there_is_no_other_form_and_no_other_document() {
    assert_eq!(respond("/openapi/v3", "application/com.github.proto-openapi.spec.v3@v1.0+protobuf", &[]), None);
    for path in ["/openapi", "/openapi/v3/apis/apps/v2", "/openapi/v4", "/api"] {
        assert_eq!(respond(path, "*/*", &[]), None, "{path}");
    }
    assert!(respond("/openapi/v3/", "", &[]).is_some());
}

#[test]
fn descriptions_have_the_words_that_clients_look_for() {
    let text = get("/openapi/v2").to_string();
    for words in ["list of returned", "List of services", "Watch for changes to the described resources"] {
        assert!(text.contains(words), "{words}");
    }
}
