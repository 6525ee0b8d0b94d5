//! Admission webhooks: they receive the planned object, and their changes and refusals take effect.

use parking_lot::Mutex;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use fake_apiserver::{Config, Dial, Endpoint};
use http::Response;
use substrate::Ctx;
use substrate::body::{HttpService, collect, full};

use super::*;

pub const MUTATING: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
pub const VALIDATING: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";

/// Requests to webhooks, and the answer of each URL.
#[derive(Clone, Default)]
pub struct Hooks {
    pub asked: Arc<Mutex<Vec<(String, Value)>>>,
}

impl Hooks {
    pub fn config(&self) -> Config {
        let hooks = self.clone();
        let dial: Dial = Arc::new(move |_: &Ctx, endpoint: &Endpoint| {
            let (hooks, url) = (hooks.clone(), endpoint.url.clone());
            Ok(HttpService::new(move |request| {
                let (hooks, url) = (hooks.clone(), url.clone());
                Box::pin(async move {
                    let bytes = collect(request.into_body(), 1 << 20).await?;
                    let review: Value = serde_json::from_slice(&bytes)?;
                    let answer = answer(&url, &review["request"]).ok_or("connection refused")?;
                    hooks.asked.lock().push((url, review["request"].clone()));
                    Ok(Response::new(full(answer.to_string())))
                })
            }))
        });
        Config { dial: Some(dial), ..Config::default() }
    }

    pub fn asked(&self) -> Vec<String> {
        let asked = std::mem::take(&mut *self.asked.lock());
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
        // Webhook for subresources.
        "below" => {
            if request["subResource"] == "scale" && request["object"]["spec"]["replicas"] == 5 {
                let patch = json!([{"op": "replace", "path": "/spec/replicas", "value": 3}]);
                response["patch"] = STANDARD.encode(patch.to_string()).into();
                response["patchType"] = "JSONPatch".into();
            }
            if request["object"]["target"]["name"] == "forbidden" {
                response["allowed"] = false.into();
            }
        }
        // These make a claim valid, or too large.
        "mend" if request["object"]["spec"]["accessModes"].is_null() => {
            let patch = json!([{"op": "add", "path": "/spec/accessModes", "value": ["ReadWriteOnce"]}]);
            response["patch"] = STANDARD.encode(patch.to_string()).into();
            response["patchType"] = "JSONPatch".into();
        }
        "grow" => {
            let patch = json!([{"op": "replace", "path": "/spec/resources/requests/storage", "value": "50Gi"}]);
            response["patch"] = STANDARD.encode(patch.to_string()).into();
            response["patchType"] = "JSONPatch".into();
        }
        "refuse" => {
            response["allowed"] = false.into();
            response["warnings"] = json!(["think again"]);
        }
        "warn" => response["warnings"] = json!(["mind the gap"]),
        "odd" => response["uid"] = "other".into(),
        "gone" => return None,
        _ => {}
    }
    Some(json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response}))
}

pub fn configuration(hook: &str, more: &Value) -> Value {
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
    in_simulation_with(hooks.config(), |client| async move {
        assert_eq!(client.post(MUTATING, configuration("label", &json!({}))).await.0, 201);
        assert_eq!(client.post(VALIDATING, configuration("deny", &json!({}))).await.0, 201);
        let (code, made) = client.post(CONFIGS, config("a")).await;
        assert_eq!((code, &made["metadata"]["labels"]["seen"]), (201, &json!("CREATE")));
        // Mutating webhooks first, then validating ones.
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
        // Webhooks are not called for other kinds.
        hooks.asked();
        client.post(CLAIMS, claim("c")).await;
        assert_eq!(hooks.asked(), Vec::<String>::new());
    });
}

#[test]
fn a_webhook_that_fails_is_treated_as_its_policy_says() {
    let hooks = Hooks::default();
    in_simulation_with(hooks.config(), |client| async move {
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
    in_simulation_with(hooks.config(), |client| async move {
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
    in_simulation_with(hooks.config(), |client| async move {
        client.post(MUTATING, configuration("label", &json!({}))).await;
        let (code, tried) = client.post(&format!("{CONFIGS}?dryRun=All"), config("a")).await;
        assert_eq!((code, &tried["metadata"]["labels"]["seen"]), (201, &json!("CREATE")));
        assert_eq!(client.get(&format!("{CONFIGS}/a")).await.0, 404);
        assert_eq!(hooks.asked(), ["label CREATE"]);
    });
}

/// Returns `subResource operation Kind name oldKind` of each request.
fn below(hooks: &Hooks) -> Vec<String> {
    let asked = std::mem::take(&mut *hooks.asked.lock());
    let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    asked
        .iter()
        .map(|(_, r)| {
            let kind = format!("{}/{}", text(&r["kind"]["group"]), text(&r["kind"]["kind"]));
            assert_eq!(r["object"]["kind"], r["kind"]["kind"], "{r}");
            assert!(r["oldObject"].is_null() || r["oldObject"]["kind"] == r["kind"]["kind"], "{r}");
            format!("{} {} {kind} {}", text(&r["subResource"]), text(&r["operation"]), text(&r["name"]))
        })
        .collect()
}

#[test]
fn webhooks_get_subresources_as_their_own_kind() {
    let hooks = Hooks::default();
    in_simulation_with(hooks.config(), |client| async move {
        let rules = json!({"rules": [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"],
            "resources": ["pods/*", "deployments/scale", "serviceaccounts/token"]}]});
        assert_eq!(client.post(MUTATING, configuration("below", &rules)).await.0, 201);
        let labels = json!({"app": "web"});
        let template = json!({"metadata": {"labels": labels}, "spec": pod("x")["spec"]});
        let spec = json!({"replicas": 1, "selector": {"matchLabels": labels}, "template": template});
        let deployments = "/apis/apps/v1/namespaces/default/deployments";
        client.post(deployments, json!({"metadata": {"name": "web"}, "spec": spec})).await;
        client.post(PODS, pod("p")).await;
        assert_eq!(below(&hooks), Vec::<String>::new(), "the objects themselves are not meant");

        // A Scale whose number a webhook changes.
        let scale = format!("{deployments}/web/scale");
        let (code, scaled) = client.merge(&scale, json!({"spec": {"replicas": 5}})).await;
        assert_eq!((code, &scaled["kind"], &scaled["spec"]["replicas"]), (200, &json!("Scale"), &json!(3)), "{scaled}");
        assert_eq!(client.get(&format!("{deployments}/web")).await.1["spec"]["replicas"], 3);
        let (code, scaled) = client
            .put(
                &scale,
                json!({"metadata": {"name": "web", "namespace": "default"},
            "apiVersion": "autoscaling/v1", "kind": "Scale", "spec": {"replicas": 2}}),
            )
            .await;
        assert_eq!((code, &scaled["spec"]["replicas"]), (200, &json!(2)), "{scaled}");
        assert_eq!(below(&hooks), ["scale UPDATE autoscaling/Scale web", "scale UPDATE autoscaling/Scale web"]);

        let bind = |node: &str| json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": node}});
        let (code, refused) = client.post(&format!("{PODS}/p/binding"), bind("forbidden")).await;
        assert_eq!(code, 403, "{refused}");
        assert!(client.get(&format!("{PODS}/p")).await.1["spec"]["nodeName"].is_null());
        assert_eq!(client.post(&format!("{PODS}/p/binding"), bind("n")).await.0, 201);
        assert_eq!(below(&hooks), ["binding CREATE /Binding p", "binding CREATE /Binding p"]);

        let status = json!({"status": {"phase": "Running"}});
        assert_eq!(client.merge(&format!("{PODS}/p/status"), status).await.0, 200);
        let added = json!({"spec": {"ephemeralContainers": [{"name": "e", "image": "i"}]}});
        assert_eq!(client.merge(&format!("{PODS}/p/ephemeralcontainers"), added).await.0, 200);
        assert_eq!(below(&hooks), ["status UPDATE /Pod p", "ephemeralcontainers UPDATE /Pod p"]);
        let token = "/api/v1/namespaces/default/serviceaccounts/default/token";
        assert_eq!(client.post(token, json!({"spec": {"audiences": []}})).await.0, 201);
        assert_eq!(below(&hooks), ["token CREATE authentication.k8s.io/TokenRequest default"]);
        assert_eq!(client.post(&format!("{PODS}/p/eviction"), json!({"metadata": {"name": "p"}})).await.0, 201);
        assert_eq!(below(&hooks), ["eviction CREATE policy/Eviction p"]);
    });
}

#[test]
fn each_object_of_a_collection_that_is_deleted_is_asked_about() {
    let hooks = Hooks::default();
    in_simulation_with(hooks.config(), |client| async move {
        client.post(CONFIGS, config("a")).await;
        client.post(CONFIGS, config("b")).await;
        client
            .post(VALIDATING, configuration("deny", &json!({"objectSelector": {"matchLabels": {"keep": "yes"}}})))
            .await;
        client.merge(&format!("{CONFIGS}/b"), json!({"metadata": {"labels": {"keep": "yes"}}})).await;
        hooks.asked();
        assert_eq!(client.delete(CONFIGS).await.0, 422);
        assert_eq!(hooks.asked(), ["deny DELETE"]);
        assert_eq!(client.get(&format!("{CONFIGS}/a")).await.0, 200, "nothing was deleted");
    });
}

#[test]
fn mutating_policies_come_before_webhooks_and_are_not_repeated_unless_they_ask() {
    let hooks = Hooks::default();
    in_simulation_with(hooks.config(), |client| async move {
        let rules =
            json!([{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}]);
        let count = "[JSONPatch{op: 'add', path: '/data/n', value: has(object.data.n) ? object.data.n + '+' : '1'}]";
        let mutation = json!({"patchType": "JSONPatch", "jsonPatch": {"expression": count}});
        let spec = json!({"matchConstraints": {"resourceRules": rules}, "reinvocationPolicy": "Never", "mutations": [mutation]});
        let policies = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies";
        let (code, made) = client.post(policies, json!({"metadata": {"name": "p"}, "spec": spec})).await;
        assert_eq!(code, 201, "{made}");
        let binding = json!({"metadata": {"name": "b"}, "spec": {"policyName": "p"}});
        client.post("/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings", binding).await;
        client.post(MUTATING, configuration("label", &json!({}))).await;
        let (_, made) = client.post(CONFIGS, config("a")).await;
        assert_eq!(
            (&made["data"]["n"], &made["metadata"]["labels"]["seen"]),
            (&json!("1"), &json!("CREATE")),
            "{made}"
        );
        let asked = hooks.asked.lock();
        assert_eq!(asked[0].1["object"]["data"]["n"], "1", "the webhook sees what the policy made");
    });
}

#[test]
fn a_webhook_is_asked_only_where_its_conditions_hold() {
    let hooks = Hooks::default();
    in_simulation_with(hooks.config(), |client| async move {
        let condition = |expression: &str| json!({"matchConditions": [{"name": "c", "expression": expression}]});
        let named = condition("object.metadata.name != 'skipped' && authorizer.requestResource.check('get').allowed()");
        assert_eq!(client.post(VALIDATING, configuration("warn", &named)).await.0, 201);
        assert_eq!(client.post(CONFIGS, config("asked")).await.0, 201);
        assert_eq!(client.post(CONFIGS, config("skipped")).await.0, 201);
        assert_eq!(hooks.asked(), ["warn CREATE"]);
        // A condition that cannot be evaluated refuses the request or is ignored, as failurePolicy says.
        let uri = format!("{VALIDATING}/warn");
        for (policy, code) in [("Fail", 403), ("Ignore", 201)] {
            let mut broken = condition("object.data.nope == 'x'");
            broken["failurePolicy"] = policy.into();
            client.send(Method::DELETE, &uri, "application/json", None).await;
            assert_eq!(client.post(VALIDATING, configuration("warn", &broken)).await.0, 201);
            let (found, wording) = client.post(CONFIGS, config(&policy.to_lowercase())).await;
            assert_eq!(found, code, "{wording}");
            assert_eq!(hooks.asked(), Vec::<String>::new());
        }
        // An invalid condition is refused with its webhook.
        for (expression, wanted) in [
            ("object.metadata.name", "webhooks[0].matchConditions[0].expression: Invalid value"),
            ("absent == 1", "undeclared reference to 'absent'"),
        ] {
            let (code, refused) = client.post(VALIDATING, configuration("deny", &condition(expression))).await;
            assert!(code == 422 && refused["message"].as_str().unwrap().contains(wanted), "{refused}");
        }
    });
}
