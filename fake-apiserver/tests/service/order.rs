//! Order of a write: mutating admission, validation, validating admission, storage.

use http::Request;
use substrate::body::{call, full};

use super::webhooks::{Hooks, MUTATING, VALIDATING, configuration};
use super::*;

const APPLY: &str = "application/apply-patch+yaml";

/// Returns a webhook configuration for claims.
fn of_claims(hook: &str) -> Value {
    let rules = json!([{"operations": ["CREATE", "UPDATE"], "apiGroups": [""], "apiVersions": ["v1"],
        "resources": ["persistentvolumeclaims"]}]);
    configuration(hook, &json!({ "rules": rules }))
}

/// Returns a claim with a size and no other field.
fn sized(name: &str, storage: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name},
        "spec": {"resources": {"requests": {"storage": storage}}}})
}

/// Creates an object that refuses every claim: a LimitRange, a quota, a policy or a webhook.
async fn forbid(client: &client::Client, of: &str) {
    let place = "/api/v1/namespaces/default";
    let max = json!({"type": "PersistentVolumeClaim", "max": {"storage": "1Mi"}});
    let limits = json!({"metadata": {"name": "l"}, "spec": {"limits": [max]}});
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": {"persistentvolumeclaims": "0"}}});
    let rules = json!([{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["persistentvolumeclaims"]}]);
    let policy = json!({"metadata": {"name": "p"}, "spec": {"matchConstraints": {"resourceRules": rules},
        "validations": [{"expression": "false", "message": "no"}]}});
    let binding = json!({"metadata": {"name": "b"}, "spec": {"policyName": "p", "validationActions": ["Deny"]}});
    let policies = "/apis/admissionregistration.k8s.io/v1";
    let made = match of {
        "limits" => client.post(&format!("{place}/limitranges"), limits).await,
        "quota" => client.post(&format!("{place}/resourcequotas"), quota).await,
        "policy" => {
            client.post(&format!("{policies}/validatingadmissionpolicybindings"), binding).await;
            client.post(&format!("{policies}/validatingadmissionpolicies"), policy).await
        }
        _ => client.post(VALIDATING, of_claims("refuse")).await,
    };
    assert_eq!(made.0, 201, "{of}: {}", made.1);
}

#[test]
fn validation_comes_before_admission_refusals() {
    for of in ["limits", "quota", "policy", "webhook"] {
        let hooks = Hooks::default();
        in_simulation_with(hooks.config(), |client| async move {
            assert_eq!(client.post(CLAIMS, claim("there")).await.0, 201);
            forbid(&client, of).await;
            let uri = format!("{CLAIMS}/there");
            let bad = json!({"spec": {"accessModes": ["Sometimes"], "resources": {"requests": {"storage": "2Gi"}}}});
            let mut whole = client.get(&uri).await.1;
            whole["spec"]["accessModes"] = json!(["Sometimes"]);
            let applied = format!("{CLAIMS}/new?fieldManager=m");
            let again = format!("{uri}?fieldManager=m&force=true");
            let mut other = sized("there", "2Gi");
            other["spec"]["accessModes"] = json!(["Sometimes"]);
            for (method, uri, media, body) in [
                (Method::POST, CLAIMS, "application/json", sized("new", "2Gi")),
                (Method::PUT, &uri, "application/json", whole),
                (Method::PATCH, &uri, "application/merge-patch+json", bad.clone()),
                (Method::PATCH, &uri, "application/strategic-merge-patch+json", bad),
                (Method::PATCH, &applied, APPLY, sized("new", "2Gi")),
                (Method::PATCH, &again, APPLY, other),
            ] {
                let (code, message) = client.send(method.clone(), uri, media, Some(body)).await;
                let why = message["message"].as_str().unwrap();
                assert!(code == 422 && why.contains(" is invalid: "), "{of} {method} {media}: {code} {why}");
            }
            // A name conflict is found last.
            for name in ["new", "there"] {
                let (code, message) = client.post(CLAIMS, claim(name)).await;
                let why = message["message"].as_str().unwrap();
                assert!(matches!(code, 403 | 422) && !why.contains(" is invalid: "), "{of}: {code} {why}");
            }
        });
    }
}

#[test]
fn a_validating_webhook_is_not_asked_about_what_is_invalid() {
    let hooks = Hooks::default();
    in_simulation_with(hooks.config(), |client| async move {
        client.post(VALIDATING, of_claims("refuse")).await;
        assert_eq!(client.post(CLAIMS, sized("a", "1Gi")).await.0, 422);
        assert_eq!(hooks.asked(), Vec::<String>::new());
        assert_eq!(client.post(CLAIMS, claim("a")).await.0, 403);
        assert_eq!(hooks.asked(), ["refuse CREATE"]);
    });
}

#[test]
fn an_object_is_validated_after_mutating_webhooks() {
    let hooks = Hooks::default();
    in_simulation_with(hooks.config(), |client| async move {
        client.post(MUTATING, of_claims("mend")).await;
        let (code, made) = client.post(CLAIMS, sized("a", "1Gi")).await;
        assert_eq!((code, &made["spec"]["accessModes"]), (201, &json!(["ReadWriteOnce"])), "{made}");
        // The manager owns an object that its apply creates.
        let uri = format!("{CLAIMS}/b?fieldManager=m");
        let (code, made) = client.send(Method::PATCH, &uri, APPLY, Some(sized("b", "1Gi"))).await;
        assert_eq!((code, &made["spec"]["accessModes"]), (201, &json!(["ReadWriteOnce"])), "{made}");
        let manager = &made["metadata"]["managedFields"][0];
        assert_eq!((&manager["manager"], &manager["operation"]), (&json!("m"), &json!("Apply")), "{made}");
        assert_eq!(hooks.asked(), ["mend CREATE", "mend CREATE"]);
        // LimitRanges see the claim as the webhook changed it.
        client.delete(&format!("{MUTATING}/mend")).await;
        client.post(MUTATING, of_claims("grow")).await;
        let max = json!({"type": "PersistentVolumeClaim", "max": {"storage": "10Gi"}});
        let limits = json!({"metadata": {"name": "l"}, "spec": {"limits": [max]}});
        assert_eq!(client.post("/api/v1/namespaces/default/limitranges", limits).await.0, 201);
        let (code, message) = client.post(CLAIMS, claim("c")).await;
        let why = "maximum storage usage per PersistentVolumeClaim is 10Gi, but request is 50Gi";
        assert!(code == 403 && message["message"].as_str().unwrap().ends_with(why), "{message}");
    });
}

#[test]
fn a_webhook_that_refuses_warns_as_well() {
    let hooks = Hooks::default();
    in_simulation_with(hooks.config(), |client| async move {
        client.post(VALIDATING, of_claims("refuse")).await;
        let request = Request::post(CLAIMS).header("content-type", "application/json");
        let response = call(client.service(), request.body(full(claim("a").to_string())).unwrap()).await.unwrap();
        let message: Vec<_> = response.headers().get_all("warning").iter().map(|w| w.to_str().unwrap()).collect();
        assert_eq!((response.status().as_u16(), message), (403, vec!["299 - \"think again\""]));
    });
}
