use super::*;

const V2: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";

fn get(path: &str, accept: &str) -> Value {
    serde_json::from_slice(&respond(path, accept).unwrap().body).unwrap()
}

#[test]
fn the_roots_answer_in_the_form_that_is_asked_for() {
    let answer = respond("/apis", V2).unwrap();
    assert_eq!(answer.content_type, "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList");
    assert!(answer.etag.is_some());
    assert_eq!(get("/api", V2)["apiVersion"], "apidiscovery.k8s.io/v2");
    assert_eq!(
        get("/apis", "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList")["apiVersion"],
        "apidiscovery.k8s.io/v2beta1"
    );
    assert_eq!(get("/api", "application/json")["kind"], "APIVersions");
    assert_eq!(get("/apis", "*/*")["kind"], "APIGroupList");
    assert_eq!(get("/apis/", "")["groups"][0]["preferredVersion"]["groupVersion"], "events.k8s.io/v1");
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
        "/",
        "/api/v2",
        "/apis/nope",
        "/apis/storage.k8s.io/v2",
        "/api/v1/pods",
        "/apis//v1",
        "/openapi/v3",
        "/apis/apps/v1",
    ] {
        assert_eq!(respond(path, ""), None, "{path}");
    }
}

/// What is served is what a 1.36 server serves under these names; reads `../shared/data/discovery.json`.
#[test]
fn every_resource_is_as_a_real_server_has_it() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/data/discovery.json");
    let Ok(text) = std::fs::read_to_string(path) else {
        eprintln!("skipped: {path} is not there");
        return;
    };
    let recorded: Value = serde_json::from_str(&text).unwrap();
    for root in ["api", "apis"] {
        let ours = get(&format!("/{root}"), V2);
        for group in ours["items"].as_array().unwrap() {
            let theirs = find(&recorded[root]["items"], |g| g["metadata"]["name"] == group["metadata"]["name"]);
            let version = &group["versions"][0];
            let real = find(&theirs["versions"], |v| v["version"] == version["version"]);
            assert_eq!(version["freshness"], real["freshness"]);
            for resource in version["resources"].as_array().unwrap() {
                let mut real = find(&real["resources"], |r| r["resource"] == resource["resource"]).clone();
                // Fewer subresources may be served, but those that are must be the same.
                let served = resource["subresources"].as_array().cloned().unwrap_or_default();
                for sub in &served {
                    assert_eq!(sub, find(&real["subresources"], |s| s["subresource"] == sub["subresource"]));
                }
                let mut resource = resource.clone();
                for either in [&mut resource, &mut real] {
                    either.as_object_mut().unwrap().remove("subresources");
                }
                assert_eq!(resource, real);
            }
        }
    }
}

fn find(list: &Value, is: impl Fn(&Value) -> bool) -> &Value {
    list.as_array().unwrap().iter().find(|v| is(v)).unwrap()
}
