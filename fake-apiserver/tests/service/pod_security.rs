//! Pod Security Standards by the labels of namespaces.

use http::header;
use substrate::body::{call, full};

use super::*;

const NAMESPACE: &str = "/api/v1/namespaces/default";

async fn label(client: &client::Client, labels: Value) -> (u16, Vec<String>, Value) {
    send(client, Method::PATCH, NAMESPACE, json!({"metadata": {"labels": labels}})).await
}

/// Sends a request. Returns its code, its warnings and its answer.
async fn send(client: &client::Client, method: Method, uri: &str, body: Value) -> (u16, Vec<String>, Value) {
    let media = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
    let request = http::Request::builder().method(method).uri(uri).header("content-type", media);
    let response = call(client.service(), request.body(full(body.to_string())).unwrap()).await.unwrap();
    let warnings = response.headers().get_all(header::WARNING).iter().map(|w| w.to_str().unwrap().to_owned()).collect();
    let code = response.status().as_u16();
    let bytes = substrate::body::collect(response.into_body(), 1 << 20).await.unwrap();
    (code, warnings, serde_json::from_slice(&bytes).unwrap())
}

fn privileged(name: &str) -> Value {
    let mut pod = pod(name);
    pod["spec"]["containers"][0]["securityContext"] = json!({"privileged": true});
    pod
}

#[test]
fn enforce_refuses_and_warn_warns() {
    in_simulation(|client| async move {
        client.post(PODS, privileged("before")).await;
        let (code, warnings, _) = label(&client, json!({"pod-security.kubernetes.io/enforce": "baseline"})).await;
        assert_eq!(code, 200);
        assert_eq!(
            warnings,
            [
                r#"299 - "existing pods in namespace \"default\" violate the new PodSecurity enforce level \"baseline:latest\"""#,
                "299 - \"before: privileged\""
            ]
        );
        let (code, _, refused) = send(&client, Method::POST, PODS, privileged("p")).await;
        let why = "pods \"p\" is forbidden: violates PodSecurity \"baseline:latest\": privileged (container \"c\" must not set securityContext.privileged=true)";
        assert_eq!((code, refused["message"].as_str().unwrap()), (403, why));
        assert_eq!(client.post(PODS, pod("p")).await.0, 201);
        label(
            &client,
            json!({"pod-security.kubernetes.io/enforce": null, "pod-security.kubernetes.io/warn": "baseline"}),
        )
        .await;
        let (code, warnings, _) = send(&client, Method::POST, PODS, privileged("q")).await;
        assert_eq!((code, warnings.len()), (201, 1));
        assert!(warnings[0].contains(r#"would violate PodSecurity \"baseline:latest\": privileged"#), "{warnings:?}");
        // Writers of workloads are warned, too.
        let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": privileged("x")["spec"]});
        let deployment =
            json!({"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}});
        let (code, warnings, _) =
            send(&client, Method::POST, "/apis/apps/v1/namespaces/default/deployments", deployment).await;
        assert_eq!((code, warnings.len()), (201, 1), "{warnings:?}");
    });
}

#[test]
fn labels_that_say_nothing_are_refused() {
    in_simulation(|client| async move {
        let (code, _, refused) = label(&client, json!({"pod-security.kubernetes.io/enforce": "strict"})).await;
        assert_eq!(code, 422);
        let cause = &refused["details"]["causes"][0];
        assert_eq!(cause["field"], "metadata.labels[pod-security.kubernetes.io/enforce]");
        assert!(cause["message"].as_str().unwrap().contains("must be one of privileged, baseline, restricted"));
    });
}

#[test]
fn a_label_or_a_status_of_a_pod_that_was_let_in_can_change() {
    in_simulation(|client| async move {
        client.post(PODS, privileged("p")).await;
        label(&client, json!({"pod-security.kubernetes.io/enforce": "restricted"})).await;
        assert_eq!(client.merge(&format!("{PODS}/p"), json!({"metadata": {"labels": {"x": "y"}}})).await.0, 200);
        assert_eq!(client.merge(&format!("{PODS}/p/status"), json!({"status": {"phase": "Running"}})).await.0, 200);
        let image = json!({"spec": {"containers": [{"name": "c", "image": "j"}]}});
        let media = "application/strategic-merge-patch+json";
        assert_eq!(client.send(Method::PATCH, &format!("{PODS}/p"), media, Some(image)).await.0, 403);
    });
}
