//! The filters and the message, in tables.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};
use rstest::rstest;
use serde::de::DeserializeOwned;
use substrate::json::{Value, json};

use super::cache::SchedulerCache;
use super::cycle::schedule;
use crate::binder::object::ClaimKey;

mod claims;
mod queue;

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
fn only_the_nodes_that_an_affinity_names_are_filtered() {
    let naming = |terms: Value| {
        let required = json!({ "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": terms } });
        pod("p", &[], json!({ "spec": { "affinity": { "nodeAffinity": required } } }))
    };
    let named = |names: &[&str]| json!({ "key": "metadata.name", "operator": "In", "values": names });
    let mut cache = cluster();
    assert_eq!(place(&cache, &naming(json!([{ "matchFields": [named(&["node-b"])] }]))), Ok("node-b".to_owned()));
    cache.store_node(Arc::new(node("node-b", "b", json!({ "spec": { "unschedulable": true } }))));
    assert_eq!(
        place(&cache, &naming(json!([{ "matchFields": [named(&["node-b"])] }]))).unwrap_err(),
        format!(
            "0/3 nodes are available: 1 node(s) were unschedulable, 2 node(s) didn't satisfy plugin(s) [NodeAffinity]. \
             {HELPLESS}"
        )
    );
    assert_eq!(
        place(&cache, &naming(json!([{ "matchFields": [named(&["node-x"])] }]))).unwrap_err(),
        format!("0/3 nodes are available: 3 node(s) didn't satisfy plugin(s) [NodeAffinity]. {HELPLESS}")
    );
    // Both requirements of a term must match, and no name does.
    let apart = json!([{ "matchFields": [named(&["node-a"]), named(&["node-c"])] }]);
    assert_eq!(
        place(&cache, &naming(apart)).unwrap_err(),
        "0/3 nodes are available: pod affinity terms conflict. not found"
    );
}

#[test]
fn without_nodes_upstream_says_so() {
    let message = place(&SchedulerCache::default(), &pod("p", &[], json!({}))).unwrap_err();
    assert_eq!(message, "no nodes available to schedule pods");
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
