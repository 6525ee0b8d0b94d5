//! The state outlives the processes, for suites that stop and start the API server.

use substrate::json::{Value, json};

use crate::client::Client;
use crate::pair::Pair;

const CONFIGS: &str = "/api/v1/namespaces/default/configmaps";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";

fn definition() -> Value {
    json!({"metadata": {"name": "widgets.example.com"}, "spec": {
        "group": "example.com", "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
            "type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}}}}}]}})
}

fn revision(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

/// Creates objects of each relevant kind, and deletes one.
fn furnish(admin: &Client) -> Vec<(String, Value)> {
    let mut made = Vec::new();
    for name in ["a", "b"] {
        let object = admin.write("POST", CONFIGS, &json!({"metadata": {"name": name}, "data": {"k": name}}));
        made.push((format!("{CONFIGS}/{name}"), object));
    }
    let changed = admin.write("PATCH", &format!("{CONFIGS}/a"), &json!({"data": {"k": "changed"}}));
    made[0].1 = changed;
    admin.write("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition());
    let widget =
        json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"size": 3}});
    made.push((format!("{WIDGETS}/w"), admin.write("POST", WIDGETS, &widget)));
    let deleted = admin.send("DELETE", &format!("{CONFIGS}/b"), "");
    assert_eq!(deleted.status, 200);
    made.remove(1);
    made
}

/// Checks that all objects are unchanged, and that writes continue with the next revision.
fn check(admin: &Client, made: &[(String, Value)], newest: u64) -> u64 {
    for (path, object) in made {
        assert_eq!(admin.get(path).json(), *object, "{path}");
    }
    assert_eq!(admin.get(&format!("{CONFIGS}/b")).status, 404);
    let list = admin.get("/api/v1/namespaces").json();
    assert!(revision(&list) >= newest, "{list}");
    let next = admin.write("POST", CONFIGS, &json!({"metadata": {"generateName": "next-"}}));
    assert!(revision(&next) > newest, "{next}");
    // A watch from before the restart gets 410.
    let gone = admin.get(&format!("{CONFIGS}?watch=true&resourceVersion=1"));
    assert!(gone.body.contains("too old resource version"), "{gone:?}");
    revision(&next)
}

#[test]
fn a_restarted_api_server_goes_on_where_the_last_one_ended() {
    let mut pair = Pair::start();
    let made = furnish(&pair.admin());
    let mut newest = made.iter().map(|(_, object)| revision(object)).max().unwrap() + 1;
    // SIGTERM and kill -9 preserve the same state: every answered write.
    for signal in ["-TERM", "-KILL"] {
        pair.end_apiserver(signal);
        pair.apiserver = Some(pair.assets.start_apiserver(&[]));
        newest = check(&pair.admin(), &made, newest);
    }
    // Both processes end, and etcd starts with the same data directory.
    for signal in ["-TERM", "-KILL"] {
        pair.end_apiserver(signal);
        pair.end_etcd(signal);
        pair.etcd = Some(pair.assets.start_etcd());
        pair.apiserver = Some(pair.assets.start_apiserver(&[]));
        newest = check(&pair.admin(), &made, newest);
    }
}

#[test]
fn uids_of_two_starts_differ() {
    let mut pair = Pair::start();
    let uid = |pair: &Pair, name: &str| {
        pair.admin().write("POST", CONFIGS, &json!({"metadata": {"name": name}}))["metadata"]["uid"].clone()
    };
    let first = uid(&pair, "a");
    pair.end_apiserver("-TERM");
    pair.apiserver = Some(pair.assets.start_apiserver(&[]));
    assert_ne!(uid(&pair, "b"), first);
}

#[test]
fn many_writes_survive_kill_9_in_the_middle_of_them() {
    let mut pair = Pair::start();
    let admin = pair.admin();
    let writer = std::thread::spawn(move || {
        let mut answered = Vec::new();
        for number in 0..10_000 {
            let name = format!("c{number}");
            let body = json!({"metadata": {"name": name}}).to_string();
            let Ok(answer) = admin.open("POST", CONFIGS, &body) else { break };
            if answer.status != 201 {
                break;
            }
            answered.push(name);
        }
        answered
    });
    // Continues as soon as some objects exist.
    let watcher = pair.admin();
    pair.assets
        .wait_until(|| watcher.open("GET", &format!("{CONFIGS}/c20"), "").is_ok_and(|answer| answer.status == 200));
    pair.end_apiserver("-KILL");
    let answered = writer.join().unwrap();
    assert!(answered.len() > 20);
    pair.apiserver = Some(pair.assets.start_apiserver(&[]));
    let list = pair.admin().get(CONFIGS).json();
    let there: Vec<&str> =
        list["items"].as_array().unwrap().iter().filter_map(|item| item["metadata"]["name"].as_str()).collect();
    for name in &answered {
        assert!(there.contains(&name.as_str()), "{name} was answered and is lost");
    }
}

#[test]
fn a_reset_is_kept_too() {
    let mut pair = Pair::start();
    furnish(&pair.admin());
    assert_eq!(pair.admin().send("POST", "/admin/v1/reset", "{}").status, 200);
    pair.end_apiserver("-TERM");
    pair.apiserver = Some(pair.assets.start_apiserver(&[]));
    let admin = pair.admin();
    assert_eq!(admin.get(&format!("{CONFIGS}/a")).status, 404);
    assert_eq!(admin.get(WIDGETS).status, 404);
    assert_eq!(admin.get("/api/v1/namespaces/default").status, 200);
}
