//! Custom kinds belong to their store: a run does not depend on earlier runs in the same OS process.

use std::process::Command;
use std::sync::Arc;

use fake_apiserver::kinds::KindRef;
use fake_apiserver::state::{Limits, Store};
use substrate::{Now, Seed};

use super::*;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// Environment variable that marks the child process, which prints its trace.
const CHILD: &str = "FAKE_APISERVER_PRINTS_ITS_TRACE";

fn definition(plural: &str, kind: &str) -> Value {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let version = |name: &str, storage: bool| json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": schema.clone()}});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.example.com")}, "spec": {"group": "example.com", "scope": "Namespaced",
        "names": {"plural": plural, "kind": kind}, "versions": [version("v1", true), version("v2", false)]}})
}

/// Returns the trace of a run that defines `kinds` in this order, creates an object of each and watches them.
fn run(kinds: &[(&str, &str)]) -> String {
    let kinds: Vec<(String, String)> = kinds.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
    in_simulation(|client| async move {
        for (plural, kind) in &kinds {
            assert_eq!(client.post(DEFINITIONS, definition(plural, kind)).await.0, 201);
            let objects = format!("/apis/example.com/v2/namespaces/default/{plural}");
            let mut watch = client.watch(&format!("{objects}?watch=1")).await;
            assert_eq!(client.post(&objects, json!({"metadata": {"name": "x"}})).await.0, 201);
            assert_eq!(watch.events_seen().await, ["ADDED x"]);
        }
        client.delete(&format!("{DEFINITIONS}/{}.example.com", kinds[0].0)).await;
        let lines: Vec<String> = client.world.trace().lines().iter().map(|line| line.text()).collect();
        lines.join("\n")
    })
}

const ONE: &[(&str, &str)] = &[("anchors", "Anchor"), ("buoys", "Buoy")];
const OTHER: &[(&str, &str)] = &[("buoys", "Buoy"), ("cleats", "Cleat"), ("anchors", "Anchor")];

#[test]
fn a_run_with_definitions_is_the_same_whatever_ran_before_it() {
    if std::env::var_os(CHILD).is_some() {
        println!("BEGIN\n{}\nEND", run(ONE));
        return;
    }
    let first = run(ONE);
    run(OTHER);
    assert_eq!(run(ONE), first);
    let name = "kinds::a_run_with_definitions_is_the_same_whatever_ran_before_it";
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(CHILD, "1")
        .output()
        .unwrap();
    let printed = String::from_utf8(child.stdout).unwrap();
    let fresh = printed.split_once("BEGIN\n").unwrap().1.split_once("\nEND").unwrap().0;
    assert_eq!(fresh, first);
}

fn store(definitions: &[(&str, &str)]) -> Store {
    let mut store = Store::new(&Seed::root(1), Limits::default());
    let now = Now { mono: Duration::ZERO, wall: "2026-01-01T00:00:00Z".parse().unwrap() };
    store.bootstrap(now);
    let objects: Vec<Value> = definitions.iter().map(|(plural, kind)| definition(plural, kind)).collect();
    let saved = json!({"customresourcedefinitions.apiextensions.k8s.io": objects});
    store.load(now, &saved).unwrap();
    store
}

/// If kinds belonged to the process, the second store would have other positions.
#[test]
fn places_of_kinds_are_those_of_a_first_store_and_kinds_go_with_the_last_who_has_them() {
    let kind = |store: &Store, plural: &str| store.find_kind("example.com", "v1", plural).unwrap();
    let first = kind(&store(&[("anchors", "Anchor")]), "anchors").index;
    let other = store(OTHER);
    assert_eq!((kind(&other, "buoys").index, kind(&other, "anchors").index), (first, first + 2));
    drop(other);
    let again = store(&[("buoys", "Buoy")]);
    let KindRef::Custom(held) = kind(&again, "buoys") else { panic!("it is a custom kind") };
    assert_eq!(held.index, first);
    let watched = Arc::downgrade(&held);
    drop(held);
    assert!(watched.upgrade().is_some());
    drop(again);
    assert!(watched.upgrade().is_none(), "the store is gone, and its kinds with it");
}
