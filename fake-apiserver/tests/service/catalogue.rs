//! Each row of the fault table: every accepted fault has the effect of its row.

use std::pin::pin;

use fake_apiserver::faults::OPERATIONS;
use substrate::body::{call, collect, empty, full};
use substrate::fault::catalogue::{Possible, Values};
use substrate::fault::{Kind, Moment, Operation};

use super::*;

/// Observed result of one operation.
#[derive(Debug, PartialEq)]
struct Seen {
    /// HTTP status; `None` if the connection broke or there was no answer.
    code: Option<u16>,
    /// The answer, or the error.
    answer: Value,
    /// Time of the answer.
    at: Duration,
    /// Objects a minute later.
    left: Vec<String>,
    hits: u64,
    /// The answer came as soon as the fault was removed.
    released: bool,
}

const LIST: &str = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";

/// Returns a request of the operation.
fn request(op: &str, version: &Value) -> http::Request<substrate::Body> {
    let one = format!("{CONFIGS}/a");
    let (method, uri, media, body) = match op {
        "get" => ("GET", one, "", None),
        "list" => ("GET", CONFIGS.to_owned(), "", None),
        "watch" => ("GET", format!("{CONFIGS}?{LIST}"), "", None),
        "watch-event" => ("GET", format!("{CONFIGS}?watch=1&resourceVersion=1"), "", None),
        "create" => ("POST", CONFIGS.to_owned(), "application/json", Some(config("b"))),
        "delete" => ("DELETE", one, "", None),
        "deletecollection" => ("DELETE", CONFIGS.to_owned(), "", None),
        _ => {
            let body = json!({"metadata": {"name": "a", "resourceVersion": version}, "data": {"k": "newer"}});
            let media = if op == "patch" { "application/merge-patch+json" } else { "application/json" };
            (if op == "patch" { "PATCH" } else { "PUT" }, one, media, Some(body))
        }
    };
    let request = http::Request::builder().method(method).uri(uri).header("content-type", media);
    request.header("user-agent", "test").body(body.map_or_else(empty, |b| full(b.to_string()))).unwrap()
}

/// Sends a request and reads its answer, or the lines of a stream for half a minute.
async fn ask(client: &client::Client, op: &str, version: &Value) -> (Option<u16>, Value) {
    let response = match call(client.service(), request(op, version)).await {
        Ok(response) => response,
        Err(error) => return (None, error.to_string().into()),
    };
    let code = response.status().as_u16();
    if !op.starts_with("watch") || code != 200 {
        let bytes = collect(response.into_body(), 1 << 20).await.unwrap();
        return (Some(code), serde_json::from_slice(&bytes).unwrap());
    }
    let mut lines = client::Lines::of(response);
    let mut received = Vec::new();
    while let Some(line) = lines.next_within(Duration::from_secs(30)).await {
        received.push(line);
    }
    (Some(code), received.into())
}

fn see(op: &str, fault: Option<Value>) -> Seen {
    let op = op.to_owned();
    in_simulation(|client| async move {
        client.post(CONFIGS, config("a")).await;
        let version = client.merge(&format!("{CONFIGS}/a"), json!({"data": {"k": "new"}})).await.1;
        let version = version["metadata"]["resourceVersion"].clone();
        if let Some(fault) = fault {
            let (code, answer) = client.post("/admin/v1/faults", fault).await;
            assert_eq!(code, 201, "{answer}");
        }
        let mut asked = pin!(async {
            let answer = ask(&client, &op, &version).await;
            (answer, client.ctx.now().mono)
        });
        let limit = Duration::from_secs(100);
        let hits = async || client.get("/admin/v1/faults/f").await.1["hits"].as_u64().unwrap_or_default();
        let first = tokio::time::timeout(limit, &mut asked).await;
        let hit_count = hits().await;
        client.delete("/admin/v1/faults").await;
        let (answer, released) = match first {
            Ok(answer) => (Some(answer), false),
            Err(_) => {
                let later = tokio::time::timeout(limit, &mut asked).await.ok();
                (later, true)
            }
        };
        let (_, list) = client.get(CONFIGS).await;
        let one = |object: &Value| format!("{} {}", object["metadata"]["name"], object["data"]["k"]);
        let left = list["items"].as_array().unwrap().iter().map(one).collect();
        let ((code, mut answer), at) = answer.unwrap_or(((None, Value::Null), Duration::ZERO));
        // An object that was created later has another time.
        if let Some(metadata) = answer.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("creationTimestamp");
        }
        Seen { code, answer, at, left, hits: hit_count, released }
    })
}

/// Returns the values to try for an effect.
fn values(possible: &Possible) -> Vec<Value> {
    match possible.values {
        Values::Flag => vec![true.into()],
        Values::Span => vec!["7s".into()],
        Values::Number { least, .. } => vec![least.into()],
        Values::OneOf(words) => words.iter().map(|word| (*word).into()).collect(),
        Values::Process => vec!["self".into()],
        // There are no nodes here, so such a fault is refused.
        Values::Node => Vec::new(),
        other => panic!("values of {other:?} are not tried"),
    }
}

fn check(operation: &Operation, possible: &Possible, at: Moment, value: &Value, usual: &Seen) {
    let mut fault = json!({"name": "f", "match": {"plane": "k8s", "op": operation.name}, "at": at.name(),
        "when": {"nth": 1}, "effect": {}});
    fault["effect"][possible.effect.name()] = value.clone();
    let streams = operation.name == "watch-event";
    // The report of a fault ends with its lease.
    let leased = streams && possible.effect == Kind::Hang;
    if leased {
        fault["lease"] = json!({"ttl": "10s"});
    }
    let seen = see(operation.name, Some(fault));
    let row = format!("{} {} {} {value}: {seen:#?}", operation.name, at.name(), possible.effect.name());
    assert_eq!(seen.hits, u64::from(!leased), "{row}");
    let changes = operation.classes.contains(&"write");
    let is_done = !changes || seen.left == usual.left;
    let same = (seen.code, &seen.answer) == (usual.code, &usual.answer);
    match possible.effect {
        Kind::Count => assert!(same && seen.at == usual.at && is_done, "{row}"),
        Kind::Delay => assert!(same && seen.at == usual.at + Duration::from_secs(7), "{row}"),
        Kind::Hang if leased => assert!(same && seen.at == usual.at + Duration::from_secs(10), "{row}"),
        Kind::Hang => assert!(seen.released && seen.code == usual.code && is_done, "{row}"),
        Kind::Crash if streams => assert_eq!(seen.answer, json!([]), "{row}"),
        Kind::Crash => {
            assert!(seen.released && seen.code.is_none() && seen.answer.is_null(), "{row}");
            assert!(!changes || is_done == (at != Moment::Before), "{row}");
        }
        Kind::Error => {
            assert_eq!(seen.answer["reason"], *value, "{row}");
            assert!(!changes || is_done == (at != Moment::Before), "{row}");
        }
        Kind::Http => {
            assert_eq!(seen.code.map(Value::from), Some(value.clone()), "{row}");
            assert!(!changes || is_done == (at != Moment::Before), "{row}");
        }
        Kind::DropRequest | Kind::DropReply => {
            assert!(seen.code.is_none() && seen.answer.is_string(), "{row}");
            assert!(!changes || is_done == (possible.effect == Kind::DropReply), "{row}");
        }
        Kind::Watch | Kind::ResetStream | Kind::StallStream => {
            let (lines, all) = (seen.answer.as_array().unwrap(), usual.answer.as_array().unwrap());
            let gone = lines.last().is_some_and(|line| line["type"] == "ERROR" && line["object"]["code"] == 410);
            let expected = match value.as_str() {
                Some("gone") => gone && lines.len() == 1,
                Some("gap") => *lines == all[1..],
                _ => lines.is_empty(),
            };
            assert!(expected, "{row}");
        }
        // The answer differs only because it is stale or a second one.
        Kind::StaleRead | Kind::Duplicate => assert!(!same && is_done, "{row}"),
        other => panic!("{other:?} is not looked at: {row}"),
    }
}

#[test]
fn every_row_of_the_table_happens_as_it_says() {
    for operation in OPERATIONS {
        let usual = see(operation.name, None);
        for possible in operation.possible() {
            for at in possible.at {
                for value in values(&possible) {
                    check(operation, &possible, *at, &value, &usual);
                }
            }
        }
    }
}

#[test]
fn a_fault_outside_the_table_is_refused_with_field_and_near_word() {
    let refused = |matches: Value, effect: Value, at: &str, field: &'static str, nearest: Value| {
        let fault = json!({"name": "f", "match": matches, "effect": effect, "at": at});
        in_simulation(|client| async move {
            let (code, answer) = client.post("/admin/v1/faults", fault).await;
            assert_eq!((code, &answer["field"], &answer["nearest"]), (400, &json!(field), &nearest), "{answer}");
        });
    };
    let on = |op: &str| json!({"plane": "k8s", "op": op});
    refused(on("get"), json!({"stall_stream": true}), "before", "effect.stall_stream", Value::Null);
    refused(on("get"), json!({"error": "NotFond"}), "before", "effect.error", json!("NotFound"));
    refused(on("create"), json!({"drop_reply": true}), "before", "at", json!("after_effect"));
    refused(on("creat"), json!({"http": 503}), "before", "match.op", json!("create"));
    refused(on("get"), json!({"http": 200}), "before", "effect.http", Value::Null);
    refused(on("write"), json!({"stale_read": 1}), "before", "effect.stale_read", Value::Null);
    let agent = json!({"plane": "k8s", "where": {"useragent": "kubectl*"}});
    refused(agent, json!({"http": 503}), "before", "match.where.useragent", json!("userAgent"));
    let verb = json!({"plane": "k8s", "op": "get", "where": {"verb": "patch"}});
    refused(verb, json!({"http": 503}), "before", "match.where.verb", Value::Null);
}

#[test]
fn a_class_and_the_user_agent_choose_requests() {
    in_simulation(|client| async move {
        let fault = json!({"name": "f", "match": {"plane": "k8s", "op": "write", "where": {"userAgent": "te*"}},
            "effect": {"http": 503}});
        assert_eq!(client.post("/admin/v1/faults", fault).await.0, 201);
        assert_eq!(client.post(CONFIGS, config("a")).await.0, 503);
        assert_eq!(client.get(CONFIGS).await.0, 200);
    });
}

#[test]
fn a_fault_matches_a_create_by_object_name() {
    in_simulation(|client| async move {
        let add = |name: &str, object: &str, at: &str| {
            json!({"name": name, "match": {"plane": "k8s", "op": "create", "where": {"object": object}},
                "effect": {"http": 503}, "at": at})
        };
        let namespace = CONFIGS.split('/').nth(4).unwrap();
        for (name, object, at) in [("one", "a", "before"), ("some", "made-*", "before"), ("late", "c", "before_reply")]
        {
            let fault = add(name, &format!("{namespace}/{object}"), at);
            assert_eq!(client.post("/admin/v1/faults", fault).await.0, 201);
        }
        let mut generated = config("x");
        generated["metadata"] = json!({"generateName": "made-"});
        let codes = [config("a"), config("b"), config("c"), generated].map(|object| client.post(CONFIGS, object));
        let mut seen = Vec::new();
        for answer in codes {
            seen.push(answer.await.0);
        }
        assert_eq!(seen, [503, 201, 503, 503]);
        let there = async |name: &str| client.get(&format!("{CONFIGS}/{name}")).await.0;
        assert_eq!((there("a").await, there("b").await, there("c").await), (404, 200, 200));
        // A body that is too large or is not an object is refused as usual.
        assert_eq!(client.post(CONFIGS, json!(["none"])).await.0, 400);
    });
}
