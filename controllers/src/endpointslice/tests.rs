use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use substrate::json::{Value, from_value, json};

use super::endpoints::{endpoint, has_endpoint, ports};
use super::reconcile::{Changes, Desired, MOST};
use super::slices::{families, labels};
use super::topology::Zones;
use crate::kube::Kind;

fn service(spec: Value) -> Service {
    let mut all = json!({ "selector": { "app": "web" }, "clusterIP": "None", "ipFamilies": ["IPv4"],
        "ports": [{ "name": "http", "port": 80, "targetPort": "web" }] });
    for (name, value) in spec.as_object().unwrap() {
        all[name.as_str()] = value.clone();
    }
    from_value(json!({ "metadata": { "namespace": "default", "name": "web", "uid": "s", "labels": { "a": "b" } }, "spec": all }))
        .unwrap()
}

fn pod(name: &str, ip: &str, ready: &str) -> Arc<Pod> {
    let container = json!({ "name": "c", "ports": [{ "name": "web", "containerPort": 8080 }] });
    let spec = json!({ "nodeName": "n", "hostname": name, "subdomain": "web", "containers": [container] });
    let status = json!({ "phase": "Running", "podIP": ip, "podIPs": [{ "ip": ip }],
        "conditions": [{ "type": "Ready", "status": ready }] });
    let metadata = json!({ "namespace": "default", "name": name, "uid": name });
    Arc::new(from_value(json!({ "metadata": metadata, "spec": spec, "status": status })).unwrap())
}

fn node() -> Node {
    from_value(json!({ "metadata": { "name": "n", "labels": { "topology.kubernetes.io/zone": "a" } } })).unwrap()
}

fn desired(service: &Service, pods: &[Arc<Pod>]) -> Vec<Desired> {
    let endpoints = pods.iter().filter_map(|pod| endpoint(service, pod, Some(&node()), "IPv4")).collect();
    vec![Desired { family: "IPv4".to_owned(), ports: ports(service, &pods[0]), endpoints }]
}

/// Returns the changes of the only family.
fn reconcile(
    service: &Service,
    families: &[String],
    desired: &[Desired],
    existing: Vec<Arc<EndpointSlice>>,
) -> Changes {
    let mut all = super::reconcile::reconcile(service, families, desired, existing, &mut Zones::new());
    assert_eq!(all.len(), 2, "one family, and the slices of others");
    assert!(all.pop().is_some_and(|foreign| foreign.delete.is_empty()));
    all.remove(0)
}

fn stored(mut slice: EndpointSlice, name: &str) -> Arc<EndpointSlice> {
    slice.metadata.name = Some(name.to_owned());
    Arc::new(slice)
}

#[test]
fn an_endpoint_has_address_name_zone_and_conditions() {
    let service = service(json!({}));
    let found = endpoint(&service, &pod("web-0", "10.0.0.1", "False"), Some(&node()), "IPv4").unwrap();
    assert_eq!((found.addresses, found.hostname.as_deref()), (vec!["10.0.0.1".to_owned()], Some("web-0")));
    assert_eq!((found.node_name.as_deref(), found.zone.as_deref()), (Some("n"), Some("a")));
    let conditions = found.conditions.unwrap();
    assert_eq!((conditions.ready, conditions.serving, conditions.terminating), (Some(false), Some(false), Some(false)));
    let published = super::tests::service(json!({ "publishNotReadyAddresses": true }));
    let found = endpoint(&published, &pod("web-0", "10.0.0.1", "False"), None, "IPv4").unwrap();
    assert_eq!(found.conditions.unwrap().ready, Some(true));
    assert!(endpoint(&service, &pod("web-0", "10.0.0.1", "True"), None, "IPv6").is_none());
    assert!(!has_endpoint(&Pod::default()));
    let port = &ports(&service, &pod("web-0", "10.0.0.1", "True"))[0];
    assert_eq!((port.name.as_deref(), port.port), (Some("http"), Some(8080)));
    let labels = labels(&service);
    assert_eq!((labels["a"].as_str(), labels["kubernetes.io/service-name"].as_str()), ("b", "web"));
    assert!(labels.contains_key("service.kubernetes.io/headless"));
    assert_eq!(families(&service), ["IPv4"]);
}

#[test]
fn a_service_without_endpoints_keeps_one_empty_slice() {
    let service = service(json!({}));
    let families = families(&service);
    let first = reconcile(&service, &families, &[], Vec::new());
    assert_eq!((first.create.len(), first.create[0].endpoints.as_ref().map(Vec::len)), (1, Some(0)));
    let empty = stored(first.create[0].clone(), "web-a");
    let second = reconcile(&service, &families, &[], vec![empty.clone()]);
    assert!(second.create.is_empty() && second.update.is_empty() && second.delete.is_empty());
    // The empty slice becomes the first one with endpoints.
    let third = reconcile(&service, &families, &desired(&service, &[pod("web-0", "10.0.0.1", "True")]), vec![empty]);
    assert_eq!((third.create.len(), third.update.len(), third.delete.len()), (0, 1, 0));
    assert_eq!(third.update[0].name(), "web-a");
}

#[test]
fn changes_of_endpoints_change_their_slice_only() {
    let service = service(json!({}));
    let families = families(&service);
    let pods: Vec<_> = (0..MOST + 1)
        .map(|at| pod(&format!("web-{at}"), &format!("10.0.{}.{}", at / 200, at % 200 + 1), "True"))
        .collect();
    let first = reconcile(&service, &families, &desired(&service, &pods), Vec::new());
    let lengths: Vec<_> = first.create.iter().map(|slice| slice.endpoints.as_ref().unwrap().len()).collect();
    assert_eq!(lengths, [100, 1]);
    let slices: Vec<_> =
        first.create.iter().enumerate().map(|(at, slice)| stored(slice.clone(), &format!("s{at}"))).collect();
    let same = reconcile(&service, &families, &desired(&service, &pods), slices.clone());
    assert!(same.create.is_empty() && same.update.is_empty() && same.delete.is_empty());
    let mut next = pods.clone();
    next[0] = pod("web-0", "10.0.0.1", "False");
    let changed = reconcile(&service, &families, &desired(&service, &next), slices.clone());
    assert_eq!(changed.update.iter().map(|slice| slice.name()).collect::<Vec<_>>(), ["s0"]);
    let fewer = reconcile(&service, &families, &desired(&service, &pods[..MOST]), slices);
    assert_eq!(fewer.delete.iter().map(|slice| slice.name()).collect::<Vec<_>>(), ["s1"]);
}

#[test]
fn a_pod_that_was_created_again_with_its_address_stays_in_its_place() {
    let service = service(json!({}));
    let families = families(&service);
    let pods = [pod("web-0", "10.0.0.1", "True"), pod("web-1", "10.0.0.2", "True")];
    let first = reconcile(&service, &families, &desired(&service, &pods), Vec::new());
    let slices = vec![stored(first.create[0].clone(), "s")];
    let mut again = Pod::clone(&pods[0]);
    again.metadata.uid = Some("another".to_owned());
    let next = reconcile(&service, &families, &desired(&service, &[Arc::new(again), pods[1].clone()]), slices);
    let uids: Vec<_> = next.update[0].endpoints.iter().flatten().map(|one| one.target_ref.clone()?.uid).collect();
    assert_eq!(uids, [Some("another".to_owned()), Some("web-1".to_owned())]);
    assert!(next.create.is_empty() && next.delete.is_empty());
}

#[test]
fn a_slice_of_another_service_of_that_name_is_deleted_and_not_used() {
    let service = service(json!({}));
    let families = families(&service);
    let pods = [pod("web-0", "10.0.0.1", "True")];
    let mut stray = reconcile(&service, &families, &[], Vec::new()).create.remove(0);
    stray.metadata.owner_references.as_mut().unwrap()[0].uid = "former".to_owned();
    let next = reconcile(&service, &families, &desired(&service, &pods), vec![stored(stray, "s")]);
    assert_eq!((next.create.len(), next.update.len(), next.delete.len()), (1, 0, 1));
}

#[test]
fn labels_of_the_service_count_and_those_of_this_controller_do_not() {
    let service = service(json!({}));
    let families = families(&service);
    let pods = [pod("web-0", "10.0.0.1", "True")];
    let first = reconcile(&service, &families, &desired(&service, &pods), Vec::new()).create.remove(0);
    let relabelled = |name: &str| {
        let mut slice = first.clone();
        slice.metadata.labels.as_mut().unwrap().remove(name);
        reconcile(&service, &families, &desired(&service, &pods), vec![stored(slice, "s")]).update.len()
    };
    assert_eq!([relabelled("a"), relabelled("service.kubernetes.io/headless")], [1, 0]);
}

#[test]
fn a_sidecar_has_named_ports() {
    let service = service(json!({}));
    let mut with_sidecar = Pod::clone(&pod("web-0", "10.0.0.1", "True"));
    let spec = with_sidecar.spec.as_mut().unwrap();
    let mut sidecar = spec.containers[0].clone();
    spec.containers[0].ports = None;
    spec.init_containers = Some(vec![sidecar.clone()]);
    assert_eq!(ports(&service, &with_sidecar), []);
    sidecar.restart_policy = Some("Always".to_owned());
    with_sidecar.spec.as_mut().unwrap().init_containers = Some(vec![sidecar]);
    assert_eq!(ports(&service, &with_sidecar)[0].port, Some(8080));
}
