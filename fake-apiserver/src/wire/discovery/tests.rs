use super::*;

const V2: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";

fn get(path: &str, accept: &str) -> Value {
    serde_json::from_slice(&respond(path, accept, &[]).unwrap().body).unwrap()
}

#[test]
fn the_roots_answer_in_the_form_that_is_asked_for() {
    let answer = respond("/apis", V2, &[]).unwrap();
    assert_eq!(answer.content_type, "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList");
    assert!(answer.etag.is_some());
    assert_eq!(get("/api", V2)["apiVersion"], "apidiscovery.k8s.io/v2");
    assert_eq!(
        get("/apis", "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList")["apiVersion"],
        "apidiscovery.k8s.io/v2beta1"
    );
    assert_eq!(get("/api", "application/json")["kind"], "APIVersions");
    assert_eq!(get("/apis", "*/*")["kind"], "APIGroupList");
    assert_eq!(get("/apis/", "")["groups"][0]["preferredVersion"]["groupVersion"], "apiregistration.k8s.io/v1");
}

#[test]
fn each_group_version_lists_its_resources_and_subresources() {
    let list = get("/api/v1", "");
    let names: Vec<&str> = list["resources"].as_array().unwrap().iter().filter_map(|r| r["name"].as_str()).collect();
    for name in ["pods", "pods/status", "pods/binding", "namespaces/finalize", "persistentvolumeclaims/status"] {
        assert!(names.contains(&name), "{name}");
    }
    assert_eq!(get("/apis/storage.k8s.io", "")["kind"], "APIGroup");
    assert_eq!(get("/apis/storage.k8s.io/v1", "")["groupVersion"], "storage.k8s.io/v1");
}

#[test]
fn other_paths_are_no_discovery_documents() {
    for path in [
        "/api/v2",
        "/apis/nope",
        "/apis/storage.k8s.io/v2",
        "/api/v1/pods",
        "/apis//v1",
        "/openapi/v3",
        "/apis/apps/v2",
    ] {
        assert_eq!(respond(path, "", &[]), None, "{path}");
    }
}

/// Expects the groups, versions, resources, subresources and their order of a real 1.36 server.
#[test]
fn the_documents_are_those_of_a_real_server() {
    let recorded: Value = serde_json::from_str(include_str!("../../../testdata/discovery.json")).unwrap();
    for root in ["api", "apis"] {
        assert_eq!(get(&format!("/{root}"), V2)["items"], recorded[root]["items"], "{root}");
    }
}
