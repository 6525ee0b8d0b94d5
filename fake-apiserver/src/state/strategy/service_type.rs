//! Fields of a service that a change of its type makes obsolete (`dropTypeDependentFields`).

use substrate::json::Value;

use crate::state::default::elements;
use crate::state::value::{int, list, map_mut, text};

/// Removes the fields that the new type does not use, as far as the write leaves them as they were. Validation refuses
/// those that the write changes.
pub(super) fn drop_obsolete(service: &mut Value, old: &Value) {
    let is_same = |field: &&str| service["spec"][*field] == old["spec"][*field];
    let (of, was) = (text(service, &["spec", "type"]), text(old, &["spec", "type"]));
    let mut obsolete: Vec<&str> = Vec::new();
    if of == "ExternalName" && was != "ExternalName" {
        let addresses = ["clusterIP", "clusterIPs"];
        if addresses.iter().all(is_same) {
            obsolete.extend(addresses);
        }
        obsolete.extend(["ipFamilies", "ipFamilyPolicy"].iter().filter(|field| is_same(field)));
    }
    if of != "LoadBalancer" && was == "LoadBalancer" {
        let fields = ["allocateLoadBalancerNodePorts", "loadBalancerClass"];
        obsolete.extend(fields.iter().filter(|field| is_same(field)));
    }
    if needs_health_check(old) && !needs_health_check(service) && is_same(&"healthCheckNodePort") {
        obsolete.push("healthCheckNodePort");
    }
    if is_reachable(old) && !is_reachable(service) && is_same(&"externalTrafficPolicy") {
        obsolete.push("externalTrafficPolicy");
    }
    let frees_ports = has_node_ports(was) && !has_node_ports(of) && node_ports(service) == node_ports(old);
    let Some(spec) = map_mut(service, "spec") else { return };
    for field in obsolete {
        spec.remove(field);
    }
    if frees_ports {
        for port in elements(spec, "ports") {
            port.remove("nodePort");
        }
    }
}

fn has_node_ports(of: &str) -> bool {
    matches!(of, "NodePort" | "LoadBalancer")
}

/// Returns true if clients outside the cluster can reach a service (`ExternallyAccessible`).
pub(super) fn is_reachable(service: &Value) -> bool {
    let of = text(service, &["spec", "type"]);
    has_node_ports(of) || of == "ClusterIP" && !list(service, &["spec", "externalIPs"]).is_empty()
}

/// Returns true if a load balancer asks the nodes for their health (`NeedsHealthCheck`).
pub(in crate::state) fn needs_health_check(service: &Value) -> bool {
    let spec = &service["spec"];
    text(spec, &["type"]) == "LoadBalancer" && text(spec, &["externalTrafficPolicy"]) == "Local"
}

fn node_ports(service: &Value) -> Vec<i64> {
    let mut found: Vec<i64> = list(service, &["spec", "ports"])
        .iter()
        .filter_map(|port| int(port, &["nodePort"]))
        .filter(|n| *n != 0)
        .collect();
    found.sort_unstable();
    found
}
