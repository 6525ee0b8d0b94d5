//! Claims and volumes of a pod: placement, reservation, limits, and binding.

use super::*;
use crate::scheduler::binding::{self, BindingError};
use crate::scheduler::node_info::PodKey;
use crate::scheduler::volume_binding::{reserve, unreserve};

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
    assert_eq!(message, format!("0/3 nodes are available: {why}. not found"));
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
