//! Query parameters of every sort on every path: none of them causes a 5xx.

use fake_apiserver::kinds;
use http::{Method, Request};
use substrate::Seed;
use substrate::body::{call, collect, full};
use substrate::seed::between;

use super::*;

/// Parameters that any path reads.
const PARAMETERS: &[&str] = &[
    "resourceVersion",
    "resourceVersionMatch",
    "limit",
    "continue",
    "timeoutSeconds",
    "timeout",
    "labelSelector",
    "fieldSelector",
    "sendInitialEvents",
    "allowWatchBookmarks",
    "watch",
    "shardSelector",
    "dryRun",
    "fieldManager",
    "fieldValidation",
    "force",
    "gracePeriodSeconds",
    "propagationPolicy",
    "orphanDependents",
    "ignoreStoreReadErrorWithClusterBreakingPotential",
    "pretty",
    "includeObject",
    "export",
    "container",
    "follow",
    "previous",
    "sinceSeconds",
    "sinceTime",
    "timestamps",
    "tailLines",
    "limitBytes",
    "stream",
    "insecureSkipTLSVerifyBackend",
    "command",
    "stdin",
    "stdout",
    "stderr",
    "tty",
    "ports",
    "path",
    "hash",
    "verbose",
    "exclude",
];

/// Values that are invalid for some parameter.
const VALUES: &[&str] = &[
    "",
    "abc",
    "0",
    "1",
    "-1",
    "+1",
    "00",
    "1.5",
    "1e3",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "-9223372036854775808",
    "true",
    "FALSE",
    "null",
    "Exact",
    "NotOlderThan",
    "All",
    "Strict",
    "Orphan",
    "Foreground",
    "%00",
    "%ff%fe",
    "%ED%A0%80",
    "%",
    "%zz",
    "a%3Db",
    "a%20in%20(",
    "!%3D",
    "metadata.name%3Dx",
    "metadata.name%3D%5C",
    "spec.x%21%3D",
    "1s",
    "9999999h",
    "2026-01-01T00:00:00Z",
    "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiYSJ9",
    "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MX0",
    "..%2F..%2Fa",
    "%F0%9F%98%80",
];

/// A request without its query: method, path, media type and text of the body.
type Plain = (Method, String, &'static str, String);

/// Returns a request for each verb of each kind and of its subresources.
fn requests() -> Vec<Plain> {
    let mut requests = Vec::new();
    for kind in kinds::discoverable() {
        let group = if kind.group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", kind.group) };
        let namespace = if kind.namespaced { "namespaces/default/" } else { "" };
        let collection = format!("{group}/{}/{namespace}{}", kind.version, kind.plural);
        let object = format!("{collection}/x");
        let body = json!({"apiVersion": kind.api_version(), "kind": kind.kind, "metadata": {"name": "x"}}).to_string();
        let paths = kind.subresources.iter().map(|sub| (format!("{object}/{}", sub.name), sub.verbs));
        for (path, verbs) in [(object.clone(), kind.verbs)].into_iter().chain(paths) {
            let is_itself = path == object;
            for verb in verbs {
                let on_all = is_itself && matches!(*verb, "create" | "list" | "watch" | "deletecollection");
                let path = if on_all { &collection } else { &path };
                let (method, media) = match *verb {
                    "create" => (Method::POST, "application/json"),
                    "update" => (Method::PUT, "application/json"),
                    "patch" => (Method::PATCH, "application/merge-patch+json"),
                    "delete" | "deletecollection" => (Method::DELETE, ""),
                    _ => (Method::GET, ""),
                };
                let body = if matches!(method, Method::GET | Method::DELETE) { String::new() } else { body.clone() };
                if method == Method::PATCH {
                    requests.push((method.clone(), path.clone(), "application/apply-patch+yaml", body.clone()));
                }
                let path = if *verb == "watch" { format!("{path}?watch=1") } else { path.clone() };
                requests.push((method, path, media, body));
            }
        }
    }
    let custom = "/apis/x.y/v1/namespaces/default/as";
    let body =
        json!({"apiVersion": "x.y/v1", "kind": "A", "metadata": {"name": "x"}, "spec": {"replicas": 1}}).to_string();
    for (method, path, media) in [
        (Method::GET, custom.to_owned(), ""),
        (Method::GET, format!("{custom}?watch=1"), ""),
        (Method::POST, custom.to_owned(), "application/json"),
        (Method::GET, format!("{custom}/x"), ""),
        (Method::PUT, format!("{custom}/x/status"), "application/json"),
        (Method::PATCH, format!("{custom}/x"), "application/merge-patch+json"),
        (Method::PATCH, format!("{custom}/x"), "application/apply-patch+yaml"),
        (Method::GET, format!("{custom}/x/scale"), ""),
        (Method::DELETE, custom.to_owned(), ""),
    ] {
        let body = if matches!(method, Method::GET | Method::DELETE) { String::new() } else { body.clone() };
        requests.push((method, path, media, body));
    }
    for path in ["/api", "/apis", "/apis/apps", "/apis/apps/v1", "/version", "/readyz", "/openapi/v2", "/openapi/v3"] {
        requests.push((Method::GET, path.to_owned(), "", String::new()));
    }
    requests
}

/// Sends a request. Returns its code and the text of a 5xx.
async fn answer(client: &client::Client, (method, path, media, body): &Plain, query: &str) -> Option<(u16, String)> {
    let mark = if path.contains('?') { '&' } else { '?' };
    let request = Request::builder().method(method).uri(format!("{path}{mark}{query}")).header("content-type", *media);
    let response = call(client.service(), request.body(full(body.clone())).ok()?).await.unwrap();
    let code = response.status().as_u16();
    let reported = if code < 500 { Vec::new() } else { collect(response.into_body(), 1 << 20).await.unwrap().to_vec() };
    Some((code, String::from_utf8_lossy(&reported).into_owned()))
}

/// Returns true for the two expected 5xx: a revision that did not appear in time, and a feature that this server does
/// not have.
fn is_meant(code: u16, reported: &str) -> bool {
    code == 501 || code == 504 && reported.contains("Too large resource version")
}

#[test]
fn no_query_parameter_makes_a_request_fail_with_a_5xx() {
    in_simulation(|client| async move {
        let place = "/api/v1/namespaces/default";
        assert_eq!(client.post(&format!("{place}/configmaps"), config("x")).await.0, 201);
        assert_eq!(client.post(&format!("{place}/pods"), pod("x")).await.0, 201);
        assert_eq!(client.post(&format!("{place}/persistentvolumeclaims"), claim("x")).await.0, 201);
        let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let scale = json!({"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"});
        let version = json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
            "subresources": {"status": {}, "scale": scale}, "selectableFields": []});
        let definition = json!({"metadata": {"name": "as.x.y"}, "spec": {"group": "x.y", "scope": "Namespaced",
            "names": {"plural": "as", "kind": "A"}, "versions": [version]}});
        let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        assert_eq!(client.post(definitions, definition).await.0, 201);
        let mut rng = Seed::root(30).rng();
        let mut draw = |of: &[&'static str]| of[between(&mut rng, 0, of.len() as u64 - 1) as usize];
        let (mut sent, mut refused) = (0, 0);
        for plain in requests() {
            let thorough = ["/default/configmaps", "/pods/x/log"].iter().any(|p| plain.1.contains(p));
            for parameter in PARAMETERS {
                let drawn = [draw(VALUES)];
                let values = if thorough { VALUES } else { &drawn[..] };
                for value in values {
                    let query = format!("{parameter}={value}&{}={}", draw(PARAMETERS), draw(VALUES));
                    let Some((code, reported)) = answer(&client, &plain, &query).await else { continue };
                    assert!(
                        code < 500 || is_meant(code, &reported),
                        "{code} {reported}\n{} {}?{query}",
                        plain.0,
                        plain.1
                    );
                    sent += 1;
                    refused += u64::from(code == 400);
                }
            }
        }
        assert!(sent > 20_000 && refused > 3_000, "{sent} sent, {refused} refused");
    });
}
