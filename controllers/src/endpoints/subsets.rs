//! Subsets of Endpoints (`addEndpointSubset`, `RepackSubsets`): each pod once, and ports with the same addresses together.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{EndpointAddress, EndpointPort, EndpointSubset, Pod, Service};

use super::order::{address_key, sort};
use crate::endpointslice::endpoints::{endpoint, has_endpoint, ports};
use crate::endpointslice::slices::{families, is_headless};
use crate::kube::Kind;
use crate::workload::availability::is_ready;

/// Addresses of pods, each with true if the pod is ready.
type Addresses = Vec<(EndpointAddress, bool)>;

/// Returns the subsets of a Service that selects these pods.
pub(super) fn subsets(service: &Service, pods: &[Arc<Pod>]) -> Vec<EndpointSubset> {
    let Some(spec) = &service.spec else { return Vec::new() };
    let publishes = spec.publish_not_ready_addresses == Some(true);
    let is_portless = is_headless(service) && spec.ports.as_ref().is_none_or(Vec::is_empty);
    let mut by_port: Vec<(Option<EndpointPort>, Addresses)> = Vec::new();
    for pod in pods.iter().filter(|pod| has_endpoint(pod) && (publishes || !pod.is_deleting())) {
        let Some(address) = address(service, pod) else { continue };
        let is_ready = publishes || is_ready(pod);
        let on_pod: Vec<Option<EndpointPort>> =
            if is_portless { vec![None] } else { ports_on(service, pod).into_iter().map(Some).collect() };
        for port in on_pod {
            let entry = (address.clone(), is_ready);
            match by_port.iter_mut().find(|(known, _)| *known == port) {
                Some((_, all)) => all.push(entry),
                None => by_port.push((port, vec![entry])),
            }
        }
    }
    repacked(by_port)
}

/// Returns the address of a pod, of the Service's first family (`podToEndpointAddressForService`).
fn address(service: &Service, pod: &Pod) -> Option<EndpointAddress> {
    let found = endpoint(service, pod, None, families(service).first()?)?;
    Some(EndpointAddress {
        hostname: found.hostname,
        ip: found.addresses.into_iter().next()?,
        node_name: found.node_name,
        target_ref: found.target_ref,
    })
}

fn ports_on(service: &Service, pod: &Pod) -> Vec<EndpointPort> {
    let all = ports(service, pod).into_iter();
    let of = all.map(|port| EndpointPort {
        app_protocol: port.app_protocol,
        name: port.name.filter(|name| !name.is_empty()),
        port: port.port.unwrap_or_default(),
        protocol: port.protocol,
    });
    of.collect()
}

/// Puts subsets into the form that the Endpoints controller writes (`RepackSubsets`). An address that is ready and not
/// ready for the same port is not ready.
pub(crate) fn repack(subsets: &[EndpointSubset]) -> Vec<EndpointSubset> {
    let mut addresses: BTreeMap<(String, Option<String>), EndpointAddress> = BTreeMap::new();
    let mut by_port: Vec<(Option<EndpointPort>, Addresses)> = Vec::new();
    for subset in subsets {
        let ports = subset.ports.iter().flatten().cloned().map(Some);
        let no_port = subset.ports.as_ref().is_none_or(Vec::is_empty).then_some(None);
        for port in ports.chain(no_port) {
            let at = by_port.iter().position(|(known, _)| *known == port).unwrap_or_else(|| {
                by_port.push((port, Vec::new()));
                by_port.len() - 1
            });
            let ready = subset.addresses.iter().flatten().map(|address| (address, true));
            let not_ready = subset.not_ready_addresses.iter().flatten().map(|address| (address, false));
            for (address, is_ready) in ready.chain(not_ready) {
                let key = address_key(address);
                match by_port[at].1.iter_mut().find(|(known, _)| address_key(known) == key) {
                    Some((_, was_ready)) => *was_ready &= is_ready,
                    None => {
                        let first = addresses.entry(key).or_insert_with(|| address.clone());
                        by_port[at].1.push((first.clone(), is_ready));
                    }
                }
            }
        }
    }
    repacked(by_port)
}

fn repacked(by_port: Vec<(Option<EndpointPort>, Addresses)>) -> Vec<EndpointSubset> {
    let mut together: Vec<(Vec<EndpointPort>, Addresses)> = Vec::new();
    for (port, mut addresses) in by_port {
        addresses.sort_by_cached_key(|(address, _)| address_key(address));
        match together.iter_mut().find(|(_, known)| *known == addresses) {
            Some((ports, _)) => ports.extend(port),
            None => together.push((port.into_iter().collect(), addresses)),
        }
    }
    let mut subsets: Vec<_> = together.into_iter().map(|(ports, addresses)| subset(ports, addresses)).collect();
    sort(&mut subsets);
    subsets
}

/// Builds a subset; empty lists are left out, as the server does.
fn subset(ports: Vec<EndpointPort>, addresses: Addresses) -> EndpointSubset {
    let (ready, not_ready): (Addresses, Addresses) = addresses.into_iter().partition(|(_, is_ready)| *is_ready);
    let listed = |all: Addresses| {
        Some(all.into_iter().map(|(address, _)| address).collect()).filter(|all: &Vec<_>| !all.is_empty())
    };
    EndpointSubset {
        addresses: listed(ready),
        not_ready_addresses: listed(not_ready),
        ports: Some(ports).filter(|ports| !ports.is_empty()),
    }
}

#[cfg(test)]
mod tests {
    use substrate::json::{Value, from_value, json, to_value};

    use super::*;

    fn service(spec: Value) -> Service {
        from_value(json!({ "metadata": { "namespace": "default", "name": "web" }, "spec": spec })).unwrap()
    }

    fn pod(name: &str, ip: &str, ready: &str, port: u16) -> Arc<Pod> {
        let container = json!({ "name": "c", "ports": [{ "name": "web", "containerPort": port }] });
        let status = json!({ "phase": "Running", "podIP": ip, "podIPs": [{ "ip": ip }],
            "conditions": [{ "type": "Ready", "status": ready }] });
        let metadata = json!({ "namespace": "default", "name": name, "uid": name });
        let spec = json!({ "nodeName": "n", "containers": [container] });
        Arc::new(from_value(json!({ "metadata": metadata, "spec": spec, "status": status })).unwrap())
    }

    /// Returns the addresses, those that are not ready, and the ports of each subset.
    fn shown(service: &Service, pods: &[Arc<Pod>]) -> Vec<[Vec<String>; 3]> {
        let texts = |value: &Value, field: &str| -> Vec<String> {
            let all = value.as_array().into_iter().flatten();
            all.map(|one| one[field].to_string().trim_matches('"').to_owned()).collect()
        };
        let of = |subset: &EndpointSubset| {
            let value = to_value(subset).unwrap();
            [("addresses", "ip"), ("notReadyAddresses", "ip"), ("ports", "port")]
                .map(|(list, field)| texts(&value[list], field))
        };
        subsets(service, pods).iter().map(of).collect()
    }

    fn list(all: &[&str]) -> Vec<String> {
        all.iter().map(|&one| one.to_owned()).collect()
    }

    #[test]
    fn ports_with_the_same_addresses_are_in_one_subset() {
        let ports = json!([{ "name": "a", "port": 80, "targetPort": "web" }, { "name": "b", "port": 90 }]);
        let service = service(json!({ "clusterIP": "10.96.0.9", "ports": ports }));
        let pods = [pod("p", "10.0.0.10", "True", 1), pod("q", "10.0.0.9", "False", 1)];
        assert_eq!(shown(&service, &pods), [[list(&["10.0.0.10"]), list(&["10.0.0.9"]), list(&["1", "90"])]]);
        // The named port has another number on another pod.
        let pods = [pod("p", "10.0.0.10", "True", 1), pod("q", "10.0.0.9", "True", 2)];
        assert_eq!(
            shown(&service, &pods),
            [
                // Upstream sorts addresses as texts, and subsets by their hashes.
                [list(&["10.0.0.9"]), list(&[]), list(&["2"])],
                [list(&["10.0.0.10", "10.0.0.9"]), list(&[]), list(&["90"])],
                [list(&["10.0.0.10"]), list(&[]), list(&["1"])],
            ]
        );
    }

    #[test]
    fn an_address_that_is_ready_and_not_ready_is_not_ready() {
        let of = |list: &str, ip: &str| json!({ (list): [{ "ip": ip }], "ports": [{ "port": 80, "protocol": "TCP" }] });
        let given = json!([of("addresses", "1.2.3.4"), of("addresses", "1.2.3.5"), of("notReadyAddresses", "1.2.3.4")]);
        let given: Vec<EndpointSubset> = from_value(given).unwrap();
        let ports = json!([{ "port": 80, "protocol": "TCP" }]);
        let expected =
            json!([{ "addresses": [{ "ip": "1.2.3.5" }], "notReadyAddresses": [{ "ip": "1.2.3.4" }], "ports": ports }]);
        assert_eq!(to_value(&repack(&given)).unwrap(), expected);
    }

    #[test]
    fn a_headless_service_may_have_no_ports_and_may_publish_pods_that_are_not_ready() {
        let service = service(json!({ "clusterIP": "None", "publishNotReadyAddresses": true }));
        let pods = [pod("p", "10.0.0.1", "False", 1)];
        assert_eq!(shown(&service, &pods), [[list(&["10.0.0.1"]), list(&[]), list(&[])]]);
        assert_eq!(shown(&service, &[]), Vec::<[Vec<String>; 3]>::new());
    }
}
