//! Defaults of services, endpoints and network policies (`pkg/apis/{core,discovery,networking}/v1/defaults.go`).

use substrate::json::{Map, Value, json};

use super::pod::elements;
use crate::kinds::Kind;
use crate::state::value::{default, map_mut};

pub(super) fn apply(kind: &Kind, object: &mut Value) {
    match kind.kind {
        "Service" => {
            if let Some(spec) = map_mut(object, "spec") {
                service(spec);
            }
        }
        "Endpoints" => {
            let Some(map) = object.as_object_mut() else { return };
            for subset in elements(map, "subsets") {
                for port in elements(subset, "ports") {
                    default(port, "protocol", "TCP");
                }
            }
        }
        "EndpointSlice" => {
            let Some(map) = object.as_object_mut() else { return };
            for endpoint in elements(map, "endpoints") {
                default(endpoint, "conditions", json!({}));
            }
            for port in elements(map, "ports") {
                default(port, "name", "");
                default(port, "protocol", "TCP");
            }
        }
        "NetworkPolicy" => {
            let Some(spec) = map_mut(object, "spec") else { return };
            for direction in ["ingress", "egress"] {
                for rule in elements(spec, direction) {
                    for port in elements(rule, "ports") {
                        default(port, "protocol", "TCP");
                    }
                }
            }
            if spec.get("policyTypes").and_then(Value::as_array).is_none_or(Vec::is_empty) {
                let out = spec.get("egress").and_then(Value::as_array).is_some_and(|rules| !rules.is_empty());
                let types = if out { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) };
                spec.insert("policyTypes", types);
            }
        }
        "IngressClass" => {
            let parameters = object.get_mut("spec").and_then(|spec| spec.get_mut("parameters"));
            if let Some(parameters) = parameters.and_then(Value::as_object_mut) {
                default(parameters, "scope", "Cluster");
            }
        }
        _ => {}
    }
}

fn service(spec: &mut Map) {
    default(spec, "sessionAffinity", "None");
    default(spec, "type", "ClusterIP");
    if spec.get("sessionAffinity").is_some_and(|affinity| affinity == "ClientIP") {
        default(spec, "sessionAffinityConfig", json!({"clientIP": {"timeoutSeconds": 10800}}));
    }
    for port in elements(spec, "ports") {
        default(port, "protocol", "TCP");
        let own = port.get("port").cloned().unwrap_or_default();
        let unset = |to: &Value| to.is_null() || to == 0 || to == "";
        if port.get("targetPort").is_none_or(unset) && !own.is_null() {
            port.insert("targetPort", own);
        }
    }
    let of = spec.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
    if of != "ExternalName" {
        default(spec, "internalTrafficPolicy", "Cluster");
    }
    if matches!(of.as_str(), "NodePort" | "LoadBalancer") {
        default(spec, "externalTrafficPolicy", "Cluster");
    }
    if of == "LoadBalancer" {
        default(spec, "allocateLoadBalancerNodePorts", true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_leads_to_itself_unless_it_says_otherwise() {
        let mut spec = json!({"ports": [{"port": 80}, {"port": 81, "targetPort": "web"}]});
        service(spec.as_object_mut().unwrap());
        assert_eq!((&spec["ports"][0]["targetPort"], &spec["ports"][1]["targetPort"]), (&json!(80), &json!("web")));
        assert_eq!((&spec["type"], &spec["internalTrafficPolicy"]), (&json!("ClusterIP"), &json!("Cluster")));
    }
}
