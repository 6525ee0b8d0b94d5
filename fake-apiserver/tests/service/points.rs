//! Single points in which clients and suites saw a difference from a real server.

use substrate::body::{call, empty};

use super::*;

const ADDRESSES: &str = "/apis/networking.k8s.io/v1/ipaddresses";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

#[test]
fn the_name_of_an_ip_address_is_an_address() {
    in_simulation(|client| async move {
        let address = |name: &str| {
            json!({"metadata": {"name": name},
            "spec": {"parentRef": {"group": "", "resource": "services", "namespace": "default", "name": "s"}}})
        };
        for name in ["2001:db8::1", "10.0.0.1"] {
            let (code, made) = client.post(ADDRESSES, address(name)).await;
            assert_eq!(code, 201, "{made}");
            assert_eq!(client.get(&format!("{ADDRESSES}/{name}")).await.1["metadata"]["name"], name);
        }
        for (name, why) in [
            ("2001:0db8::1", "must be in canonical form (\"2001:db8::1\")"),
            ("::ffff:1.2.3.4", "must not be an IPv4-mapped IPv6 address"),
            ("web", "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"),
        ] {
            let (code, status) = client.post(ADDRESSES, address(name)).await;
            let wanted = format!(
                "IPAddress.networking.k8s.io {name:?} is invalid: metadata.name: Invalid value: {name:?}: {why}"
            );
            assert_eq!((code, &status["message"]), (422, &json!(wanted)));
        }
        let (code, status) = client.post(ADDRESSES, json!({"metadata": {"name": "10.0.0.2"}, "spec": {}})).await;
        let why = "IPAddress.networking.k8s.io \"10.0.0.2\" is invalid: spec.parentRef: Required value";
        assert_eq!((code, &status["message"]), (422, &json!(why)));
    });
}

#[test]
fn impersonation_sets_uid_groups_and_extra() {
    in_simulation(|client| async move {
        let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
        let request = http::Request::post("/apis/authentication.k8s.io/v1/selfsubjectreviews")
            .header("content-type", "application/json")
            .header("impersonate-user", "ann")
            .header("impersonate-uid", "7")
            .header("impersonate-extra-scopes", "view")
            .header("impersonate-extra-scopes", "edit")
            .header("Impersonate-Extra-Example.com%2FTeam", "blue")
            .body(substrate::body::full(review.to_string()))
            .unwrap();
        let (code, answer) = client.request(request).await;
        assert_eq!(code, 201, "{answer}");
        assert_eq!(
            answer["status"]["userInfo"],
            json!({"username": "ann", "uid": "7", "groups": ["system:authenticated"],
                "extra": {"scopes": ["view", "edit"], "example.com/team": ["blue"]}})
        );
    });
}

/// Returns a definition in a group of the community, with the approval annotation `wording`.
fn definition(wording: Option<&str>) -> Value {
    let mut definition = json!({"metadata": {"name": "things.x.k8s.io"}, "spec": {
        "group": "x.k8s.io", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
        "versions": [{"name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": {"type": "object"}}}],
    }});
    if let Some(wording) = wording {
        definition["metadata"]["annotations"] = json!({"api-approved.kubernetes.io": wording});
    }
    definition
}

fn approval(definition: &Value) -> (String, String, String) {
    let conditions = definition["status"]["conditions"].as_array().unwrap();
    let found = conditions.iter().find(|c| c["type"] == "KubernetesAPIApprovalPolicyConformant").unwrap();
    let text = |field: &str| found[field].as_str().unwrap().to_owned();
    (text("status"), text("reason"), text("message"))
}

#[test]
fn a_definition_in_a_group_of_kubernetes_needs_an_approval_and_says_so() {
    in_simulation(|client| async move {
        let missing = "protected groups must have approval annotation \"api-approved.kubernetes.io\", see \
                       https://github.com/kubernetes/enhancements/pull/1111";
        let (code, status) = client.post(DEFINITIONS, definition(None)).await;
        let field = "metadata.annotations[api-approved.kubernetes.io]";
        let why = format!(
            "CustomResourceDefinition.apiextensions.k8s.io \"things.x.k8s.io\" is invalid: {field}: Required value: {missing}"
        );
        assert_eq!((code, &status["message"]), (422, &json!(why)));
        let (code, status) = client.post(DEFINITIONS, definition(Some("yes"))).await;
        assert_eq!((code, &status["details"]["causes"][0]["reason"]), (422, &json!("FieldValueInvalid")));
        let (code, made) = client.post(DEFINITIONS, definition(Some("unapproved, for a test"))).await;
        assert_eq!(code, 201, "{made}");
        let uri = format!("{DEFINITIONS}/things.x.k8s.io");
        let found = client.get(&uri).await.1;
        let of = |status: &str, reason: &str, message: &str| (status.into(), reason.into(), message.into());
        let wording = "not approved: \"unapproved, for a test\"";
        assert_eq!(approval(&found), of("False", "UnapprovedAnnotation", wording));
        let approved = json!({"metadata": {"annotations": {"api-approved.kubernetes.io": "https://example.com/1"}}});
        assert_eq!(client.merge(&uri, approved).await.0, 200);
        let wording = "approved in https://example.com/1";
        assert_eq!(approval(&client.get(&uri).await.1), of("True", "ApprovedAnnotation", wording));
        let gone = json!({"metadata": {"annotations": {"api-approved.kubernetes.io": null}}});
        assert_eq!(client.merge(&uri, gone).await.0, 422);
        // A definition of a saved state is loaded unchecked, and its condition shows that.
        let mut saved = definition(None);
        saved["apiVersion"] = "apiextensions.k8s.io/v1".into();
        saved["kind"] = "CustomResourceDefinition".into();
        let state = json!({"resources": {"customresourcedefinitions.apiextensions.k8s.io": [saved]}});
        let (code, answer) = client.put("/admin/v1/state", state).await;
        assert_eq!(code, 200, "{answer}");
        let found = client.get(&uri).await.1;
        assert_eq!(approval(&found), of("False", "MissingAnnotation", missing));
        // A missing approval from before does not prevent an update.
        assert_eq!(client.merge(&uri, json!({"spec": {"names": {"shortNames": ["th"]}}})).await.0, 200);
    });
}

#[test]
fn probes_tell_each_check_by_name() {
    in_simulation(|client| async move {
        for path in [
            "/healthz/ping",
            "/livez/etcd",
            "/livez/poststarthook/rbac/bootstrap-roles",
            "/livez/autoregister-completion",
            "/readyz/etcd-readiness",
            "/readyz/informer-sync",
            "/readyz/shutdown",
        ] {
            assert_eq!(client.get(path).await, (200, json!("ok")), "{path}");
        }
        for path in ["/livez/shutdown", "/healthz/etcd-readiness", "/readyz/poststarthook/none"] {
            assert_eq!(client.get(path).await.0, 404, "{path}");
        }
        let (_, text) = client.get("/readyz?verbose&exclude=etcd").await;
        let text = text.as_str().unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            &lines[..6],
            [
                "[+]ping ok",
                "[+]log ok",
                "[+]etcd excluded: ok",
                "[+]etcd-readiness ok",
                "[+]informer-sync ok",
                "[+]poststarthook/start-apiserver-admission-initializer ok",
            ]
        );
        assert!(text.ends_with("[+]shutdown ok\nreadyz check passed\n"), "{text}");
    });
}

#[test]
fn a_generic_failure_has_details_that_are_empty() {
    in_simulation(|client| async move {
        let (code, status) = client.get("/api/v1/foos").await;
        assert_eq!((code, &status["details"]), (404, &json!({})), "{status}");
        let head = http::Request::head(PODS).body(empty()).unwrap();
        let response = call(client.service(), head).await.unwrap();
        assert_eq!(response.status(), 405);
    });
}

#[test]
fn every_group_has_its_api_service_and_custom_ones_come_and_go() {
    let config = fake_apiserver::Config { track_managers: true, ..fake_apiserver::Config::default() };
    in_simulation_with(config, |client| async move {
        let uri = "/apis/apiregistration.k8s.io/v1/apiservices";
        let names = async || {
            let (_, list) = client.get(uri).await;
            let items = list["items"].as_array().unwrap().clone();
            items.iter().map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(names().await.len(), 21);
        let (_, core) = client.get(&format!("{uri}/v1.")).await;
        assert_eq!(core["spec"], json!({"groupPriorityMinimum": 18000, "version": "v1", "versionPriority": 1}));
        let condition = &core["status"]["conditions"][0];
        assert_eq!((&condition["type"], &condition["reason"]), (&json!("Available"), &json!("Local")));
        let (_, storage) = client.get(&format!("{uri}/v1.storage.k8s.io")).await;
        assert_eq!(storage["spec"]["group"], "storage.k8s.io");
        assert_eq!(storage["metadata"]["labels"]["kube-aggregator.kubernetes.io/automanaged"], "onstart");
        client.post(DEFINITIONS, definition(Some("unapproved"))).await;
        let (code, custom) = client.get(&format!("{uri}/v1.x.k8s.io")).await;
        assert_eq!(code, 200);
        assert_eq!(custom["metadata"]["labels"]["kube-aggregator.kubernetes.io/automanaged"], "true");
        assert_eq!(custom["spec"]["groupPriorityMinimum"], 1000);
        client.delete(&format!("{DEFINITIONS}/things.x.k8s.io")).await;
        assert_eq!(names().await.len(), 21);
    });
}

#[test]
fn an_answer_names_the_flow_of_its_request() {
    let config = fake_apiserver::Config { track_managers: true, ..fake_apiserver::Config::default() };
    in_simulation_with(config, |client| async move {
        let flows = "/apis/flowcontrol.apiserver.k8s.io/v1";
        // Returns the names of the objects in the headers.
        let flow_of = async |request: http::Request<substrate::body::Body>| {
            let response = call(client.service(), request).await.unwrap();
            let mut names = Vec::new();
            for (header, plural) in [
                ("x-kubernetes-pf-flowschema-uid", "flowschemas"),
                ("x-kubernetes-pf-prioritylevel-uid", "prioritylevelconfigurations"),
            ] {
                let uid = response.headers()[header].to_str().unwrap();
                let (_, list) = client.get(&format!("{flows}/{plural}")).await;
                let items = list["items"].as_array().unwrap();
                let found = items.iter().find(|item| item["metadata"]["uid"] == uid).unwrap();
                names.push(found["metadata"]["name"].as_str().unwrap().to_owned());
            }
            names.join(" ")
        };
        let as_user = |method: &str, uri: &str, user: &str, group: &str| {
            let request = http::Request::builder().method(method).uri(uri).header("impersonate-user", user);
            let request = if group.is_empty() { request } else { request.header("impersonate-group", group) };
            request.body(empty()).unwrap()
        };
        assert_eq!(flow_of(http::Request::get(PODS).body(empty()).unwrap()).await, "exempt exempt");
        let scheduler = "system:kube-scheduler";
        for (request, names) in [
            (as_user("GET", PODS, "ann", ""), "global-default global-default"),
            (as_user("GET", "/livez/ping", "ann", ""), "probes exempt"),
            (as_user("GET", "/version", "ann", ""), "global-default global-default"),
            (as_user("GET", PODS, scheduler, ""), "kube-scheduler workload-high"),
            (
                as_user("GET", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/x", scheduler, ""),
                "system-leader-election leader-election",
            ),
            (as_user("GET", PODS, "system:node:n", "system:nodes"), "system-nodes system"),
            (as_user("GET", "/api/v1/nodes/n", "system:node:n", "system:nodes"), "system-node-high node-high"),
            (as_user("GET", PODS, "system:serviceaccount:default:a", ""), "service-accounts workload-low"),
            (
                as_user("GET", PODS, "system:serviceaccount:kube-system:a", ""),
                "kube-system-service-accounts workload-high",
            ),
        ] {
            assert_eq!(flow_of(request).await, names);
        }
        // A user's own schema is matched by its precedence as soon as it exists.
        let own = json!({"metadata": {"name": "own"}, "spec": {
            "matchingPrecedence": 300, "priorityLevelConfiguration": {"name": "workload-low"},
            "rules": [{"subjects": [{"kind": "User", "user": {"name": "ann"}}], "resourceRules": [
                {"verbs": ["list"], "apiGroups": [""], "resources": ["pods"], "namespaces": ["default"]}]}],
        }});
        let (code, made) = client.post(&format!("{flows}/flowschemas"), own).await;
        assert_eq!(code, 201, "{made}");
        assert_eq!(flow_of(as_user("GET", PODS, "ann", "")).await, "own workload-low");
        client.delete(&format!("{flows}/flowschemas/own")).await;
        assert_eq!(flow_of(as_user("GET", PODS, "ann", "")).await, "global-default global-default");
        let (_, list) = client.get(&format!("{flows}/flowschemas")).await;
        assert_eq!(list["items"].as_array().unwrap().len(), 11);
    });
}
