//! Admission webhooks: asked with the object as it would be, obeyed in what they change and refuse.

use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use fake_apiserver::{Config, Dial, Endpoint};
use http::{Request, Response};
use substrate::Ctx;
use substrate::body::{Body, BoxError, HttpService, collect, full};

use super::*;

const MUTATING: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
const VALIDATING: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";

/// What webhooks were asked, and what each URL answers.
#[derive(Clone, Default)]
struct Hooks {
    asked: Arc<Mutex<Vec<(String, Value)>>>,
}

impl Hooks {
    fn config(&self) -> Config {
        let hooks = self.clone();
        let dial: Dial = Arc::new(move |_: &Ctx, endpoint: &Endpoint| {
            let (hooks, url) = (hooks.clone(), endpoint.url.clone());
            Ok(HttpService::new(tower::service_fn(move |request: Request<Body>| {
                let (hooks, url) = (hooks.clone(), url.clone());
                async move {
                    let bytes = collect(request.into_body(), 1 << 20).await?;
                    let review: Value = serde_json::from_slice(&bytes)?;
                    let answer = answer(&url, &review["request"]).ok_or("connection refused")?;
                    hooks.asked.lock().unwrap().push((url, review["request"].clone()));
                    Ok::<_, BoxError>(Response::new(full(answer.to_string())))
                }
            })))
        });
        Config { dial: Some(dial), ..Config::default() }
    }

    fn asked(&self) -> Vec<String> {
        let asked = std::mem::take(&mut *self.asked.lock().unwrap());
        asked
            .into_iter()
            .map(|(url, r)| format!("{} {}", url.rsplit('/').next().unwrap(), r["operation"].as_str().unwrap()))
            .collect()
    }
}

fn answer(url: &str, request: &Value) -> Option<Value> {
    let mut response = json!({"uid": request["uid"], "allowed": true});
    match url.rsplit('/').next().unwrap() {
        "label" if !request["object"].is_null() => {
            let patch = json!([{"op": "add", "path": "/metadata/labels", "value": {"seen": request["operation"]}}]);
            response["patch"] = STANDARD.encode(patch.to_string()).into();
            response["patchType"] = "JSONPatch".into();
        }
        "deny" if request["object"]["data"]["k"] == "bad" || request["operation"] == "DELETE" => {
            response["allowed"] = false.into();
            response["status"] = json!({"message": "not this one", "code": 422});
        }
        "warn" => response["warnings"] = json!(["mind the gap"]),
        "odd" => response["uid"] = "other".into(),
        "gone" => return None,
        _ => {}
    }
    Some(json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response}))
}

fn configuration(hook: &str, more: &Value) -> Value {
    let mut webhook = json!({"name": format!("{hook}.example.com"), "clientConfig": {"url": format!("https://hooks.example/{hook}")},
        "rules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}],
        "sideEffects": "None", "admissionReviewVersions": ["v1"]});
    for (field, value) in more.as_object().unwrap() {
        webhook[field] = value.clone();
    }
    json!({"metadata": {"name": hook}, "webhooks": [webhook]})
}

#[test]
fn webhooks_change_and_refuse_what_is_written() {
    let hooks = Hooks::default();
    story_with(hooks.config(), |client| async move {
        assert_eq!(client.post(MUTATING, configuration("label", &json!({}))).await.0, 201);
        assert_eq!(client.post(VALIDATING, configuration("deny", &json!({}))).await.0, 201);
        let (code, made) = client.post(CONFIGS, config("a")).await;
        assert_eq!((code, &made["metadata"]["labels"]["seen"]), (201, &json!("CREATE")));
        // First those that change, then those that judge.
        assert_eq!(hooks.asked(), ["label CREATE", "deny CREATE"]);
        let mut bad = config("b");
        bad["data"]["k"] = "bad".into();
        let (code, refused) = client.post(CONFIGS, bad).await;
        let why = "admission webhook \"deny.example.com\" denied the request: not this one";
        assert_eq!((code, &refused["message"]), (422, &json!(why)));
        let uri = format!("{CONFIGS}/a");
        let (code, patched) =
            client.send(Method::PATCH, &uri, "application/merge-patch+json", Some(json!({"data": {"x": "y"}}))).await;
        assert_eq!(
            (code, &patched["metadata"]["labels"]["seen"], &patched["data"]),
            (200, &json!("UPDATE"), &json!({"k": "v", "x": "y"}))
        );
        let (code, _) = client.send(Method::DELETE, &uri, "application/json", None).await;
        assert_eq!(code, 422);
        // Others are not asked about.
        hooks.asked();
        client.post(CLAIMS, claim("c")).await;
        assert_eq!(hooks.asked(), Vec::<String>::new());
    });
}

#[test]
fn a_webhook_that_fails_is_treated_as_its_policy_says() {
    let hooks = Hooks::default();
    story_with(hooks.config(), |client| async move {
        for hook in ["gone", "odd"] {
            client.post(VALIDATING, configuration(hook, &json!({}))).await;
            let (code, failed) = client.post(CONFIGS, config("a")).await;
            let message = failed["message"].as_str().unwrap();
            assert!(
                code == 500
                    && message.starts_with(&format!(
                        "Internal error occurred: failed calling webhook \"{hook}.example.com\""
                    )),
                "{message}"
            );
            client.send(Method::DELETE, &format!("{VALIDATING}/{hook}"), "application/json", None).await;
            client.post(VALIDATING, configuration(hook, &json!({"failurePolicy": "Ignore"}))).await;
        }
        assert_eq!(client.post(CONFIGS, config("a")).await.0, 201);
    });
}

#[test]
fn selectors_narrow_what_a_webhook_is_asked() {
    let hooks = Hooks::default();
    story_with(hooks.config(), |client| async move {
        let narrow = json!({"objectSelector": {"matchLabels": {"ask": "yes"}}, "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}}});
        client.post(VALIDATING, configuration("warn", &narrow)).await;
        client.post(CONFIGS, config("a")).await;
        assert_eq!(hooks.asked(), Vec::<String>::new());
        let mut labelled = config("b");
        labelled["metadata"]["labels"] = json!({"ask": "yes"});
        client.post(CONFIGS, labelled.clone()).await;
        assert_eq!(hooks.asked(), ["warn CREATE"]);
        client.post("/api/v1/namespaces/kube-system/configmaps", labelled.clone()).await;
        assert_eq!(hooks.asked(), Vec::<String>::new());
    });
}

#[test]
fn a_write_that_is_only_tried_asks_too() {
    let hooks = Hooks::default();
    story_with(hooks.config(), |client| async move {
        client.post(MUTATING, configuration("label", &json!({}))).await;
        let (code, tried) = client.post(&format!("{CONFIGS}?dryRun=All"), config("a")).await;
        assert_eq!((code, &tried["metadata"]["labels"]["seen"]), (201, &json!("CREATE")));
        assert_eq!(client.get(&format!("{CONFIGS}/a")).await.0, 404);
        assert_eq!(hooks.asked(), ["label CREATE"]);
    });
}
