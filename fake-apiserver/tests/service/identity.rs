//! Identity of an object under every kind of write: apiVersion, kind, name, namespace, uid and creationTimestamp do not
//! change, and each field of the metadata is answered as kube-apiserver 1.36 does.

use fake_apiserver::Config;
use http::Request;
use proptest::prelude::*;
use substrate::body::full;

use super::client::{Client, in_simulation, in_simulation_with};
use super::*;

mod managers;

const THINGS: &str = "/apis/example.com/v1/namespaces/default/things";
const ATTACHMENTS: &str = "/apis/storage.k8s.io/v1/volumeattachments";

/// Fields of the metadata that other clients rely on.
const IDENTITY: [&str; 4] = ["name", "namespace", "uid", "creationTimestamp"];

async fn apply(client: &Client, uri: &str, manager: &str, object: &Value) -> (u16, Value) {
    let mark = if uri.contains('?') { '&' } else { '?' };
    let request = Request::patch(format!("{uri}{mark}fieldManager={manager}&force=true"))
        .header("content-type", "application/apply-patch+yaml")
        .body(full(object.to_string()))
        .expect("a request");
    client.request(request).await
}

fn identity(object: &Value) -> Vec<Value> {
    let of_type = ["apiVersion", "kind"].iter().map(|field| object[*field].clone());
    of_type.chain(IDENTITY.iter().map(|field| object["metadata"][*field].clone())).collect()
}

/// Returns the definition of a kind with one version, whose root keeps unknown fields if `open`.
fn definition(open: bool) -> Value {
    let spec = json!({"type": "object", "properties": {"x": {"type": "string"}, "y": {"type": "string"}}});
    let schema = if open {
        json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
    } else {
        json!({"type": "object", "properties": {"spec": spec}})
    };
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing", "singular": "thing", "listKind": "ThingList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
                "subresources": {"status": {}}}]}})
}

async fn define(client: &Client, open: bool) {
    let (code, made) = client.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition(open)).await;
    assert_eq!(code, 201, "{made}");
}

/// Returns the collection and an object of one kind of each sort.
fn sorts() -> [(&'static str, Value); 5] {
    [
        (CONFIGS, json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}})),
        (
            PODS,
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"},
                "spec": {"containers": [{"name": "c", "image": "i"}]}}),
        ),
        (
            "/apis/storage.k8s.io/v1/storageclasses",
            json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "a"}, "provisioner": "p"}),
        ),
        (ATTACHMENTS, attachment()),
        (THINGS, json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}})),
    ]
}

fn attachment() -> Value {
    json!({"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": {"name": "a"},
        "spec": {"attacher": "d", "nodeName": "n", "source": {"persistentVolumeName": "v"}}})
}

/// Returns metadata that a manager can own.
fn owned(field: &str) -> Value {
    match field {
        "labels" | "annotations" => json!({"a": "1"}),
        "finalizers" => json!(["example.com/f"]),
        _ => json!([{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}]),
    }
}

fn tracked() -> Config {
    Config { track_managers: true, ..Config::default() }
}

#[test]
fn an_apply_that_drops_all_its_metadata_keeps_the_identity() {
    for config in [Config::default(), tracked()] {
        in_simulation_with(config, |client| async move {
            define(&client, false).await;
            for (collection, object) in sorts() {
                let uri = format!("{collection}/a");
                for field in ["labels", "annotations", "finalizers", "ownerReferences"] {
                    let mut with = object.clone();
                    with["metadata"][field] = owned(field);
                    let (_, made) = apply(&client, &uri, "me", &with).await;
                    assert_eq!(made["metadata"][field], with["metadata"][field], "{made}");
                    let (code, dropped) = apply(&client, &uri, "me", &object).await;
                    assert_eq!((code, identity(&dropped)), (200, identity(&made)), "{collection} {field}");
                    assert_eq!(dropped["metadata"].get(field), None, "{dropped}");
                    // A configuration may omit the name that the URL has.
                    let mut nameless = with.clone();
                    nameless["metadata"] = json!({});
                    apply(&client, &uri, "me", &with).await;
                    let (code, dropped) = apply(&client, &uri, "me", &nameless).await;
                    assert_eq!((code, identity(&dropped)), (200, identity(&made)), "{collection} {field}");
                    let (_, stored) = client.get(&uri).await;
                    assert_eq!(identity(&stored), identity(&made), "{collection} {field}");
                }
            }
        });
    }
}

/// A write of a manager: the metadata that it applies or sends, and the way it sends it.
#[derive(Clone, Debug)]
enum Step {
    Apply { manager: usize, metadata: Value },
    Merge { manager: usize, metadata: Value },
    Put { manager: usize, metadata: Value },
}

fn metadata() -> impl Strategy<Value = Value> {
    // Most writes omit most fields, so that a manager often drops its last field.
    let words = || {
        let some = proptest::sample::subsequence(vec!["a", "b", "c"], 1..=3);
        prop_oneof![2 => Just(Vec::new()), 1 => some]
    };
    let map = |keys: Vec<&str>| {
        keys.into_iter().fold(json!({}), |mut map, key| {
            map[key] = "v".into();
            map
        })
    };
    (words(), words(), words(), words()).prop_map(move |(labels, annotations, finalizers, owners)| {
        let mut metadata = json!({});
        let names: Vec<String> = finalizers.iter().map(|name| format!("example.com/{name}")).collect();
        let owners: Vec<Value> =
            owners.iter().map(|uid| json!({"apiVersion": "v1", "kind": "Node", "name": uid, "uid": uid})).collect();
        for (field, value, is_empty) in [
            ("labels", map(labels.clone()), labels.is_empty()),
            ("annotations", map(annotations.clone()), annotations.is_empty()),
            ("finalizers", json!(names), names.is_empty()),
            ("ownerReferences", json!(owners), owners.is_empty()),
        ] {
            if !is_empty {
                metadata[field] = value;
            }
        }
        metadata
    })
}

fn step() -> impl Strategy<Value = Step> {
    (0_usize..3, metadata(), 0_u8..4).prop_map(|(manager, metadata, how)| match how {
        0 => Step::Merge { manager, metadata },
        1 => Step::Put { manager, metadata },
        _ => Step::Apply { manager, metadata },
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn three_managers_never_change_the_identity(steps in proptest::collection::vec(step(), 1..12), sort in 0_usize..5) {
        in_simulation_with(tracked(), move |client| async move {
            define(&client, false).await;
            let (collection, object) = sorts()[sort].clone();
            let uri = format!("{collection}/a");
            let (code, made) = client.post(collection, object.clone()).await;
            assert_eq!(code, 201, "{made}");
            for step in &steps {
                let (Step::Apply { manager, metadata } | Step::Merge { manager, metadata } | Step::Put { manager, metadata }) = step;
                let manager = ["one", "two", "three"][*manager];
                let mut sent = object.clone();
                sent["metadata"] = metadata.clone();
                sent["metadata"]["name"] = "a".into();
                let (code, answer) = match step {
                    Step::Apply { .. } => apply(&client, &uri, manager, &sent).await,
                    Step::Merge { metadata, .. } => {
                        client.merge(&format!("{uri}?fieldManager={manager}"), json!({"metadata": metadata})).await
                    }
                    Step::Put { .. } => {
                        let (_, mut stored) = client.get(&uri).await;
                        for field in ["labels", "annotations", "finalizers", "ownerReferences"] {
                            stored["metadata"][field] = metadata.get(field).cloned().unwrap_or_default();
                        }
                        client.put(&format!("{uri}?fieldManager={manager}"), stored).await
                    }
                };
                assert_eq!((code, identity(&answer)), (200, identity(&made)), "{step:?}");
                if let Step::Apply { metadata, .. } = step {
                    // An apply sets the fields that it contains.
                    for field in ["labels", "annotations"] {
                        for (key, value) in metadata.get(field).and_then(Value::as_object).into_iter().flatten() {
                            assert_eq!(&answer["metadata"][field][&**key], value, "{step:?} {answer}");
                        }
                    }
                }
            }
        });
    }
}

/// Ways to write an existing object.
#[derive(Clone, Copy, Debug, PartialEq)]
enum WriteMethod {
    Put,
    Merge,
    Json,
    Strategic,
    Apply,
}

const WRITE_METHODS: [WriteMethod; 5] =
    [WriteMethod::Put, WriteMethod::Merge, WriteMethod::Json, WriteMethod::Strategic, WriteMethod::Apply];

/// Writes an object with `value` in one field of the metadata.
async fn write(
    client: &Client,
    uri: &str,
    method: WriteMethod,
    object: &Value,
    field: &str,
    value: &Value,
) -> (u16, Value) {
    let patch = |media: &str, body: Value| {
        Request::patch(uri).header("content-type", media.to_owned()).body(full(body.to_string())).expect("a request")
    };
    let alone = json!({"metadata": {field: value}});
    match method {
        WriteMethod::Put => {
            let (_, mut stored) = client.get(uri).await;
            stored["metadata"][field] = value.clone();
            client.put(uri, stored).await
        }
        WriteMethod::Merge => client.request(patch("application/merge-patch+json", alone)).await,
        WriteMethod::Strategic => client.request(patch("application/strategic-merge-patch+json", alone)).await,
        WriteMethod::Json => {
            let add = json!([{"op": "add", "path": format!("/metadata/{field}"), "value": value}]);
            client.request(patch("application/json-patch+json", add)).await
        }
        WriteMethod::Apply => {
            let mut sent = object.clone();
            sent["metadata"][field] = value.clone();
            apply(client, uri, "me", &sent).await
        }
    }
}

/// Returns the expected answer to such a write of an existing object: a code and a part of the message.
fn answer(
    method: WriteMethod,
    field: &str,
    value: &Value,
    unconditional: bool,
    namespaced: bool,
) -> (u16, &'static str) {
    let text = value.as_str().unwrap_or_default();
    match (field, text) {
        ("name", _) => (400, "the name of the object (other) does not match the name on the URL (a)"),
        ("namespace", _) if namespaced => {
            (400, "the namespace of the provided object does not match the namespace sent on the request")
        }
        ("uid", _) if method == WriteMethod::Put => {
            (409, "Precondition failed: UID in precondition: other, UID in object meta: ")
        }
        ("uid", _) => (422, "metadata.uid: Invalid value: \"other\": field is immutable"),
        ("resourceVersion", "0" | "") if unconditional => (200, ""),
        ("resourceVersion", "0" | "") => {
            (422, "metadata.resourceVersion: Invalid value: 0: must be specified for an update")
        }
        ("resourceVersion", _) => (409, "the object has been modified"),
        ("managedFields", _) if method == WriteMethod::Apply => (400, "metadata.managedFields must be nil"),
        ("deletionTimestamp", _) => {
            (422, "metadata.deletionTimestamp: Invalid value: \"2001-01-01T00:00:00Z\": field is immutable")
        }
        ("deletionGracePeriodSeconds", _) => {
            (422, "metadata.deletionGracePeriodSeconds: Invalid value: 7: field is immutable")
        }
        _ => (200, ""),
    }
}

#[test]
fn each_field_of_the_metadata_is_answered_as_upstream_answers_it() {
    in_simulation_with(tracked(), |client| async move {
        define(&client, false).await;
        for (collection, object) in sorts() {
            let uri = format!("{collection}/a");
            let (code, made) = client.post(collection, object.clone()).await;
            assert_eq!(code, 201, "{made}");
            let unconditional = !matches!(collection, ATTACHMENTS | THINGS);
            let namespaced = collection.contains("/namespaces/");
            for method in
                WRITE_METHODS.into_iter().filter(|method| *method != WriteMethod::Strategic || collection != THINGS)
            {
                for (field, value) in [
                    ("name", json!("other")),
                    ("namespace", json!("other")),
                    ("uid", json!("other")),
                    ("resourceVersion", json!("0")),
                    ("resourceVersion", json!("")),
                    ("resourceVersion", json!("1")),
                    ("generateName", json!("b-")),
                    ("creationTimestamp", json!("2001-01-01T00:00:00Z")),
                    ("deletionTimestamp", json!("2001-01-01T00:00:00Z")),
                    ("deletionGracePeriodSeconds", json!(7)),
                    ("generation", json!(99)),
                    ("selfLink", json!("/x")),
                    ("managedFields", json!([])),
                ] {
                    let (code, answered) = write(&client, &uri, method, &object, field, &value).await;
                    let (expected, part) = answer(method, field, &value, unconditional, namespaced);
                    let case = format!("{collection} {method:?} {field} {value}");
                    assert_eq!(code, expected, "{case}: {answered}");
                    let message = answered["message"].as_str().unwrap_or_default();
                    assert!(message.contains(part), "{case}: {message}");
                    let (_, stored) = client.get(&uri).await;
                    assert_eq!(identity(&stored), identity(&made), "{case}");
                    assert_eq!(stored["metadata"].get("selfLink"), None, "{case}");
                    assert_eq!(stored["metadata"].get("deletionTimestamp"), None, "{case}");
                    assert_eq!(stored["metadata"]["generation"], made["metadata"]["generation"], "{case}");
                }
            }
        }
    });
}

#[test]
fn an_object_that_is_made_has_the_metadata_that_upstream_gives_it() {
    in_simulation_with(tracked(), |client| async move {
        define(&client, false).await;
        for (collection, object) in sorts() {
            let uri = format!("{collection}/a");
            for method in ["create", "apply"] {
                for (field, value, code, part) in [
                    (
                        "uid",
                        json!("other"),
                        if method == "apply" { 409 } else { 201 },
                        "uid mismatch: the provided object specified uid other, and no existing object was found",
                    ),
                    ("resourceVersion", json!("0"), 201, ""),
                    ("resourceVersion", json!(""), 201, ""),
                    (
                        "resourceVersion",
                        json!("5"),
                        if method == "apply" { 201 } else { 500 },
                        "resourceVersion should not be set on objects to be created",
                    ),
                    ("generateName", json!("b-"), 201, ""),
                    ("creationTimestamp", json!("2001-01-01T00:00:00Z"), 201, ""),
                    ("deletionTimestamp", json!("2001-01-01T00:00:00Z"), 201, ""),
                    ("deletionGracePeriodSeconds", json!(7), 201, ""),
                    (
                        "managedFields",
                        json!([]),
                        if method == "apply" { 400 } else { 201 },
                        "metadata.managedFields must be nil",
                    ),
                    (
                        "name",
                        json!("other"),
                        if method == "apply" { 400 } else { 201 },
                        "the name of the object (other) does not match the name on the URL (a)",
                    ),
                ] {
                    let mut sent = object.clone();
                    sent["metadata"][field] = value.clone();
                    let (found, answered) = match method {
                        "create" => client.post(collection, sent).await,
                        _ => apply(&client, &uri, "me", &sent).await,
                    };
                    let case = format!("{collection} {method} {field} {value}");
                    assert_eq!(found, code, "{case}: {answered}");
                    if code != 201 {
                        let message = answered["message"].as_str().unwrap_or_default();
                        assert!(message.contains(part), "{case}: {message}");
                        continue;
                    }
                    let metadata = &answered["metadata"];
                    assert_ne!(metadata["uid"], "other", "{case}");
                    assert_ne!(metadata["creationTimestamp"], "2001-01-01T00:00:00Z", "{case}");
                    for gone in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
                        assert_eq!(metadata.get(gone), None, "{case}");
                    }
                    let name = metadata["name"].as_str().expect("a name");
                    assert_eq!(client.delete(&format!("{collection}/{name}?gracePeriodSeconds=0")).await.0, 200);
                }
            }
        }
    });
}

#[test]
fn an_apply_names_its_type() {
    in_simulation(|client| async move {
        define(&client, false).await;
        for (collection, object) in sorts() {
            let uri = format!("{collection}/a");
            for is_there in [false, true] {
                if is_there {
                    assert_eq!(client.post(collection, object.clone()).await.0, 201);
                }
                let text = |field: &str| object[field].as_str().expect("a text").to_owned();
                let (version, kind) = (text("apiVersion"), text("kind"));
                let (group, name) = version.split_once('/').unwrap_or(("", &version));
                for (api_version, named, shown) in [
                    (None, None, "/, Kind=".to_owned()),
                    (None, Some(kind.as_str()), format!("/, Kind={kind}")),
                    (Some(version.as_str()), None, format!("{group}/{name}, Kind=")),
                    (Some("apps/v1"), Some("Deployment"), "apps/v1, Kind=Deployment".to_owned()),
                ] {
                    let mut sent = object.clone();
                    for (field, value) in [("apiVersion", api_version), ("kind", named)] {
                        match value {
                            Some(value) => sent[field] = value.into(),
                            None => drop(sent.as_object_mut().expect("an object").remove(field)),
                        }
                    }
                    let mut parts = vec![uri.clone()];
                    if is_there && !matches!(collection, CONFIGS) && !uri.contains("storageclasses") {
                        parts.push(format!("{uri}/status"));
                    }
                    for uri in parts {
                        let (code, answered) = apply(&client, &uri, "me", &sent).await;
                        assert_eq!(code, 400, "{uri} {sent}: {answered}");
                        assert_eq!(answered["message"], format!("invalid object type: {shown}"), "{uri} {sent}");
                    }
                }
            }
        }
    });
}

#[test]
fn a_strategic_merge_patch_may_name_any_type() {
    in_simulation(|client| async move {
        let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {
            "replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
        let uri = "/apis/apps/v1/namespaces/default/deployments";
        assert_eq!(client.post(uri, deployment).await.0, 201);
        let patch = |uri: String, media: &str, body: Value| {
            let request = Request::patch(uri).header("content-type", media.to_owned()).body(full(body.to_string()));
            client.request(request.expect("a request"))
        };
        // As Ansible's k8s_scale sends it: with the parent's type on its scale.
        let named =
            |replicas: u8| json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": replicas}});
        let (code, scale) = patch(format!("{uri}/d/scale"), "application/strategic-merge-patch+json", named(3)).await;
        assert_eq!((code, &scale["kind"], &scale["spec"]["replicas"]), (200, &json!("Scale"), &json!(3)), "{scale}");
        let (code, refused) = patch(format!("{uri}/d/scale"), "application/merge-patch+json", named(4)).await;
        assert!(matches!(code, 400 | 422), "{refused}");
        assert_eq!(client.get(&format!("{uri}/d")).await.1["spec"]["replicas"], 3);
        for part in ["", "/status"] {
            let other = json!({"apiVersion": "v9", "kind": "Nothing", "metadata": {"labels": {"x": "y"}}});
            let uri = format!("{uri}/d{part}");
            let (code, patched) = patch(uri.clone(), "application/strategic-merge-patch+json", other.clone()).await;
            assert_eq!((code, &patched["kind"]), (200, &json!("Deployment")), "{patched}");
            for (media, kind, why) in [
                ("application/merge-patch+json", "Nothing", "no kind \"Nothing\" is registered for version \"v1\""),
                (
                    "application/merge-patch+json",
                    "Secret",
                    "converting (v1.Secret) to (apps.Deployment): unknown conversion",
                ),
            ] {
                let other = json!({"apiVersion": "v1", "kind": kind});
                let (code, refused) = patch(uri.clone(), media, other).await;
                assert_eq!(code, 422, "{refused}");
                let message = refused["message"].as_str().unwrap_or_default();
                assert!(message.contains("patch: Invalid value: ") && message.contains(why), "{message}");
            }
        }
    });
}
