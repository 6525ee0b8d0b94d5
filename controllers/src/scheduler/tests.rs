//! The filters, the message, volume binding and the queue, in tables.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use rstest::rstest;
use serde::de::DeserializeOwned;
use substrate::json::{Value, json};

use super::binding::{self, BindingError};
use super::cache::SchedulerCache;
use super::cycle::schedule;
use super::fit_error::Plugin;
use super::hints::{ClusterEvent, worth_retrying};
use super::node_info::PodKey;
use super::queue::{Failure, SchedulingQueue, Waits};
use super::volume_binding::{reserve, unreserve};
use crate::binder::object::ClaimKey;

pub(super) const DRIVER: &str = "ebs.csi.aws.com";
const ZONE: &str = "topology.ebs.csi.aws.com/zone";

pub(super) fn make<T: DeserializeOwned>(value: Value) -> T {
    substrate::json::from_value(value).unwrap()
}

fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}

pub(super) fn with(mut base: Value, extra: Value) -> Value {
    merge(&mut base, extra);
    base
}

pub(super) fn node(name: &str, zone: &str, extra: Value) -> Node {
    make(with(
        json!({
            "metadata": { "name": name, "labels": { ZONE: zone, "kubernetes.io/hostname": name } },
            "status": { "allocatable": { "cpu": "4", "memory": "8Gi", "pods": "3" } },
        }),
        extra,
    ))
}

pub(super) fn pod(name: &str, claims: &[&str], extra: Value) -> Pod {
    let volumes: Vec<Value> =
        claims.iter().map(|c| json!({ "name": c, "persistentVolumeClaim": { "claimName": c } })).collect();
    make(with(
        json!({
            "metadata": { "namespace": "default", "name": name, "uid": format!("uid-{name}") },
            "spec": { "containers": [{ "name": "c" }], "volumes": volumes },
        }),
        extra,
    ))
}

pub(super) fn add_claim(cache: &mut SchedulerCache, name: &str, extra: Value) {
    let claim = make(with(
        json!({
            "metadata": { "namespace": "default", "name": name, "uid": format!("uid-{name}"), "resourceVersion": "5" },
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "gp3",
                "resources": { "requests": { "storage": "4Gi" } },
            },
            "status": { "phase": "Pending" },
        }),
        extra,
    ));
    cache.claims.store(ClaimKey::new("default", name), Arc::new(claim));
}

pub(super) fn bound_to(volume: &str) -> Value {
    json!({
        "metadata": { "annotations": { "pv.kubernetes.io/bind-completed": "yes" } },
        "spec": { "volumeName": volume },
        "status": { "phase": "Bound" },
    })
}

pub(super) fn add_volume(cache: &mut SchedulerCache, name: &str, zone: Option<&str>, extra: Value) {
    let affinity = zone.map(|zone| {
        let term = json!({ "matchExpressions": [{ "key": ZONE, "operator": "In", "values": [zone] }] });
        json!({ "required": { "nodeSelectorTerms": [term] } })
    });
    let volume = make(with(
        json!({
            "metadata": { "name": name, "resourceVersion": "6" },
            "spec": {
                "capacity": { "storage": "5Gi" },
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "gp3",
                "csi": { "driver": DRIVER, "volumeHandle": format!("vol-{name}") },
                "nodeAffinity": affinity,
            },
            "status": { "phase": "Available" },
        }),
        extra,
    ));
    cache.store_volume(Arc::new(volume));
}

pub(super) fn add_class(cache: &mut SchedulerCache, mode: &str, extra: Value) {
    let base = json!({ "metadata": { "name": "gp3" }, "provisioner": DRIVER, "volumeBindingMode": mode });
    cache.classes.insert("gp3".to_owned(), Arc::new(make(with(base, extra))));
}

pub(super) fn limit(cache: &mut SchedulerCache, node: &str, count: i64) {
    let driver = json!({ "name": DRIVER, "nodeID": node, "allocatable": { "count": count } });
    cache.store_csi_node(&make(json!({ "metadata": { "name": node }, "spec": { "drivers": [driver] } })));
}

/// Builds three nodes in two zones, and a class with WaitForFirstConsumer.
pub(super) fn cluster() -> SchedulerCache {
    let mut cache = SchedulerCache::default();
    for (name, zone) in [("node-a", "a"), ("node-b", "b"), ("node-c", "b")] {
        cache.store_node(Arc::new(node(name, zone, json!({}))));
    }
    add_class(&mut cache, "WaitForFirstConsumer", json!({}));
    cache
}

pub(super) fn place(cache: &SchedulerCache, pod: &Pod) -> Result<String, String> {
    schedule(cache, pod).map(|placement| placement.node).map_err(|e| e.to_string())
}

const HELPLESS: &str =
    "no new claims to deallocate, preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling.";

#[test]
fn the_node_with_the_fewest_pods_wins_and_ties_go_by_name() {
    let mut cache = cluster();
    let mut places = Vec::new();
    for i in 0..7 {
        let pod = pod(&format!("p{i}"), &[], json!({}));
        let node = place(&cache, &pod).unwrap();
        cache.place(Arc::new(pod), &node);
        places.push(node);
    }
    assert_eq!(places, ["node-a", "node-b", "node-c", "node-a", "node-b", "node-c", "node-a"]);
}

#[rstest]
#[case::unschedulable(
    json!({ "spec": { "unschedulable": true } }), json!({}),
    "0/1 nodes are available: 1 node(s) were unschedulable."
)]
#[case::tainted(
    json!({ "spec": { "taints": [{ "key": "k", "value": "v", "effect": "NoExecute" }] } }), json!({}),
    "0/1 nodes are available: 1 node(s) had untolerated taint(s)."
)]
#[case::tolerated_with_another_value(
    json!({ "spec": { "taints": [{ "key": "k", "value": "v", "effect": "NoSchedule" }] } }),
    json!({ "spec": { "tolerations": [{ "key": "k", "operator": "Equal", "value": "w" }] } }),
    "0/1 nodes are available: 1 node(s) had untolerated taint(s)."
)]
#[case::selector(
    json!({}), json!({ "spec": { "nodeSelector": { "disk": "ssd" } } }),
    "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."
)]
#[case::too_large(
    json!({}), json!({ "spec": { "containers": [{ "name": "c", "resources": { "requests": { "cpu": "5", "memory": "9Gi" } } }] } }),
    "0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient memory."
)]
fn a_node_is_refused_with_upstreams_words(#[case] on_node: Value, #[case] on_pod: Value, #[case] expected: &str) {
    let mut cache = SchedulerCache::default();
    cache.store_node(Arc::new(node("node-a", "a", on_node)));
    let message = place(&cache, &pod("p", &[], on_pod)).unwrap_err();
    let helpless = HELPLESS.replace("0/3", "0/1").replace("3 Pre", "1 Pre");
    assert_eq!(message, format!("{expected} {helpless}"));
}

#[rstest]
#[case::by_value(json!([{ "key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule" }]))]
#[case::by_key(json!([{ "key": "k", "operator": "Exists" }]))]
#[case::everything(json!([{ "operator": "Exists" }]))]
fn a_toleration_lets_the_pod_in(#[case] tolerations: Value) {
    let mut cache = SchedulerCache::default();
    let taints = json!({ "spec": { "taints": [
        { "key": "k", "value": "v", "effect": "NoSchedule" },
        { "key": "soft", "effect": "PreferNoSchedule" },
    ] } });
    cache.store_node(Arc::new(node("node-a", "a", taints)));
    let pod = pod("p", &[], json!({ "spec": { "tolerations": tolerations } }));
    assert_eq!(place(&cache, &pod), Ok("node-a".to_owned()));
}

#[test]
fn reasons_are_counted_and_sorted_and_preemption_counts_who_could_yield() {
    let mut cache = SchedulerCache::default();
    for (name, extra) in [
        ("n1", json!({ "spec": { "unschedulable": true } })),
        ("n2", json!({ "spec": { "taints": [{ "key": "k", "effect": "NoSchedule" }] } })),
        ("n3", json!({ "spec": { "taints": [{ "key": "k", "effect": "NoSchedule" }] } })),
        ("n4", json!({})),
    ] {
        cache.store_node(Arc::new(node(name, "a", extra)));
    }
    for i in 0..3 {
        cache.place(Arc::new(pod(&format!("p{i}"), &[], json!({}))), "n4");
    }
    assert_eq!(
        place(&cache, &pod("p", &[], json!({}))).unwrap_err(),
        "0/4 nodes are available: 1 Too many pods, 1 node(s) were unschedulable, 2 node(s) had untolerated taint(s). \
         no new claims to deallocate, preemption: 0/4 nodes are available: 1 No preemption victims found for incoming \
         pod, 3 Preemption is not helpful for scheduling."
    );
    let never = pod("p", &[], json!({ "spec": { "preemptionPolicy": "Never" } }));
    assert!(place(&cache, &never).unwrap_err().ends_with("preemption: not eligible due to preemptionPolicy=Never."));
}

#[test]
fn without_nodes_upstream_says_so() {
    let message = place(&SchedulerCache::default(), &pod("p", &[], json!({}))).unwrap_err();
    assert_eq!(message, "no nodes available to schedule pods");
}

#[rstest]
#[case::missing(None, "persistentvolumeclaim \"data\" not found")]
#[case::immediate(
    Some(json!({ "spec": { "storageClassName": "other" } })), "pod has unbound immediate PersistentVolumeClaims"
)]
#[case::requested(Some(json!({ "spec": { "volumeName": "v" } })), "pod has unbound immediate PersistentVolumeClaims")]
#[case::deleting(
    Some(json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } })),
    "persistentvolumeclaim \"data\" is being deleted"
)]
#[case::lost(
    Some(json!({ "spec": { "volumeName": "v" }, "status": { "phase": "Lost" } })),
    "persistentvolumeclaim \"data\" bound to non-existent persistentvolume \"v\""
)]
fn claims_that_rule_out_every_node(#[case] claim: Option<Value>, #[case] why: &str) {
    let mut cache = cluster();
    if let Some(claim) = claim {
        add_claim(&mut cache, "data", claim);
    }
    let message = place(&cache, &pod("p", &["data"], json!({}))).unwrap_err();
    assert_eq!(message, format!("0/3 nodes are available: {why}. {HELPLESS}"));
}

#[test]
fn an_ephemeral_volume_waits_for_its_claim() {
    let volumes = json!([{ "name": "scratch", "ephemeral": {} }]);
    let pod = pod("p", &[], json!({ "spec": { "volumes": volumes } }));
    let message = place(&cluster(), &pod).unwrap_err();
    assert!(
        message.contains("waiting for ephemeral volume controller to create the persistentvolumeclaim \"p-scratch\""),
        "{message}"
    );
}

#[test]
fn a_bound_volume_ties_the_pod_to_its_zone() {
    let mut cache = cluster();
    add_volume(&mut cache, "v", Some("b"), json!({}));
    add_claim(&mut cache, "data", bound_to("v"));
    assert_eq!(place(&cache, &pod("p", &["data"], json!({}))), Ok("node-b".to_owned()));
    cache.remove_node("node-b");
    cache.remove_node("node-c");
    let message = place(&cache, &pod("p", &["data"], json!({}))).unwrap_err();
    assert!(message.starts_with("0/1 nodes are available: 1 node(s) didn't match PersistentVolume's node affinity."));
    cache.remove_volume("v");
    let message = place(&cache, &pod("p", &["data"], json!({}))).unwrap_err();
    assert!(message.contains("1 node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)."));
}

#[test]
fn a_waiting_claim_is_provisioned_on_the_chosen_node() {
    let mut cache = cluster();
    add_claim(&mut cache, "data", json!({}));
    let placement = schedule(&cache, &pod("p", &["data"], json!({}))).unwrap();
    assert_eq!((placement.node.as_str(), placement.volumes.provisions.len()), ("node-a", 1));
    let assumed = reserve(&mut cache, &placement.volumes, "node-a");
    let annotations = assumed.provisions[0].metadata.annotations.clone().unwrap();
    assert_eq!(annotations["volume.kubernetes.io/selected-node"], "node-a");
    // Another pod with the same claim must follow.
    cache.remove_node("node-a");
    let message = place(&cache, &pod("q", &["data"], json!({}))).unwrap_err();
    assert!(message.contains("2 node(s) didn't find available persistent volumes to bind."), "{message}");
    unreserve(&mut cache, &assumed);
    assert_eq!(place(&cache, &pod("q", &["data"], json!({}))), Ok("node-b".to_owned()));
}

#[test]
fn a_free_volume_is_preferred_to_a_new_one_and_taken_once() {
    let mut cache = cluster();
    add_volume(&mut cache, "v", Some("b"), json!({}));
    add_claim(&mut cache, "data", json!({}));
    add_claim(&mut cache, "logs", json!({}));
    cache.remove_node("node-a");
    let placement = schedule(&cache, &pod("p", &["data", "logs"], json!({}))).unwrap();
    assert_eq!(placement.volumes.static_bindings.len(), 1);
    assert_eq!(placement.volumes.provisions.len(), 1);
    let assumed = reserve(&mut cache, &placement.volumes, &placement.node);
    let (volume, claim) = &assumed.static_bindings[0];
    let reference = volume.spec.as_ref().unwrap().claim_ref.clone().unwrap();
    assert_eq!(reference.uid, claim.metadata.uid);
    // While it is assumed, no other claim gets it.
    add_claim(&mut cache, "more", json!({}));
    let other = schedule(&cache, &pod("q", &["more"], json!({}))).unwrap();
    assert!(other.volumes.static_bindings.is_empty());
}

#[test]
fn allowed_topologies_and_missing_provisioners_rule_nodes_out() {
    let mut cache = cluster();
    let terms = json!([{ "matchLabelExpressions": [{ "key": ZONE, "values": ["b"] }] }]);
    add_class(&mut cache, "WaitForFirstConsumer", json!({ "allowedTopologies": terms }));
    add_claim(&mut cache, "data", json!({}));
    assert_eq!(place(&cache, &pod("p", &["data"], json!({}))), Ok("node-b".to_owned()));
    add_class(&mut cache, "WaitForFirstConsumer", json!({ "provisioner": "kubernetes.io/no-provisioner" }));
    let message = place(&cache, &pod("p", &["data"], json!({}))).unwrap_err();
    assert!(message.contains("3 node(s) didn't find available persistent volumes to bind."));
}

#[test]
fn published_capacity_counts_when_the_driver_wants_it() {
    let mut cache = cluster();
    add_claim(&mut cache, "data", json!({}));
    let driver = json!({ "metadata": { "name": DRIVER }, "spec": { "storageCapacity": true } });
    cache.drivers.insert(DRIVER.to_owned(), Arc::new(make(driver)));
    let message = place(&cache, &pod("p", &["data"], json!({}))).unwrap_err();
    assert!(message.contains("3 node(s) did not have enough free storage."));
    let capacity = json!({
        "metadata": { "name": "c" },
        "storageClassName": "gp3",
        "capacity": "100Gi",
        "nodeTopology": { "matchLabels": { ZONE: "b" } },
    });
    cache.capacities.insert("c".to_owned(), Arc::new(make(capacity)));
    assert_eq!(place(&cache, &pod("p", &["data"], json!({}))), Ok("node-b".to_owned()));
}

#[test]
fn limits_count_pods_attachments_and_claims_without_a_volume_once_each() {
    let mut cache = SchedulerCache::default();
    cache.store_node(Arc::new(node("node-a", "a", json!({}))));
    add_class(&mut cache, "WaitForFirstConsumer", json!({}));
    for name in ["v1", "v2"] {
        add_volume(&mut cache, name, None, json!({}));
    }
    add_claim(&mut cache, "c1", bound_to("v1"));
    add_claim(&mut cache, "c2", bound_to("v2"));
    add_claim(&mut cache, "new", json!({}));
    cache.place(Arc::new(pod("p1", &["c1"], json!({}))), "node-a");
    let va = |name: &str, volume: &str| {
        make(json!({
            "metadata": { "name": name },
            "spec": { "attacher": DRIVER, "nodeName": "node-a", "source": { "persistentVolumeName": volume } },
        }))
    };
    cache.store_attachment(&va("csi-1", "v1"));
    let ask = |cache: &SchedulerCache, claim: &str| place(cache, &pod("q", &[claim], json!({})));
    // v1 is present by its pod and by its attachment: one volume.
    limit(&mut cache, "node-a", 2);
    assert!(ask(&cache, "c2").is_ok());
    cache.store_attachment(&va("csi-2", "v2"));
    assert!(ask(&cache, "c2").is_ok(), "it is attached already");
    let message = ask(&cache, "new").unwrap_err();
    assert!(message.contains("1 node(s) exceed max volume count."), "{message}");
    assert!(message.contains("1 No preemption victims found for incoming pod."), "{message}");
    cache.remove_attachment("csi-2");
    assert!(ask(&cache, "new").is_ok());
    // A missing limit means no limit.
    limit(&mut cache, "node-a", 0);
    assert!(ask(&cache, "new").is_err());
    cache.remove_csi_node("node-a");
    assert!(ask(&cache, "new").is_ok());
}

#[test]
fn a_read_write_once_pod_claim_serves_one_pod() {
    let mut cache = cluster();
    add_volume(&mut cache, "v", None, json!({}));
    let extra = with(bound_to("v"), json!({ "spec": { "accessModes": ["ReadWriteOncePod"] } }));
    add_claim(&mut cache, "data", extra);
    cache.place(Arc::new(pod("p", &["data"], json!({}))), "node-c");
    let message = place(&cache, &pod("q", &["data"], json!({}))).unwrap_err();
    assert!(
        message.contains(
            "3 node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by \
             another pod."
        ),
        "{message}"
    );
    cache.unplace(&PodKey { namespace: "default".to_owned(), name: "p".to_owned() });
    assert!(place(&cache, &pod("q", &["data"], json!({}))).is_ok());
}

#[test]
fn zone_labels_of_a_volume_bind_where_nodes_have_them() {
    let mut cache = SchedulerCache::default();
    let zone = |z: &str| json!({ "metadata": { "labels": { "topology.kubernetes.io/zone": z } } });
    cache.store_node(Arc::new(node("node-a", "a", zone("a"))));
    cache.store_node(Arc::new(node("node-b", "b", zone("b"))));
    add_class(&mut cache, "WaitForFirstConsumer", json!({}));
    add_volume(&mut cache, "v", None, zone("b__c"));
    add_claim(&mut cache, "data", bound_to("v"));
    assert_eq!(place(&cache, &pod("p", &["data"], json!({}))), Ok("node-b".to_owned()));
    cache.remove_node("node-b");
    let message = place(&cache, &pod("p", &["data"], json!({}))).unwrap_err();
    assert!(message.contains("1 node(s) had no available volume zone."), "{message}");
}

#[test]
fn a_binding_waits_for_newer_objects_and_gives_up_on_a_reset() {
    let mut cache = cluster();
    add_claim(&mut cache, "data", json!({}));
    let placement = schedule(&cache, &pod("p", &["data"], json!({}))).unwrap();
    let mut written = reserve(&mut cache, &placement.volumes, "node-a");
    let mut answer = (*written.provisions[0]).clone();
    answer.metadata.resource_version = Some("10".to_owned());
    written.provisions[0] = Arc::new(answer);
    let node = cache.nodes["node-a"].node.clone().unwrap();
    let check = |cache: &SchedulerCache| binding::check(cache, &node, None, &written);
    assert_eq!(check(&cache), Ok(false), "the cache is older than our own write");
    let selected = json!({ "metadata": {
        "resourceVersion": "10",
        "annotations": { "volume.kubernetes.io/selected-node": "node-a" },
    } });
    add_claim(&mut cache, "data", selected.clone());
    assert_eq!(check(&cache), Ok(false));
    add_volume(&mut cache, "v", Some("b"), json!({}));
    let bound = with(with(selected, bound_to("v")), json!({ "metadata": { "resourceVersion": "12" } }));
    add_claim(&mut cache, "data", bound);
    let elsewhere =
        BindingError::Affinity { pv: "v".to_owned(), node: "node-a".to_owned(), why: "no matching NodeSelectorTerms" };
    assert_eq!(check(&cache), Err(elsewhere));
    add_volume(&mut cache, "v", Some("a"), json!({}));
    assert_eq!(check(&cache), Ok(true));
    let reset = json!({ "metadata": { "resourceVersion": "13", "annotations": { "x": "y" } } });
    add_claim(&mut cache, "data", reset);
    assert_eq!(check(&cache), Err(BindingError::ProvisioningFailed("data".to_owned())));
    let reset = json!({ "metadata": { "resourceVersion": "14" } });
    add_claim(&mut cache, "data", reset);
    assert_eq!(check(&cache), Err(BindingError::SelectedNodeReset("data".to_owned())));
    assert!(matches!(binding::check(&cache, &node, Some("p"), &written), Err(BindingError::NoPod(_))));
}

const S: fn(u64) -> Duration = Duration::from_secs;

fn queue() -> SchedulingQueue {
    let waits =
        Waits { initial_backoff: S(1), max_backoff: S(10), flush_after: S(300), backoff_tick: S(1), flush_tick: S(30) };
    SchedulingQueue::new(waits, Duration::ZERO)
}

fn names(queue: &mut SchedulingQueue, now: Duration) -> Vec<String> {
    std::iter::from_fn(|| queue.pop(now)).map(|pod| pod.metadata.name.clone().unwrap()).collect()
}

fn unschedulable(plugin: Plugin) -> Failure {
    Failure::Unschedulable(BTreeSet::from([plugin]))
}

fn key(name: &str) -> PodKey {
    PodKey { namespace: "default".to_owned(), name: name.to_owned() }
}

#[test]
fn priority_comes_first_then_age_then_name() {
    let mut queue = queue();
    queue.add(S(2), Arc::new(pod("late", &[], json!({}))));
    queue.add(S(1), Arc::new(pod("b", &[], json!({}))));
    queue.add(S(1), Arc::new(pod("a", &[], json!({}))));
    queue.add(S(3), Arc::new(pod("vip", &[], json!({ "spec": { "priority": 10 } }))));
    assert_eq!(names(&mut queue, S(3)), ["vip", "a", "b", "late"]);
}

#[test]
fn errors_back_off_from_one_to_ten_seconds() {
    let mut queue = queue();
    queue.add(S(0), Arc::new(pod("p", &[], json!({}))));
    let mut now = S(0);
    let mut waits = Vec::new();
    for _ in 0..6 {
        assert_eq!(names(&mut queue, now), ["p"]);
        queue.put_back(now, &key("p"), Failure::Error);
        assert!(queue.pop(now).is_none());
        let next = queue.next_deadline().unwrap();
        waits.push((next - now).as_secs());
        now = next;
    }
    assert_eq!(waits, [1, 2, 4, 8, 10, 10]);
}

#[test]
fn an_unschedulable_pod_waits_for_an_event_that_helps_or_five_minutes() {
    let mut queue = queue();
    queue.add(S(0), Arc::new(pod("p", &[], json!({}))));
    assert_eq!(names(&mut queue, S(0)), ["p"]);
    queue.put_back(S(0), &key("p"), unschedulable(Plugin::NodeUnschedulable));
    let cordoned = node("n", "a", json!({ "spec": { "unschedulable": true } }));
    let open = node("n", "a", json!({}));
    queue.happened(S(5), |pod, plugins| worth_retrying(ClusterEvent::Node(None, &cordoned), pod, plugins));
    assert!(queue.pop(S(5)).is_none());
    queue.happened(S(6), |pod, plugins| worth_retrying(ClusterEvent::Node(Some(&cordoned), &open), pod, plugins));
    assert_eq!(names(&mut queue, S(6)), ["p"]);
    queue.put_back(S(6), &key("p"), unschedulable(Plugin::NodeUnschedulable));
    // 306 s, rounded up to the next tick of 30 s.
    assert_eq!(queue.next_deadline(), Some(S(330)));
    assert!(queue.pop(S(329)).is_none());
    assert_eq!(names(&mut queue, S(330)), ["p"]);
}

#[test]
fn a_backoff_is_cut_short_when_nothing_else_is_to_be_done() {
    let mut queue = queue();
    queue.add(S(0), Arc::new(pod("p", &[], json!({}))));
    assert_eq!(names(&mut queue, S(0)), ["p"]);
    queue.put_back(S(0), &key("p"), unschedulable(Plugin::TaintToleration));
    queue.happened(S(0), |_, _| true);
    queue.add(S(0), Arc::new(pod("q", &[], json!({}))));
    assert_eq!(names(&mut queue, S(0)), ["q", "p"]);
}

#[test]
fn a_deleted_pod_does_not_come_back() {
    let mut queue = queue();
    queue.add(S(0), Arc::new(pod("p", &[], json!({}))));
    assert_eq!(names(&mut queue, S(0)), ["p"]);
    queue.delete(&key("p"));
    queue.put_back(S(1), &key("p"), Failure::Error);
    assert_eq!(queue.next_deadline(), None);
}

#[rstest]
#[case::own_claim(Plugin::VolumeBinding, "data", true)]
#[case::another_claim(Plugin::VolumeBinding, "other", false)]
#[case::not_asked_by_this_plugin(Plugin::TaintToleration, "data", false)]
fn claims_bring_back_the_pods_that_use_them(#[case] plugin: Plugin, #[case] claim: &str, #[case] expected: bool) {
    let claim = make(json!({ "metadata": { "namespace": "default", "name": claim } }));
    let pod = pod("p", &["data"], json!({}));
    let event = ClusterEvent::Claim(None, &claim);
    assert_eq!(worth_retrying(event, &pod, &BTreeSet::from([plugin])), expected);
}

#[rstest]
#[case(Some(1), 2, true)]
#[case(Some(2), 2, false)]
#[case(None, 1, true)]
fn a_raised_volume_limit_helps(#[case] before: Option<i64>, #[case] now: i64, #[case] expected: bool) {
    let csi_node = |count: i64| {
        let driver = json!({ "name": DRIVER, "nodeID": "n", "allocatable": { "count": count } });
        make(json!({ "metadata": { "name": "n" }, "spec": { "drivers": [driver] } }))
    };
    let (old, new) = (before.map(csi_node), csi_node(now));
    let event = ClusterEvent::CsiNode(old.as_ref(), &new);
    let pod = pod("p", &["data"], json!({}));
    assert_eq!(worth_retrying(event, &pod, &BTreeSet::from([Plugin::NodeVolumeLimits])), expected);
}

#[test]
fn two_hundred_pods_find_their_place_among_a_hundred_nodes() {
    let mut cache = SchedulerCache::default();
    add_class(&mut cache, "WaitForFirstConsumer", json!({}));
    for i in 0..100 {
        let zone = ["a", "b", "c"][i % 3];
        let name = format!("node-{i:03}");
        cache.store_node(Arc::new(node(&name, zone, json!({ "status": { "allocatable": { "pods": "110" } } }))));
        limit(&mut cache, &name, 25);
    }
    for i in 0..200 {
        let claim = format!("c{i:03}");
        let volume = format!("v{i:03}");
        let zone = ["a", "b", "c"][i % 3];
        let reference = json!({ "namespace": "default", "name": claim, "uid": format!("uid-{claim}") });
        add_volume(&mut cache, &volume, Some(zone), json!({ "spec": { "claimRef": reference } }));
        add_claim(&mut cache, &claim, bound_to(&volume));
        let pod = pod(&format!("p{i:03}"), &[&claim], json!({}));
        let node = place(&cache, &pod).unwrap();
        cache.place(Arc::new(pod), &node);
    }
    let counts: Vec<usize> = cache.nodes.values().map(|info| info.pods.len()).collect();
    assert_eq!(counts.iter().sum::<usize>(), 200);
    assert!(counts.iter().all(|n| (1..=3).contains(n)), "{counts:?}");
}

#[test]
fn a_pod_goes_where_it_was_nominated_to_go_when_that_still_fits() {
    let mut cache = SchedulerCache::default();
    for name in ["node-a", "node-b"] {
        cache.store_node(Arc::new(node(name, "us-east-1a", json!({}))));
    }
    let nominated = |node: &str| pod("p", &[], json!({ "status": { "nominatedNodeName": node } }));
    let node = |pod: &Pod| schedule(&cache, pod).unwrap().node;
    assert_eq!(node(&pod("p", &[], json!({}))), "node-a");
    assert_eq!(node(&nominated("node-b")), "node-b");
    assert_eq!(node(&nominated("node-gone")), "node-a");
}
