use fake_apiserver::state::{Part::Main, Propagation};
use substrate::json::json;

use super::*;

fn grace(seconds: i64) -> DeleteOptions {
    DeleteOptions { grace_period_seconds: Some(seconds), ..DeleteOptions::default() }
}

/// Returns a machine with pod `p`, bound unless `node` is empty.
fn with_pod(node: &str) -> Machine {
    let mut m = Machine::new();
    m.create("pods", pod("p")).unwrap();
    if !node.is_empty() {
        let binding = json!({"target": {"name": node}});
        let (namespace, name) = ("default".to_owned(), "p".to_owned());
        m.apply(Command::Bind { namespace, name, binding, dry_run: false }).unwrap();
    }
    m.commits();
    m
}

#[test]
fn an_object_that_nothing_holds_goes_at_once() {
    let mut m = Machine::new();
    let object = m.create("configmaps", config("c")).unwrap();
    m.commits();
    let status = m.delete("configmaps", "c", DeleteOptions::default()).unwrap();
    assert_eq!(status["status"], "Success");
    assert_eq!(status["details"], json!({"name": "c", "kind": "configmaps", "uid": object["metadata"]["uid"]}));
    assert_eq!(m.commits(), ["DELETED configmaps/default/c"]);
    assert_eq!(m.delete("configmaps", "c", DeleteOptions::default()).unwrap_err().code, 404);
}

#[test]
fn a_finalizer_holds_an_object_until_it_is_taken_away() {
    let mut m = Machine::new();
    m.create("persistentvolumes", volume("v")).unwrap();
    m.commits();
    let object = m.delete("persistentvolumes", "v", DeleteOptions::default()).unwrap();
    assert_eq!(object["metadata"]["deletionGracePeriodSeconds"], 0);
    assert_eq!(m.delete("persistentvolumes", "v", DeleteOptions::default()).unwrap(), object);
    let added = json!({"metadata": {"finalizers": ["kubernetes.io/pv-protection", "a/b"]}});
    let status = m.patch("persistentvolumes", "v", Main, added).unwrap_err();
    assert!(status.message.contains("no new finalizers can be added if the object is being deleted"), "{status}");
    m.patch("persistentvolumes", "v", Main, json!({"metadata": {"finalizers": []}})).unwrap();
    assert_eq!(m.commits(), ["MODIFIED persistentvolumes/v", "DELETED persistentvolumes/v"]);
}

#[test]
fn a_deleted_event_carries_the_last_state_and_the_revision_of_the_deletion() {
    let mut m = Machine::new();
    m.create("persistentvolumes", volume("v")).unwrap();
    m.delete("persistentvolumes", "v", DeleteOptions::default()).unwrap();
    m.patch("persistentvolumes", "v", Main, json!({"metadata": {"finalizers": null}})).unwrap();
    let event = m.store.take_committed().pop().unwrap();
    let object = event.object(event.own_type()).unwrap();
    assert_eq!(object.value["metadata"]["resourceVersion"], event.revision.to_string());
    assert_eq!(object.value["metadata"]["finalizers"], json!(["kubernetes.io/pv-protection"]));
}

#[test]
fn the_grace_period_of_a_pod_depends_on_where_it_is() {
    for (node, options, expected) in [
        ("n", DeleteOptions::default(), Some(30)),
        ("n", grace(5), Some(5)),
        ("n", grace(-1), Some(1)),
        ("n", grace(0), None),
        ("", DeleteOptions::default(), None),
        ("", grace(5), None),
    ] {
        let mut m = with_pod(node);
        m.delete("pods", "p", options).unwrap();
        let left = m.get("pods", "p").map(|p| p["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap());
        assert_eq!(left, expected);
    }
}

#[test]
fn a_finished_pod_goes_at_once() {
    let mut m = with_pod("n");
    m.patch("pods", "p", Part::Status, json!({"status": {"phase": "Failed"}})).unwrap();
    m.commits();
    m.delete("pods", "p", DeleteOptions::default()).unwrap();
    assert_eq!(m.commits(), ["MODIFIED pods/default/p", "DELETED pods/default/p"]);
}

#[test]
fn a_running_deletion_can_only_be_shortened() {
    let mut m = with_pod("n");
    m.delete("pods", "p", grace(30)).unwrap();
    m.now = Duration::from_secs(10);
    let longer = m.delete("pods", "p", grace(60)).unwrap();
    assert_eq!(longer["metadata"]["deletionTimestamp"], "2026-01-01T00:00:30Z");
    let shorter = m.delete("pods", "p", grace(12)).unwrap();
    assert_eq!(shorter["metadata"]["deletionTimestamp"], "2026-01-01T00:00:12Z");
    assert_eq!(shorter["metadata"]["deletionGracePeriodSeconds"], 12);
    m.delete("pods", "p", grace(0)).unwrap();
    assert_eq!(m.get("pods", "p"), None);
}

#[test]
fn a_pod_with_a_finalizer_stays_after_its_grace_period() {
    let mut m = with_pod("n");
    m.patch("pods", "p", Main, json!({"metadata": {"finalizers": ["a/b"]}})).unwrap();
    m.delete("pods", "p", grace(0)).unwrap();
    assert!(m.get("pods", "p").is_some());
    m.patch("pods", "p", Main, json!({"metadata": {"finalizers": null}})).unwrap();
    assert_eq!(m.get("pods", "p"), None);
}

#[test]
fn a_terminating_pod_without_its_finalizer_stays_while_its_grace_runs() {
    let mut m = with_pod("n");
    m.patch("pods", "p", Main, json!({"metadata": {"finalizers": ["a/b"]}})).unwrap();
    m.delete("pods", "p", grace(30)).unwrap();
    m.patch("pods", "p", Main, json!({"metadata": {"finalizers": null}})).unwrap();
    assert!(m.get("pods", "p").is_some());
}

#[test]
fn preconditions_must_hold() {
    let mut m = Machine::new();
    m.create("volumeattachments", attachment("a")).unwrap();
    let uid = DeleteOptions { uid: Some("other".into()), ..DeleteOptions::default() };
    let status = m.delete("volumeattachments", "a", uid).unwrap_err();
    assert_eq!(status.code, 409);
    assert!(
        status.message.starts_with("Operation cannot be fulfilled on VolumeAttachment.storage.k8s.io \"a\": the UID")
    );
    let version = DeleteOptions { resource_version: Some("1".into()), ..DeleteOptions::default() };
    assert_eq!(m.delete("volumeattachments", "a", version).unwrap_err().code, 409);
}

#[test]
fn propagation_leaves_its_finalizer() {
    let mut m = Machine::new();
    for (name, propagation, expected) in [
        ("f", Propagation::Foreground, Some(json!(["foregroundDeletion"]))),
        ("o", Propagation::Orphan, Some(json!(["orphan"]))),
        ("b", Propagation::Background, None),
    ] {
        m.create("configmaps", config(name)).unwrap();
        let options = DeleteOptions { propagation: Some(propagation), ..DeleteOptions::default() };
        m.delete("configmaps", name, options).unwrap();
        assert_eq!(m.get("configmaps", name).map(|o| o["metadata"]["finalizers"].clone()), expected);
    }
}

#[test]
fn a_dry_run_deletes_nothing() {
    let mut m = with_pod("n");
    let before = m.store.revision();
    let options = DeleteOptions { dry_run: true, ..DeleteOptions::default() };
    assert!(m.delete("pods", "p", options).unwrap()["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(m.store.revision(), before);
}

#[test]
fn a_collection_is_deleted_by_selector() {
    let mut m = Machine::new();
    for name in ["a", "b"] {
        let mut object = config(name);
        object["metadata"]["labels"] = json!({"n": name});
        m.create("configmaps", object).unwrap();
    }
    let kind = kind("configmaps");
    let selector = fake_apiserver::state::selector::Selector::parse(kind, "n=a", "").unwrap();
    let options = DeleteOptions::default();
    m.apply(Command::DeleteCollection { kind: kind.into(), namespace: Some("default".into()), selector, options })
        .unwrap();
    assert!(m.get("configmaps", "a").is_none() && m.get("configmaps", "b").is_some());
}

#[test]
fn an_eviction_deletes_gracefully() {
    let mut m = with_pod("n");
    let (namespace, name) = ("default".to_owned(), "p".to_owned());
    let eviction = json!({"metadata": {"name": "p"}, "deleteOptions": {"gracePeriodSeconds": 7}});
    let reply = m.apply(Command::Evict { namespace, name, eviction, dry_run: false }).map(Machine::answer).unwrap();
    assert_eq!(reply["code"], 201);
    let pod = m.get("pods", "p").unwrap();
    assert_eq!(pod["metadata"]["deletionGracePeriodSeconds"], 7);
    let conditions = pod["status"]["conditions"].as_array().unwrap();
    let disrupted = conditions.iter().find(|condition| condition["type"] == "DisruptionTarget").unwrap();
    assert_eq!(disrupted["status"], "True");
    assert_eq!(disrupted["reason"], "EvictionByEvictionAPI");
    assert_eq!(disrupted["message"], "Eviction API: evicting");
}

#[test]
fn an_eviction_whose_preconditions_fail_leaves_the_pod_unmarked() {
    let mut m = with_pod("n");
    let evict = |m: &mut Machine, preconditions: Value, dry_run: bool| {
        let eviction = json!({"metadata": {"name": "p"}, "deleteOptions": {"preconditions": preconditions}});
        let (namespace, name) = ("default".to_owned(), "p".to_owned());
        m.apply(Command::Evict { namespace, name, eviction, dry_run }).is_ok()
    };
    let before = m.get("pods", "p").unwrap();
    assert!(!evict(&mut m, json!({"uid": "another"}), false));
    assert!(!evict(&mut m, json!({"resourceVersion": "1"}), false));
    assert!(evict(&mut m, json!({}), true));
    assert_eq!(m.get("pods", "p").unwrap(), before);
    // The version that is required is that before the mark.
    let version = before["metadata"]["resourceVersion"].clone();
    assert!(evict(&mut m, json!({"resourceVersion": version}), false));
    assert!(m.get("pods", "p").unwrap()["metadata"].get("deletionTimestamp").is_some());
}
