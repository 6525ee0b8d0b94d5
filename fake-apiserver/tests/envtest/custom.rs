//! A custom resource with a conversion webhook, and admission webhooks, as envtest installs them.

use substrate::json::{Value, json};

use crate::pair::Pair;
use crate::webhook::Webhook;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const ADMISSION: &str = "/apis/admissionregistration.k8s.io/v1";

fn version(name: &str, field: &str, storage: bool) -> Value {
    json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": {"type": "object",
        "properties": {"spec": {"type": "object", "properties": {(field): {"type": "string"}}}}}}})
}

/// Renames `spec.old` and `spec.new` as the desired version needs.
fn convert(review: &Value) -> Value {
    let wanted = review["request"]["desiredAPIVersion"].as_str().unwrap().to_owned();
    let (from, to) = if wanted.ends_with("/v2") { ("old", "new") } else { ("new", "old") };
    let converted: Vec<Value> = review["request"]["objects"]
        .as_array()
        .unwrap()
        .iter()
        .map(|object| {
            let mut object = object.clone();
            object["apiVersion"] = wanted.as_str().into();
            object["spec"] = json!({(to): object["spec"][from].clone()});
            object
        })
        .collect();
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "response": {
        "uid": review["request"]["uid"], "convertedObjects": converted, "result": {"status": "Success"}}})
}

fn admit(review: &Value, allowed: bool, why: &str) -> Value {
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": {
        "uid": review["request"]["uid"], "allowed": allowed, "status": {"message": why}}})
}

fn rules() -> Value {
    json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}])
}

#[test]
fn a_custom_resource_is_converted_by_a_webhook_whose_bundle_is_its_own_certificate() {
    let mut pair = Pair::start();
    let admin = pair.admin();
    let webhook = Webhook::start(|_, review| convert(&review));
    let definition = json!({"metadata": {"name": "gadgets.example.com"}, "spec": {
        "group": "example.com", "scope": "Namespaced",
        "names": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList"},
        "versions": [version("v1", "old", true), version("v2", "new", false)],
        "conversion": {"strategy": "Webhook", "webhook": {
            "conversionReviewVersions": ["v1"], "clientConfig": webhook.config("/convert")}}}});
    admin.write("POST", DEFINITIONS, &definition);
    let made = admin.get(&format!("{DEFINITIONS}/gadgets.example.com")).json();
    // envtest waits until discovery lists the resource.
    let is_established = |condition: &Value| condition["type"] == "Established" && condition["status"] == "True";
    assert!(made["status"]["conditions"].as_array().unwrap().iter().any(is_established), "{made}");
    let found = admin.get("/apis/example.com/v1").json();
    assert!(found["resources"].as_array().unwrap().iter().any(|resource| resource["name"] == "gadgets"), "{found}");
    let gadget =
        json!({"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "g"}, "spec": {"old": "x"}});
    admin.write("POST", "/apis/example.com/v1/namespaces/default/gadgets", &gadget);
    let path = "/apis/example.com/v2/namespaces/default/gadgets/g";
    assert_eq!(admin.get(path).json()["spec"], json!({"new": "x"}));
    pair.end_apiserver("-TERM");
    pair.apiserver = Some(pair.assets.start_apiserver(&[]));
    assert_eq!(admin.get(path).json()["spec"], json!({"new": "x"}), "after a restart");
}

#[test]
fn admission_webhooks_change_and_refuse_objects() {
    let pair = Pair::start();
    let admin = pair.admin();
    let webhook = Webhook::start(|path, review| match path {
        "/mutate" => {
            let user = review["request"]["userInfo"]["username"].as_str().unwrap().to_owned();
            let patch = json!([{"op": "add", "path": "/metadata/labels", "value": {"made-by": user}}]).to_string();
            let mut answer = admit(&review, true, "");
            answer["response"]["patchType"] = "JSONPatch".into();
            answer["response"]["patch"] =
                base64::Engine::encode(&base64::engine::general_purpose::STANDARD, patch).into();
            answer
        }
        _ => admit(&review, review["request"]["object"]["metadata"]["name"] != "bad", "not this one"),
    });
    for (kind, plural, path) in [
        ("MutatingWebhookConfiguration", "mutatingwebhookconfigurations", "/mutate"),
        ("ValidatingWebhookConfiguration", "validatingwebhookconfigurations", "/validate"),
    ] {
        let configuration = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
            "metadata": {"name": "w"}, "webhooks": [{"name": "w.example.com", "clientConfig": webhook.config(path),
            "rules": rules(), "sideEffects": "None", "admissionReviewVersions": ["v1"], "failurePolicy": "Fail"}]});
        admin.write("POST", &format!("{ADMISSION}/{plural}"), &configuration);
    }
    let configs = "/api/v1/namespaces/default/configmaps";
    let made = admin.write("POST", configs, &json!({"metadata": {"name": "good"}}));
    assert_eq!(made["metadata"]["labels"], json!({"made-by": "admin"}));
    let refused = admin.send("POST", configs, r#"{"metadata": {"name": "bad"}}"#);
    assert_eq!(refused.status, 403);
    assert_eq!(refused.json()["message"], "admission webhook \"w.example.com\" denied the request: not this one");
}
