//! Custom kinds with a conversion webhook.

use std::sync::Arc;

use fake_apiserver::{Config, Dial, Endpoint};
use http::Response;
use substrate::Ctx;
use substrate::body::{HttpService, collect, full};

use super::*;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const V1: &str = "/apis/example.com/v1/namespaces/default/disks";
const V2: &str = "/apis/example.com/v2/namespaces/default/disks";

/// Defines a kind with two versions: `spec.size` of v1 is `spec.capacity.gib` of v2, the stored one.
fn definition(url: &str) -> Value {
    let version = |name: &str, stored: bool, spec: Value| {
        json!({"name": name, "served": true, "storage": stored, "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}}})
    };
    let old = json!({"type": "object", "properties": {"size": {"type": "integer", "minimum": 1, "default": 1}}});
    let new = json!({"type": "object", "properties": {"capacity": {"type": "object", "properties": {"gib": {"type": "integer"}}}}});
    json!({"metadata": {"name": "disks.example.com"}, "spec": {"group": "example.com", "scope": "Namespaced",
        "names": {"plural": "disks", "kind": "Disk"},
        "versions": [version("v1", false, old), version("v2", true, new)],
        "conversion": {"strategy": "Webhook", "webhook": {"clientConfig": {"url": url}, "conversionReviewVersions": ["v1"]}}}})
}

fn convert(mut object: Value, desired: &str) -> Value {
    object["apiVersion"] = desired.into();
    let spec = object["spec"].clone();
    object["spec"] = if desired.ends_with("v2") {
        json!({"capacity": {"gib": spec["size"]}})
    } else {
        json!({"size": spec["capacity"]["gib"]})
    };
    object
}

fn config() -> Config {
    let dial: Dial = Arc::new(|_: &Ctx, endpoint: &Endpoint| {
        let url = endpoint.url.clone();
        Ok(HttpService::new(move |request| {
            let url = url.clone();
            Box::pin(async move {
                let review: Value = serde_json::from_slice(&collect(request.into_body(), 1 << 20).await?)?;
                let asked = &review["request"];
                let desired = asked["desiredAPIVersion"].as_str().unwrap();
                let mut objects: Vec<Value> = asked["objects"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|object| convert(object.clone(), desired))
                    .collect();
                if url.ends_with("forgets") {
                    objects.pop();
                }
                let response =
                    json!({"uid": asked["uid"], "result": {"status": "Success"}, "convertedObjects": objects});
                let answer =
                    json!({"kind": "ConversionReview", "apiVersion": "apiextensions.k8s.io/v1", "response": response});
                Ok(Response::new(full(answer.to_string())))
            })
        }))
    });
    Config { dial: Some(dial), ..Config::default() }
}

fn disk(version: &str, spec: Value) -> Value {
    json!({"apiVersion": format!("example.com/{version}"), "kind": "Disk", "metadata": {"name": "d"}, "spec": spec})
}

#[test]
fn objects_are_written_and_read_in_either_version() {
    in_simulation_with(config(), |client| async move {
        assert_eq!(client.post(DEFINITIONS, definition("https://hooks.example/converts")).await.0, 201);
        let mut watch = client
            .watch(&format!(
                "{V1}?watch=1&allowWatchBookmarks=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
            ))
            .await;
        let bookmark = watch.next().await.unwrap();
        assert_eq!(
            (&bookmark["type"], &bookmark["object"]["apiVersion"]),
            (&json!("BOOKMARK"), &json!("example.com/v1"))
        );
        let (code, made) = client.post(V1, disk("v1", json!({}))).await;
        assert_eq!(
            (code, &made["apiVersion"], &made["spec"]),
            (201, &json!("example.com/v1"), &json!({"size": 1})),
            "{made}"
        );
        assert_eq!(client.get(&format!("{V2}/d")).await.1["spec"], json!({"capacity": {"gib": 1}}));
        let reported = watch.next().await.unwrap();
        assert_eq!((&reported["type"], &reported["object"]["spec"]), (&json!("ADDED"), &json!({"size": 1})));
        let (code, patched) = client.merge(&format!("{V1}/d"), json!({"spec": {"size": 7}})).await;
        assert_eq!((code, &patched["spec"]["size"]), (200, &json!(7)), "{patched}");
        assert_eq!(watch.next().await.unwrap()["object"]["spec"]["size"], 7);
        client.merge(&format!("{V2}/d"), json!({"spec": {"capacity": {"gib": 9}}})).await;
        let listed = client.get(V1).await.1;
        assert_eq!((&listed["kind"], &listed["items"][0]["spec"]["size"]), (&json!("DiskList"), &json!(9)));
        let mut whole = client.get(&format!("{V1}/d")).await.1;
        whole["spec"]["size"] = json!(11);
        assert_eq!(client.put(&format!("{V1}/d"), whole.clone()).await.1["spec"]["size"], 11);
        // The resourceVersion that was read is a precondition.
        assert_eq!(client.put(&format!("{V1}/d"), whole).await.0, 409);
        let status = json!({"status": {"phase": "Ready"}});
        assert_eq!(client.merge(&format!("{V1}/d/status"), status).await.1["status"]["phase"], "Ready");
        // Each version has its own rules.
        assert_eq!(client.merge(&format!("{V1}/d"), json!({"spec": {"size": 0}})).await.0, 422);
        assert_eq!(client.merge(&format!("{V1}/none"), json!({"spec": {"size": 1}})).await.0, 404);
        let (code, gone) = client.delete(&format!("{V1}/d")).await;
        assert_eq!((code, &gone["status"]), (200, &json!("Success")), "{gone}");
    });
}

#[test]
fn a_webhook_that_converts_wrong_fails_the_request_and_says_why() {
    in_simulation_with(config(), |client| async move {
        assert_eq!(client.post(DEFINITIONS, definition("https://hooks.example/forgets")).await.0, 201);
        let (code, failed) = client.post(V1, disk("v1", json!({"size": 1}))).await;
        let why = "conversion webhook for example.com/v1, Kind=Disk failed: expected 1 objects, got 0";
        assert_eq!((code, failed["message"].as_str().unwrap()), (500, why));
        // The stored version needs no webhook.
        assert_eq!(client.post(V2, disk("v2", json!({"capacity": {"gib": 1}}))).await.0, 201);
        assert_eq!(client.get(&format!("{V1}/d")).await.0, 500);
    });
}

#[test]
fn a_definition_must_say_who_converts_and_keeps_its_stored_version() {
    in_simulation_with(config(), |client| async move {
        let mut silent = definition("https://hooks.example/converts");
        silent["spec"]["conversion"] = json!({"strategy": "Webhook"});
        let (code, refused) = client.post(DEFINITIONS, silent).await;
        assert_eq!(
            (code, &refused["details"]["causes"][0]["field"]),
            (422, &json!("spec.conversion.webhook.clientConfig"))
        );
        client.post(DEFINITIONS, definition("https://hooks.example/converts")).await;
        client.post(V2, disk("v2", json!({"capacity": {"gib": 1}}))).await;
        let mut turned = client.get(&format!("{DEFINITIONS}/disks.example.com")).await.1;
        turned["spec"]["versions"][0]["storage"] = json!(true);
        turned["spec"]["versions"][1]["storage"] = json!(false);
        let (code, refused) = client.put(&format!("{DEFINITIONS}/disks.example.com"), turned).await;
        assert_eq!((code, &refused["details"]["causes"][0]["field"]), (422, &json!("spec.versions")), "{refused}");
    });
}
