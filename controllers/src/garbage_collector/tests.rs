//! The graph and the decisions, without an API server.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use super::decide::{Decision, Owners, decide};
use super::graph::{Change, FOREGROUND, Graph, Misplaced, ORPHAN, Task};
use super::identity::Identity;
use crate::kube::metadata::{Metadata, Propagation};

fn owner(uid: &str, blocks: Option<bool>) -> OwnerReference {
    OwnerReference {
        api_version: "v1".into(),
        kind: "ConfigMap".into(),
        name: uid.into(),
        uid: uid.into(),
        block_owner_deletion: blocks,
        controller: None,
    }
}

fn object(uid: &str, owners: &[OwnerReference]) -> Metadata {
    Metadata {
        name: uid.into(),
        namespace: "default".into(),
        uid: uid.into(),
        resource_version: "1".into(),
        owner_references: owners.to_vec(),
        ..Metadata::default()
    }
}

fn deleting(object: &Metadata, finalizer: &str) -> Metadata {
    Metadata {
        deletion_timestamp: Some("2026-01-01T00:00:00Z".into()),
        finalizers: vec![finalizer.into()],
        ..object.clone()
    }
}

fn identity(uid: &str) -> Identity {
    Identity {
        kind: "ConfigMap".into(),
        api_version: "v1".into(),
        namespace: "default".into(),
        name: uid.into(),
        uid: uid.into(),
    }
}

fn add(graph: &mut Graph, object: &Metadata) -> Vec<Task> {
    graph.observe("v1", "ConfigMap", Change::Applied { old: None, new: object })
}

fn change(graph: &mut Graph, old: &Metadata, new: &Metadata) -> Vec<Task> {
    graph.observe("v1", "ConfigMap", Change::Applied { old: Some(old), new })
}

fn delete(uid: &str) -> Task {
    Task::Delete(uid.into())
}

#[test]
fn an_owner_that_no_watch_has_shown_is_asked_for() {
    let mut graph = Graph::default();
    assert_eq!(add(&mut graph, &object("b", &[owner("a", None)])), [delete("a")]);
    assert!(graph.node("a").is_some_and(|node| !node.is_observed));
    assert_eq!(graph.confirm_absent(&identity("a")), [delete("b")]);
    assert!(graph.node("a").is_none());
    assert!(graph.absent.has(&identity("a")));
}

#[test]
fn an_owner_that_goes_leaves_its_dependents_to_be_looked_at() {
    let mut graph = Graph::default();
    add(&mut graph, &object("a", &[]));
    assert_eq!(add(&mut graph, &object("b", &[owner("a", None)])), []);
    let gone = graph.observe("v1", "ConfigMap", Change::Deleted(&object("a", &[])));
    assert_eq!(gone, [delete("b")]);
}

#[test]
fn a_foreground_deletion_looks_at_the_dependents_and_waits_for_those_that_block() {
    let mut graph = Graph::default();
    let a = object("a", &[]);
    add(&mut graph, &a);
    add(&mut graph, &object("b", &[owner("a", Some(true))]));
    add(&mut graph, &object("c", &[owner("a", None)]));
    assert_eq!(change(&mut graph, &a, &deleting(&a, FOREGROUND)), [delete("b"), delete("c"), delete("a")]);
    let node = graph.node("a").expect("it is there");
    let blocking: Vec<&str> = graph.blocking_dependents(node).map(|one| one.identity.uid.as_str()).collect();
    assert_eq!(blocking, ["b"]);
    // The finalizer is handled once, not at each later change.
    let later = Metadata { resource_version: "9".into(), ..deleting(&a, FOREGROUND) };
    assert_eq!(change(&mut graph, &deleting(&a, FOREGROUND), &later), []);
    let gone = graph.observe("v1", "ConfigMap", Change::Deleted(&object("b", &[])));
    assert_eq!(gone, [delete("a")], "the owner may go now");
}

#[test]
fn an_orphaning_deletion_is_work_of_its_own() {
    let mut graph = Graph::default();
    let a = object("a", &[]);
    add(&mut graph, &a);
    assert_eq!(change(&mut graph, &a, &deleting(&a, ORPHAN)), [Task::Orphan("a".into())]);
}

#[test]
fn a_reference_that_no_longer_blocks_lets_its_owner_be_looked_at() {
    let mut graph = Graph::default();
    add(&mut graph, &object("a", &[]));
    let before = object("b", &[owner("a", Some(true))]);
    add(&mut graph, &before);
    let unblocked = object("b", &[owner("a", Some(false))]);
    assert_eq!(change(&mut graph, &before, &unblocked), [delete("a")]);
    assert_eq!(change(&mut graph, &unblocked, &object("b", &[])), [], "it did not block any more");
    assert!(graph.node("a").is_some_and(|node| node.dependents.is_empty()));
}

#[test]
fn an_owner_of_another_namespace_is_reported_whichever_is_seen_first() {
    let elsewhere = Metadata { namespace: "other".into(), ..object("a", &[]) };
    let dependent = object("b", &[owner("a", None)]);
    let report = Task::ReportNamespace(Box::new(Misplaced { dependent: identity("b"), owner: identity("a") }));
    let mut graph = Graph::default();
    add(&mut graph, &elsewhere);
    assert_eq!(add(&mut graph, &dependent), [report.clone(), delete("b")]);
    let mut graph = Graph::default();
    assert_eq!(add(&mut graph, &dependent), [delete("a")]);
    assert_eq!(add(&mut graph, &elsewhere), [report, delete("b")]);
}

#[test]
fn dependents_that_disagree_on_an_absent_owner_are_separated() {
    let mut graph = Graph::default();
    add(&mut graph, &object("b", &[owner("a", None)]));
    let renamed = OwnerReference { name: "z".into(), ..owner("a", None) };
    assert_eq!(add(&mut graph, &object("c", &[renamed])), [delete("c")]);
    let tasks = graph.confirm_absent(&identity("a"));
    assert_eq!(tasks, [Task::DeleteLater("a".into()), delete("b")]);
    let next = graph.node("a").expect("it is asked for by its other name").identity.clone();
    assert_eq!(next, Identity { name: "z".into(), ..identity("a") });
    assert_eq!(graph.confirm_absent(&next), [Task::DeleteLater("a".into()), delete("c")]);
}

#[test]
fn a_virtual_deletion_does_not_remove_an_object_that_a_watch_has_shown() {
    let mut graph = Graph::default();
    add(&mut graph, &object("a", &[]));
    assert_eq!(graph.confirm_absent(&Identity { name: "z".into(), ..identity("a") }), []);
    assert!(graph.node("a").is_some());
    assert_eq!(graph.confirm_absent(&identity("a")), []);
    assert!(graph.node("a").is_none());
}

#[test]
fn decisions_are_upstreams() {
    let plain = object("b", &[]);
    let some = || vec!["x".to_owned()];
    let background = Decision::Delete { propagation: Propagation::Background, unblocks: false };
    let cases = [
        (Owners { solid: some(), ..Owners::default() }, &[][..], Decision::Keep),
        (Owners { solid: some(), dangling: some(), ..Owners::default() }, &[], Decision::Release),
        (Owners { solid: some(), waiting: some(), ..Owners::default() }, &[true], Decision::Release),
        (Owners { dangling: some(), ..Owners::default() }, &[true], background),
        (Owners { waiting: some(), ..Owners::default() }, &[], background),
        (
            Owners { waiting: some(), ..Owners::default() },
            &[false],
            Decision::Delete { propagation: Propagation::Foreground, unblocks: false },
        ),
        (
            Owners { waiting: some(), ..Owners::default() },
            &[false, true],
            Decision::Delete { propagation: Propagation::Foreground, unblocks: true },
        ),
    ];
    for (owners, dependents, expected) in cases {
        assert_eq!(decide(&plain, &owners, dependents), expected, "{owners:?} {dependents:?}");
    }
    let dangling = Owners { dangling: some(), ..Owners::default() };
    for (finalizer, propagation) in [(ORPHAN, Propagation::Orphan), (FOREGROUND, Propagation::Foreground)] {
        let object = Metadata { finalizers: vec![finalizer.into()], ..plain.clone() };
        assert_eq!(decide(&object, &dangling, &[]), Decision::Delete { propagation, unblocks: false });
    }
}
