use super::*;

#[test]
fn an_object_is_created_read_updated_and_deleted() {
    in_simulation(|client| async move {
        let (code, created) = client.post(CLAIMS, claim("data")).await;
        assert_eq!(code, 201);
        assert_eq!(created["metadata"]["creationTimestamp"], "2026-01-01T00:00:00Z");
        assert_eq!(created["metadata"]["finalizers"], json!(["kubernetes.io/pvc-protection"]));
        assert_eq!(created["status"]["phase"], "Pending");
        assert_eq!(client.get(&format!("{CLAIMS}/data")).await, (200, created.clone()));
        let mut changed = created.clone();
        changed["metadata"]["labels"] = json!({"a": "b"});
        let (code, updated) = client.put(&format!("{CLAIMS}/data"), changed.clone()).await;
        assert_eq!((code, &updated["metadata"]["labels"]["a"]), (200, &json!("b")));
        let (code, status) = client.put(&format!("{CLAIMS}/data"), changed).await;
        assert_eq!(
            (code, status["message"].as_str().unwrap()),
            (
                409,
                "Operation cannot be fulfilled on persistentvolumeclaims \"data\": the object has been modified; \
                   please apply your changes to the latest version and try again"
            )
        );
        let (code, deleting) = client.delete(&format!("{CLAIMS}/data")).await;
        assert_eq!((code, deleting["metadata"]["deletionTimestamp"].is_string()), (200, true));
        let (code, _) = client.merge(&format!("{CLAIMS}/data"), json!({"metadata": {"finalizers": null}})).await;
        assert_eq!(code, 200);
        let (code, status) = client.get(&format!("{CLAIMS}/data")).await;
        assert_eq!((code, status["message"].as_str().unwrap()), (404, "persistentvolumeclaims \"data\" not found"));
        assert_eq!(status["details"], json!({"name": "data", "kind": "persistentvolumeclaims"}));
    });
}

#[test]
fn a_watch_sends_existing_objects_and_changes() {
    in_simulation(|client| async move {
        client.post(PODS, pod("a")).await;
        let mut watch = client
            .watch(&format!(
                "{PODS}?watch=true&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
            ))
            .await;
        assert_eq!(watch.next().await.unwrap()["type"], "ADDED");
        let bookmark = watch.next().await.unwrap();
        assert_eq!(bookmark["type"], "BOOKMARK");
        assert_eq!(bookmark["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
        client.post(PODS, pod("b")).await;
        client.delete(&format!("{PODS}/a")).await;
        assert_eq!(watch.events_seen().await, ["ADDED b", "MODIFIED a", "DELETED a"]);
        let event = watch.next_within(Duration::from_secs(61)).await.unwrap();
        assert_eq!(event["type"], "BOOKMARK");
        assert_eq!(event["object"]["kind"], "Pod");
    });
}

#[test]
fn a_pod_is_bound_once() {
    in_simulation(|client| async move {
        client.post(PODS, pod("p")).await;
        let binding = json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}});
        let (code, status) = client.post(&format!("{PODS}/p/binding"), binding.clone()).await;
        assert_eq!((code, &status["status"]), (201, &json!("Success")));
        let (code, status) = client.post(&format!("{PODS}/p/binding"), binding).await;
        assert_eq!(
            (code, status["message"].as_str().unwrap()),
            (409, "Operation cannot be fulfilled on pods/binding \"p\": pod p is already assigned to node \"n\"")
        );
        let (_, pod) = client.get(&format!("{PODS}/p")).await;
        assert_eq!(pod["status"]["conditions"][0]["type"], "PodScheduled");
        assert_eq!(pod["metadata"]["generation"], 1);
    });
}

#[test]
fn a_bound_pod_is_given_its_grace_period() {
    in_simulation(|client| async move {
        client.post(PODS, pod("p")).await;
        client.post(&format!("{PODS}/p/binding"), json!({"target": {"name": "n"}})).await;
        let (code, deleting) = client.delete(&format!("{PODS}/p")).await;
        assert_eq!(code, 200);
        assert_eq!(deleting["metadata"]["deletionGracePeriodSeconds"], 30);
        assert_eq!(deleting["metadata"]["deletionTimestamp"], "2026-01-01T00:00:30Z");
        let wrong = json!({"gracePeriodSeconds": 0, "preconditions": {"uid": "other"}});
        assert_eq!(client.delete_with(&format!("{PODS}/p"), wrong).await.0, 409);
        let right = json!({"gracePeriodSeconds": 0, "preconditions": {"uid": deleting["metadata"]["uid"]}});
        assert_eq!(client.delete_with(&format!("{PODS}/p"), right).await.0, 200);
        assert_eq!(client.get(&format!("{PODS}/p")).await.0, 404);
    });
}

#[test]
fn requests_that_make_no_sense_get_a_status() {
    in_simulation(|client| async move {
        let (code, status) = client.post(PODS, json!({"metadata": {"name": 5}})).await;
        assert_eq!(code, 400);
        assert!(status["message"].as_str().unwrap().contains("metadata.name"), "{status}");
        let (code, status) = client.post(CLAIMS, json!({"metadata": {"name": "A"}})).await;
        assert_eq!((code, status["reason"].as_str().unwrap()), (422, "Invalid"));
        assert_eq!(status["details"]["causes"].as_array().unwrap().len(), 3, "{status}");
        let (code, _) = client.send(Method::POST, PODS, "application/cbor", Some(json!({}))).await;
        assert_eq!(code, 415);
        let (code, _) = client.send(Method::PATCH, &format!("{PODS}/p"), "application/apply-patch+cbor", None).await;
        assert_eq!(code, 415);
        let (code, status) = client.post("/api/v1/namespaces/none/pods", pod("p")).await;
        assert_eq!((code, status["message"].as_str().unwrap()), (404, "namespaces \"none\" not found"));
        let (code, status) = client.post(PODS, json!("text")).await;
        assert_eq!(code, 400, "{status}");
    });
}
