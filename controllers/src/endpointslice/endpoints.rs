//! Endpoint of a pod (`podToEndpoint`), and the ports of a Service on it (`getEndpointPorts`).

use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Node, ObjectReference, Pod, Service, ServicePort};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointPort};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::kube::Kind;
use crate::workload::availability::{is_ready, is_terminal};

/// Label with the zone of a node.
pub(super) const ZONE: &str = "topology.kubernetes.io/zone";

/// Returns the addresses of a pod of one family.
fn addresses(pod: &Pod, family: &str) -> Vec<String> {
    let Some(status) = &pod.status else { return Vec::new() };
    let of_family = |text: &&String| match text.parse() {
        Ok(IpAddr::V4(_)) => family == "IPv4",
        Ok(IpAddr::V6(_)) => family == "IPv6",
        Err(_) => false,
    };
    status.pod_ips.iter().flatten().map(|ip| &ip.ip).filter(of_family).cloned().collect()
}

/// Returns true if the pod has an address and has not ended (`ShouldPodBeInEndpoints`).
pub(crate) fn has_endpoint(pod: &Pod) -> bool {
    let has_address = pod.status.as_ref().is_some_and(|status| {
        status.pod_ip.as_ref().is_some_and(|ip| !ip.is_empty())
            || status.pod_ips.as_ref().is_some_and(|all| !all.is_empty())
    });
    !is_terminal(pod) && has_address
}

/// Returns the node of a pod; empty before it is bound.
pub(super) fn node_name(pod: &Pod) -> &str {
    pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default()
}

/// Builds the endpoint of a pod; none if it has no address of the family.
pub(crate) fn endpoint(service: &Service, pod: &Pod, node: Option<&Node>, family: &str) -> Option<Endpoint> {
    let spec = service.spec.as_ref()?;
    let addresses = addresses(pod, family);
    if addresses.is_empty() {
        return None;
    }
    let (serving, terminating) = (is_ready(pod), pod.is_deleting());
    let ready = spec.publish_not_ready_addresses == Some(true) || (serving && !terminating);
    let target = ObjectReference {
        kind: Some("Pod".to_owned()),
        namespace: Some(pod.namespace().to_owned()),
        name: Some(pod.name().to_owned()),
        uid: Some(pod.uid().to_owned()),
        ..ObjectReference::default()
    };
    let own = pod.spec.as_ref();
    let is_named = own.and_then(|own| own.subdomain.as_deref()) == Some(service.name());
    let hostname = own.and_then(|own| own.hostname.clone()).filter(|name| is_named && !name.is_empty());
    let conditions = EndpointConditions { ready: Some(ready), serving: Some(serving), terminating: Some(terminating) };
    Some(Endpoint {
        addresses,
        conditions: Some(conditions),
        hostname,
        node_name: Some(node_name(pod).to_owned()).filter(|name| !name.is_empty()),
        target_ref: Some(target),
        zone: node.and_then(|node| node.label(ZONE)).map(str::to_owned),
        ..Endpoint::default()
    })
}

/// Returns the number of a Service's port on a pod (`podutil.FindPort`).
fn find_port(pod: &Pod, port: &ServicePort) -> Option<i32> {
    match &port.target_port {
        None => Some(port.port),
        Some(IntOrString::Int(0)) => Some(port.port),
        Some(IntOrString::Int(number)) => Some(*number),
        Some(IntOrString::String(name)) => {
            let protocol = |text: &Option<String>| text.clone().unwrap_or_else(|| "TCP".to_owned());
            let spec = pod.spec.as_ref()?;
            let is_sidecar = |container: &&k8s_openapi::api::core::v1::Container| {
                container.restart_policy.as_deref() == Some("Always")
            };
            let sidecars = spec.init_containers.iter().flatten().filter(is_sidecar);
            let mut ports =
                spec.containers.iter().chain(sidecars).flat_map(|container| container.ports.iter().flatten());
            let is_it = |own: &&k8s_openapi::api::core::v1::ContainerPort| {
                own.name.as_ref() == Some(name) && protocol(&own.protocol) == protocol(&port.protocol)
            };
            ports.find(is_it).map(|own| own.container_port)
        }
    }
}

/// Returns the ports of a Service on a pod.
pub(crate) fn ports(service: &Service, pod: &Pod) -> Vec<EndpointPort> {
    let all = service.spec.iter().flat_map(|spec| spec.ports.iter().flatten());
    all.filter_map(|port| {
        Some(EndpointPort {
            // Go writes the name even if it is empty.
            name: Some(port.name.clone().unwrap_or_default()),
            port: Some(find_port(pod, port)?),
            protocol: Some(port.protocol.clone().unwrap_or_else(|| "TCP".to_owned())),
            app_protocol: port.app_protocol.clone(),
        })
    })
    .collect()
}
