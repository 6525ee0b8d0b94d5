//! Recorded requests of unmodified clients: each gets an answer of the recorded kind.

use std::collections::BTreeSet;

use fake_apiserver::kinds;
use http::{HeaderMap, Request};
use substrate::body::{call, collect, full};

use super::*;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// A row of the recording.
struct Read<'a> {
    verb: &'a str,
    group: &'a str,
    version: &'a str,
    plural: &'a str,
    scope: &'a str,
    query: &'a str,
    accept: &'a str,
    answer: &'a str,
}

fn reads() -> Vec<Read<'static>> {
    let table = include_str!("../../testdata/reads.tsv");
    let rows = table.lines().skip(1).map(|line| {
        let [verb, resource, scope, query, accept, answer] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        let mut parts: Vec<&str> = resource.split('/').collect();
        if parts[0] == "v1" {
            parts.insert(0, "");
        }
        Read { verb, group: parts[0], version: parts[1], plural: parts[2], scope, query, accept, answer }
    });
    rows.collect()
}

impl Read<'_> {
    fn uri(&self, revision: &str) -> String {
        let base = if self.group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", self.group) };
        let namespace = if self.scope.ends_with("-ns") { "namespaces/default/" } else { "" };
        let name = if self.verb == "GET" { "/missing" } else { "" };
        let watch = if self.verb == "WATCH" { "&watch=true" } else { "" };
        // Escaped as clients do.
        let query = self.query.replace("{revision}", revision).replace("!=", "%21%3D");
        format!("{base}/{}/{namespace}{}{name}?{query}{watch}", self.version, self.plural)
    }

    fn accept(&self) -> String {
        let metadata = |kind: &str| {
            let of = |media: &str| format!("{media};as={kind};g=meta.k8s.io;v=v1");
            format!("{},{},application/json", of(PROTOBUF), of("application/json"))
        };
        match self.accept {
            "pb|json;as=PartialObjectMetadataList" => metadata("PartialObjectMetadataList"),
            "pb|json;as=PartialObjectMetadata" => metadata("PartialObjectMetadata"),
            "Table v1/v1beta1,json" => "application/json;as=Table;v=v1;g=meta.k8s.io,\
                application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"
                .to_owned(),
            "*" => "*/*".to_owned(),
            words => words.replace("pb", PROTOBUF).replace("json", "application/json"),
        }
    }

    fn method(&self) -> Method {
        if self.verb == "DELETECOLLECTION" { Method::DELETE } else { Method::GET }
    }

    /// Returns true if an answer matches the recorded one. A recorded GET may have found its object or not; here none
    /// exists.
    fn is_answered_by(&self, code: u16, headers: &HeaderMap) -> bool {
        let media = headers.get("content-type").and_then(|v| v.to_str().ok()).unwrap_or_default();
        let wanted = match self.answer {
            "pb" => media == PROTOBUF,
            "pb;stream=watch" => media == format!("{PROTOBUF};stream=watch"),
            _ => media == "application/json",
        };
        wanted && code == if self.verb == "GET" { 404 } else { 200 }
    }
}

fn definition(group: &str, plural: &str) -> Value {
    let scope = if plural.ends_with("snapshots") { "Namespaced" } else { "Cluster" };
    let approved = json!({"api-approved.kubernetes.io": "unapproved, a copy for a test"});
    json!({"metadata": {"name": format!("{plural}.{group}"), "annotations": approved}, "spec": {
        "group": group,
        "scope": scope,
        "names": {"plural": plural, "kind": format!("K{plural}")},
        "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}],
    }})
}

#[test]
fn every_recorded_read_is_answered_as_it_was_recorded() {
    in_simulation(|client| async move {
        let mut reads = reads();
        assert!(reads.len() > 300);
        let custom: BTreeSet<(&str, &str)> = reads
            .iter()
            .filter(|read| kinds::find(read.group, read.version, read.plural).is_none())
            .map(|read| (read.group, read.plural))
            .collect();
        assert!(custom.iter().all(|(group, _)| group.ends_with("snapshot.storage.k8s.io")), "{custom:?}");
        for (group, plural) in custom {
            let (code, made) = client.post(DEFINITIONS, definition(group, plural)).await;
            assert_eq!(code, 201, "{made}");
        }
        client.post(CLAIMS, claim("a")).await;
        let (_, pod) = client.post(PODS, pod("a")).await;
        let revision = pod["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
        // Deletes come last.
        reads.sort_by_key(|read| read.verb == "DELETECOLLECTION");
        let mut wrong = Vec::new();
        for read in &reads {
            let uri = read.uri(&revision);
            let body = if read.method() == Method::DELETE { "{}" } else { "" };
            let request = Request::builder()
                .method(read.method())
                .uri(&uri)
                .header("accept", read.accept())
                .header("content-type", "application/json")
                .header("user-agent", "test")
                .body(full(body))
                .unwrap();
            let response = call(client.service(), request).await.unwrap();
            let (code, headers) = (response.status().as_u16(), response.headers().clone());
            let ends = read.verb != "WATCH";
            if ends {
                collect(response.into_body(), 64 << 20).await.unwrap();
            }
            if !read.is_answered_by(code, &headers) {
                wrong.push(format!("{} {uri} {}: {code} {:?}", read.verb, read.accept, headers.get("content-type")));
            }
        }
        assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), reads.len(), wrong.join("\n"));
    });
}
