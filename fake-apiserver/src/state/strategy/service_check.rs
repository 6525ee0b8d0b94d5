//! Validation of services (`pkg/apis/core/validation`, `ValidateServiceCreate` and `ValidateServiceUpdate`).

use substrate::json::{Value, json};

use super::service_type::{is_reachable, needs_health_check};
use crate::fields::FieldFault;
use crate::state::FieldError;
use crate::state::validate::{addresses, keys, names, refuse, selector};
use crate::state::value::{int, list, text};

/// Annotation before `spec.loadBalancerSourceRanges`.
const RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";
const ONLY_BALANCED: &str = "may only be used when `type` is 'LoadBalancer'";
/// Longest affinity of a client, in seconds.
const LONGEST_AFFINITY: i64 = 86_400;

/// Validates a change of a service.
pub(super) fn update(service: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let is_balanced = |service: &Value| text(service, &["spec", "type"]) == "LoadBalancer";
    let class = &service["spec"]["loadBalancerClass"];
    if is_balanced(service) && is_balanced(old) && *class != old["spec"]["loadBalancerClass"] {
        errors.push(FieldError::invalid("spec.loadBalancerClass", class, "may not change once set"));
    }
    balancer_class(service, errors);
    let port = |service: &Value| int(service, &["spec", "healthCheckNodePort"]).unwrap_or(0);
    if needs_health_check(service) && needs_health_check(old) && port(service) != port(old) {
        errors.push(FieldError::forbidden("spec.healthCheckNodePort", "field is immutable"));
    }
    whole(service, Some(old), errors);
}

/// Validates a service.
pub(super) fn whole(service: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let spec = &service["spec"];
    let (of, ports) = (text(spec, &["type"]), list(spec, &["ports"]));
    hints(service, errors);
    if ports.is_empty() && text(spec, &["clusterIP"]) != "None" && of != "ExternalName" {
        errors.push(FieldError::required("spec.ports", ""));
    }
    kind_of_address(spec, of, errors);
    let mut port_names = Vec::new();
    for (i, port) in ports.iter().enumerate() {
        check_port(port, ports.len() > 1, &mut port_names, &format!("spec.ports[{i}]"), errors);
    }
    selector::labels(&spec["selector"], "spec.selector", errors);
    affinity(spec, errors);
    if of != "ExternalName" {
        cluster_addresses(spec, old, errors);
    }
    let had = old.map(|old| list(old, &["spec", "externalIPs"])).unwrap_or_default();
    for (i, address) in list(spec, &["externalIPs"]).iter().enumerate() {
        let (field, shown) = (format!("spec.externalIPs[{i}]"), address.as_str().unwrap_or_default());
        match addresses::address(shown).filter(|_| !had.contains(address)) {
            Some(why) => errors.push(FieldError::invalid(field, address, why)),
            None => refuse(shown, &field, addresses::special(shown), errors),
        }
    }
    let supported = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
    if of.is_empty() {
        errors.push(FieldError::required("spec.type", ""));
    } else if !supported.contains(&of) {
        errors.push(FieldError::not_supported("spec.type", &of.into(), &supported));
    }
    port_numbers(ports, of, errors);
    source_ranges(service, old, errors);
    balancer(service, errors);
    traffic(service, errors);
}

fn hints(service: &Value, errors: &mut Vec<FieldError>) {
    let (mode, hints) = ("service.kubernetes.io/topology-mode", "service.kubernetes.io/topology-aware-hints");
    let annotations = &service["metadata"]["annotations"];
    let (wanted, deprecated) = (&annotations[mode], &annotations[hints]);
    if !wanted.is_null() && !deprecated.is_null() && wanted != deprecated {
        let why = format!("must match annotations[{hints}] when both are specified");
        errors.push(FieldError::invalid(format!("metadata.annotations[{mode}]"), wanted, why));
    }
}

/// Validates the fields that decide which address a service has.
fn kind_of_address(spec: &Value, of: &str, errors: &mut Vec<FieldError>) {
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

fn check_port<'a>(port: &'a Value, needs_name: bool, seen: &mut Vec<&'a str>, at: &str, errors: &mut Vec<FieldError>) {
    let name = text(port, &["name"]);
    if !name.is_empty() {
        refuse(name, &format!("{at}.name"), names::label(name), errors);
        if seen.contains(&name) {
            errors.push(FieldError::duplicate(format!("{at}.name"), &name.into()));
        }
        seen.push(name);
    } else if needs_name {
        errors.push(FieldError::required(format!("{at}.name"), ""));
    }
    let number = int(port, &["port"]).unwrap_or(0);
    if let Some(why) = keys::port_number(number) {
        errors.push(FieldError::invalid(format!("{at}.port"), &number.into(), why));
    }
    let (protocol, protocols) = (text(port, &["protocol"]), ["SCTP", "TCP", "UDP"]);
    if !protocols.contains(&protocol) {
        errors.push(FieldError::not_supported(format!("{at}.protocol"), &protocol.into(), &protocols));
    }
    let (target, field) = (&port["targetPort"], format!("{at}.targetPort"));
    if let Some(name) = target.as_str() {
        refuse(name, &field, keys::port_name(name), errors);
    } else if let Some(why) = target.as_i64().and_then(keys::port_number) {
        errors.push(FieldError::invalid(field, target, why));
    }
    if let Some(protocol) = port["appProtocol"].as_str() {
        refuse(protocol, &format!("{at}.appProtocol"), names::qualified(protocol), errors);
    }
}

fn affinity(spec: &Value, errors: &mut Vec<FieldError>) {
    let (affinity, config) = (text(spec, &["sessionAffinity"]), &spec["sessionAffinityConfig"]);
    let field = "spec.sessionAffinityConfig";
    match affinity {
        "" => errors.push(FieldError::required("spec.sessionAffinity", "")),
        "ClientIP" => {
            let timeout = &config["clientIP"]["timeoutSeconds"];
            let missing = if config.is_null() {
                field.to_owned()
            } else if config["clientIP"].is_null() {
                format!("{field}.clientIP")
            } else {
                format!("{field}.clientIP.timeoutSeconds")
            };
            if timeout.is_null() {
                errors.push(FieldError::required(missing, "when session affinity type is ClientIP"));
            } else if timeout.as_i64().is_some_and(|seconds| !(1..=LONGEST_AFFINITY).contains(&seconds)) {
                let why = format!("must be greater than 0 and less than {LONGEST_AFFINITY}");
                errors.push(FieldError::invalid(missing, timeout, why));
            }
        }
        "None" if !config.is_null() => {
            errors.push(FieldError::forbidden(field, "must not be set when session affinity is None"));
        }
        "None" => {}
        other => errors.push(FieldError::not_supported("spec.sessionAffinity", &other.into(), &["ClientIP", "None"])),
    }
}

/// Validates the addresses in the cluster, and their families (`ValidateServiceClusterIPsRelatedFields`).
fn cluster_addresses(spec: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let field = "spec.clusterIPs";
    let (first, all) = (text(spec, &["clusterIP"]), list(spec, &["clusterIPs"]));
    if first.is_empty() && !all.is_empty() {
        let why = "must be empty when `clusterIP` is not specified";
        errors.push(FieldError::invalid(field, &json!(all), why));
    } else if all.first().is_some_and(|address| address != first) {
        errors.push(FieldError::invalid(field, &json!(all), "first value must match `clusterIP`"));
    }
    let families = list(spec, &["ipFamilies"]);
    for (i, family) in families.iter().enumerate() {
        if !matches!(family.as_str(), Some("IPv4" | "IPv6")) {
            errors.push(FieldError::not_supported(format!("spec.ipFamilies[{i}]"), family, &["IPv4", "IPv6"]));
        }
        if families[..i].contains(family) {
            errors.push(FieldError::duplicate(format!("spec.ipFamilies[{i}]"), family));
        }
    }
    let policy = text(spec, &["ipFamilyPolicy"]);
    let supported = ["PreferDualStack", "RequireDualStack", "SingleStack"];
    if !policy.is_empty() && !supported.contains(&policy) {
        errors.push(FieldError::not_supported("spec.ipFamilyPolicy", &policy.into(), &supported));
    }
    let had = old.map(|old| list(old, &["spec", "clusterIPs"])).unwrap_or_default();
    let mut is_sound = true;
    for (i, address) in all.iter().enumerate() {
        if i == 0 && address == "None" {
            if all.len() > 1 {
                is_sound = false;
                errors.push(FieldError::invalid(field, &json!(all), "'None' must be the first and only value"));
            }
        } else if let Some(why) = addresses::address(address.as_str().unwrap_or_default())
            && !had.contains(address)
        {
            is_sound = false;
            errors.push(FieldError::invalid(format!("{field}[{i}]"), address, why));
        }
    }
    if all.len() > 2 {
        errors.push(FieldError::invalid(field, &json!(all), "may only hold up to 2 values"));
    }
    if !is_sound || first == "None" {
        return;
    }
    let family_of = |address: &Value| if text(address, &[]).contains(':') { "IPv6" } else { "IPv4" };
    if let [first, rest @ ..] = all
        && rest.iter().any(|address| family_of(address) == family_of(first))
    {
        let why = "may specify no more than one IP for each IP family";
        errors.push(FieldError::invalid(field, &json!(all), why));
    }
    for (i, (address, family)) in all.iter().zip(families).enumerate() {
        if matches!(family.as_str(), Some("IPv4" | "IPv6")) && family != family_of(address) {
            let wanted = family.as_str().unwrap_or_default();
            let why = format!("expected an {wanted} value as indicated by `ipFamilies[{i}]`");
            errors.push(FieldError::invalid(format!("{field}[{i}]"), address, why));
        }
    }
}

/// Refuses node ports and ports that occur twice, and node ports of services inside the cluster.
fn port_numbers(ports: &[Value], of: &str, errors: &mut Vec<FieldError>) {
    let on_node = |port: &Value| int(port, &["nodePort"]).filter(|number| *number != 0);
    for (i, port) in ports.iter().enumerate() {
        if of == "ClusterIP" && on_node(port).is_some() {
            let why = "may not be used when `type` is 'ClusterIP'";
            errors.push(FieldError::forbidden(format!("spec.ports[{i}].nodePort"), why));
        }
    }
    let protocol = |port: &Value| text(port, &["protocol"]).to_owned();
    for (i, port) in ports.iter().enumerate() {
        let is_same = |other: &Value| on_node(other) == on_node(port) && protocol(other) == protocol(port);
        if on_node(port).is_some() && ports[..i].iter().any(is_same) {
            errors.push(FieldError::duplicate(format!("spec.ports[{i}].nodePort"), &port["nodePort"]));
        }
    }
    for (i, port) in ports.iter().enumerate() {
        let is_same = |other: &Value| other["port"] == port["port"] && protocol(other) == protocol(port);
        if ports[..i].iter().any(is_same) {
            let (protocol, number) = (protocol(port), &port["port"]);
            // Upstream shows a struct of Go.
            let shown = format!(
                r#"{{"Name":"","Protocol":"{protocol}","AppProtocol":null,"Port":{number},"TargetPort":0,"NodePort":0}}"#
            );
            let (field, fault) = (format!("spec.ports[{i}]"), FieldFault::Duplicate(shown));
            errors.push(FieldError { field, fault, detail: String::new() });
        }
    }
}

/// Validates the blocks of addresses whose clients may use a load balancer.
fn source_ranges(service: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let is_balanced = text(service, &["spec", "type"]) == "LoadBalancer";
    let ranges = list(service, &["spec", "loadBalancerSourceRanges"]);
    if !ranges.is_empty() {
        let field = "spec.LoadBalancerSourceRanges";
        if !is_balanced {
            errors.push(FieldError::forbidden(field, ONLY_BALANCED));
        }
        let had = old.map(|old| list(old, &["spec", "loadBalancerSourceRanges"])).unwrap_or_default();
        for (i, range) in ranges.iter().enumerate().filter(|(_, range)| !had.contains(range)) {
            check_range(range.as_str().unwrap_or_default(), &format!("{field}[{i}]"), errors);
        }
    } else if let Some(ranges) = service["metadata"]["annotations"][RANGES].as_str() {
        let field = format!("metadata.annotations[{RANGES}]");
        if !is_balanced {
            errors.push(FieldError::forbidden(field.as_str(), ONLY_BALANCED));
        }
        let is_kept = old.is_some_and(|old| old["metadata"]["annotations"][RANGES] == ranges);
        if !is_kept && !ranges.trim().is_empty() {
            for range in ranges.trim().split(',') {
                check_range(range, &field, errors);
            }
        }
    }
}

fn check_range(range: &str, field: &str, errors: &mut Vec<FieldError>) {
    let range = range.trim();
    if let Some(why) = addresses::block(range) {
        errors.push(FieldError::invalid(field, &range.into(), why));
    }
}

/// Validates the fields for a load balancer.
fn balancer(service: &Value, errors: &mut Vec<FieldError>) {
    let is_balanced = text(service, &["spec", "type"]) == "LoadBalancer";
    match (is_balanced, service["spec"]["allocateLoadBalancerNodePorts"].is_null()) {
        (false, false) => errors.push(FieldError::forbidden("spec.allocateLoadBalancerNodePorts", ONLY_BALANCED)),
        (true, true) => errors.push(FieldError::required("allocateLoadBalancerNodePorts", "")),
        _ => {}
    }
    balancer_class(service, errors);
}

fn balancer_class(service: &Value, errors: &mut Vec<FieldError>) {
    let Some(class) = service["spec"]["loadBalancerClass"].as_str() else { return };
    if text(service, &["spec", "type"]) == "LoadBalancer" {
        refuse(class, "spec.loadBalancerClass", names::qualified(class), errors);
    } else {
        errors.push(FieldError::forbidden("spec.loadBalancerClass", ONLY_BALANCED));
    }
}

/// Validates the policies of traffic.
fn traffic(service: &Value, errors: &mut Vec<FieldError>) {
    let spec = &service["spec"];
    let (policy, supported) = (text(spec, &["externalTrafficPolicy"]), ["Cluster", "Local"]);
    let field = "spec.externalTrafficPolicy";
    match (is_reachable(service), policy) {
        (false, "") => {}
        (false, policy) => {
            let why = "may only be set for externally-accessible services";
            errors.push(FieldError::invalid(field, &policy.into(), why));
        }
        (true, "") => errors.push(FieldError::required(field, "")),
        (true, policy) if !supported.contains(&policy) => {
            errors.push(FieldError::not_supported(field, &policy.into(), &supported));
        }
        _ => {}
    }
    let port = int(spec, &["healthCheckNodePort"]).unwrap_or(0);
    if port != 0 && !needs_health_check(service) {
        let why = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
        errors.push(FieldError::invalid("spec.healthCheckNodePort", &port.into(), why));
    } else if port != 0
        && let Some(why) = keys::port_number(port)
    {
        errors.push(FieldError::invalid("spec.healthCheckNodePort", &port.into(), why));
    }
    if let Some(policy) = spec["internalTrafficPolicy"].as_str()
        && !supported.contains(&policy)
    {
        errors.push(FieldError::not_supported("spec.internalTrafficPolicy", &policy.into(), &supported));
    }
    let supported = ["PreferClose", "PreferSameZone", "PreferSameNode"];
    if let Some(spread) = spec["trafficDistribution"].as_str()
        && !supported.contains(&spread)
    {
        errors.push(FieldError::not_supported("spec.trafficDistribution", &spread.into(), &supported));
    }
}
