//! A server in front of another one: the other answers, and faults act in front.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fake_apiserver::events::Commit;
use fake_apiserver::state::EventType;
use fake_apiserver::{Apiserver, Config, Origin};
use http::{HeaderValue, Request};
use substrate::Seed;
use substrate::body::{Body, call};
use substrate::world::{Options, simulate};

use super::client::{Client, serve_as};
use super::*;

/// Runs `test` with a server in front and the origin behind it. Faults know requests at the origin by another caller.
fn in_front<F: Future<Output = ()>>(test: impl FnOnce(Client, Client) -> F) {
    in_front_of(|_| {}, test);
}

/// As [`in_front`]; `seen` gets each request to the origin, and may change it.
fn in_front_of<F: Future<Output = ()>>(
    seen: impl Fn(&mut Request<Body>) + Clone + Send + Sync + 'static,
    test: impl FnOnce(Client, Client) -> F,
) {
    simulate(Options::default(), |world| async move {
        let origin = serve_as(&world, "origin", &Apiserver::new(&Seed::root(1), Config::default())).await;
        let behind = origin.service();
        let dial = move |_: &substrate::Ctx| {
            let (behind, seen) = (behind.clone(), seen.clone());
            Ok(substrate::body::HttpService::new(move |mut request| {
                seen(&mut request);
                request.headers_mut().insert("user-agent", HeaderValue::from_static("front"));
                call(behind.clone(), request)
            }))
        };
        let config = Config { origin: Some(Origin::new(dial)), ..Config::default() };
        let front = serve_as(&world, "front", &Apiserver::new(&Seed::root(2), config)).await;
        // Until the front has listed all kinds.
        front.ctx.sleep(Duration::from_millis(1)).await;
        test(front, origin).await;
    });
}

async fn add(client: &Client, fault: Value) {
    let (code, answer) = client.post("/admin/v1/faults", fault).await;
    assert_eq!(code, 201, "{answer}");
}

/// Returns the commits of ConfigMaps of the namespace `default` that the front has recorded.
fn commits(front: &Client) -> Vec<(EventType, String, String, String)> {
    let events = front.world.trace().events();
    let own = events.iter().filter(|event| &*event.process == "front");
    let commits = own.filter_map(|event| event.get::<Commit>()).filter(|commit| commit.resource == "configmaps");
    let commits = commits.filter(|commit| commit.object.starts_with("default/"));
    commits.map(|c| (c.r#type, c.object.to_string(), c.user.to_string(), c.verb.to_string())).collect()
}

#[test]
fn the_origin_answers_and_its_commits_are_recorded_with_their_writers() {
    in_front(|front, origin| async move {
        assert_eq!(front.post(CONFIGS, config("a")).await.0, 201);
        let (code, object) = origin.get(&format!("{CONFIGS}/a")).await;
        assert_eq!((code, &object), (200, &front.get(&format!("{CONFIGS}/a")).await.1));
        let (_, drawn) = front.post(CONFIGS, json!({"metadata": {"generateName": "b-"}})).await;
        let drawn = drawn["metadata"]["name"].as_str().unwrap().to_owned();
        assert_eq!(front.merge(&format!("{CONFIGS}/a"), json!({"data": {"k": "new"}})).await.0, 200);
        assert_eq!(front.delete(&format!("{CONFIGS}/a")).await.0, 200);
        front.ctx.sleep(Duration::from_millis(1)).await;
        use EventType::{Added, Deleted, Modified};
        let commit = |of, name: &str, verb: &str| (of, format!("default/{name}"), "test".to_owned(), verb.to_owned());
        let seen = commits(&front);
        // The writer of a commit is the last one that is known when the commit is read, so it may be a later one.
        let named: Vec<_> = seen.iter().map(|(of, object, ..)| (*of, object.clone())).collect();
        let expected = [(Added, "a"), (Added, &*drawn), (Modified, "a"), (Deleted, "a")];
        assert_eq!(named, expected.map(|(of, name)| (of, format!("default/{name}"))));
        assert!(seen.contains(&commit(Added, &drawn, "create")), "{seen:?}");
        assert!(seen.contains(&commit(Deleted, "a", "delete")), "{seen:?}");
        // Documents and refusals are the origin's, too.
        assert_eq!(front.get("/version").await, origin.get("/version").await);
        assert_eq!(front.post(CONFIGS, json!({"metadata": {"name": "-"}})).await.0, 422);
    });
}

#[test]
fn faults_act_in_front_of_the_origin() {
    in_front(|front, origin| async move {
        let at = |op: &str| json!({"plane": "k8s", "op": op, "where": {"resource": "configmaps", "caller": "test"}});
        add(&front, json!({"name": "lost", "match": at("create"), "when": {"first": 1}, "effect": {"drop_reply": true}, "at": "after_effect"})).await;
        let request =
            Request::post(CONFIGS).header("user-agent", "test").body(substrate::body::full(config("a").to_string()));
        assert!(call(front.service(), request.unwrap()).await.is_err());
        assert_eq!(origin.get(&format!("{CONFIGS}/a")).await.0, 200, "it has had its effect");
        add(
            &front,
            json!({"name": "conflict", "match": at("patch"), "when": {"first": 1}, "effect": {"error": "Conflict"}}),
        )
        .await;
        let change = json!({"data": {"k": "new"}});
        assert_eq!(front.merge(&format!("{CONFIGS}/a"), change.clone()).await.0, 409);
        let (_, unchanged) = origin.get(&format!("{CONFIGS}/a")).await;
        assert_eq!(unchanged["data"]["k"], "v");
        assert_eq!(front.merge(&format!("{CONFIGS}/a"), change).await.0, 200);
        front.ctx.sleep(Duration::from_millis(1)).await;
        add(&front, json!({"name": "old", "match": at("list"), "when": {"first": 1}, "effect": {"stale_read": 1}}))
            .await;
        assert_eq!(front.get(CONFIGS).await.1["items"][0]["data"]["k"], "v");
        assert_eq!(front.get(CONFIGS).await.1["items"][0]["data"]["k"], "new");
    });
}

#[test]
fn faults_act_on_single_events_of_a_relayed_watch() {
    for (effect, expected) in [
        (json!({"watch": "drop"}), vec!["ADDED a"]),
        (json!({"watch": "gone"}), vec!["ADDED a", "ERROR"]),
        (json!({"watch": "stall"}), vec!["ADDED a"]),
        (json!({"watch": "gap"}), vec!["ADDED a", "ADDED c"]),
        (json!({"delay": "1h"}), vec!["ADDED a"]),
        (json!({"count": true}), vec!["ADDED a", "ADDED b", "ADDED c"]),
    ] {
        in_front(|front, _| async move {
            let at = json!({"plane": "k8s", "op": "watch-event", "where": {"object": "default/b", "caller": "test"}});
            add(&front, json!({"name": "bad", "match": at, "effect": effect})).await;
            let mut watch = front.watch_as(&format!("{CONFIGS}?watch=1"), "application/vnd.kubernetes.protobuf").await;
            for name in ["a", "b", "c"] {
                assert_eq!(front.post(CONFIGS, config(name)).await.0, 201);
            }
            assert_eq!(watch.events_seen().await, expected, "{effect}");
        });
    }
}

#[test]
fn objects_of_a_definition_are_followed_while_the_origin_serves_it() {
    in_front(|front, _| async move {
        let version = json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type":
            "object", "x-kubernetes-preserve-unknown-fields": true}}});
        let definition = json!({"metadata": {"name": "wishes.example.org"}, "spec": {"group": "example.org", "scope":
            "Namespaced", "names": {"plural": "wishes", "singular": "wish", "kind": "Wish"}, "versions": [version]}});
        let (code, answer) = front.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition).await;
        assert_eq!(code, 201, "{answer}");
        front.ctx.sleep(Duration::from_secs(1)).await;
        let wishes = "/apis/example.org/v1/namespaces/default/wishes";
        let wish = json!({"apiVersion": "example.org/v1", "kind": "Wish", "metadata": {"name": "a"}});
        let at = json!({"plane": "k8s", "op": "create", "where": {"resource": "wishes", "caller": "test"}});
        add(&front, json!({"name": "once", "match": at, "when": {"first": 1}, "effect": {"http": 503}})).await;
        assert_eq!(front.post(wishes, wish.clone()).await.0, 503);
        assert_eq!(front.post(wishes, wish).await.0, 201);
        front.ctx.sleep(Duration::from_secs(1)).await;
        let events = front.world.trace().events();
        let own = events.iter().filter(|event| &*event.process == "front").filter_map(|event| event.get::<Commit>());
        let wishes: Vec<_> = own.filter(|commit| commit.resource == "wishes").collect();
        assert_eq!(wishes.len(), 1);
        assert_eq!((&*wishes[0].object, wishes[0].group.as_deref()), ("default/a", Some("example.org")));
    });
}

#[test]
fn an_origin_that_refuses_a_watch_is_asked_again_after_a_pause() {
    let refused = Arc::new(AtomicUsize::new(0));
    let count = refused.clone();
    let refuse = move |request: &mut Request<Body>| {
        if request.uri().to_string().starts_with("/api/v1/configmaps?watch") {
            assert!(count.fetch_add(1, Ordering::Relaxed) < 100, "without a pause, no time passes");
            *request.uri_mut() = "/api/v1/configmaps?watch=1&resourceVersion=wrong".parse().unwrap();
        }
    };
    in_front_of(refuse, |front, _| async move {
        front.post(CONFIGS, config("a")).await;
        front.ctx.sleep(Duration::from_secs(2)).await;
        assert_eq!(commits(&front).len(), 1, "the lists show it");
    });
    let refused = refused.load(Ordering::Relaxed);
    assert!((5..=12).contains(&refused), "{refused}");
}
