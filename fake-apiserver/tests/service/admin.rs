use super::*;

#[test]
fn faults_are_added_listed_and_ended() {
    story(|client| async move {
        let fault = json!({"name": "f", "match": {"plane": "k8s"}, "effect": {"http": 503}, "when": {"nth": 99}});
        assert_eq!(client.post("/admin/v1/faults", fault.clone()).await.0, 201);
        let (code, error) = client.post("/admin/v1/faults", fault).await;
        assert_eq!(code, 400);
        assert!(error["error"].as_str().unwrap().starts_with("name"), "{error}");
        assert_eq!(client.get("/admin/v1/faults").await.1.as_array().unwrap().len(), 1);
        assert_eq!(client.delete("/admin/v1/faults/g").await.0, 404);
        assert_eq!(client.delete("/admin/v1/faults/f").await.1["hits"], 0);
        assert_eq!(client.delete("/admin/v1/faults").await.1, json!([]));
    });
}

#[test]
fn what_is_not_a_fault_of_this_server_is_refused() {
    story(|client| async move {
        for fault in [
            json!({"name": "f", "match": {"plane": "ec2"}, "effect": {"http": 503}}),
            json!({"name": "f", "match": {"plane": "k8s"}, "effect": {"explode": true}}),
            json!({"name": "f", "match": {"plane": "k8s", "who": "x"}, "effect": {"http": 503}}),
            json!({}),
        ] {
            assert_eq!(client.post("/admin/v1/faults", fault).await.0, 400);
        }
        let form = client.send(Method::POST, "/admin/v1/reset", "text/plain", Some(json!({}))).await;
        assert_eq!(form.0, 415);
        assert_eq!(client.get("/admin/v1/nothing").await.0, 404);
        assert_eq!(client.get("/admin/v1/reset").await.0, 405);
    });
}

#[test]
fn a_reset_wipes_the_state_and_ends_every_stream() {
    story(|client| async move {
        client.post(CONFIGS, config("a")).await;
        let (_, list) = client.get(CONFIGS).await;
        let mut watch = client.watch(&format!("{CONFIGS}?watch=1&resourceVersion=1")).await;
        assert_eq!(client.post("/admin/v1/reset", json!({})).await.0, 200);
        assert_eq!(watch.told().await, ["ADDED a"]);
        assert_eq!(watch.next_within(Duration::from_secs(3600)).await, None);
        assert_eq!(client.get(&format!("{CONFIGS}/a")).await.0, 404);
        assert_eq!(client.get("/api/v1/namespaces/default").await.0, 200);
        let version = list["metadata"]["resourceVersion"].as_str().unwrap();
        let mut old = client.watch(&format!("{CONFIGS}?watch=1&resourceVersion={version}")).await;
        assert_eq!(old.told().await, ["ERROR"]);
    });
}

#[test]
fn the_state_can_be_read_and_the_history_compacted() {
    story(|client| async move {
        client.post(CONFIGS, config("a")).await;
        let (_, state) = client.get("/admin/v1/state").await;
        assert_eq!(state["resources"]["configmaps"][0]["data"]["k"], "v");
        assert_eq!(client.post("/admin/v1/compact", json!({})).await.1["revision"], state["revision"]);
        assert_eq!(client.watch(&format!("{CONFIGS}?watch=1&resourceVersion=1")).await.told().await, ["ERROR"]);
    });
}
