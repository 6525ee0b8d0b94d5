//! Access reviews, tokens of service accounts, and reviews of the own user.

use http::Request;
use substrate::body::full;

use super::*;

const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const TOKEN_REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
const ACCESS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

#[test]
fn every_access_is_allowed_and_says_why() {
    in_simulation(|client| async move {
        let attributes = json!({"resourceAttributes": {"verb": "get", "resource": "pods"}});
        let (code, review) = client.post(ACCESS, json!({"spec": attributes})).await;
        assert_eq!((code, &review["status"]["allowed"]), (201, &json!(true)), "{review}");
        assert_eq!((&review["kind"], &review["spec"]), (&json!("SelfSubjectAccessReview"), &attributes));
        let (code, status) = client.post(ACCESS, json!({"spec": {}})).await;
        assert_eq!((code, &status["reason"]), (422, &json!("Invalid")));
        let uri = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
        assert_eq!(client.post(uri, json!({"spec": attributes})).await.0, 422);
        let mut named = attributes.clone();
        named["user"] = json!("me");
        assert_eq!(client.post(uri, json!({"spec": named})).await.1["status"]["allowed"], true);
        let local = "/apis/authorization.k8s.io/v1/namespaces/default/localsubjectaccessreviews";
        assert_eq!(client.post(local, json!({"spec": named})).await.0, 422);
        named["resourceAttributes"]["namespace"] = json!("default");
        assert_eq!(client.post(local, json!({"spec": named})).await.0, 201);
        for (uri, review, why) in [
            (
                uri,
                json!({"spec": {}}),
                "[spec.resourceAttributes: Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be specified, spec.user: Invalid value: \"\": at least one of user or group must be specified]",
            ),
            (
                uri,
                json!({"metadata": {"name": "x"}, "spec": named}),
                "metadata: Invalid value: {\"name\":\"x\"}: must be empty",
            ),
            (
                local,
                json!({"spec": {"user": "me", "nonResourceAttributes": {"path": "/"}}}),
                "spec.nonResourceAttributes: Invalid value: {\"Path\":\"/\",\"Verb\":\"\"}: disallowed on this kind of request",
            ),
        ] {
            let (code, status) = client.post(uri, review).await;
            let message = status["message"].as_str().unwrap_or_default();
            assert!(code == 422 && message.ends_with(&format!(" is invalid: {why}")), "{code} {message}");
        }
        let (_, rules) = client.post("/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", json!({})).await;
        assert_eq!(rules["status"]["resourceRules"][0]["verbs"], json!(["*"]));
        assert_eq!(client.get(ACCESS).await.0, 405);
        assert_eq!(client.post(ACCESS, json!({"kind": "Pod"})).await.0, 400);
        assert_eq!(client.post(ACCESS, json!(1)).await.0, 400);
    });
}

#[test]
fn a_token_stands_for_its_account_until_it_ends() {
    in_simulation(|client| async move {
        client.post(ACCOUNTS, json!({"metadata": {"name": "app"}})).await;
        let mut of_app = pod("p");
        of_app["spec"]["serviceAccountName"] = "app".into();
        let (_, made) = client.post(PODS, of_app).await;
        let bound = json!({"kind": "Pod", "apiVersion": "v1", "name": "p", "uid": made["metadata"]["uid"]});
        let request = json!({"spec": {"audiences": ["a", "b"], "expirationSeconds": 900, "boundObjectRef": bound}});
        let (code, issued) = client.post(&format!("{ACCOUNTS}/app/token"), request).await;
        assert_eq!((code, &issued["kind"]), (201, &json!("TokenRequest")), "{issued}");
        assert_eq!(issued["status"]["expirationTimestamp"], "2026-01-01T00:15:00Z");
        let token = issued["status"]["token"].clone();
        let review =
            |audience: &str| client.post(TOKEN_REVIEWS, json!({"spec": {"token": token, "audiences": [audience]}}));
        let (code, answer) = review("b").await;
        assert_eq!((code, &answer["status"]["authenticated"]), (201, &json!(true)), "{answer}");
        assert_eq!(answer["status"]["user"]["username"], "system:serviceaccount:default:app");
        assert_eq!(answer["status"]["audiences"], json!(["b"]));
        let extra = &answer["status"]["user"]["extra"];
        assert_eq!(extra["authentication.kubernetes.io/pod-uid"], json!([made["metadata"]["uid"]]), "{extra}");
        let credential = extra["authentication.kubernetes.io/credential-id"][0].as_str().unwrap();
        assert!(credential.starts_with("JTI="), "{credential}");
        assert!(review("c").await.1["status"]["error"].as_str().unwrap().contains("audiences"));
        let mut forged = token.as_str().unwrap().to_owned();
        forged.replace_range(40..41, if &forged[40..41] == "A" { "B" } else { "A" });
        let (_, answer) = client.post(TOKEN_REVIEWS, json!({"spec": {"token": forged}})).await;
        assert_eq!(answer["status"]["error"], "invalid bearer token");
        // The token ends with the pod that it is bound to.
        client.delete_with(&format!("{PODS}/p"), json!({"gracePeriodSeconds": 0})).await;
        let (_, answer) = review("b").await;
        assert_eq!(answer["status"]["error"], "[invalid bearer token, service account token has been invalidated]");
        // A token without a pod ends with its lifetime.
        let (_, issued) = client.post(&format!("{ACCOUNTS}/app/token"), json!({})).await;
        let token = issued["status"]["token"].as_str().unwrap().to_owned();
        let whoami = Request::post("/apis/authentication.k8s.io/v1/selfsubjectreviews")
            .header("authorization", format!("Bearer {token}"))
            .body(full("{}"))
            .unwrap();
        let (_, answer) = client.request(whoami).await;
        assert_eq!(answer["status"]["userInfo"]["username"], "system:serviceaccount:default:app");
        tokio::time::sleep(Duration::from_secs(3661)).await;
        let (_, answer) = client.post(TOKEN_REVIEWS, json!({"spec": {"token": token}})).await;
        assert!(answer["status"]["error"].as_str().unwrap().contains("expired"), "{answer}");
        let (_, answer) = client.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", json!({})).await;
        assert_eq!(answer["status"]["userInfo"]["username"], "kubernetes-admin");
    });
}

#[test]
fn requests_for_tokens_that_make_no_sense_are_refused() {
    in_simulation(|client| async move {
        client.post(ACCOUNTS, json!({"metadata": {"name": "app"}})).await;
        let uri = format!("{ACCOUNTS}/app/token");
        client.post(PODS, pod("of-another")).await;
        for (spec, wanted) in [
            (json!({"expirationSeconds": 599}), 422),
            (json!({"expirationSeconds": 1i64 << 33}), 422),
            (json!({"expirationSeconds": "x"}), 400),
            (json!({"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "none"}}), 404),
            (json!({"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "of-another"}}), 400),
            (json!({"boundObjectRef": {"kind": "ConfigMap", "apiVersion": "v1", "name": "x"}}), 400),
            (json!({"boundObjectRef": {"kind": "Pod", "apiVersion": "apps/v1", "name": "of-another"}}), 400),
        ] {
            let (code, status) = client.post(&uri, json!({"spec": spec})).await;
            assert_eq!(code, wanted, "{spec}: {status}");
        }
        assert_eq!(client.post(&format!("{ACCOUNTS}/none/token"), json!({})).await.0, 404);
        assert_eq!(client.post(&uri, json!({"kind": "Pod"})).await.0, 400);
        let (_, dry) = client.post(&format!("{uri}?dryRun=All"), json!({})).await;
        assert_eq!(dry["status"]["token"], "");
    });
}

/// Returns a token as kube-controller-manager writes it into a secret.
fn legacy_token(uid: &str, secret: &str) -> String {
    use base64::Engine;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
    use ring::{rand::SystemRandom, rsa::KeyPair, signature::RSA_PKCS1_SHA256};
    let pem = include_str!("../../testdata/service-accounts.key");
    let body: String = pem.lines().filter(|line| !line.starts_with("-----")).collect();
    let der = base64::engine::general_purpose::STANDARD.decode(body).unwrap();
    let pair = KeyPair::from_der(&der).unwrap();
    let claims = json!({
        "iss": "kubernetes/serviceaccount",
        "kubernetes.io/serviceaccount/namespace": "default",
        "kubernetes.io/serviceaccount/secret.name": secret,
        "kubernetes.io/serviceaccount/service-account.name": "default",
        "kubernetes.io/serviceaccount/service-account.uid": uid,
        "sub": "system:serviceaccount:default:default",
    });
    let header = json!({"alg": "RS256", "kid": "x"});
    let signed = format!("{}.{}", BASE64.encode(header.to_string()), BASE64.encode(claims.to_string()));
    let mut signature = vec![0; pair.public().modulus_len()];
    pair.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), signed.as_bytes(), &mut signature).unwrap();
    format!("{signed}.{}", BASE64.encode(signature))
}

#[test]
fn a_token_in_a_secret_is_good_as_long_as_the_secret_when_its_signer_is_known() {
    let keys = fake_apiserver::keys::PublicKey::parse_all(include_str!("../../testdata/service-accounts.key")).unwrap();
    let review = |token: &str| json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}});
    let reviews = "/apis/authentication.k8s.io/v1/tokenreviews";
    let accounts = "/api/v1/namespaces/default/serviceaccounts/default";
    let secrets = "/api/v1/namespaces/default/secrets";
    let secret = |token: &str| {
        let metadata = json!({"name": "t", "annotations": {"kubernetes.io/service-account.name": "default"}});
        json!({"metadata": metadata, "type": "Opaque", "stringData": {"token": token}})
    };
    in_simulation_with(fake_apiserver::Config { token_keys: keys, ..Default::default() }, |client| async move {
        let uid = client.get(accounts).await.1["metadata"]["uid"].as_str().unwrap().to_owned();
        let token = legacy_token(&uid, "t");
        let (_, early) = client.post(reviews, review(&token)).await;
        assert_eq!(early["status"]["error"], "[invalid bearer token, Token has been invalidated]", "{early}");
        assert_eq!(client.post(secrets, secret(&token)).await.0, 201);
        let (_, good) = client.post(reviews, review(&token)).await;
        assert_eq!(good["status"]["authenticated"], true, "{good}");
        assert_eq!(good["status"]["user"]["username"], "system:serviceaccount:default:default");
        assert_eq!(good["status"]["user"]["uid"], uid.as_str());
        let damaged = token.replace(".ey", ".Ey");
        let (_, bad) = client.post(reviews, review(&damaged)).await;
        assert_eq!(bad["status"]["error"], "invalid bearer token", "{bad}");
        let (_, bad) = client.post(reviews, review(&legacy_token("another", "t"))).await;
        assert_eq!(bad["status"]["error"], "[invalid bearer token, Token does not match server's copy]", "{bad}");
        client.delete(&format!("{secrets}/t")).await;
        let (_, late) = client.post(reviews, review(&token)).await;
        assert!(late["status"]["authenticated"] != true, "{late}");
    });
    // This server does not trust the key that signed it.
    in_simulation(|client| async move {
        let uid = client.get(accounts).await.1["metadata"]["uid"].as_str().unwrap().to_owned();
        let token = legacy_token(&uid, "t");
        client.post(secrets, secret(&token)).await;
        let (_, unknown) = client.post(reviews, review(&token)).await;
        assert_eq!(unknown["status"]["error"], "invalid bearer token", "{unknown}");
    });
}
