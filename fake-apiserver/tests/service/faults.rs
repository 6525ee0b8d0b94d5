use super::*;

async fn add(client: &client::Client, fault: Value) {
    let (code, answer) = client.post("/admin/v1/faults", fault).await;
    assert_eq!(code, 201, "{answer}");
}

#[test]
fn an_operation_fails_as_the_fault_says_and_only_that_one() {
    in_simulation(|client| async move {
        add(
            &client,
            json!({"name": "storm", "match": {"plane": "k8s", "op": "create", "where": {"resource": "configmaps",
            "caller": "te*"}}, "when": {"first": 1}, "effect": {"http": 429}}),
        )
        .await;
        let (code, status) = client.post(CONFIGS, config("a")).await;
        assert_eq!(
            (code, &status["reason"], &status["details"]["retryAfterSeconds"]),
            (429, &json!("TooManyRequests"), &json!(1))
        );
        assert_eq!(client.get(&format!("{CONFIGS}/a")).await.0, 404);
        assert_eq!(client.post(CONFIGS, config("a")).await.0, 201);
        let (_, report) = client.get("/admin/v1/faults/storm").await;
        assert_eq!(report["hits"], 1);
    });
}

#[test]
fn a_lost_reply_is_a_broken_connection_after_the_effect() {
    in_simulation(|client| async move {
        add(
            &client,
            json!({"name": "lost", "match": {"plane": "k8s", "op": "create", "where": {"object": "default/*"}},
            "effect": {"drop_reply": true}, "at": "after_effect"}),
        )
        .await;
        let request = http::Request::post(CONFIGS).body(substrate::body::full(config("a").to_string())).unwrap();
        let error = substrate::body::call(client.service(), request).await.unwrap_err();
        assert_eq!(error.to_string(), "The connection was broken by fault lost");
        assert_eq!(client.get(&format!("{CONFIGS}/a")).await.0, 200);
    });
}

#[test]
fn a_delay_takes_its_time_and_a_named_error_its_code() {
    in_simulation(|client| async move {
        add(&client, json!({"name": "slow", "match": {"plane": "k8s", "op": "get"}, "effect": {"delay": "5s"}})).await;
        client.get(CLAIMS).await;
        assert_eq!(client.ctx.now().mono, Duration::ZERO);
        client.get(&format!("{CLAIMS}/c")).await;
        assert_eq!(client.ctx.now().mono, Duration::from_secs(5));
        add(
            &client,
            json!({"name": "conflict", "match": {"plane": "k8s", "op": "list"}, "effect": {"error": "Conflict"}}),
        )
        .await;
        assert_eq!(client.get(CLAIMS).await.0, 409);
    });
}

#[test]
fn a_stale_read_shows_the_past() {
    in_simulation(|client| async move {
        client.post(CONFIGS, config("a")).await;
        client.merge(&format!("{CONFIGS}/a"), json!({"data": {"k": "new"}})).await;
        add(&client, json!({"name": "old", "match": {"plane": "k8s"}, "effect": {"stale_read": 1}})).await;
        assert_eq!(client.get(&format!("{CONFIGS}/a")).await.1["data"]["k"], "v");
        assert_eq!(client.get(CONFIGS).await.1["items"][0]["data"]["k"], "v");
    });
}

#[test]
fn a_stream_breaks_expires_stalls_or_skips_at_the_event_that_is_named() {
    for (effect, expected) in [
        ("drop", vec!["ADDED a"]),
        ("gone", vec!["ADDED a", "ERROR"]),
        ("stall", vec!["ADDED a"]),
        ("gap", vec!["ADDED a", "ADDED c"]),
    ] {
        in_simulation(|client| async move {
            let mut watch = client.watch(&format!("{CONFIGS}?watch=1&resourceVersion=1")).await;
            add(
                &client,
                json!({"name": "f", "match": {"plane": "k8s", "op": "watch-event", "where": {"resource": "configmaps"}},
                "when": {"nth": 2}, "effect": {"watch": effect}}),
            )
            .await;
            for name in ["a", "b", "c"] {
                client.post(CONFIGS, config(name)).await;
            }
            assert_eq!(watch.events_seen().await, expected, "{effect}");
        });
    }
}

#[test]
fn a_fault_that_cannot_happen_here_says_so() {
    in_simulation(|client| async move {
        let odd = json!({"name": "odd", "match": {"plane": "k8s", "op": "get"}, "effect": {"torn_write": true}});
        let (code, answer) = client.post("/admin/v1/faults", odd).await;
        assert_eq!(code, 400);
        assert!(answer["error"].as_str().unwrap().starts_with("effect.torn_write: cannot happen"), "{answer}");
    });
}
