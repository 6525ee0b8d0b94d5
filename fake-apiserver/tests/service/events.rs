//! Trace events of the server: commits, with a summary for each kind, and watch events.

use parking_lot::Mutex;
use std::sync::Arc;

use fake_apiserver::events::{Commit, WatchClosed, WatchEventType, WatchOpened, WatchSent, WatchSpoiled};
use substrate::Event;

use super::*;

const NODES: &str = "/api/v1/nodes";

/// Returns the line of the last commit without its event number.
fn last(client: &client::Client) -> String {
    let lines = client.world.trace().lines();
    let commits: Vec<_> = lines.iter().filter(|line| line.kind == "api.commit").collect();
    let line = commits.last().unwrap();
    let mut fields = substrate::json::to_value(&line.fields).unwrap();
    for of in ["pod", "pvc"] {
        if let Some(state) = fields.get_mut(of).and_then(Value::as_object_mut) {
            assert!(state.remove("uid").is_some(), "uid of {of}");
        }
    }
    for changing in ["rv", "user", "verb"] {
        assert!(fields.as_object_mut().unwrap().remove(changing).is_some(), "{changing}");
    }
    fields.to_string()
}

#[test]
fn commits_say_how_far_storage_objects_are() {
    in_simulation(|client| async move {
        let mut bound = pod("p");
        bound["spec"]["nodeName"] = "n".into();
        client.post(PODS, bound).await;
        let tolerations = r#"[["node.kubernetes.io/not-ready",300],["node.kubernetes.io/unreachable",300]]"#;
        let pod = r#"{"claims":[],"node":"n","phase":"Pending"}"#;
        assert_eq!(
            last(&client),
            format!(
                r#"{{"object":"default/p","pod":{pod},"resource":"pods","spec":{{"tolerations":{tolerations}}},"type":"ADDED"}}"#
            )
        );
        client.delete(&format!("{PODS}/p")).await;
        assert!(last(&client).contains(r#""pod":{"claims":[],"deleting":true,"node":"n","phase":"Pending"}"#));

        client.post(CLAIMS, claim("c")).await;
        assert_eq!(
            last(&client),
            r#"{"object":"default/c","pvc":{"phase":"Pending"},"resource":"persistentvolumeclaims","spec":{"access_modes":["ReadWriteOnce"],"request":1073741824},"type":"ADDED"}"#
        );

        let volume = json!({"metadata": {"name": "v"}, "spec": {"capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"], "claimRef": {"namespace": "default", "name": "c"},
            "csi": {"driver": "d", "volumeHandle": "vol-1"}}});
        client.post("/api/v1/persistentvolumes", volume).await;
        assert!(last(&client).contains(r#""spec":{"capacity":1073741824}"#));
        assert!(last(&client).contains(
            r#""pv":{"access_modes":["ReadWriteOnce"],"claim":"default/c","handle":"vol-1","phase":"Pending","reclaim":"Retain"}"#
        ));

        // Requirements of a class: zones are read from the labels that upstream and the EBS driver use.
        let class = json!({"metadata": {"name": "fast"}, "provisioner": "d", "reclaimPolicy": "Retain",
            "parameters": {"type": "io2"}, "mountOptions": ["noatime"], "allowedTopologies": [
                {"matchLabelExpressions": [{"key": "topology.kubernetes.io/zone", "values": ["b", "a"]}]}]});
        client.post("/apis/storage.k8s.io/v1/storageclasses", class).await;
        assert!(last(&client).contains(
            r#""spec":{"mount_options":["noatime"],"parameters":{"type":"io2"},"reclaim":"Retain","zones":["a","b"]}"#
        ));

        let attachment = json!({"metadata": {"name": "a", "finalizers": ["x.io/y"]}, "spec": {"attacher": "d",
            "nodeName": "n", "source": {"persistentVolumeName": "v"}}});
        let attachments = "/apis/storage.k8s.io/v1/volumeattachments";
        client.post(attachments, attachment).await;
        assert!(last(&client).contains(r#""volumeattachment":{"attached":false,"node":"n","pv":"v"}"#));
        client.delete(&format!("{attachments}/a")).await;
        assert!(last(&client).contains(r#""volumeattachment":{"attached":false,"deleting":true,"node":"n","pv":"v"}"#));

        client.post(NODES, json!({"metadata": {"name": "n"}})).await;
        assert!(last(&client).contains(r#""node":{"taints":["node.kubernetes.io/not-ready:NoSchedule"]}"#));
        client.merge(&format!("{NODES}/n"), json!({"spec": {"taints": null}})).await;
        assert_eq!(last(&client), r#"{"object":"n","resource":"nodes","type":"MODIFIED"}"#);
        let taints = json!({"spec": {"taints": [{"key": "k", "value": "v", "effect": "NoExecute"}]}});
        client.merge(&format!("{NODES}/n"), taints).await;
        let status = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}],
            "volumesAttached": [{"name": "kubernetes.io/csi/d^vol-1", "devicePath": ""}],
            "volumesInUse": ["kubernetes.io/csi/d^vol-1"]}});
        assert_eq!(client.merge(&format!("{NODES}/n/status"), status).await.0, 200);
        assert_eq!(
            last(&client),
            r#"{"node":{"ready":"False","taints":["k:NoExecute"],"volumes_attached":["kubernetes.io/csi/d^vol-1"],"volumes_in_use":["kubernetes.io/csi/d^vol-1"]},"object":"n","resource":"nodes","type":"MODIFIED"}"#
        );
    });
}

/// Records the trace events about streams, in short form.
fn record(client: &client::Client) -> Arc<Mutex<Vec<String>>> {
    let recorded: Arc<Mutex<Vec<String>>> = Arc::default();
    let into = recorded.clone();
    client.world.trace().observe(move |event: &Event| {
        let line = if let Some(e) = event.get::<WatchOpened>() {
            assert_eq!((&*e.resource, &*e.caller), ("configmaps", "test"));
            let object = e.object.as_deref().unwrap_or("-");
            Some(format!("opened {} {object} from {} state={} filtered={}", e.stream, e.from_rv, e.initial, e.filtered))
        } else if let Some(e) = event.get::<WatchSent>() {
            let event_type =
                if e.r#type == WatchEventType::Bookmark { "bookmark".to_owned() } else { format!("{:?}", e.r#type) };
            let object = e.object.as_deref().unwrap_or("-");
            Some(format!("sent {} {event_type} {object} {} initial={}", e.stream, e.rv, e.initial))
        } else if let Some(e) = event.get::<WatchSpoiled>() {
            let object = e.object.as_deref().unwrap_or("-");
            Some(format!("spoiled {} {} {object} {:?}", e.stream, e.fault, e.rv))
        } else {
            event.get::<WatchClosed>().map(|e| format!("closed {}", e.stream))
        };
        into.lock().extend(line);
    });
    recorded
}

async fn revision(client: &client::Client) -> u64 {
    client.get("/admin/v1/state").await.1["revision"].as_u64().unwrap()
}

const LIST: &str = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";

#[test]
fn observers_hear_what_goes_out_on_a_stream_and_what_a_fault_keeps_from_it() {
    in_simulation(|client| async move {
        client.post(CONFIGS, config("a")).await;
        let at = revision(&client).await;
        let recorded = record(&client);
        let mut watch = client.watch(&format!("{CONFIGS}?{LIST}")).await;
        assert_eq!(watch.events_seen().await, ["ADDED a", "BOOKMARK"]);
        let fault = json!({"name": "hole", "match": {"plane": "k8s", "op": "watch-event"}, "when": {"nth": 1},
            "effect": {"watch": "gap"}});
        client.post("/admin/v1/faults", fault).await;
        client.post(CONFIGS, config("b")).await;
        client.post(CONFIGS, config("c")).await;
        assert_eq!(watch.events_seen().await, ["ADDED c"]);
        drop(watch);
        let (b, c) = (at + 1, at + 2);
        assert_eq!(
            *recorded.lock(),
            [
                format!("opened 1 - from {at} state=true filtered=false"),
                format!("sent 1 Added default/a {at} initial=true"),
                format!("sent 1 bookmark - {at} initial=true"),
                format!("spoiled 1 hole default/b Some({b})"),
                format!("sent 1 Added default/c {c} initial=false"),
                "closed 1".to_owned(),
            ]
        );
    });
}

#[test]
fn observers_hear_how_a_stream_is_selected_and_where_it_goes_on() {
    in_simulation(|client| async move {
        client.post(CONFIGS, config("a")).await;
        let at = revision(&client).await;
        client.post(CONFIGS, config("b")).await;
        let recorded = record(&client);
        drop(
            client
                .watch(&format!("{CONFIGS}?watch=1&resourceVersion={at}&fieldSelector=metadata.name=b"))
                .await
                .events_seen()
                .await,
        );
        drop(
            client
                .watch(&format!("{CONFIGS}?watch=1&resourceVersion={at}&labelSelector=x=y"))
                .await
                .events_seen()
                .await,
        );
        assert_eq!(
            *recorded.lock(),
            [
                format!("opened 1 b from {at} state=false filtered=false"),
                format!("sent 1 Added default/b {} initial=false", at + 1),
                "closed 1".to_owned(),
                format!("opened 2 - from {at} state=false filtered=true"),
                "closed 2".to_owned(),
            ]
        );
    });
}

#[test]
fn a_stale_list_begins_with_the_past_and_goes_on_to_the_present() {
    in_simulation(|client| async move {
        client.post(CONFIGS, config("a")).await;
        client.post(CONFIGS, config("b")).await;
        let at = revision(&client).await;
        client.delete(&format!("{CONFIGS}/a")).await;
        client.merge(&format!("{CONFIGS}/b"), json!({"data": {"k": "new"}})).await;
        let fault = json!({"name": "old", "match": {"plane": "k8s", "op": "watch"}, "effect": {"stale_read": 2}});
        client.post("/admin/v1/faults", fault).await;
        let recorded = record(&client);
        let mut watch = client.watch(&format!("{CONFIGS}?{LIST}")).await;
        client.post(CONFIGS, config("c")).await;
        assert_eq!(watch.events_seen().await, ["ADDED a", "ADDED b", "BOOKMARK", "DELETED a", "MODIFIED b", "ADDED c"]);
        assert_eq!(
            recorded.lock()[..2],
            [format!("opened 1 - from {at} state=true filtered=false"), "spoiled 1 old - None".to_owned()]
        );
        // Without a bookmark after the initial events, the stream catches up by itself.
        let mut plain = client.watch(&format!("{CONFIGS}?watch=1")).await;
        assert_eq!(plain.events_seen().await, ["ADDED b", "MODIFIED b", "ADDED c"]);
    });
}

#[test]
fn a_hang_ends_with_its_fault_and_with_its_lease() {
    in_simulation(|client| async move {
        let hang = |lease: Value| json!({"name": "f", "match": {"plane": "k8s", "op": "get"}, "effect": {"hang": true}, "lease": lease});
        client.post("/admin/v1/faults", hang(json!({}))).await;
        let (one, other) = (client.clone(), client.clone());
        let asked = async move { one.get(&format!("{CONFIGS}/a")).await.0 };
        let ended = async move {
            tokio::time::sleep(Duration::from_secs(60)).await;
            other.delete("/admin/v1/faults/f").await;
        };
        let (code, ()) = tokio::join!(asked, ended);
        assert_eq!((code, client.ctx.now().mono), (404, Duration::from_secs(60)));
        client.post("/admin/v1/faults", hang(json!({"ttl": "30s"}))).await;
        assert_eq!(client.get(&format!("{CONFIGS}/a")).await.0, 404);
        assert_eq!(client.ctx.now().mono, Duration::from_secs(90));
    });
}

#[test]
fn a_stream_concerns_commits_of_its_own_resource_namespace_and_name() {
    let definition = json!({"metadata": {"name": "configmaps.example.com"}, "spec": {"group": "example.com",
        "scope": "Namespaced", "names": {"plural": "configmaps", "kind": "Setting"}, "versions": [{"name": "v1",
        "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]}});
    in_simulation(|client| async move {
        let custom = "/apis/example.com/v1/namespaces/default/configmaps";
        client.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition).await;
        for uri in [
            format!("{CONFIGS}?watch=1&fieldSelector=metadata.name=a"),
            "/api/v1/configmaps?watch=1".to_owned(),
            "/api/v1/namespaces/other/configmaps?watch=1".to_owned(),
            format!("{custom}?watch=1"),
        ] {
            drop(client.watch(&uri).await);
        }
        assert_eq!(client.post(CONFIGS, config("a")).await.0, 201);
        assert_eq!(client.post(CONFIGS, config("b")).await.0, 201);
        assert_eq!(client.post(custom, json!({"metadata": {"name": "a"}})).await.0, 201);
        let events = client.world.trace().events();
        let streams: Vec<&WatchOpened> = events.iter().filter_map(|event| event.get()).collect();
        let commits = events.iter().filter_map(|event| event.get::<Commit>()).filter(|c| c.resource == "configmaps");
        let concerned: Vec<Vec<u64>> = commits
            .filter(|commit| commit.object.starts_with("default/"))
            .map(|commit| streams.iter().filter(|s| s.concerns(commit)).map(|s| s.stream).collect())
            .collect();
        assert_eq!(concerned, [vec![1, 2], vec![2], vec![4]]);
    });
}
