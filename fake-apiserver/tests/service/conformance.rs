//! Defects that Kubernetes' own end-to-end suite found.

use rstest::rstest;

use super::*;

#[rstest]
#[case("/apis/certificates.k8s.io/v1/certificatesigningrequests", "spec.signerName=example.com/none")]
#[case("/api/v1/namespaces/default/services", "spec.type=ClusterIP,spec.clusterIP!=None")]
#[case("/api/v1/namespaces/default/replicationcontrollers", "status.replicas!=0")]
#[case("/apis/resource.k8s.io/v1/resourceslices", "spec.nodeName=a,spec.driver=d")]
fn kinds_are_selected_by_the_fields_that_upstream_declares(#[case] uri: &'static str, #[case] selector: &'static str) {
    in_simulation(|client| async move {
        let (code, list) = client.get(&format!("{uri}?fieldSelector={selector}")).await;
        let expected = usize::from(uri.ends_with("services"));
        assert_eq!((code, list["items"].as_array().unwrap().len()), (200, expected), "{list}");
    });
}

#[test]
fn a_job_is_selected_by_how_many_of_its_pods_succeeded() {
    in_simulation(|client| async move {
        let jobs = "/apis/batch/v1/namespaces/default/jobs";
        let spec =
            json!({"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}});
        let (code, answer) = client.post(jobs, json!({"metadata": {"name": "j"}, "spec": spec})).await;
        assert_eq!(code, 201, "{answer}");
        for (count, found) in [(0, 1), (1, 0)] {
            let (_, list) = client.get(&format!("{jobs}?fieldSelector=status.successful={count}")).await;
            assert_eq!(list["items"].as_array().unwrap().len(), found);
        }
    });
}

#[test]
fn a_review_has_no_table() {
    in_simulation(|client| async move {
        let uri = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
        let review = json!({"spec": {"nonResourceAttributes": {"path": "/", "verb": "get"}}});
        for (accept, code) in [
            ("application/json;as=Table;v=v1;g=meta.k8s.io", 406),
            ("application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io", 406),
            ("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", 201),
        ] {
            let request = http::Request::post(uri).header("content-type", "application/json").header("accept", accept);
            let body = substrate::body::full(review.to_string());
            let response = substrate::body::call(client.service(), request.body(body).unwrap()).await.unwrap();
            assert_eq!(response.status().as_u16(), code, "{accept}");
        }
    });
}

fn runtime(name: &str, fields: Value) -> Value {
    let mut class = json!({"metadata": {"name": name}, "handler": "h"});
    class.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    class
}

#[test]
fn a_pod_has_the_overhead_and_the_nodes_of_its_runtime_class() {
    in_simulation(|client| async move {
        let classes = "/apis/node.k8s.io/v1/runtimeclasses";
        let heavy = json!({
            "overhead": {"podFixed": {"cpu": "10m", "memory": "1Mi"}},
            "scheduling": {"nodeSelector": {"kind": "vm"}, "tolerations": [{"key": "vm", "operator": "Exists"}]},
        });
        for class in [runtime("heavy", heavy), runtime("light", json!({}))] {
            let (code, answer) = client.post(classes, class).await;
            assert_eq!(code, 201, "{answer}");
        }
        let with = |name: &str, fields: Value| {
            let mut pod = pod(name);
            for (key, value) in fields.as_object().unwrap() {
                pod["spec"][key] = value.clone();
            }
            pod
        };
        let (code, made) = client.post(PODS, with("a", json!({"runtimeClassName": "heavy"}))).await;
        assert_eq!(code, 201, "{made}");
        assert_eq!(made["spec"]["overhead"], json!({"cpu": "10m", "memory": "1Mi"}));
        assert_eq!(made["spec"]["nodeSelector"], json!({"kind": "vm"}));
        assert!(made["spec"]["tolerations"].as_array().unwrap().contains(&json!({"key": "vm", "operator": "Exists"})));
        let same = json!({"runtimeClassName": "heavy", "overhead": {"cpu": "0.01", "memory": "1024Ki"}, "nodeSelector": {"kind": "vm", "a": "b"}});
        assert_eq!(client.post(PODS, with("b", same)).await.0, 201);
        for (fields, why) in [
            (json!({"runtimeClassName": "none"}), "pod rejected: RuntimeClass \"none\" not found"),
            (
                json!({"runtimeClassName": "heavy", "overhead": {"cpu": "1"}}),
                "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead",
            ),
            (
                json!({"runtimeClassName": "light", "overhead": {"cpu": "1"}}),
                "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead",
            ),
            (
                json!({"runtimeClassName": "heavy", "nodeSelector": {"kind": "metal"}}),
                "conflict: runtimeClass.scheduling.nodeSelector[kind] = vm; pod.spec.nodeSelector[kind] = metal",
            ),
        ] {
            let (code, refused) = client.post(PODS, with("c", fields)).await;
            assert_eq!(
                (code, refused["message"].as_str().unwrap()),
                (403, format!("pods \"c\" is forbidden: {why}").as_str())
            );
        }
    });
}

#[test]
fn a_custom_object_has_a_default_that_came_after_it_at_the_revision_that_it_had() {
    in_simulation(|client| async move {
        let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let properties = |default: Value| json!({"a": {"type": "string"}, "b": {"type": "object", "default": default, "properties": {"c": {"type": "integer"}}}});
        let definition = |properties: Value| {
            json!({"metadata": {"name": "gadgets.shop.example.com"}, "spec": {
                "group": "shop.example.com", "scope": "Cluster", "names": {"plural": "gadgets", "kind": "Gadget"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}}}],
            }})
        };
        assert_eq!(client.post(definitions, definition(properties(json!(null)))).await.0, 201);
        let uri = "/apis/shop.example.com/v1/gadgets";
        let (_, made) = client.post(uri, json!({"metadata": {"name": "g"}, "a": "1"})).await;
        assert_eq!(made.get("b"), None);
        let patch = json!({"spec": definition(properties(json!({"c": 7})))["spec"]});
        let media = "application/merge-patch+json";
        let (code, answer) =
            client.send(Method::PATCH, &format!("{definitions}/gadgets.shop.example.com"), media, Some(patch)).await;
        assert_eq!(code, 200, "{answer}");
        let (_, read) = client.get(&format!("{uri}/g")).await;
        assert_eq!((&read["a"], &read["b"]), (&json!("1"), &json!({"c": 7})));
        assert_eq!(read["metadata"]["resourceVersion"], made["metadata"]["resourceVersion"]);
    });
}
