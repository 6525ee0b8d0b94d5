use super::*;

#[test]
fn faults_are_added_listed_and_ended() {
    in_simulation(|client| async move {
        let fault = json!({"name": "f", "match": {"plane": "k8s"}, "effect": {"http": 503}, "when": {"nth": 99}});
        assert_eq!(client.post("/admin/v1/faults", fault.clone()).await.0, 201);
        let (code, error) = client.post("/admin/v1/faults", fault).await;
        assert_eq!(code, 400);
        assert!(error["error"].as_str().unwrap().starts_with("name"), "{error}");
        assert_eq!(client.get("/admin/v1/faults").await.1["faults"].as_array().unwrap().len(), 1);
        assert_eq!(client.delete("/admin/v1/faults/g").await.0, 404);
        assert_eq!(client.delete("/admin/v1/faults/f").await.1["hits"], 0);
        assert_eq!(client.delete("/admin/v1/faults").await.1, json!({"faults": []}));
    });
}

#[test]
fn a_fault_of_another_server_is_refused() {
    in_simulation(|client| async move {
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
    in_simulation(|client| async move {
        client.post(CONFIGS, config("a")).await;
        let (_, list) = client.get(CONFIGS).await;
        let mut watch = client.watch(&format!("{CONFIGS}?watch=1&resourceVersion=1")).await;
        assert_eq!(client.post("/admin/v1/reset", json!({})).await.0, 200);
        assert_eq!(watch.events_seen().await, ["ADDED a"]);
        assert_eq!(watch.next_within(Duration::from_secs(3600)).await, None);
        assert_eq!(client.get(&format!("{CONFIGS}/a")).await.0, 404);
        assert_eq!(client.get("/api/v1/namespaces/default").await.0, 200);
        let version = list["metadata"]["resourceVersion"].as_str().unwrap();
        let mut old = client.watch(&format!("{CONFIGS}?watch=1&resourceVersion={version}")).await;
        assert_eq!(old.events_seen().await, ["ERROR"]);
    });
}

#[test]
fn the_state_can_be_read_and_the_history_compacted() {
    in_simulation(|client| async move {
        client.post(CONFIGS, config("a")).await;
        let (_, state) = client.get("/admin/v1/state").await;
        assert_eq!(state["resources"]["configmaps"][0]["data"]["k"], "v");
        assert_eq!(client.post("/admin/v1/compact", json!({})).await.1["revision"], state["revision"]);
        assert_eq!(client.watch(&format!("{CONFIGS}?watch=1&resourceVersion=1")).await.events_seen().await, ["ERROR"]);
    });
}

#[test]
fn a_saved_state_makes_a_cluster_and_an_earlier_revision_a_fork() {
    let (saved, earlier) = in_simulation(|client| async move {
        let definition = json!({"metadata": {"name": "backups.example.com"}, "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"plural": "backups", "kind": "Backup"}, "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}});
        client.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition).await;
        client.post(CONFIGS, config("a")).await;
        let at = client.get("/admin/v1/state").await.1["revision"].clone();
        let backups = "/apis/example.com/v1/namespaces/default/backups";
        assert_eq!(client.post(backups, json!({"metadata": {"name": "b"}, "size": 1})).await.0, 201);
        client.delete(&format!("{CONFIGS}/a")).await;
        let saved = client.get("/admin/v1/state").await.1;
        (saved, client.get(&format!("/admin/v1/state?revision={at}")).await.1)
    });
    in_simulation(|client| async move {
        let mut watch = client.watch(&format!("{CONFIGS}?watch=1")).await;
        let (code, loaded) = client.put("/admin/v1/state", saved.clone()).await;
        assert_eq!(code, 200, "{loaded}");
        assert_eq!(watch.next_within(Duration::from_secs(3600)).await, None);
        let backup = client.get("/apis/example.com/v1/namespaces/default/backups/b").await.1;
        assert_eq!(
            (&backup["size"], &backup["metadata"]["uid"]),
            (&json!(1), &saved["resources"]["backups.example.com"][0]["metadata"]["uid"])
        );
        assert_eq!(client.get(&format!("{CONFIGS}/a")).await.0, 404);
        // The earlier state is restored.
        assert_eq!(client.put("/admin/v1/state", earlier).await.0, 200);
        assert_eq!(client.get(&format!("{CONFIGS}/a")).await.0, 200);
        assert_eq!(client.get("/apis/example.com/v1/namespaces/default/backups/b").await.0, 404);
        for (bad, wanted) in [
            (json!({}), "resources: must be a map"),
            (json!({"resources": {"widgets": [{}]}}), "widgets: is not a resource"),
            (
                json!({"resources": {"pods": [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}]}}),
                "metadata.namespace",
            ),
        ] {
            let (code, message) = client.put("/admin/v1/state", bad).await;
            assert!(code == 400 && message["error"].as_str().unwrap().contains(wanted), "{message}");
        }
        assert_eq!(client.get(&format!("{CONFIGS}/a")).await.0, 200);
    });
}
