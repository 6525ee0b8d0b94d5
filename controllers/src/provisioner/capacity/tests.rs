use std::collections::BTreeSet;
use std::sync::Arc;

use csi_proto::csi::GetCapacityResponse;
use k8s_openapi::api::core::v1::{Node, VolumeNodeAffinity};
use k8s_openapi::api::storage::v1::{CSINode, CSIStorageCapacity, StorageClass};
use rstest::rstest;
use serde::de::DeserializeOwned;
use substrate::json::{Value, from_value, json, to_value};

use super::super::topology::Segment;
use super::items::{Capacities, Item, Task};
use super::object::{Write, request, selector, write};
use super::segments::{csi_node_matters, node_matters, segments};
use crate::kube::Delta;

const DRIVER: &str = "ebs.csi.aws.com";
const GIB: i64 = 1 << 30;

fn read<K: DeserializeOwned>(value: Value) -> K {
    from_value(value).unwrap()
}

fn segment(zone: &str) -> Segment {
    Segment::from([("zone".to_owned(), zone.to_owned())])
}

fn zones(names: &[&str]) -> BTreeSet<Segment> {
    names.iter().map(|name| segment(name)).collect()
}

fn class(name: &str, mode: &str) -> StorageClass {
    read(json!({ "metadata": { "name": name }, "provisioner": DRIVER, "volumeBindingMode": mode }))
}

fn object(name: &str, zone: &str, class: &str) -> Arc<CSIStorageCapacity> {
    let labels = json!({
        "csi.storage.k8s.io/drivername": DRIVER, "csi.storage.k8s.io/managed-by": "external-provisioner",
    });
    Arc::new(read(json!({
        "metadata": { "name": name, "uid": name, "labels": labels },
        "storageClassName": class,
        "nodeTopology": { "matchLabels": { "zone": zone } },
        "capacity": "4Gi",
    })))
}

fn sync(zone: &str, class: &str) -> Task {
    Task::Sync(Item::new(&segment(zone), class))
}

/// Returns the state with the zones a and b and the class `gp3`.
fn two_zones() -> Capacities {
    let mut capacities = Capacities::new(DRIVER, false);
    capacities.set_segments(zones(&["a", "b"]));
    capacities.class_applied(&class("gp3", "WaitForFirstConsumer"));
    capacities
}

#[test]
fn each_segment_and_each_class_have_an_item() {
    let mut capacities = Capacities::new(DRIVER, false);
    assert!(capacities.set_segments(zones(&["a"])).is_empty());
    let gp3 = class("gp3", "WaitForFirstConsumer");
    assert_eq!(capacities.class_applied(&gp3), [sync("a", "gp3")]);
    assert_eq!(capacities.set_segments(zones(&["a", "b"])), [sync("b", "gp3")]);
    let io2 = class("io2", "WaitForFirstConsumer");
    assert_eq!(capacities.class_applied(&io2), [sync("a", "io2"), sync("b", "io2")]);
    assert_eq!(capacities.class_applied(&io2), [sync("a", "io2"), sync("b", "io2")], "a changed class");
    assert_eq!(capacities.all().len(), 4);
    assert_eq!(capacities.of_class("gp3"), [sync("a", "gp3"), sync("b", "gp3")]);
    assert_eq!((capacities.goal(), capacities.current()), (4, 0));
}

#[rstest]
#[case::other_driver(json!({ "provisioner": "efs.csi.aws.com", "volumeBindingMode": "WaitForFirstConsumer" }), true, 0)]
#[case::at_once(json!({ "provisioner": DRIVER, "volumeBindingMode": "Immediate" }), false, 0)]
#[case::at_once_by_flag(json!({ "provisioner": DRIVER, "volumeBindingMode": "Immediate" }), true, 1)]
#[case::waiting(json!({ "provisioner": DRIVER, "volumeBindingMode": "WaitForFirstConsumer" }), false, 1)]
fn classes(#[case] class: Value, #[case] immediate: bool, #[case] items: usize) {
    let mut class = class;
    class["metadata"] = json!({ "name": "c" });
    let mut capacities = Capacities::new(DRIVER, immediate);
    capacities.set_segments(zones(&["a"]));
    assert_eq!(capacities.class_applied(&read(class)).len(), items);
    assert_eq!(capacities.goal(), items);
}

#[test]
fn objects_are_taken_over_and_duplicates_and_obsolete_ones_deleted() {
    let mut capacities = two_zones();
    assert_eq!(capacities.object_applied(&object("one", "a", "gp3")), None);
    assert_eq!(capacities.object_applied(&object("one", "a", "gp3")), None, "a changed object");
    assert_eq!(capacities.current(), 1);
    let delete = |name: &str| Some(Task::Delete(name.to_owned()));
    assert_eq!(capacities.object_applied(&object("two", "a", "gp3")), delete("two"));
    for (zone, class) in [("c", "gp3"), ("a", "io2")] {
        let obsolete = object("old", zone, class);
        assert!(capacities.is_obsolete(&obsolete));
        assert_eq!(capacities.object_applied(&obsolete), delete("old"));
    }
    assert!(!capacities.is_obsolete(&object("two", "a", "gp3")), "a duplicate is not obsolete");
    // A deleted duplicate changes nothing, the deleted object is created again.
    assert_eq!(capacities.object_deleted(&object("two", "a", "gp3")), None);
    assert_eq!(capacities.object_deleted(&object("one", "a", "gp3")), Some(sync("a", "gp3")));
    assert_eq!(capacities.current(), 0);
}

#[test]
fn an_object_without_our_labels_is_left_alone() {
    let mut capacities = two_zones();
    let ours = object("one", "a", "gp3");
    capacities.object_applied(&ours);
    let mut foreign = CSIStorageCapacity::clone(&ours);
    foreign.metadata.labels = None;
    let foreign = Arc::new(foreign);
    assert!(!capacities.is_obsolete(&foreign));
    assert_eq!(capacities.object_applied(&foreign), Some(sync("a", "gp3")), "the item needs another object");
    assert_eq!(capacities.object_applied(&foreign), None);
}

#[test]
fn objects_end_with_their_class_and_their_segment() {
    let mut capacities = two_zones();
    capacities.object_applied(&object("one", "a", "gp3"));
    capacities.object_applied(&object("two", "b", "gp3"));
    let delete = |name: &str| Task::Delete(name.to_owned());
    assert_eq!(capacities.set_segments(zones(&["b"])), [delete("one")]);
    assert_eq!(capacities.find(&Item::new(&segment("a"), "gp3")), None);
    assert_eq!(capacities.class_deleted("gp3"), [delete("two")]);
    assert_eq!(capacities.goal(), 0);
    assert!(capacities.set_segments(zones(&["a", "b"])).is_empty(), "the class is gone");
}

#[rstest]
#[case(json!([{ "matchExpressions": [{ "key": "zone", "operator": "In", "values": ["a"] }] }]), &["a"])]
#[case::two_terms(json!([
    { "matchExpressions": [{ "key": "zone", "operator": "In", "values": ["a"] }] },
    { "matchExpressions": [{ "key": "zone", "operator": "In", "values": ["b"] }] },
]), &["a", "b"])]
#[case::more_keys(json!([{ "matchExpressions": [
    { "key": "zone", "operator": "In", "values": ["a"] }, { "key": "rack", "operator": "In", "values": ["1"] },
] }]), &[])]
#[case::two_values(json!([{ "matchExpressions": [{ "key": "zone", "operator": "In", "values": ["a", "b"] }] }]), &[])]
#[case::other_operator(json!([{ "matchExpressions": [{ "key": "zone", "operator": "NotIn", "values": ["a"] }] }]), &[])]
#[case::fields(json!([{ "matchFields": [{ "key": "metadata.name", "operator": "In", "values": ["a"] }] }]), &[])]
fn topologies_of_volumes(#[case] terms: Value, #[case] expected: &[&str]) {
    let affinity: VolumeNodeAffinity = read(json!({ "required": { "nodeSelectorTerms": terms } }));
    let expected: Vec<Task> = expected.iter().map(|zone| sync(zone, "gp3")).collect();
    assert_eq!(two_zones().of_topology(&affinity), expected);
}

#[test]
fn a_new_object_has_labels_topology_and_sizes() {
    let item = Item::new(&segment("a"), "gp3");
    let answer = GetCapacityResponse {
        available_capacity: 10 * GIB,
        maximum_volume_size: Some(4 * GIB),
        ..GetCapacityResponse::default()
    };
    let Some(Write::Create(new)) = write(DRIVER, &item, None, &answer) else { panic!("no creation") };
    let expected = json!({
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIStorageCapacity",
        "metadata": {
            "generateName": "csisc-",
            "labels": {
                "csi.storage.k8s.io/drivername": DRIVER, "csi.storage.k8s.io/managed-by": "external-provisioner",
            },
        },
        "storageClassName": "gp3",
        "nodeTopology": { "matchLabels": { "zone": "a" } },
        "capacity": "10Gi",
        "maximumVolumeSize": "4Gi",
    });
    assert_eq!(to_value(&*new).unwrap(), expected);
    assert_eq!(Item::of(&new), Some(item));
    let labels = "csi.storage.k8s.io/drivername=ebs.csi.aws.com,csi.storage.k8s.io/managed-by=external-provisioner";
    assert_eq!(selector(DRIVER), labels);
}

#[test]
fn a_segment_without_keys_selects_all_nodes() {
    let item = Item::new(&Segment::new(), "gp3");
    let Some(Write::Create(new)) = write(DRIVER, &item, None, &GetCapacityResponse::default()) else {
        panic!("no creation")
    };
    let written = to_value(&*new).unwrap();
    assert_eq!((&written["nodeTopology"], &written["capacity"]), (&json!({}), &json!("0")));
    assert_eq!(Item::of(&new), Some(item.clone()));
    let topology = request(&item, &class("gp3", "Immediate")).accessible_topology;
    assert_eq!(topology.map(|topology| topology.segments), Some(Segment::new()));
}

#[test]
fn only_another_value_is_written() {
    let item = Item::new(&segment("a"), "gp3");
    let old = object("one", "a", "gp3");
    let after = |available_capacity, maximum_volume_size| {
        let answer = GetCapacityResponse { available_capacity, maximum_volume_size, ..GetCapacityResponse::default() };
        write(DRIVER, &item, Some(&old), &answer)
    };
    assert_eq!(after(4 * GIB, None), None);
    let Some(Write::Replace(new)) = after(3 * GIB, Some(GIB)) else { panic!("no update") };
    let changed = to_value(&*new).unwrap();
    assert_eq!((&changed["capacity"], &changed["maximumVolumeSize"]), (&json!("3Gi"), &json!("1Gi")));
    assert_eq!(new.metadata, old.metadata);
    assert!(after(4 * GIB, Some(GIB)).is_some());
}

fn node(name: &str, labels: Value) -> Arc<Node> {
    Arc::new(read(json!({ "metadata": { "name": name, "labels": labels } })))
}

fn csi_node(name: &str, keys: Value) -> Arc<CSINode> {
    let driver = json!({ "name": DRIVER, "nodeID": name, "topologyKeys": keys });
    Arc::new(read(json!({ "metadata": { "name": name }, "spec": { "drivers": [driver] } })))
}

#[test]
fn segments_are_distinct_and_complete() {
    let nodes = [
        node("n1", json!({ "zone": "a", "rack": "1" })),
        node("n2", json!({ "zone": "a" })),
        node("n3", json!({ "zone": "b" })),
        node("n4", json!({ "rack": "1" })),
    ];
    let find = |name: &str| nodes.iter().find(|node| node.metadata.name.as_deref() == Some(name)).cloned();
    // n4 has no zone yet, and n5 is gone.
    let zone = ["n1", "n2", "n3", "n4", "n5"].map(|name| csi_node(name, json!(["zone"])));
    assert_eq!(segments(DRIVER, &zone, find), zones(&["a", "b"]));
    assert_eq!(segments("efs.csi.aws.com", &zone, find), zones(&[]), "a driver that runs nowhere");
    let none = ["n1", "n2"].map(|name| csi_node(name, Value::Null));
    assert_eq!(segments(DRIVER, &none, find), BTreeSet::from([Segment::new()]), "a driver without topology");
}

#[test]
fn only_labels_and_topology_keys_matter() {
    let (a, b) = (node("n", json!({ "zone": "a" })), node("n", json!({ "zone": "b" })));
    let change = |old: &Arc<Node>, new: &Arc<Node>| Delta::Applied { old: Some(old.clone()), new: new.clone() };
    assert!(!node_matters(&change(&a, &a)) && node_matters(&change(&a, &b)));
    assert!(node_matters(&Delta::Deleted(a.clone())) && node_matters(&Delta::Applied { old: None, new: a }));
    let (zone, none) = (csi_node("n", json!(["zone"])), csi_node("n", Value::Null));
    let change = |old: &Arc<CSINode>, new: &Arc<CSINode>| Delta::Applied { old: Some(old.clone()), new: new.clone() };
    assert!(csi_node_matters(&change(&zone, &none), DRIVER));
    assert!(!csi_node_matters(&change(&zone, &none), "efs.csi.aws.com"));
    assert!(!csi_node_matters(&change(&none, &none), DRIVER));
    assert!(csi_node_matters(&Delta::Deleted(none), "efs.csi.aws.com"));
}
