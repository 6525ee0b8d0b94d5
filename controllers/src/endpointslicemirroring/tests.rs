use std::sync::Arc;

use k8s_openapi::api::core::v1::Endpoints;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use substrate::json::{Value, from_value, json, to_value};

use super::mirror::{is_mirrored, reconcile};

/// Returns the Endpoints of the Service `web`.
fn endpoints(metadata: Value, subsets: Value) -> Endpoints {
    let mut all = json!({ "namespace": "default", "name": "web", "uid": "e" });
    for (name, value) in metadata.as_object().unwrap() {
        all[name.as_str()] = value.clone();
    }
    from_value(json!({ "metadata": all, "subsets": subsets })).unwrap()
}

fn subset(ips: &[&str], port: i32) -> Value {
    let addresses: Vec<Value> = ips.iter().map(|ip| json!({ "ip": ip })).collect();
    json!({ "addresses": addresses, "ports": [{ "port": port, "protocol": "TCP" }] })
}

/// Stores a new slice.
fn stored(mut slice: EndpointSlice, name: &str) -> Arc<EndpointSlice> {
    slice.metadata.name = Some(name.to_owned());
    slice.metadata.generate_name = None;
    Arc::new(slice)
}

/// Returns name, family, first port and addresses of a slice.
fn shown(slice: &EndpointSlice) -> (String, String, i32, Vec<String>) {
    let ports = slice.ports.as_deref().unwrap_or_default();
    let all = slice.endpoints.iter().flatten().flat_map(|endpoint| endpoint.addresses.clone()).collect();
    let name = slice.metadata.name.clone().unwrap_or_default();
    (name, slice.address_type.clone(), ports.first().and_then(|port| port.port).unwrap_or_default(), all)
}

#[test]
fn a_slice_has_labels_annotations_and_addresses_of_its_endpoints() {
    let metadata = json!({ "labels": { "x": "y" }, "annotations": {
        "p": "q", "endpoints.kubernetes.io/last-change-trigger-time": "t",
        "kubectl.kubernetes.io/last-applied-configuration": "{}" } });
    let addresses = json!([{ "ip": "1.2.3.4", "hostname": "h", "nodeName": "n" }]);
    let ports = json!([{ "name": "a", "port": 80, "protocol": "TCP" }, { "name": "b", "port": 81, "protocol": "UDP" }]);
    let subsets = json!([{ "addresses": addresses, "notReadyAddresses": [{ "ip": "1.2.3.6" }], "ports": ports }]);
    let changes = reconcile(&endpoints(metadata, subsets), Vec::new());
    let [slice] = changes.create.as_slice() else { panic!("one slice: {changes:?}") };
    // As recorded from kube-controller-manager, the order of the ports included.
    let expected = json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "generateName": "web-",
            "namespace": "default",
            "labels": {
                "x": "y",
                "kubernetes.io/service-name": "web",
                "endpointslice.kubernetes.io/managed-by": "endpointslicemirroring-controller.k8s.io",
            },
            "annotations": { "p": "q" },
            "ownerReferences": [{ "apiVersion": "v1", "kind": "Endpoints", "name": "web", "uid": "e",
                "controller": true, "blockOwnerDeletion": true }],
        },
        "addressType": "IPv4",
        "endpoints": [
            { "addresses": ["1.2.3.4"], "conditions": { "ready": true }, "hostname": "h", "nodeName": "n" },
            { "addresses": ["1.2.3.6"], "conditions": { "ready": false } },
        ],
        "ports": [{ "name": "b", "port": 81, "protocol": "UDP" }, { "name": "a", "port": 80, "protocol": "TCP" }],
    });
    assert_eq!(to_value(slice).unwrap(), expected);
}

#[test]
fn each_family_and_each_list_of_ports_has_a_slice() {
    let subsets = json!([subset(&["1.2.3.4", "fd00::1"], 80), subset(&["1.2.3.5"], 81)]);
    let changes = reconcile(&endpoints(json!({}), subsets), Vec::new());
    let mut all: Vec<_> = changes.create.iter().map(shown).collect();
    all.sort();
    let slice = |family: &str, port, ip: &str| (String::new(), family.to_owned(), port, vec![ip.to_owned()]);
    assert_eq!(all, [slice("IPv4", 80, "1.2.3.4"), slice("IPv4", 81, "1.2.3.5"), slice("IPv6", 80, "fd00::1")]);
}

#[test]
fn a_slice_changes_with_its_endpoints() {
    let of = |metadata, ip: &str, port| endpoints(metadata, json!([subset(&[ip], port)]));
    let first = reconcile(&of(json!({}), "1.2.3.4", 80), Vec::new()).create.remove(0);
    let old = vec![stored(first, "web-1")];
    let same = reconcile(&of(json!({}), "1.2.3.4", 80), old.clone());
    assert_eq!((same.create.len(), same.update.len(), same.delete.len(), same.kept.len()), (0, 0, 0, 1));
    let changes = [
        of(json!({}), "1.2.3.5", 80),
        of(json!({ "labels": { "x": "y" } }), "1.2.3.4", 80),
        of(json!({ "annotations": { "x": "y" } }), "1.2.3.4", 80),
        of(json!({ "uid": "other" }), "1.2.3.4", 80),
        // Another port: the slice is used again.
        of(json!({}), "1.2.3.4", 81),
    ];
    for endpoints in changes {
        let changes = reconcile(&endpoints, old.clone());
        assert!(changes.create.is_empty() && changes.delete.is_empty(), "{changes:?}");
        let [slice] = changes.update.as_slice() else { panic!("one update: {changes:?}") };
        assert_eq!((slice.metadata.name.as_deref(), &slice.metadata.resource_version), (Some("web-1"), &None));
    }
    let empty = reconcile(&endpoints(json!({}), json!([])), old);
    assert_eq!((empty.create.len(), empty.update.len(), empty.delete.len()), (0, 0, 1));
}

#[test]
fn addresses_that_are_no_ip_addresses_are_left_out_and_so_are_too_many() {
    let changes = reconcile(&endpoints(json!({}), json!([subset(&["1.2.3.4", "host"], 80)])), Vec::new());
    assert_eq!((changes.invalid, changes.skipped, shown(&changes.create[0]).3.len()), (1, 1, 1));
    let many: Vec<String> = (0..1002).map(|number| format!("10.0.{}.{}", number / 250, number % 250)).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let changes = reconcile(&endpoints(json!({}), json!([subset(&many, 80)])), Vec::new());
    assert_eq!((changes.invalid, changes.skipped, shown(&changes.create[0]).3.len()), (0, 2, 1000));
}

#[test]
fn some_endpoints_are_not_mirrored() {
    let of = |metadata| is_mirrored(&endpoints(metadata, json!([])));
    assert!(of(json!({})));
    assert!(!of(json!({ "labels": { "endpointslice.kubernetes.io/skip-mirror": "true" } })));
    assert!(of(json!({ "labels": { "endpointslice.kubernetes.io/skip-mirror": "no" } })));
    assert!(!of(json!({ "annotations": { "control-plane.alpha.kubernetes.io/leader": "x" } })));
}
