//! Client certificates and certificate signing requests.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use fake_apiserver::tls::Authority;
use fake_apiserver::{Config, Rbac, x509};
use http::Request;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateSigningRequestDer};
use substrate::body::full;
use substrate::listen::PeerCertificate;

use super::*;

const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

fn guarded() -> Config {
    let rbac = Some(Rbac::new("secret"));
    Config { rbac, authority: Some(Arc::new(Authority::new().unwrap())), ..Config::default() }
}

fn request(name: &str, user: &str, group: &str, signer: &str, usages: &[&str]) -> Value {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, group);
    params.distinguished_name.push(DnType::CommonName, user);
    let pem = params.serialize_request(&KeyPair::generate().unwrap()).unwrap().pem().unwrap();
    json!({"metadata": {"name": name}, "spec": {"request": STANDARD.encode(pem), "usages": usages, "username": "someone else",
        "signerName": format!("kubernetes.io/{signer}")}})
}

async fn send(client: &client::Client, method: Method, uri: &str, body: Value) -> (u16, Value) {
    let media = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
    let request = Request::builder().method(method).uri(uri).header("content-type", media);
    let request = request.header("authorization", "Bearer secret").body(full(body.to_string())).unwrap();
    client.request(request).await
}

/// Sends a GET with a client certificate instead of a token.
async fn certified(client: &client::Client, uri: &str, certificate: &[u8]) -> (u16, Value) {
    let mut request = Request::get(uri).body(full("")).unwrap();
    request.extensions_mut().insert(PeerCertificate::of(certificate));
    client.request(request).await
}

async fn approve(client: &client::Client, name: &str) -> (u16, Value) {
    let approved = json!([{"type": "Approved", "status": "True", "reason": "Tried", "message": "by a test"}]);
    let body = json!({"status": {"conditions": approved}});
    send(client, Method::PATCH, &format!("{REQUESTS}/{name}/approval"), body).await
}

#[test]
fn an_approved_request_is_signed_and_authenticates() {
    in_simulation_with(guarded(), |client| async move {
        let wanted = request("ann", "ann", "team", "kube-apiserver-client", &["client auth"]);
        let (code, made) = send(&client, Method::POST, REQUESTS, wanted).await;
        // The server fills in the requester, regardless of the request's content.
        assert_eq!((code, &made["spec"]["username"]), (201, &json!("kubernetes-admin")), "{made}");
        assert_eq!(approve(&client, "ann").await.0, 200);
        let signed = send(&client, Method::GET, &format!("{REQUESTS}/ann"), Value::Null).await.1;
        let pem = STANDARD.decode(signed["status"]["certificate"].as_str().unwrap()).unwrap();
        let certificate = CertificateDer::from_pem_slice(&pem).unwrap();
        assert_eq!(x509::certificate_subject(&certificate).unwrap().common_name, "ann");
        let (code, refused) = certified(&client, PODS, &certificate).await;
        assert_eq!(code, 403);
        assert!(refused["message"].as_str().unwrap().contains("User \"ann\" cannot list"), "{refused}");
        let binding = json!({"metadata": {"name": "team"}, "subjects": [{"kind": "Group", "name": "team"}],
            "roleRef": {"kind": "ClusterRole", "name": "view", "apiGroup": "rbac.authorization.k8s.io"}});
        let bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
        assert_eq!(send(&client, Method::POST, bindings, binding).await.0, 201);
        assert_eq!(certified(&client, PODS, &certificate).await.0, 200);
        assert_eq!(certified(&client, PODS, b"no certificate").await.0, 401);
    });
}

#[test]
fn unsupported_requests_fail_and_system_masters_is_refused() {
    in_simulation_with(guarded(), |client| async move {
        let odd = request("odd", "ann", "team", "kube-apiserver-client-kubelet", &["client auth"]);
        send(&client, Method::POST, REQUESTS, odd).await;
        approve(&client, "odd").await;
        let reported = send(&client, Method::GET, &format!("{REQUESTS}/odd"), Value::Null).await.1;
        assert_eq!(reported["status"].get("certificate"), None);
        assert_eq!(reported["status"]["conditions"][1]["reason"], "SignerValidationFailure");
        // Requests for other signers are not signed.
        let mut other = request("other", "ann", "team", "kube-apiserver-client", &["client auth"]);
        other["spec"]["signerName"] = json!("example.com/mine");
        send(&client, Method::POST, REQUESTS, other).await;
        approve(&client, "other").await;
        let reported = send(&client, Method::GET, &format!("{REQUESTS}/other"), Value::Null).await.1;
        assert_eq!(reported["status"]["conditions"].as_array().unwrap().len(), 1);
        let master = request("m", "ann", "system:masters", "kube-apiserver-client", &["client auth"]);
        let (code, refused) = send(&client, Method::POST, REQUESTS, master).await;
        assert_eq!(code, 403);
        let why = "use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed";
        assert!(refused["message"].as_str().unwrap().ends_with(why), "{refused}");
    });
}

#[test]
fn a_request_that_another_key_signed_gets_no_certificate() {
    in_simulation_with(guarded(), |client| async move {
        let mut forged = request("forged", "ann", "team", "kube-apiserver-client", &["client auth"]);
        let pem = STANDARD.decode(forged["spec"]["request"].as_str().unwrap()).unwrap();
        let mut bytes = CertificateSigningRequestDer::from_pem_slice(&pem).unwrap().to_vec();
        let name = bytes.windows(3).position(|part| part == b"ann").unwrap();
        bytes[name..name + 3].copy_from_slice(b"eve");
        let lines = format!(
            "-----BEGIN CERTIFICATE REQUEST-----\n{}\n-----END CERTIFICATE REQUEST-----\n",
            STANDARD.encode(bytes)
        );
        forged["spec"]["request"] = STANDARD.encode(lines).into();
        assert_eq!(send(&client, Method::POST, REQUESTS, forged).await.0, 201);
        approve(&client, "forged").await;
        let reported = send(&client, Method::GET, &format!("{REQUESTS}/forged"), Value::Null).await.1;
        assert_eq!(reported["status"].get("certificate"), None);
        let failed = &reported["status"]["conditions"][1];
        assert_eq!((&failed["type"], &failed["reason"]), (&json!("Failed"), &json!("SigningError")));
        assert_eq!(failed["message"], "unable to verify certificate request signature");
    });
}
