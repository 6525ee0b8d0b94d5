//! Services (`pkg/registry/core/service/strategy.go`); their addresses are in [`crate::state::service`].

use substrate::json::{Map, Value, json};

use super::service_type::drop_obsolete;
use super::{PLAIN, Strategy, keep_the_rest, service_check};
use crate::state::command::Part;
use crate::state::default::elements;
use crate::state::validate::names;
use crate::state::value::{default, has, list, map_mut};

pub(super) static SERVICE: Strategy = Strategy {
    default: |object| {
        if let Some(spec) = map_mut(object, "spec") {
            service(spec);
        }
        let balancer = object.get_mut("status").and_then(|status| status.get_mut("loadBalancer"));
        if let Some(balancer) = balancer.and_then(Value::as_object_mut) {
            for ingress in elements(balancer, "ingress") {
                if ingress.get("ip").is_some_and(|ip| ip != "") {
                    default(ingress, "ipMode", "VIP");
                }
            }
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
    validate: |service, errors| service_check::whole(service, None, errors),
    validate_update: |part, service, old, errors| {
        if part == Part::Main {
            service_check::update(service, old, errors);
        }
    },
    check_name: names::label,
    ..PLAIN
};

fn service(spec: &mut Map) {
    default(spec, "sessionAffinity", "None");
    default(spec, "type", "ClusterIP");
    if spec.get("sessionAffinity").is_some_and(|affinity| affinity == "ClientIP") {
        let given =
            spec.get("sessionAffinityConfig").is_some_and(|config| has(config, &["clientIP", "timeoutSeconds"]));
        if !given {
            spec.insert("sessionAffinityConfig", json!({"clientIP": {"timeoutSeconds": 10800}}));
        }
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
    let has_outer = spec.get("externalIPs").is_some_and(|outer| !list(outer, &[]).is_empty());
    if matches!(of.as_str(), "NodePort" | "LoadBalancer") || of == "ClusterIP" && has_outer {
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
