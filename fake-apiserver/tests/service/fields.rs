//! Server-side field validation (KEP-2885): unknown and duplicate fields. The expected messages are upstream's
//! (`test/integration/apiserver/field_validation_test.go` has similar cases).

use http::header;
use rstest::rstest;
use substrate::body::{call, full};

use super::*;

const JSON: &str = "application/json";
const YAML: &str = "application/yaml";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const PATCH: &str = "application/json-patch+json";
const APPLY: &str = "application/apply-patch+yaml";
const GADGETS: &str = "/apis/shop.example.com/v1/gadgets";

/// Sends text. Returns the code, the message of a refusal, and the warnings as a client reads them.
async fn send(
    client: &client::Client,
    method: Method,
    uri: &str,
    media: &str,
    text: &str,
) -> (u16, String, Vec<String>) {
    let request = http::Request::builder().method(method).uri(uri).header("content-type", media);
    let response = call(client.service(), request.body(full(text.to_owned())).unwrap()).await.unwrap();
    let read = |w: &http::HeaderValue| {
        let quoted = w.to_str().unwrap().strip_prefix("299 - ").unwrap();
        serde_json::from_str::<String>(quoted).unwrap()
    };
    let warnings = response.headers().get_all(header::WARNING).iter().map(read).collect();
    let code = response.status().as_u16();
    let bytes = substrate::body::collect(response.into_body(), 1 << 20).await.unwrap();
    let answer: Value = serde_json::from_slice(&bytes).unwrap();
    (code, answer["message"].as_str().unwrap_or_default().to_owned(), warnings)
}

async fn define_gadgets(client: &client::Client) {
    let part = json!({"type": "object", "properties": {"size": {"type": "integer"}}});
    let inner =
        json!({"type": "object", "x-kubernetes-embedded-resource": true, "properties": {"kind": {"type": "string"}}});
    let spec = json!({"type": "object", "properties": {"color": {"type": "string"}, "parts": {"type": "array", "items": part}, "inner": inner}});
    let definition = json!({
        "metadata": {"name": "gadgets.shop.example.com"},
        "spec": {
            "group": "shop.example.com",
            "names": {"plural": "gadgets", "kind": "Gadget"},
            "scope": "Cluster",
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}}],
        },
    });
    let (code, answer) = client.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition).await;
    assert_eq!(code, 201, "{answer}");
}

const CLAIM: &str = r#"{
    "metadata": {"name": "other", "name": "data", "owner": "me"},
    "spec": {
        "zone": null, "color": "red", "color": "blue",
        "volumeMode": "Block", "volumeMode": "Filesystem",
        "accessModes": ["ReadWriteOnce"],
        "dataSourceRef": {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "s", "size": 1},
        "resources": {"requests": {"storage": "1Gi", "storage": "2Gi"}}
    }
}"#;
const CLAIM_FLAWS: [&str; 7] = [
    r#"duplicate field "metadata.name""#,
    r#"unknown field "metadata.owner""#,
    r#"unknown field "spec.zone""#,
    // A field that is unknown and duplicate is reported as unknown only.
    r#"unknown field "spec.color""#,
    r#"duplicate field "spec.volumeMode""#,
    r#"unknown field "spec.dataSourceRef.size""#,
    r#"duplicate field "spec.resources.requests.storage""#,
];

const CLAIM_YAML: &str = "metadata:
  name: other
  name: data
  owner: me
spec:
  volumeMode: Block
  volumeMode: Filesystem
  accessModes: [ReadWriteOnce]
  resources:
    requests: {storage: 1Gi}
  resources:
    requests:
      storage: 1Gi
      storage: 2Gi
  color: red
";
const CLAIM_YAML_LINES: [&str; 4] = [
    r#"line 3: key "name" already set in map"#,
    r#"line 7: key "volumeMode" already set in map"#,
    r#"line 14: key "storage" already set in map"#,
    // The line at which the value begins.
    r#"line 12: key "resources" already set in map"#,
];
const CLAIM_YAML_UNKNOWN: [&str; 2] = [r#"unknown field "metadata.owner""#, r#"unknown field "spec.color""#];

#[rstest]
#[case::json(JSON, CLAIM, &CLAIM_FLAWS.join(", "), &CLAIM_FLAWS)]
#[case::yaml(
    YAML,
    CLAIM_YAML,
    &format!("yaml: unmarshal errors:\n  {}, {}", CLAIM_YAML_LINES.join("\n  "), CLAIM_YAML_UNKNOWN.join(", ")),
    &[&CLAIM_YAML_LINES[..], &CLAIM_YAML_UNKNOWN[..]].concat()
)]
fn a_typed_object_is_refused_warned_of_or_taken(
    #[case] media: &'static str,
    #[case] text: &'static str,
    #[case] refusal: &str,
    #[case] expected: &[&str],
) {
    let refusal = format!(
        "PersistentVolumeClaim in version \"v1\" cannot be handled as a PersistentVolumeClaim: strict decoding error: {refusal}"
    );
    let expected: Vec<String> = expected.iter().map(ToString::to_string).collect();
    in_simulation(|client| async move {
        let post = |query: &'static str| {
            let client = &client;
            async move { send(client, Method::POST, &format!("{CLAIMS}?{query}"), media, text).await }
        };
        assert_eq!(post("fieldValidation=Strict").await, (400, refusal.clone(), vec![]));
        let (code, message, warnings) = post("dryRun=All").await;
        assert_eq!((code, &warnings), (201, &expected), "{message}");
        assert_eq!(post("dryRun=All&fieldValidation=Warn").await.2, expected);
        assert_eq!(post("fieldValidation=Ignore").await, (201, String::new(), vec![]));
        let (_, stored) = client.get(&format!("{CLAIMS}/data")).await;
        assert_eq!(stored["spec"]["resources"]["requests"]["storage"], "2Gi", "the last one counts");
        assert_eq!(stored["spec"].get("color"), None);
        let put = send(&client, Method::PUT, &format!("{CLAIMS}/data?fieldValidation=Strict"), media, text).await;
        assert_eq!(put, (400, refusal, vec![]));
        let put = send(&client, Method::PUT, &format!("{CLAIMS}/data"), media, text).await;
        assert_eq!((put.0, put.2), (200, expected));
    });
}

#[rstest]
#[case::merge(
    MERGE,
    r#"{"spec": {"color": "red", "color": "blue", "volumeName": "a", "volumeName": "b", "a": null, "Zone": 1}}"#,
    &[r#"duplicate field "spec.color""#, r#"duplicate field "spec.volumeName""#, r#"unknown field "spec.Zone""#, r#"unknown field "spec.color""#]
)]
#[case::strategic(
    STRATEGIC,
    r#"{"metadata": {"labels": {"a": "1", "a": "2"}}, "spec": {"color": 1.5, "Zone": [1, null]}}"#,
    &[r#"duplicate field "metadata.labels.a""#, r#"unknown field "spec.Zone""#, r#"unknown field "spec.color""#]
)]
#[case::json(
    PATCH,
    r#"[
        {"op": "add", "path": "/spec/color", "value": "red", "who": "me"},
        {"op": "add", "path": "/spec/x", "path": "/spec/shape", "value": {"a": 1, "a": 2}}
    ]"#,
    &[
        r#"json patch unknown field "[0].who""#,
        r#"json patch duplicate field "[1].path""#,
        r#"json patch duplicate field "[1].value.a""#,
        r#"unknown field "spec.color""#,
        r#"unknown field "spec.shape""#,
    ]
)]
fn a_patch_is_judged_by_what_it_would_make(
    #[case] media: &'static str,
    #[case] text: &'static str,
    #[case] expected: &'static [&'static str],
) {
    in_simulation(|client| async move {
        client.post(CLAIMS, claim("data")).await;
        let uri = format!("{CLAIMS}/data");
        let (code, message, warnings) =
            send(&client, Method::PATCH, &format!("{uri}?fieldValidation=Strict"), media, text).await;
        assert_eq!((code, warnings), (422, vec![]));
        assert!(message.starts_with(" \"\" is invalid: patch: Invalid value: \""), "{message}");
        assert!(message.ends_with(&format!("\": strict decoding error: {}", expected.join(", "))), "{message}");
        let shown = if media == STRATEGIC {
            r#""map[metadata:map[labels:map[a:2]] spec:map[Zone:[1 <nil>] color:1.5]]""#
        } else {
            r#"\"kind\":\"PersistentVolumeClaim\""#
        };
        assert!(message.contains(shown), "{message}");
        let (code, _, warnings) = send(&client, Method::PATCH, &format!("{uri}?dryRun=All"), media, text).await;
        assert_eq!((code, warnings), (200, expected.iter().map(ToString::to_string).collect()));
        let (code, _, warnings) =
            send(&client, Method::PATCH, &format!("{uri}?fieldValidation=Ignore"), media, text).await;
        assert_eq!((code, warnings), (200, vec![]));
    });
}

#[test]
fn a_patch_to_a_wrong_type_is_an_invalid_patch_however_fields_are_validated() {
    in_simulation(|client| async move {
        client.post(CLAIMS, claim("data")).await;
        let text = r#"{"spec": {"volumeName": 7, "color": "red"}}"#;
        for validation in ["Ignore", "Warn", "Strict"] {
            let uri = format!("{CLAIMS}/data?fieldValidation={validation}");
            let (code, message, warnings) = send(&client, Method::PATCH, &uri, STRATEGIC, text).await;
            let expected = " \"\" is invalid: patch: Invalid value: \"map[spec:map[color:red volumeName:7]]\": \
                            cannot convert int64 to string";
            assert_eq!((code, message.as_str(), warnings.len()), (422, expected, 0));
        }
    });
}

#[test]
fn a_configuration_with_a_field_that_is_not_declared_is_not_applied() {
    in_simulation(|client| async move {
        let uri = format!("{PODS}/web?fieldManager=me&fieldValidation=Ignore");
        let one = r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": {"color": null}}"#;
        let (code, message, _) = send(&client, Method::PATCH, &uri, APPLY, one).await;
        let why = "failed to create typed patch object (default/web; /v1, Kind=Pod): ";
        assert_eq!((code, message), (500, format!("{why}.spec.color: field not declared in schema")));
        let more = "{apiVersion: v1, kind: Pod, metadata: {name: web, labels: {a: b}}, spec: {color: red, \
                    containers: [{name: c, image: i, size: 1}], tolerations: [{key: a, why: b}]}}";
        let (code, message, _) = send(&client, Method::PATCH, &uri, APPLY, more).await;
        let lines = [
            "errors:",
            ".spec.color: field not declared in schema",
            ".spec.containers[name=\"c\"].size: field not declared in schema",
            ".spec.tolerations[0].why: field not declared in schema",
        ];
        assert_eq!((code, message), (500, format!("{why}{}", lines.join("\n  "))));
    });
}

#[test]
fn an_apply_with_a_duplicate_field_is_warned_with_the_line() {
    in_simulation(|client| async move {
        let text = "{\n\"apiVersion\": \"v1\", \"kind\": \"ConfigMap\",\n\"metadata\": {\"name\": \"c\"},\n\
                    \"data\": {\n\"a\": \"1\",\n\"a\": \"2\"}}";
        let uri = |query: &str| format!("{CONFIGS}/c?fieldManager=me{query}");
        let line = "line 6: key \"a\" already set in map";
        let strict = send(&client, Method::PATCH, &uri("&fieldValidation=Strict"), APPLY, text).await;
        let why =
            format!("error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n  {line}");
        assert_eq!(strict, (400, why.clone(), vec![]));
        assert_eq!(client.get(&uri("")).await.0, 404);
        for code in [201, 200] {
            let reported = send(&client, Method::PATCH, &uri(""), APPLY, text).await;
            assert_eq!(reported, (code, String::new(), vec![line.to_owned()]));
        }
        assert_eq!(
            send(&client, Method::PATCH, &uri("&fieldValidation=Strict"), APPLY, text).await,
            (400, why, vec![])
        );
        assert_eq!(send(&client, Method::PATCH, &uri("&fieldValidation=Ignore"), APPLY, text).await.2.len(), 0);
        assert_eq!(client.get(&uri("")).await.1["data"]["a"], "2");
    });
}

#[test]
fn of_a_custom_object_what_is_repeated_comes_first_and_embedded_metadata_last() {
    in_simulation(|client| async move {
        define_gadgets(&client).await;
        let text = r#"{
            "apiVersion": "shop.example.com/v1", "kind": "Gadget",
            "metadata": {"name": "g", "owner": "me"},
            "spec": {
                "zone": 1, "zone": 2, "color": "red", "color": "blue", "parts": [{"size": 1, "weight": 2}],
                "inner": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "owner": "you"}}
            }
        }"#;
        let expected = [
            r#"duplicate field "spec.zone""#,
            r#"duplicate field "spec.color""#,
            r#"unknown field "metadata.owner""#,
            r#"unknown field "spec.parts[0].weight""#,
            r#"unknown field "spec.zone""#,
            r#"unknown field "spec.inner.metadata.owner""#,
        ];
        let strict = format!("{GADGETS}?fieldValidation=Strict");
        let (code, message, _) = send(&client, Method::POST, &strict, JSON, text).await;
        assert_eq!(code, 400);
        assert!(message.ends_with(&format!("strict decoding error: {}", expected.join(", "))), "{message}");
        let (code, _, warnings) = send(&client, Method::POST, GADGETS, JSON, text).await;
        assert_eq!((code, warnings.as_slice()), (201, expected.map(str::to_owned).as_slice()));
        let (_, stored) = client.get(&format!("{GADGETS}/g")).await;
        let spec = json!({
            "color": "blue", "parts": [{"size": 1}],
            "inner": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}},
        });
        assert_eq!(stored["spec"], spec);
        let uri = format!("{GADGETS}/g?fieldManager=me");
        let applied = r#"{"apiVersion": "shop.example.com/v1", "kind": "Gadget", "spec": {"zone": 1}}"#;
        let (code, message, _) = send(&client, Method::PATCH, &uri, APPLY, applied).await;
        assert_eq!(code, 500);
        assert!(message.ends_with("Kind=Gadget): .spec.zone: field not declared in schema"), "{message}");
    });
}

#[test]
fn unknown_fields_are_reported_up_to_a_hundred() {
    in_simulation(|client| async move {
        let many: Vec<String> = (0..120_000).map(|n| format!("\"x{n}\":{n}")).collect();
        let text = format!("{{\"metadata\": {{\"name\": \"c\", \"name\": \"c\"}}, {}}}", many.join(","));
        let uri = format!("{CONFIGS}?fieldValidation=Strict");
        let (code, message, _) = send(&client, Method::POST, &uri, JSON, &text).await;
        assert_eq!((code, message.matches("unknown field").count()), (400, 99), "{message}");
        let (code, _, warnings) = send(&client, Method::POST, CONFIGS, JSON, &text).await;
        assert_eq!((code, warnings.len()), (201, 50));
    });
}
