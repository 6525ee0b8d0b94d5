//! Randomly damaged requests.

#![allow(missing_docs, dead_code, reason = "helpers of tests, of which each uses some")]

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use fake_apiserver::wire::protobuf::{encode, envelope};
use fake_apiserver::{Apiserver, Config};
use http::Request;
use substrate::body::{HttpService, call, collect, full};
use substrate::json::{Value, json};
use substrate::seed::between;
use substrate::world::{Options, simulate};
use substrate::{Process, Seed};

const JSON: &str = "application/json";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const PODS: &str = "/api/v1/namespaces/default/pods";
const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
const QUOTAS: &str = "/api/v1/namespaces/default/resourcequotas";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
const TABLE: &str = "application/json;as=Table;g=meta.k8s.io;v=v1";

/// Returns the valid requests: method, target, media types of body and answer, body.
fn plain() -> Vec<(&'static str, String, &'static str, &'static str, Vec<u8>)> {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}, "ports": [{"containerPort": 80}]}],
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}});
    let claim = json!({"metadata": {"name": "c"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": {"pods": "5", "requests.cpu": "9"},
        "scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]}}});
    let definition = json!({"metadata": {"name": "as.x.y"}, "spec": {"group": "x.y", "scope": "Namespaced", "names": {"plural": "as", "kind": "A"},
        "versions": [{"name": "v1", "served": true, "storage": true, "selectableFields": [{"jsonPath": ".spec.s"}],
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": {"s": {"type": "string", "default": "x"}},
                "x-kubernetes-validations": [{"rule": "self.s.size() > 0"}]}}}}}]}});
    let policy = json!({"metadata": {"name": "p"}, "spec": {"matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"],
        "operations": ["CREATE"], "resources": ["configmaps"]}]}, "validations": [{"expression": "object.metadata.name != 'x'"}]}});
    let signing = json!({"metadata": {"name": "r"}, "spec": {"signerName": "kubernetes.io/kube-apiserver-client", "usages": ["client auth"],
        "request": "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUFBPQotLS0tLUVORCBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0K"}});
    let labels = json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted", "pod-security.kubernetes.io/warn-version": "v1.25"}}});
    let patch = json!([{"op": "test", "path": "/metadata/name", "value": "p"}, {"op": "add", "path": "/metadata/finalizers", "value": ["a/b"]},
        {"op": "copy", "from": "/metadata/labels", "path": "/metadata/annotations"}, {"op": "remove", "path": "/spec/volumes/0"}]);
    let strategic = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a/b"]}, "spec": {"containers": [{"name": "c", "$patch": "delete"}],
        "$setElementOrder/containers": [{"name": "c"}], "volumes": [{"name": "w", "emptyDir": {}}]}});
    let text = |value: &Value| value.to_string().into_bytes();
    let message = envelope("v1", "Pod", &encode("v1", "Pod", &pod).unwrap_or_default()).to_vec();
    let get = |target: &str, accept: &'static str| ("GET", target.to_owned(), JSON, accept, Vec::new());
    vec![
        ("POST", PODS.to_owned(), JSON, JSON, text(&pod)),
        ("POST", PODS.to_owned(), PROTOBUF, PROTOBUF, message),
        ("POST", format!("{CLAIMS}?fieldValidation=Strict&dryRun=All"), "application/yaml", JSON, text(&claim)),
        ("POST", CLAIMS.to_owned(), JSON, JSON, text(&claim)),
        ("POST", QUOTAS.to_owned(), JSON, JSON, text(&quota)),
        ("POST", DEFINITIONS.to_owned(), JSON, JSON, text(&definition)),
        (
            "POST",
            "/apis/x.y/v1/namespaces/default/as".to_owned(),
            JSON,
            JSON,
            text(&json!({"metadata": {"name": "a"}, "spec": {"s": "y"}})),
        ),
        ("POST", POLICIES.to_owned(), JSON, JSON, text(&policy)),
        ("POST", REQUESTS.to_owned(), JSON, JSON, text(&signing)),
        ("POST", format!("{PODS}/p/binding"), JSON, JSON, text(&json!({"target": {"kind": "Node", "name": "n"}}))),
        (
            "POST",
            format!("{PODS}/p/eviction"),
            JSON,
            JSON,
            text(&json!({"metadata": {"name": "p"}, "deleteOptions": {"gracePeriodSeconds": 0}})),
        ),
        ("PUT", format!("{PODS}/p/status"), JSON, JSON, text(&pod)),
        ("PATCH", "/api/v1/namespaces/default".to_owned(), "application/merge-patch+json", JSON, text(&labels)),
        ("PATCH", format!("{PODS}/p"), "application/json-patch+json", JSON, text(&patch)),
        ("PATCH", format!("{PODS}/p"), "application/strategic-merge-patch+json", JSON, text(&strategic)),
        ("PATCH", format!("{PODS}/p?fieldManager=m&force=true"), "application/apply-patch+yaml", JSON, text(&pod)),
        ("DELETE", format!("{PODS}/p?gracePeriodSeconds=1&propagationPolicy=Foreground"), JSON, JSON, Vec::new()),
        ("DELETE", format!("{CLAIMS}?labelSelector=a%20in%20(b,c),!d"), JSON, JSON, Vec::new()),
        get(&format!("{PODS}?limit=1&resourceVersion=0"), PROTOBUF),
        get(&format!("{PODS}?fieldSelector=spec.nodeName%3Dn,status.phase!%3DFailed"), TABLE),
        get(&format!("{CLAIMS}?limit=1&continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiJhIn0"), JSON),
        get(
            &format!(
                "{PODS}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=1&timeoutSeconds=1"
            ),
            PROTOBUF,
        ),
        get(
            "/apis/x.y/v1/namespaces/default/as?fieldSelector=spec.s%3Dy",
            "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
        ),
        get("/openapi/v3/apis/apps/v1?hash=x", JSON),
        get("/apis", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"),
    ]
}

/// Replacements for damaged bytes.
const POISON: [&[u8]; 16] = [
    b"",
    b"0",
    b"-1",
    b"18446744073709551616",
    b"1e999",
    b"null",
    b"true",
    b"{}",
    b"[]",
    b"\"\"",
    b"\xff",
    b"%00",
    b"/",
    b"..",
    b"\\u0000",
    b"$patch",
];

fn damaged(bytes: &[u8], rng: &mut impl rand_core::Rng) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..between(rng, 0, 3) {
        let length = bytes.len() as u64;
        let at = between(rng, 0, length) as usize;
        let end = (at + between(rng, 0, 6) as usize).min(bytes.len());
        let poison = POISON[between(rng, 0, POISON.len() as u64 - 1) as usize];
        bytes.splice(at..end, poison.iter().copied());
    }
    bytes
}

/// Number of answers by class of status code.
#[derive(Default)]
pub struct Broken(BTreeMap<u16, u64>);

impl Broken {
    pub fn add(&mut self, other: &Self) {
        for (class, count) in &other.0 {
            *self.0.entry(*class).or_default() += count;
        }
    }

    /// Returns the number of answers with a class of codes.
    pub fn of(&self, class: u16) -> u64 {
        self.0.get(&class).copied().unwrap_or_default()
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<String> = self.0.iter().map(|(class, count)| format!("{count} x {class}xx")).collect();
        f.write_str(&texts.join(", "))
    }
}

/// Sends `count` damaged requests to a new server. Panics at an answer that blames the server.
pub fn round(seed: &Seed, count: u64) -> Broken {
    let plain = plain();
    let mut rng = seed.rng();
    let requests: Vec<_> = (0..count)
        .filter_map(|_| {
            let (method, target, media, accept, body) = &plain[between(&mut rng, 0, plain.len() as u64 - 1) as usize];
            // One in four request lines is damaged, and most bodies are.
            let target =
                if between(&mut rng, 0, 3) == 0 { damaged(target.as_bytes(), &mut rng) } else { target.clone().into() };
            let body = damaged(body, &mut rng);
            let target = String::from_utf8_lossy(&target).into_owned();
            let request = Request::builder().method(*method).uri(&target).header("content-type", *media);
            let shown = format!("{method} {target} {media} {}", String::from_utf8_lossy(&body));
            Some((request.header("accept", *accept).body(full(body)).ok()?, shown))
        })
        .collect();
    simulate(Options::default(), |world| async move {
        let apiserver = Apiserver::new(&Seed::root(1), Config::default());
        let slot: Arc<Mutex<Option<HttpService>>> = Arc::default();
        let given = slot.clone();
        let process = Process::start(&world, "fake-apiserver", move |ctx| {
            let service = apiserver.start(&ctx);
            *given.lock() = Some(service);
            async move { ctx.downed().await }
        });
        tokio::task::yield_now().await;
        let service = slot.lock().clone();
        let mut answered = Broken::default();
        let Some(service) = service else { return answered };
        for (request, shown) in requests {
            let Ok(response) = call(service.clone(), request).await else { panic!("no answer: {shown}") };
            let code = response.status().as_u16();
            let reported = collect(response.into_body(), 64 << 20).await.unwrap_or_default();
            let reported = String::from_utf8_lossy(&reported);
            // Expected 5xx: a feature that does not exist (501), a future revision (504), and upstream's own 500s: a
            // new object with a resourceVersion, a configuration with a duplicate list element, a resourceVersion that
            // is not a number, and a failed strategic merge.
            let upstreams = [
                "resourceVersion should not be set",
                "failed to create typed patch object",
                "strconv.ParseUint: parsing",
                "does not contain declared merge key",
                "expected a map[string]interface {}, but received",
            ];
            let meant = matches!(code, 501 | 504) || upstreams.iter().any(|why| reported.contains(why));
            assert!(code < 500 || meant, "{code} {reported}\n{shown}");
            *answered.0.entry(code / 100).or_default() += 1;
        }
        process.crash();
        answered
    })
}
