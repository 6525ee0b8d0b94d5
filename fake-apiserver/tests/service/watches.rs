use fake_apiserver::state::Limits;
use fake_apiserver::{Apiserver, Config};
use substrate::Seed;
use substrate::world::{Options, simulate};

use super::*;

#[test]
fn a_watch_by_node_or_name_hears_of_its_own_objects_only() {
    in_simulation(|client| async move {
        let mut node = client.watch("/api/v1/pods?watch=true&fieldSelector=spec.nodeName%3Dn").await;
        let mut name = client.watch(&format!("{PODS}?watch=true&fieldSelector=metadata.name=b")).await;
        let mut running = client.watch("/api/v1/pods?watch=true&fieldSelector=status.phase!%3DPending").await;
        for (pod_name, node_name) in [("a", "n"), ("b", "m")] {
            client.post(PODS, pod(pod_name)).await;
            client.post(&format!("{PODS}/{pod_name}/binding"), json!({"target": {"name": node_name}})).await;
        }
        client.merge(&format!("{PODS}/a/status"), json!({"status": {"phase": "Running"}})).await;
        assert_eq!(node.events_seen().await, ["ADDED a", "MODIFIED a"]);
        assert_eq!(name.events_seen().await, ["ADDED b", "MODIFIED b"]);
        assert_eq!(running.events_seen().await, ["ADDED a"]);
    });
}

#[test]
fn a_watch_resumes_at_its_revision() {
    in_simulation(|client| async move {
        let (_, list) = client.get(CONFIGS).await;
        client.post(CONFIGS, config("a")).await;
        client.post(CONFIGS, config("b")).await;
        let version = list["metadata"]["resourceVersion"].as_str().unwrap();
        let mut watch = client.watch(&format!("{CONFIGS}?watch=1&resourceVersion={version}")).await;
        assert_eq!(watch.events_seen().await, ["ADDED a", "ADDED b"]);
        client.delete(&format!("{CONFIGS}/a")).await;
        assert_eq!(watch.events_seen().await, ["DELETED a"]);
    });
}

#[test]
fn a_watch_ends_cleanly_when_its_time_is_over_after_a_last_bookmark() {
    in_simulation(|client| async move {
        let uri = format!("{CONFIGS}?watch=1&timeoutSeconds=30&allowWatchBookmarks=true&resourceVersion=1");
        let mut watch = client.watch(&uri).await;
        let bookmark = watch.next_within(Duration::from_secs(28)).await.unwrap();
        assert_eq!(bookmark["type"], "BOOKMARK");
        let before = client.ctx.now().mono;
        assert_eq!(watch.next_within(Duration::from_secs(600)).await, None);
        assert_eq!(client.ctx.now().mono - before, Duration::from_secs(2));
    });
}

#[test]
fn a_watch_without_a_time_lives_half_an_hour_to_an_hour() {
    in_simulation(|client| async move {
        let mut watch = client.watch(&format!("{CONFIGS}?watch=1&resourceVersion=1")).await;
        assert_eq!(watch.next_within(Duration::from_secs(7200)).await, None);
        let lived = client.ctx.now().mono.as_secs();
        assert!((1800..3600).contains(&lived), "{lived}");
    });
}

#[test]
fn bookmarks_come_only_when_asked_for_and_never_before_an_event_they_cover() {
    in_simulation(|client| async move {
        let mut quiet = client.watch(&format!("{CONFIGS}?watch=1&resourceVersion=1")).await;
        let mut asked = client.watch(&format!("{CONFIGS}?watch=1&resourceVersion=1&allowWatchBookmarks=1")).await;
        tokio::time::sleep(Duration::from_secs(59)).await;
        let (_, created) = client.post(CONFIGS, config("a")).await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(quiet.events_seen().await, ["ADDED a"]);
        assert_eq!(asked.next().await.unwrap()["type"], "ADDED");
        let bookmark = asked.next().await.unwrap();
        assert_eq!(bookmark["object"]["metadata"]["resourceVersion"], created["metadata"]["resourceVersion"]);
        assert_eq!(bookmark["object"].as_object().unwrap().len(), 3);
    });
}

#[test]
fn an_expired_revision_is_one_error_event() {
    let config_of = |history| Config { limits: Limits { history, ..Limits::default() }, ..Config::default() };
    in_simulation_with(config_of(1), |client| async move {
        client.post(CONFIGS, config("a")).await;
        client.post(CONFIGS, config("b")).await;
        let mut watch = client.watch(&format!("{CONFIGS}?watch=1&resourceVersion=1")).await;
        assert_eq!(watch.code, 200);
        let error = watch.next().await.unwrap();
        assert_eq!((&error["type"], &error["object"]["code"]), (&json!("ERROR"), &json!(410)));
        assert_eq!(error["object"]["reason"], "Expired");
        assert_eq!(watch.next().await, None);
    });
}

#[test]
fn lists_go_back_five_minutes_and_little_longer() {
    in_simulation(|client| async move {
        for name in ["a", "b", "c"] {
            client.post(CONFIGS, config(name)).await;
        }
        let (_, page) = client.get(&format!("{CONFIGS}?limit=1")).await;
        let (token, version) = (page["metadata"]["continue"].clone(), page["metadata"]["resourceVersion"].clone());
        let (token, version) = (token.as_str().unwrap(), version.as_str().unwrap());
        client.post(CONFIGS, config("d")).await;
        let next = format!("{CONFIGS}?limit=1&continue={token}");
        let exact = format!("{CONFIGS}?resourceVersion={version}&resourceVersionMatch=Exact");
        tokio::time::sleep(Duration::from_secs(300)).await;
        assert_eq!((client.get(&next).await.0, client.get(&exact).await.0), (200, 200));
        tokio::time::sleep(Duration::from_secs(31)).await;
        let (code, status) = client.get(&next).await;
        assert_eq!((code, &status["reason"]), (410, &json!("Expired")));
        let message = status["message"].as_str().unwrap();
        assert!(
            message.starts_with("The provided continue parameter is too old to display a consistent list"),
            "{message}"
        );
        let token = status["metadata"]["continue"].as_str().unwrap();
        let (code, rest) = client.get(&format!("{CONFIGS}?continue={token}")).await;
        assert_eq!((code, rest["items"].as_array().unwrap().len()), (200, 3));
        let (code, status) = client.get(&exact).await;
        assert_eq!((code, &status["message"]), (410, &json!("The resourceVersion for the provided list is too old.")));
        // The window of watches is separate: the newest hundred events of a kind are kept at any age.
        let mut watch = client.watch(&format!("{CONFIGS}?watch=1&resourceVersion={version}")).await;
        assert_eq!(watch.events_seen().await, ["ADDED d"]);
        for i in 0..100 {
            client.merge(&format!("{CONFIGS}/a"), json!({"data": {"i": i.to_string()}})).await;
        }
        tokio::time::sleep(Duration::from_secs(80)).await;
        client.merge(&format!("{CONFIGS}/a"), json!({"data": {"i": "last"}})).await;
        let mut watch = client.watch(&format!("{CONFIGS}?watch=1&resourceVersion={version}")).await;
        let error = watch.next().await.unwrap();
        assert_eq!((&error["type"], &error["object"]["code"]), (&json!("ERROR"), &json!(410)));
        let message = error["object"]["message"].as_str().unwrap();
        assert!(message.starts_with(&format!("too old resource version: {version} (")), "{message}");
    });
}

#[test]
fn a_history_that_is_never_compacted_leads_back_to_the_beginning() {
    let limits = Limits { compaction: Duration::ZERO, ..Limits::default() };
    in_simulation_with(Config { limits, ..Config::default() }, |client| async move {
        let (_, list) = client.get(CONFIGS).await;
        let version = list["metadata"]["resourceVersion"].as_str().unwrap();
        client.post(CONFIGS, config("a")).await;
        tokio::time::sleep(Duration::from_secs(86_400)).await;
        let (code, list) = client.get(&format!("{CONFIGS}?resourceVersion={version}&resourceVersionMatch=Exact")).await;
        assert_eq!((code, list["items"].as_array().unwrap().len()), (200, 0));
    });
}

#[test]
fn bad_parameters_are_refused_before_the_stream() {
    in_simulation(|client| async move {
        for (query, code) in [
            ("resourceVersion=x", 400),
            ("timeoutSeconds=soon", 400),
            ("fieldSelector=spec.foo%3D1", 400),
            ("labelSelector=%3D", 400),
            ("sendInitialEvents=true", 422),
            ("resourceVersionMatch=Exact", 422),
        ] {
            let (found, status) = client.get(&format!("{PODS}?watch=true&{query}")).await;
            assert_eq!((found, &status["kind"]), (code, &json!("Status")), "{query}");
        }
    });
}

#[test]
fn a_revision_of_the_future_is_waited_for_three_seconds() {
    in_simulation(|client| async move {
        let (_, list) = client.get(CONFIGS).await;
        let next = list["metadata"]["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap() + 1;
        let (code, status) = client.get(&format!("{CONFIGS}?resourceVersion={next}")).await;
        assert_eq!((code, &status["details"]["causes"][0]["reason"]), (504, &json!("ResourceVersionTooLarge")));
        assert_eq!(client.ctx.now().mono, Duration::from_secs(3));
        let uri = format!("{CONFIGS}?resourceVersion={next}");
        let (list, _) = tokio::join!(client.get(&uri), async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            client.post(CONFIGS, config("a")).await
        });
        assert_eq!(list.0, 200);
        assert_eq!(client.ctx.now().mono, Duration::from_secs(4));
    });
}

#[test]
fn a_watcher_that_does_not_keep_up_is_closed_and_can_come_back() {
    in_simulation(|client| async move {
        let (_, list) = client.get(CONFIGS).await;
        let version = list["metadata"]["resourceVersion"].as_str().unwrap();
        let uri = format!("{CONFIGS}?watch=1&resourceVersion={version}");
        let mut watch = client.watch(&uri).await;
        for i in 0..1100 {
            client.post(CONFIGS, config(&format!("c{i}"))).await;
        }
        assert_eq!(watch.events_seen().await.len(), 1000);
        assert_eq!(watch.next_within(Duration::from_secs(3600)).await, None);
        assert_eq!(client.watch(&uri).await.events_seen().await.len(), 1100);
    });
}

#[test]
fn the_state_outlives_the_process_and_the_streams_do_not() {
    simulate(Options::default(), |world| async move {
        let apiserver = Apiserver::new(&Seed::root(1), Config::default());
        let first = client::serve(&world, &apiserver).await;
        first.post(CONFIGS, config("a")).await;
        first.process.crash();
        let second = client::serve(&world, &apiserver).await;
        assert_eq!(second.get(&format!("{CONFIGS}/a")).await.0, 200);
        assert_eq!(second.get("/admin/v1/state").await.1["watchers"], 0);
    });
}

#[test]
fn a_stream_that_is_dropped_leaves_the_hub() {
    in_simulation(|client| async move {
        let watch = client.watch(&format!("{PODS}?watch=1&fieldSelector=spec.nodeName=n")).await;
        assert_eq!(client.get("/admin/v1/state").await.1["watchers"], 1);
        drop(watch);
        assert_eq!(client.get("/admin/v1/state").await.1["watchers"], 0);
    });
}

#[test]
fn the_trace_has_every_commit_in_order() {
    in_simulation(|client| async move {
        client.post(CONFIGS, config("a")).await;
        client.merge(&format!("{CONFIGS}/a"), json!({"data": {"k": "w"}})).await;
        client.delete(&format!("{CONFIGS}/a")).await;
        let lines = client.world.trace().lines();
        let commits: Vec<_> = lines.iter().filter(|e| e.kind == "api.commit").collect();
        assert!(commits.windows(2).all(|pair| pair[0].fields["rv"].as_u64() < pair[1].fields["rv"].as_u64()));
        let last = &commits[commits.len() - 2];
        assert_eq!(
            substrate::json::to_value(&last.fields).unwrap(),
            json!({"verb": "patch", "resource": "configmaps", "object": "default/a", "rv": last.fields["rv"],
                "user": "test", "type": "MODIFIED"})
        );
    });
}

#[test]
fn many_watchers_get_batched_events_in_order() {
    let gather = Duration::from_millis(1);
    in_simulation_with(fake_apiserver::Config { gather, ..Default::default() }, |client| async move {
        let mut watches = Vec::new();
        for _ in 0..5 {
            watches.push(client.watch(&format!("{CONFIGS}?watch=1&labelSelector=suite=gather")).await);
        }
        let write = async |name: &str| {
            let body = json!({"metadata": {"name": name, "labels": {"suite": "gather"}}});
            assert_eq!(client.post(CONFIGS, body).await.0, 201);
        };
        write("a").await;
        assert_eq!(watches[0].events_seen().await, ["ADDED a"]);
        write("b").await;
        write("c").await;
        // Five watchers received the first event, so the next ones follow five milliseconds later.
        assert!(watches[0].next().await.is_none());
        tokio::time::sleep(Duration::from_millis(10)).await;
        assert_eq!(watches[0].events_seen().await, ["ADDED b", "ADDED c"]);
        assert_eq!(watches[1].next_within(Duration::from_millis(20)).await.unwrap()["object"]["metadata"]["name"], "a");
    });
}
