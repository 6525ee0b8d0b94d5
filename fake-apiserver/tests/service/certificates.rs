//! Certificate signing requests, as kubectl, kubelets and kube-controller-manager's approver and signer write them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::*;

const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

fn request(name: &str) -> Value {
    let pem = "-----BEGIN CERTIFICATE REQUEST-----\nMAA=\n-----END CERTIFICATE REQUEST-----\n";
    json!({"metadata": {"name": name}, "spec": {
        "request": STANDARD.encode(pem),
        "signerName": "kubernetes.io/kube-apiserver-client",
        "usages": ["client auth"],
        "username": "another-user",
        "groups": ["system:masters", "more"],
    }})
}

fn decision(of: &str) -> Value {
    json!({"type": of, "status": "True", "reason": "Test", "message": "by the test"})
}

#[test]
fn the_server_says_who_asks_for_a_certificate_and_it_never_changes() {
    in_simulation(|client| async move {
        let (code, made) = client.post(REQUESTS, request("a")).await;
        assert_eq!((code, &made["spec"]["username"]), (201, &json!("kubernetes-admin")), "{made}");
        assert_eq!(made["spec"]["groups"], json!(["system:masters", "system:authenticated"]));
        let mut changed = made.clone();
        changed["spec"]["username"] = json!("root");
        changed["metadata"]["labels"] = json!({"k": "v"});
        let (code, kept) = client.put(&format!("{REQUESTS}/a"), changed).await;
        assert_eq!((code, &kept["spec"]), (200, &made["spec"]));
        assert_eq!(kept["metadata"]["labels"]["k"], "v");
    });
}

#[test]
fn a_certificate_is_approved_by_one_subresource_and_issued_by_the_other() {
    in_simulation(|client| async move {
        client.post(REQUESTS, request("a")).await;
        let (_, status) = client.get(&format!("{REQUESTS}/a/status")).await;
        let mut approved = status.clone();
        approved["status"] = json!({"conditions": [decision("Approved")], "certificate": "bm8="});
        // `/status` ignores decisions.
        let (code, ignored) = client.put(&format!("{REQUESTS}/a/status"), approved.clone()).await;
        assert_eq!((code, &ignored["status"]["conditions"]), (200, &Value::Null), "{ignored}");
        let certificate = json!({"status": {"certificate": null}});
        assert_eq!(client.merge(&format!("{REQUESTS}/a/status"), certificate).await.0, 422);
        client.post(REQUESTS, request("b")).await;
        let (_, mut b) = client.get(&format!("{REQUESTS}/b")).await;
        b["status"] = json!({"conditions": [decision("Approved")], "certificate": "bm8="});
        let (code, b) = client.put(&format!("{REQUESTS}/b/approval"), b).await;
        assert_eq!((code, &b["status"]["conditions"][0]["type"]), (200, &json!("Approved")), "{b}");
        assert_eq!(b["status"]["conditions"][0]["lastTransitionTime"], "2026-01-01T00:00:00Z");
        assert_eq!(b["status"]["certificate"], Value::Null, "an approval issues nothing");
        let mut undone = b.clone();
        undone["status"] = json!({});
        assert_eq!(client.put(&format!("{REQUESTS}/b/approval"), undone).await.0, 422);
        let mut both = b.clone();
        both["status"]["conditions"] = json!([decision("Approved"), decision("Denied")]);
        assert_eq!(client.put(&format!("{REQUESTS}/b/approval"), both).await.0, 422);
        let mut issued = b.clone();
        issued["status"]["certificate"] = json!("Y2VydA==");
        let (code, issued) = client.put(&format!("{REQUESTS}/b/status"), issued).await;
        assert_eq!((code, &issued["status"]["certificate"]), (200, &json!("Y2VydA==")), "{issued}");
        assert_eq!(issued["status"]["conditions"], b["status"]["conditions"]);
        let mut other = issued.clone();
        other["status"]["certificate"] = json!("b3RoZXI=");
        assert_eq!(client.put(&format!("{REQUESTS}/b/status"), other).await.0, 422);
    });
}

#[test]
fn requests_for_certificates_that_say_too_little_are_refused() {
    in_simulation(|client| async move {
        for (field, value) in [
            ("request", json!("bm90IHBlbQ==")),
            ("usages", json!([])),
            ("signerName", json!("")),
            ("signerName", json!("unqualified")),
            ("expirationSeconds", json!(599)),
        ] {
            let mut bad = request("x");
            bad["spec"][field] = value;
            let (code, status) = client.post(REQUESTS, bad).await;
            assert_eq!(code, 422, "{field}: {status}");
            assert_eq!(status["details"]["causes"][0]["field"], format!("spec.{field}"));
        }
    });
}
