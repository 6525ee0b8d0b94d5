//! Server-side apply: field managers, conflicts, and removal of fields that are no longer applied.

use http::Request;
use substrate::body::full;

use super::*;

async fn apply(client: &client::Client, uri: &str, manager: &str, force: bool, object: Value) -> (u16, Value) {
    let request = Request::patch(format!("{uri}?fieldManager={manager}&force={force}"))
        .header("content-type", "application/apply-patch+yaml")
        .header("user-agent", "test/1")
        .body(full(object.to_string()))
        .unwrap();
    client.request(request).await
}

fn map(data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data})
}

/// Returns manager, operation and fieldsV1 of every entry.
fn managers(object: &Value) -> Vec<(String, String, Value)> {
    let text = |v: &Value| v.as_str().unwrap().to_owned();
    let entries = object["metadata"]["managedFields"].as_array().unwrap();
    entries.iter().map(|e| (text(&e["manager"]), text(&e["operation"]), e["fieldsV1"].clone())).collect()
}

#[test]
fn apply_makes_changes_and_takes_away() {
    in_simulation(|client| async move {
        let uri = format!("{CONFIGS}/a");
        let (code, made) = apply(&client, &uri, "me", false, map(json!({"x": "1", "y": "2"}))).await;
        assert_eq!(code, 201, "{made}");
        let fields = json!({"f:data": {"f:x": {}, "f:y": {}}});
        assert_eq!(managers(&made), [("me".to_owned(), "Apply".to_owned(), fields)]);
        let (code, same) = apply(&client, &uri, "me", false, map(json!({"x": "1", "y": "2"}))).await;
        assert_eq!((code, same), (200, made.clone()), "nothing changed");
        let (_, changed) = apply(&client, &uri, "me", false, map(json!({"x": "3"}))).await;
        assert_eq!(changed["data"], json!({"x": "3"}));
        // A value with two managers stays until both release it.
        apply(&client, &uri, "other", false, map(json!({"x": "3", "z": "4"}))).await;
        let (_, kept) = apply(&client, &uri, "me", false, map(json!({}))).await;
        assert_eq!(kept["data"], json!({"x": "3", "z": "4"}));
    });
}

#[test]
fn fields_of_others_conflict_unless_they_are_taken_by_force() {
    in_simulation(|client| async move {
        let uri = format!("{CONFIGS}/a");
        apply(&client, &uri, "one", false, map(json!({"x": "1"}))).await;
        let (code, status) = apply(&client, &uri, "two", false, map(json!({"x": "2"}))).await;
        assert_eq!((code, &status["reason"]), (409, &json!("Conflict")));
        assert_eq!(status["message"], "Apply failed with 1 conflict: conflict with \"one\": .data.x");
        let cause = &status["details"]["causes"][0];
        assert_eq!((&cause["reason"], &cause["field"]), (&json!("FieldManagerConflict"), &json!(".data.x")));
        let (code, forced) = apply(&client, &uri, "two", true, map(json!({"x": "2"}))).await;
        assert_eq!((code, &forced["data"]["x"]), (200, &json!("2")));
        assert_eq!(managers(&forced).len(), 1, "{forced}");
    });
}

#[test]
fn other_writes_are_tracked_from_the_first_apply_on() {
    in_simulation(|client| async move {
        let uri = format!("{CONFIGS}/a");
        client.post(CONFIGS, json!({"metadata": {"name": "a"}, "data": {"x": "1", "y": "1"}})).await;
        assert!(client.get(&uri).await.1["metadata"].get("managedFields").is_none());
        let (code, status) = apply(&client, &uri, "me", false, map(json!({"x": "2"}))).await;
        assert_eq!(code, 409, "{status}");
        assert!(status["message"].as_str().unwrap().contains("conflict with \"before-first-apply\" using v1"));
        assert_eq!(apply(&client, &uri, "me", true, map(json!({"x": "2"}))).await.0, 200);
        let (_, merged) = client.merge(&uri, json!({"data": {"x": "3"}})).await;
        let found: Vec<String> = managers(&merged).iter().map(|(name, how, _)| format!("{name} {how}")).collect();
        assert_eq!(found, ["before-first-apply Update", "test Update"]);
        let (code, status) = apply(&client, &uri, "me", false, map(json!({"x": "4"}))).await;
        assert_eq!(code, 409, "{status}");
        // An empty entry ends the tracking.
        let (_, stripped) = client.merge(&uri, json!({"metadata": {"managedFields": [{}]}})).await;
        assert!(stripped["metadata"].get("managedFields").is_none(), "{stripped}");
    });
}

#[test]
fn elements_of_lists_are_managed_one_by_one() {
    in_simulation(|client| async move {
        let uri = format!("{PODS}/p");
        let object = |labels: Value, containers: Value| {
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": labels, "finalizers": ["a/b"]},
                "spec": {"containers": containers}})
        };
        let (code, made) =
            apply(&client, &uri, "me", false, object(json!({"l": "1"}), json!([{"name": "c", "image": "i"}]))).await;
        assert_eq!(code, 201, "{made}");
        assert_eq!(
            managers(&made)[0].2,
            json!({"f:metadata": {"f:labels": {"f:l": {}}, "f:finalizers": {"v:\"a/b\"": {}}},
                "f:spec": {"f:containers": {"k:{\"name\":\"c\"}": {".": {}, "f:name": {}, "f:image": {}}}}})
        );
        let (code, status) =
            apply(&client, &uri, "other", false, object(json!({}), json!([{"name": "c", "image": "j"}]))).await;
        assert_eq!(code, 409);
        assert_eq!(status["details"]["causes"][0]["field"], ".spec.containers[name=\"c\"].image");
        let (code, other) =
            apply(&client, &uri, "other", false, object(json!({"m": "2"}), json!([{"name": "c"}]))).await;
        assert_eq!((code, &other["metadata"]["labels"]), (200, &json!({"l": "1", "m": "2"})), "{other}");
        // An apply of the object does not write the status; an apply of `/status` does.
        let status =
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "status": {"phase": "Running"}});
        let (_, unchanged) = apply(&client, &uri, "kubelet", false, {
            let mut status = status.clone();
            status["spec"] = json!({"containers": [{"name": "c"}]});
            status
        })
        .await;
        assert_eq!(unchanged["status"]["phase"], "Pending");
        let (code, running) = apply(&client, &format!("{uri}/status"), "kubelet", true, status).await;
        assert_eq!((code, &running["status"]["phase"]), (200, &json!("Running")), "{running}");
        let entry = running["metadata"]["managedFields"].as_array().unwrap();
        assert!(entry.iter().any(|e| e["subresource"] == "status" && e["manager"] == "kubelet"), "{running}");
    });
}

#[test]
fn a_list_that_names_an_element_twice_is_no_configuration() {
    in_simulation(|client| async move {
        let mut pod = pod("p");
        (pod["apiVersion"], pod["kind"]) = ("v1".into(), "Pod".into());
        pod["spec"]["containers"][0]["env"] = json!([{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]);
        let uri = format!("{PODS}/p");
        let (code, status) = apply(&client, &uri, "me", false, pod.clone()).await;
        assert_eq!((code, &status["reason"]), (500, &Value::Null));
        let container = &pod["spec"]["containers"][0]["name"];
        let object = "failed to create typed patch object (default/p; /v1, Kind=Pod)";
        let place = format!(".spec.containers[name={container}].env");
        assert_eq!(status["message"], format!("{object}: {place}: duplicate entries for key [name=\"A\"]"));
        pod["metadata"]["finalizers"] = json!(["a.io/x", "a.io/x"]);
        let (_, status) = apply(&client, &uri, "me", false, pod).await;
        let both = format!(
            "errors:\n  .metadata.finalizers: duplicate entries for key [=\"a.io/x\"]\n  {place}: duplicate entries for \
             key [name=\"A\"]"
        );
        assert_eq!(status["message"], format!("{object}: {both}"));
    });
}

#[test]
fn configurations_that_make_no_sense_are_refused() {
    in_simulation(|client| async move {
        let uri = format!("{CONFIGS}/a");
        let bare = Request::patch(&uri)
            .header("content-type", "application/apply-patch+yaml")
            .body(full(map(json!({})).to_string()))
            .unwrap();
        assert_eq!(client.request(bare).await.0, 422);
        let mut managed = map(json!({}));
        managed["metadata"]["managedFields"] = json!([{"manager": "x"}]);
        assert_eq!(apply(&client, &uri, "me", false, managed).await.0, 400);
        assert_eq!(apply(&client, &uri, "me", false, json!("x")).await.0, 400);
        let mut other = map(json!({}));
        other["metadata"]["uid"] = json!("some");
        assert_eq!(apply(&client, &uri, "me", false, other).await.0, 409);
        assert_eq!(
            apply(
                &client,
                &format!("{PODS}/none/status"),
                "me",
                false,
                json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "none"}})
            )
            .await
            .0,
            404
        );
    });
}

#[test]
fn a_patch_of_the_managers_finds_a_list_of_them_on_every_object() {
    in_simulation(|client| async move {
        let uri = format!("{CONFIGS}/a");
        client.post(CONFIGS, config("a")).await;
        let patch = async |query: &str, operations: Value| {
            let uri = format!("{uri}{query}");
            client.send(Method::PATCH, &uri, "application/json-patch+json", Some(operations)).await
        };
        // kubectl sends this after an apply with --server-side --dry-run=server, with the managers from the dry run.
        let managers = json!([{"manager": "kubectl", "operation": "Apply", "apiVersion": "v1",
            "time": "2026-01-01T00:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {"f:k": {}}}}]);
        let replace = |value: &Value| json!([{"op": "replace", "path": "/metadata/managedFields", "value": value}]);
        let (code, answer) = patch("?dryRun=All", replace(&managers)).await;
        assert_eq!((code, &answer["metadata"]["managedFields"]), (200, &managers), "{answer}");
        assert_eq!(client.get(&uri).await.1["metadata"]["managedFields"], Value::Null);
        // This removes all managers.
        let (code, answer) = patch("", replace(&json!([{}]))).await;
        assert_eq!((code, &answer["metadata"]["managedFields"]), (200, &Value::Null), "{answer}");
    });
}
