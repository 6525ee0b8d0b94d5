//! Server-side apply of fields that became structs, of objects from client-side `kubectl apply`, and with managedFields
//! that a client writes.

use fake_apiserver::Config;
use http::Request;
use substrate::body::full;

use super::client::{Client, in_simulation, in_simulation_with};
use super::*;

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

async fn apply(client: &Client, uri: &str, manager: &str, object: Value) -> (u16, Value) {
    let request = Request::patch(format!("{uri}?fieldManager={manager}"))
        .header("content-type", "application/apply-patch+yaml")
        .body(full(object.to_string()))
        .unwrap();
    client.request(request).await
}

/// Returns a server that tracks the managers of every object from its creation on.
fn tracked() -> Config {
    Config { track_managers: true, ..Config::default() }
}

fn map(data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data})
}

/// Returns a map as client-side `kubectl apply` would send it.
fn client_side(data: Value) -> Value {
    let mut object = map(data);
    let text = format!("{object}\n");
    object["metadata"]["annotations"] = json!({LAST_APPLIED: text});
    object
}

/// Returns the fields that a manager owns by an operation.
fn owned(object: &Value, manager: &str, operation: &str) -> Value {
    let entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let mut found = entries.into_iter().filter(|e| e["manager"] == manager && e["operation"] == operation);
    found.next().map_or(Value::Null, |entry| entry["fieldsV1"].clone())
}

fn deployment(env: Value, ports: Value, volumes: Value) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {
            "containers": [{"name": "c", "image": "i", "env": env, "ports": ports}], "volumes": volumes}}}})
}

#[test]
fn an_applied_empty_map_keeps_later_entries() {
    in_simulation(|client| async move {
        let uri = format!("{CONFIGS}/a");
        assert_eq!(apply(&client, &uri, "me", map(json!({}))).await.0, 201);
        let (code, filled) = apply(&client, &uri, "me", map(json!({"a": "b"}))).await;
        assert_eq!((code, &filled["data"]), (200, &json!({"a": "b"})), "{filled}");
        let (_, emptied) = apply(&client, &uri, "me", map(json!({}))).await;
        assert_eq!(emptied["data"].get("a"), None, "{emptied}");

        let uri = format!("{DEPLOYMENTS}/d");
        let (code, made) = apply(&client, &uri, "me", deployment(json!([]), json!([]), json!([]))).await;
        assert_eq!(code, 201, "{made}");
        let full = deployment(
            json!([{"name": "A", "value": "1"}]),
            json!([{"containerPort": 80, "protocol": "TCP"}]),
            json!([{"name": "v", "emptyDir": {}}]),
        );
        let (code, filled) = apply(&client, &uri, "me", full.clone()).await;
        assert_eq!(code, 200, "{filled}");
        let (was, is) = (&full["spec"]["template"]["spec"], &filled["spec"]["template"]["spec"]);
        assert_eq!(is["containers"][0]["env"], was["containers"][0]["env"]);
        assert_eq!(is["containers"][0]["ports"], was["containers"][0]["ports"]);
        assert_eq!(is["volumes"], was["volumes"]);
    });
}

#[test]
fn a_custom_object_that_was_applied_empty_keeps_what_is_applied_next() {
    in_simulation(|client| async move {
        let element = json!({"type": "object", "properties": {"name": {"type": "string"}, "v": {"type": "string"}}, "required": ["name"]});
        let spec = json!({"type": "object", "properties": {
            "struct": {"type": "object", "properties": {"x": {"type": "string"}}},
            "map": {"type": "object", "additionalProperties": {"type": "string"}},
            "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "list": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"], "items": element}}});
        let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "things.example.com"}, "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"spec": spec}}}}]}});
        let (code, made) = client.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition).await;
        assert_eq!(code, 201, "{made}");
        let uri = "/apis/example.com/v1/namespaces/default/things/t";
        let thing = |spec: Value| json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}, "spec": spec});
        let empty = json!({"struct": {}, "map": {}, "set": [], "list": []});
        let (code, made) = apply(&client, uri, "me", thing(empty)).await;
        assert_eq!(code, 201, "{made}");
        let full = json!({"struct": {"x": "1"}, "map": {"k": "v"}, "set": ["s"], "list": [{"name": "n", "v": "1"}]});
        let (code, filled) = apply(&client, uri, "me", thing(full.clone())).await;
        assert_eq!((code, &filled["spec"]), (200, &full), "{filled}");
        let (_, emptied) = apply(&client, uri, "me", thing(json!({"map": {"k": "v"}}))).await;
        assert_eq!(emptied["spec"], json!({"map": {"k": "v"}}), "{emptied}");
    });
}

#[test]
fn kubectl_takes_over_what_it_applied_as_a_client() {
    in_simulation_with(tracked(), |client| async move {
        let uri = format!("{CONFIGS}/a");
        let make = format!("{CONFIGS}?fieldManager=kubectl-client-side-apply");
        assert_eq!(client.post(&make, client_side(json!({"x": "1", "y": "1"}))).await.0, 201);
        // Only kubectl may take fields, and only those whose present value the annotation has.
        let (code, status) = apply(&client, &uri, "other", map(json!({"x": "2"}))).await;
        assert_eq!((code, &status["reason"]), (409, &json!("Conflict")), "{status}");
        client.merge(&format!("{uri}?fieldManager=third"), json!({"data": {"y": "3"}})).await;
        let (code, status) = apply(&client, &uri, "kubectl", map(json!({"x": "2", "y": "2"}))).await;
        assert_eq!(code, 409, "{status}");
        let fields: Vec<&Value> = status["details"]["causes"].as_array().unwrap().iter().map(|c| &c["field"]).collect();
        assert_eq!(fields, [".data.y"], "what the annotation allows is not a conflict");

        let applied = map(json!({"x": "<2>"}));
        let (code, taken) = apply(&client, &uri, "kubectl", applied.clone()).await;
        assert_eq!((code, &taken["data"]), (200, &json!({"x": "<2>", "y": "3"})), "{taken}");
        assert_eq!(owned(&taken, "kubectl", "Apply"), json!({"f:data": {"f:x": {}}}));
        assert_eq!(owned(&taken, "kubectl-client-side-apply", "Update")["f:data"], json!({}));
        // The annotation holds the configuration of this apply, as Go encodes it.
        let reported = taken["metadata"]["annotations"][LAST_APPLIED].as_str().unwrap();
        assert!(reported.ends_with("}\n") && reported.contains("\\u003c2\\u003e"), "{reported}");
        assert_eq!(serde_json::from_str::<Value>(reported).unwrap(), applied);
    });
}

#[test]
fn managers_that_a_client_writes_count_but_not_on_creation() {
    in_simulation_with(tracked(), |client| async move {
        let uri = format!("{CONFIGS}/a");
        let entry = |manager: &str, operation: &str, key: &str| {
            json!({"manager": manager, "operation": operation, "apiVersion": "v1", "time": "2020-01-01T00:00:00Z",
                "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {key: {}}}})
        };
        let mut object = map(json!({"x": "1", "y": "1"}));
        object["metadata"]["managedFields"] = json!([entry("made-up", "Apply", "f:x")]);
        let (code, made) = client.post(&format!("{CONFIGS}?fieldManager=me"), object.clone()).await;
        assert_eq!(code, 201, "{made}");
        assert_eq!(owned(&made, "made-up", "Apply"), Value::Null);
        assert_eq!(owned(&made, "me", "Update"), json!({"f:data": {".": {}, "f:x": {}, "f:y": {}}}));

        let (code, put) = client.put(&format!("{uri}?fieldManager=me"), object.clone()).await;
        assert_eq!(code, 200, "{put}");
        assert_eq!(put["metadata"]["managedFields"], json!([entry("made-up", "Apply", "f:x")]));
        // Fields that the same write changes go to its writer.
        let patch = json!({"metadata": {"managedFields": [entry("a", "Apply", "f:x"), entry("b", "Update", "f:y")]}, "data": {"y": "2"}});
        let (code, patched) = client.merge(&format!("{uri}?fieldManager=me"), patch).await;
        assert_eq!(code, 200, "{patched}");
        assert_eq!(owned(&patched, "a", "Apply"), json!({"f:data": {"f:x": {}}}));
        assert_eq!(owned(&patched, "b", "Update"), Value::Null);
        assert_eq!(owned(&patched, "me", "Update"), json!({"f:data": {"f:y": {}}}));
        // Invalid entries leave the managers unchanged.
        let (_, same) =
            client.merge(&uri, json!({"metadata": {"managedFields": [{"manager": "a", "operation": "Steal"}]}})).await;
        assert_eq!(same["metadata"]["managedFields"], patched["metadata"]["managedFields"]);
    });
}

#[test]
fn an_update_owns_new_maps_and_lists() {
    in_simulation_with(tracked(), |client| async move {
        let mut pod = pod("p");
        pod["metadata"]["labels"] = json!({"l": "1"});
        pod["spec"] = json!({"containers": [{"name": "c", "image": "i", "env": [{"name": "A", "value": "1"}]}]});
        let (code, made) = client.post(&format!("{PODS}?fieldManager=me"), pod).await;
        assert_eq!(code, 201, "{made}");
        let mine = owned(&made, "me", "Update");
        assert_eq!(mine["f:metadata"], json!({"f:labels": {".": {}, "f:l": {}}}));
        // Go's empty structs exist before the write, so they are not new; the elements of lists are.
        assert_eq!(mine["f:spec"].get("."), None, "{mine}");
        let container = &mine["f:spec"]["f:containers"]["k:{\"name\":\"c\"}"];
        assert_eq!(container["."], json!({}));
        let env = json!({".": {}, "k:{\"name\":\"A\"}": {".": {}, "f:name": {}, "f:value": {}}});
        assert_eq!((&container["f:env"], &container["f:resources"]), (&env, &json!({})));
        let (_, annotated) =
            client.merge(&format!("{PODS}/p?fieldManager=two"), json!({"metadata": {"annotations": {"n": "1"}}})).await;
        assert_eq!(owned(&annotated, "two", "Update"), json!({"f:metadata": {"f:annotations": {".": {}, "f:n": {}}}}));
        // A removed field has no manager.
        let (_, gone) =
            client.merge(&format!("{PODS}/p?fieldManager=three"), json!({"metadata": {"annotations": null}})).await;
        assert_eq!(owned(&gone, "two", "Update"), Value::Null, "{gone}");
        assert_eq!(owned(&gone, "three", "Update"), Value::Null, "{gone}");
    });
}

#[test]
fn structs_that_are_one_value_have_one_owner() {
    in_simulation_with(tracked(), |client| async move {
        let event = json!({"metadata": {"name": "e"}, "reason": "R",
            "involvedObject": {"kind": "Pod", "name": "x", "namespace": "default"}, "source": {"component": "c"}});
        let made = client.post("/api/v1/namespaces/default/events?fieldManager=me", event).await.1;
        let fields = owned(&made, "me", "Update");
        assert_eq!(
            (&fields["f:involvedObject"], &fields["f:source"]),
            (&json!({}), &json!({"f:component": {}})),
            "{made}"
        );
        // claimRef is a reference, too, but its parts are separate fields.
        let volume = json!({"metadata": {"name": "v"}, "spec": {"capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}, "claimRef": {"name": "c", "namespace": "d"}}});
        let made = client.post("/api/v1/persistentvolumes?fieldManager=me", volume).await.1;
        let claim = &owned(&made, "me", "Update")["f:spec"]["f:claimRef"];
        assert_eq!(claim, &json!({".": {}, "f:name": {}, "f:namespace": {}}), "{made}");
        // The manager of a selector changes for the selector as a whole.
        let budget = |selector: Value| {
            json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {"name": "b"}, "spec": {"selector": selector}})
        };
        let uri = "/apis/policy/v1/namespaces/default/poddisruptionbudgets/b";
        assert_eq!(apply(&client, uri, "one", budget(json!({"matchLabels": {"a": "1"}}))).await.0, 201);
        let (code, refused) = apply(&client, uri, "two", budget(json!({"matchLabels": {"b": "2"}}))).await;
        assert_eq!(code, 409, "{refused}");
        assert_eq!(refused["details"]["causes"][0]["field"], ".spec.selector");
        let request = Request::patch(format!("{uri}?force=true&fieldManager=two"))
            .header("content-type", "application/apply-patch+yaml")
            .body(full(budget(json!({"matchLabels": {"b": "2"}})).to_string()))
            .unwrap();
        let (code, taken) = client.request(request).await;
        assert_eq!((code, &taken["spec"]["selector"]), (200, &json!({"matchLabels": {"b": "2"}})), "{taken}");
    });
}
