//! Pods and their service accounts: the account must exist, and its token is mounted as kube-apiserver mounts it.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use fake_apiserver::{Config, ServiceAccounts};

use super::client::{Client, in_simulation_with};
use super::*;

fn with(service_accounts: ServiceAccounts) -> Config {
    Config { service_accounts, ..Config::default() }
}

const MOUNT_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

async fn made(client: &Client, change: impl FnOnce(&mut Value)) -> (u16, Value) {
    let mut pod = json!({"metadata": {"name": "p"}, "spec": {
        "initContainers": [{"name": "i", "image": "i"}],
        "containers": [{"name": "a", "image": "i"}, {"name": "b", "image": "i"}]}});
    change(&mut pod);
    let answer = client.post(&format!("{PODS}?dryRun=All"), pod).await;
    assert!(matches!(answer.0, 201 | 403), "{answer:?}");
    answer
}

fn mounts(pod: &Value) -> Vec<String> {
    let containers = ["initContainers", "containers"].iter().flat_map(|field| pod["spec"][*field].as_array().cloned());
    let of = |c: &Value| c["volumeMounts"].as_array().cloned().unwrap_or_default();
    containers.flatten().flat_map(|c| of(&c).into_iter().map(move |m| format!("{} {}", c["name"], m["name"]))).collect()
}

#[test]
fn the_token_of_a_pods_account_is_mounted() {
    in_simulation_with(with(ServiceAccounts::Mounted), |client| async move {
        let (_, pod) = made(&client, |_| {}).await;
        let volume = &pod["spec"]["volumes"][0];
        let name = volume["name"].as_str().expect("a name").to_owned();
        assert!(name.starts_with("kube-api-access-") && name.len() == 21, "{name}");
        let expected = json!({"defaultMode": 420, "sources": [
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]}},
        ]});
        assert_eq!(volume["projected"], expected);
        let named = |container: &str| format!("\"{container}\" \"{name}\"");
        assert_eq!(mounts(&pod), [named("i"), named("a"), named("b")]);
        let mount = json!({"name": name, "readOnly": true, "mountPath": MOUNT_PATH});
        assert_eq!(pod["spec"]["containers"][0]["volumeMounts"], json!([mount]));

        // A container with another mount at that path gets no token.
        let own = json!([{"name": "own", "mountPath": MOUNT_PATH}]);
        let (_, pod) = made(&client, |pod| {
            pod["spec"]["volumes"] = json!([{"name": "own", "emptyDir": {}}]);
            pod["spec"]["containers"][0]["volumeMounts"] = own.clone();
        })
        .await;
        assert_eq!(pod["spec"]["containers"][0]["volumeMounts"], own);
        assert_eq!(pod["spec"]["volumes"].as_array().map(Vec::len), Some(2), "{pod}");
        // A pod that was copied from another has the volume already.
        let (_, pod) = made(&client, |pod| {
            pod["spec"]["volumes"] = json!([{"name": "kube-api-access-abcde", "emptyDir": {}}]);
        })
        .await;
        assert_eq!(pod["spec"]["volumes"].as_array().map(Vec::len), Some(1), "{pod}");
        assert_eq!(pod["spec"]["containers"][0]["volumeMounts"][0]["name"], "kube-api-access-abcde");
    });
}

#[test]
fn pods_and_accounts_may_forgo_the_token() {
    in_simulation_with(with(ServiceAccounts::Mounted), |client| async move {
        let (_, pod) = made(&client, |pod| pod["spec"]["automountServiceAccountToken"] = false.into()).await;
        assert_eq!(pod["spec"].get("volumes"), None, "{pod}");
        let account = json!({"metadata": {"name": "bare"}, "automountServiceAccountToken": false,
            "imagePullSecrets": [{"name": "s"}]});
        assert_eq!(client.post("/api/v1/namespaces/default/serviceaccounts", account).await.0, 201);
        let (_, pod) = made(&client, |pod| pod["spec"]["serviceAccountName"] = "bare".into()).await;
        assert_eq!((pod["spec"].get("volumes"), &pod["spec"]["imagePullSecrets"]), (None, &json!([{"name": "s"}])));
        // The pod's setting takes precedence over the account's.
        let (_, pod) = made(&client, |pod| {
            pod["spec"]["serviceAccountName"] = "bare".into();
            pod["spec"]["automountServiceAccountToken"] = true.into();
            pod["spec"]["imagePullSecrets"] = json!([{"name": "own"}]);
        })
        .await;
        assert_eq!(pod["spec"]["volumes"].as_array().map(Vec::len), Some(1), "{pod}");
        assert_eq!(pod["spec"]["imagePullSecrets"], json!([{"name": "own"}]));
        let (code, refused) = made(&client, |pod| pod["spec"]["serviceAccountName"] = "absent".into()).await;
        assert_eq!(code, 403, "{refused}");
    });
}

#[test]
fn a_mirror_pod_stays_as_it_is() {
    in_simulation_with(with(ServiceAccounts::Mounted), |client| async move {
        let mirror = json!({"kubernetes.io/config.mirror": "x"});
        let (code, pod) = made(&client, |pod| {
            pod["metadata"]["annotations"] = mirror.clone();
            pod["spec"]["nodeName"] = "node-a".into();
        })
        .await;
        assert_eq!(
            (code, pod["spec"].get("volumes"), pod["spec"].get("serviceAccountName")),
            (201, None, None),
            "{pod}"
        );
        let (code, refused) = made(&client, |pod| {
            pod["metadata"]["annotations"] = mirror.clone();
            pod["spec"]["nodeName"] = "node-a".into();
            pod["spec"]["serviceAccountName"] = "default".into();
        })
        .await;
        assert_eq!(code, 403, "{refused}");
        let why = "a mirror pod may not reference service accounts";
        assert!(refused["message"].as_str().unwrap_or_default().ends_with(why), "{refused}");
    });
}

#[test]
fn the_plugin_can_be_left_out() {
    for (how, code) in [(ServiceAccounts::Ignored, 201), (ServiceAccounts::Named, 403)] {
        in_simulation_with(with(how), move |client| async move {
            let (_, pod) = made(&client, |_| {}).await;
            assert_eq!(pod["spec"].get("volumes"), None, "{pod}");
            let (found, answer) = made(&client, |pod| pod["spec"]["serviceAccountName"] = "absent".into()).await;
            assert_eq!(found, code, "{answer}");
        });
    }
}

#[test]
fn a_secret_for_a_token_is_filled_and_goes_with_its_account() {
    let config = Config { publish_root_ca: true, root_ca: Some("pem".to_owned()), ..Config::default() };
    in_simulation_with(config, |client| async move {
        let (accounts, secrets) = ("/api/v1/namespaces/default/serviceaccounts", "/api/v1/namespaces/default/secrets");
        let (_, account) = client.post(accounts, json!({"metadata": {"name": "bot"}})).await;
        let of = |name: &str, account: &str| {
            json!({"type": "kubernetes.io/service-account-token", "metadata": {"name": name, "annotations":
                {"kubernetes.io/service-account.name": account}}})
        };
        assert_eq!(client.post(secrets, of("token", "bot")).await.0, 201);
        let (_, secret) = client.get(&format!("{secrets}/token")).await;
        let sent = &secret["metadata"]["annotations"]["kubernetes.io/service-account.uid"];
        assert_eq!(sent, &account["metadata"]["uid"]);
        assert_eq!((&secret["data"]["ca.crt"], &secret["data"]["namespace"]), (&json!("cGVt"), &json!("ZGVmYXVsdA==")));
        let token = STANDARD.decode(secret["data"]["token"].as_str().expect("a token")).expect("base64");
        let token = String::from_utf8(token).expect("text");
        let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}});
        let (_, review) = client.post("/apis/authentication.k8s.io/v1/tokenreviews", review).await;
        assert_eq!(review["status"]["user"]["username"], "system:serviceaccount:default:bot", "{review}");
        // Without its account a secret is deleted.
        assert_eq!(client.post(secrets, of("lost", "absent")).await.0, 201);
        assert_eq!(client.get(&format!("{secrets}/lost")).await.0, 404);
        client.delete(&format!("{accounts}/bot")).await;
        assert_eq!(client.get(&format!("{secrets}/token")).await.0, 404);
    });
}

#[test]
fn an_update_that_leaves_out_the_priority_keeps_it() {
    in_simulation_with(Config::default(), |client| async move {
        let class = json!({"metadata": {"name": "high"}, "value": 7, "preemptionPolicy": "Never"});
        assert_eq!(client.post("/apis/scheduling.k8s.io/v1/priorityclasses", class).await.0, 201);
        let mut high = pod("p");
        high["spec"]["priorityClassName"] = "high".into();
        assert_eq!(client.post(PODS, high.clone()).await.0, 201);
        let uri = format!("{PODS}/p");
        let (_, mut stored) = client.get(&uri).await;
        assert_eq!((&stored["spec"]["priority"], &stored["spec"]["preemptionPolicy"]), (&json!(7), &json!("Never")));
        for field in ["priority", "preemptionPolicy"] {
            stored["spec"].as_object_mut().expect("a spec").remove(field);
        }
        let (code, put) = client.put(&uri, stored).await;
        assert_eq!(code, 200, "{put}");
        assert_eq!((&put["spec"]["priority"], &put["spec"]["preemptionPolicy"]), (&json!(7), &json!("Never")));
        let (code, refused) = client.merge(&uri, json!({"spec": {"priority": 8}})).await;
        assert_eq!(code, 422, "{refused}");
        let (code, kept) = client.merge(&uri, json!({"spec": {"priority": null, "preemptionPolicy": null}})).await;
        assert_eq!((code, &kept["spec"]["priority"]), (200, &json!(7)), "{kept}");
    });
}
