//! Services (`pkg/registry/core/service/strategy.go`); their addresses are in [`crate::state::service`].

use substrate::json::{Map, Value, json};

use super::service_type::{drop_obsolete, is_reachable};
use super::{PLAIN, Strategy, keep_the_rest};
use crate::state::FieldError;
use crate::state::command::Part;
use crate::state::default::elements;
use crate::state::validate::{names, refuse};
use crate::state::value::{default, int, list, map_mut, text};

pub(super) static SERVICE: Strategy = Strategy {
    default: |object| {
        if let Some(spec) = map_mut(object, "spec") {
            service(spec);
        }
    },
    admit_create: |store, _, service| store.give_addresses(service, None),
    admit_update: |store, part, _, service, old| match part {
        Part::Main => store.give_addresses(service, Some(old)),
        _ => Ok(()),
    },
    check_create: |store, _, service| store.check_addresses(service, None),
    check_update: |store, part, _, service, old| match part {
        Part::Main => store.check_addresses(service, Some(old)),
        _ => Ok(()),
    },
    begin: |_, _| Some(json!({"loadBalancer": {}})),
    prepare: |kind, part, service, old, now| {
        keep_the_rest(kind, part, service, old, now);
        if part == Part::Main {
            drop_obsolete(service, old);
        }
    },
    validate,
    validate_update: |part, service, _, errors| {
        if part == Part::Main {
            validate(service, errors);
        }
    },
    // A DNS label that begins with a letter.
    check_name: names::label,
    ..PLAIN
};

fn service(spec: &mut Map) {
    default(spec, "sessionAffinity", "None");
    default(spec, "type", "ClusterIP");
    if spec.get("sessionAffinity").is_some_and(|affinity| affinity == "ClientIP") {
        default(spec, "sessionAffinityConfig", json!({"clientIP": {"timeoutSeconds": 10800}}));
    } else if spec.get("sessionAffinity").is_some_and(|affinity| affinity == "None") {
        spec.remove("sessionAffinityConfig");
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

fn validate(object: &Value, errors: &mut Vec<FieldError>) {
    let of = text(object, &["spec", "type"]);
    let supported = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
    if !supported.contains(&of) {
        errors.push(FieldError::not_supported("spec.type", &of.into(), &supported));
    }
    let affinity = text(object, &["spec", "sessionAffinity"]);
    if !matches!(affinity, "ClientIP" | "None") {
        errors.push(FieldError::not_supported("spec.sessionAffinity", &affinity.into(), &["ClientIP", "None"]));
    }
    let address = text(object, &["spec", "clusterIP"]);
    if !matches!(address, "" | "None") && address.parse::<std::net::IpAddr>().is_err() {
        let why = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
        errors.push(FieldError::invalid("spec.clusterIPs[0]", &address.into(), why));
    }
    let mut port_names: Vec<&str> = Vec::new();
    let mut on_nodes: Vec<(&str, i64)> = Vec::new();
    let ports = list(object, &["spec", "ports"]);
    let headless = text(object, &["spec", "clusterIP"]) == "None";
    if ports.is_empty() && !headless && of != "ExternalName" {
        errors.push(FieldError::required("spec.ports", ""));
    }
    validate_type(object, of, errors);
    validate_reach(object, errors);
    for (i, port) in ports.iter().enumerate() {
        let (field, number) = (format!("spec.ports[{i}]"), int(port, &["port"]).unwrap_or(0));
        if !(1..=65_535).contains(&number) {
            let why = "must be between 1 and 65535, inclusive";
            errors.push(FieldError::invalid(format!("{field}.port"), &number.into(), why));
        }
        let protocol = text(port, &["protocol"]);
        let protocols = ["SCTP", "TCP", "UDP"];
        if !protocols.contains(&protocol) {
            errors.push(FieldError::not_supported(format!("{field}.protocol"), &protocol.into(), &protocols));
        }
        let target = &port["targetPort"];
        if target.as_i64().is_some_and(|target| !(1..=65_535).contains(&target)) {
            let why = "must be between 1 and 65535, inclusive";
            errors.push(FieldError::invalid(format!("{field}.targetPort"), target, why));
        }
        if of == "ClusterIP" && int(port, &["nodePort"]).is_some_and(|port| port != 0) {
            let why = "may not be used when `type` is 'ClusterIP'";
            errors.push(FieldError::forbidden(format!("{field}.nodePort"), why));
        }
        if let Some(on_node) = int(port, &["nodePort"]).filter(|on_node| *on_node != 0) {
            if on_nodes.contains(&(protocol, on_node)) {
                errors.push(FieldError::duplicate(format!("{field}.nodePort"), &on_node.into()));
            }
            on_nodes.push((protocol, on_node));
        }
        let name = text(port, &["name"]);
        if !name.is_empty() && port_names.contains(&name) {
            errors.push(FieldError::duplicate(format!("{field}.name"), &name.into()));
        }
        port_names.push(name);
        if !name.is_empty() {
            refuse(name, &format!("{field}.name"), names::label(name), errors);
        } else if ports.len() > 1 {
            errors.push(FieldError::required(format!("{field}.name"), ""));
        }
    }
}

/// Validates the fields that depend on the type.
fn validate_type(object: &Value, of: &str, errors: &mut Vec<FieldError>) {
    let spec = &object["spec"];
    if matches!(of, "LoadBalancer" | "NodePort") && text(spec, &["clusterIP"]) == "None" {
        let why = format!("may not be set to 'None' for {of} services");
        errors.push(FieldError::invalid("spec.clusterIPs[0]", &"None".into(), why));
    }
    if of != "ExternalName" {
        return;
    }
    let why = "may not be set for ExternalName services";
    if !text(spec, &["clusterIP"]).is_empty() || !list(spec, &["clusterIPs"]).is_empty() {
        errors.push(FieldError::forbidden("spec.clusterIPs", why));
    }
    if !list(spec, &["ipFamilies"]).is_empty() {
        errors.push(FieldError::forbidden("spec.ipFamilies", why));
    }
    if !text(spec, &["ipFamilyPolicy"]).is_empty() {
        errors.push(FieldError::forbidden("spec.ipFamilyPolicy", why));
    }
    let target = text(spec, &["externalName"]);
    let target = target.strip_suffix('.').unwrap_or(target);
    if target.is_empty() {
        errors.push(FieldError::required("spec.externalName", ""));
    } else {
        refuse(target, "spec.externalName", names::subdomain(target), errors);
    }
}

/// Validates the selector, and the fields for clients outside the cluster.
fn validate_reach(object: &Value, errors: &mut Vec<FieldError>) {
    let spec = &object["spec"];
    for (key, value) in spec["selector"].as_object().into_iter().flatten() {
        for why in names::qualified(key) {
            errors.push(FieldError::invalid("spec.selector", &key.as_str().into(), why));
        }
        for why in names::label_value(value.as_str().unwrap_or_default()) {
            errors.push(FieldError::invalid("spec.selector", value, why));
        }
    }
    for (i, address) in list(spec, &["externalIPs"]).iter().enumerate() {
        if address.as_str().unwrap_or_default().parse::<std::net::IpAddr>().is_err() {
            let why = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
            errors.push(FieldError::invalid(format!("spec.externalIPs[{i}]"), address, why));
        }
    }
    let policy = text(spec, &["externalTrafficPolicy"]);
    if !policy.is_empty() && !is_reachable(object) {
        let why = "may only be set for externally-accessible services";
        errors.push(FieldError::invalid("spec.externalTrafficPolicy", &policy.into(), why));
    } else if !matches!(policy, "" | "Cluster" | "Local") {
        let supported = ["Cluster", "Local"];
        errors.push(FieldError::not_supported("spec.externalTrafficPolicy", &policy.into(), &supported));
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
