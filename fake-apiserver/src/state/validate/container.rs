//! Validation of containers and of a pod's scheduling (`pkg/apis/core/validation`).

use substrate::json::Value;

use super::names;
use crate::state::value::{at, int, list, text};
use crate::state::{FieldError, quantity};

const PORTS: std::ops::RangeInclusive<i64> = 1..=65_535;
const PORT_RANGE: &str = "must be between 1 and 65535, inclusive";
const MAX_DEADLINE: i64 = 2_147_483_647;
const PROBES: [&str; 3] = ["livenessProbe", "readinessProbe", "startupProbe"];
/// Maximum length of the name of a kernel parameter.
const LONGEST_SYSCTL: usize = 253;
/// Form of the name of a kernel parameter.
const SYSCTL: &str = r"^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
/// Handlers of a probe.
const HANDLERS: [&str; 4] = ["exec", "httpGet", "tcpSocket", "grpc"];

/// Checks that a field, if set, has one of `values`.
fn one_of(value: &Value, field: String, values: &[&str], errors: &mut Vec<FieldError>) {
    let named = value.as_str().unwrap_or_default();
    if !value.is_null() && !values.contains(&named) {
        errors.push(FieldError::not_supported(field, value, values));
    }
}

/// Validates a container, except for its name, image and mounts.
pub(super) fn container(container: &Value, at: &str, errors: &mut Vec<FieldError>) {
    let policies = ["Always", "IfNotPresent", "Never"];
    one_of(&container["imagePullPolicy"], format!("{at}.imagePullPolicy"), &policies, errors);
    for (i, port) in list(container, &["ports"]).iter().enumerate() {
        self::port(port, &format!("{at}.ports[{i}]"), errors);
    }
    for (i, variable) in list(container, &["env"]).iter().enumerate() {
        let name = text(variable, &["name"]);
        if name.is_empty() {
            errors.push(FieldError::required(format!("{at}.env[{i}].name"), ""));
        } else if !name.bytes().all(|b| matches!(b, b' '..=b'~') && b != b'=') {
            let why =
                "a valid environment variable name must consist only of printable ASCII characters other than '='";
            errors.push(FieldError::invalid(format!("{at}.env[{i}].name"), &name.into(), why));
        }
        if variable.get("valueFrom").is_some_and(|v| !v.is_null()) && !text(variable, &["value"]).is_empty() {
            let why = "may not be specified when `value` is not empty";
            errors.push(FieldError::invalid(format!("{at}.env[{i}].valueFrom"), &"".into(), why));
        }
    }
    for probe in PROBES {
        let found = &container[probe];
        if found.is_null() {
            continue;
        }
        let at = format!("{at}.{probe}");
        if HANDLERS.iter().all(|handler| found.get(*handler).is_none_or(Value::is_null)) {
            errors.push(FieldError::required(&at, "must specify a handler type"));
        }
        for handler in ["httpGet", "tcpSocket"] {
            let port = &found[handler]["port"];
            if port.as_i64().is_some_and(|port| !PORTS.contains(&port)) {
                errors.push(FieldError::invalid(format!("{at}.{handler}.port"), port, PORT_RANGE));
            }
        }
    }
    resources(&container["resources"], &format!("{at}.resources"), errors);
}

fn port(port: &Value, at: &str, errors: &mut Vec<FieldError>) {
    match int(port, &["containerPort"]).unwrap_or(0) {
        0 => errors.push(FieldError::required(format!("{at}.containerPort"), "")),
        number if !PORTS.contains(&number) => {
            errors.push(FieldError::invalid(format!("{at}.containerPort"), &number.into(), PORT_RANGE));
        }
        _ => {}
    }
    let name = text(port, &["name"]);
    if !name.is_empty()
        && let Some(why) = port_name(name)
    {
        errors.push(FieldError::invalid(format!("{at}.name"), &name.into(), why));
    }
    one_of(&port["protocol"], format!("{at}.protocol"), &["SCTP", "TCP", "UDP"], errors);
}

/// Returns the reason why a name is not valid for a port (`IsValidPortName`).
fn port_name(name: &str) -> Option<&'static str> {
    let fits = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    if name.len() > 15 {
        Some("must be no more than 15 characters")
    } else if !name.bytes().all(fits) {
        Some("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    } else if !name.bytes().any(|b| b.is_ascii_lowercase()) {
        Some("must contain at least one letter (a-z)")
    } else if name.contains("--") {
        Some("must not contain consecutive hyphens")
    } else if name.starts_with('-') || name.ends_with('-') {
        Some("must not begin or end with a hyphen")
    } else {
        None
    }
}

/// Checks that requests are not negative and do not exceed the limits.
fn resources(resources: &Value, at: &str, errors: &mut Vec<FieldError>) {
    for kind in ["limits", "requests"] {
        for (resource, amount) in resources[kind].as_object().into_iter().flatten() {
            let text = amount.as_str().unwrap_or_default();
            let Some(nanos) = quantity::nanos(text) else { continue };
            if nanos < 0 {
                let why = "must be greater than or equal to 0";
                errors.push(FieldError::invalid(format!("{at}.{kind}[{resource}]"), amount, why));
            }
            let limit = resources["limits"][resource].as_str();
            if kind == "requests"
                && let Some(limit) = limit
                && quantity::nanos(limit).is_some_and(|limit| nanos > limit)
            {
                let why = format!("must be less than or equal to {resource} limit of {limit}");
                errors.push(FieldError::invalid(format!("{at}.requests"), amount, why));
            }
        }
    }
}

/// Validates the fields that say where and how a pod runs.
pub(super) fn pod(pod: &Value, errors: &mut Vec<FieldError>) {
    let spec = &pod["spec"];
    let policies = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    one_of(&spec["dnsPolicy"], "spec.dnsPolicy".to_owned(), &policies, errors);
    if let Some(deadline) = int(spec, &["activeDeadlineSeconds"]).filter(|d| !(1..=MAX_DEADLINE).contains(d)) {
        let why = format!("must be between 1 and {MAX_DEADLINE}, inclusive");
        errors.push(FieldError::invalid("spec.activeDeadlineSeconds", &deadline.into(), why));
    }
    sysctls(list(spec, &["securityContext", "sysctls"]), errors);
    for field in ["hostname", "subdomain"] {
        let name = text(spec, &[field]);
        if let Some(why) = names::label(name).filter(|_| !name.is_empty()) {
            errors.push(FieldError::invalid(format!("spec.{field}"), &name.into(), why));
        }
    }
    let node = text(spec, &["nodeName"]);
    if let (false, Some(why)) = (node.is_empty(), names::subdomain(node)) {
        errors.push(FieldError::invalid("spec.nodeName", &node.into(), why));
    }
    for (key, value) in spec["nodeSelector"].as_object().into_iter().flatten() {
        if let Some(why) = names::qualified(key) {
            errors.push(FieldError::invalid("spec.nodeSelector", &key.as_str().into(), why));
        }
        if let Some(why) = names::label_value(value.as_str().unwrap_or_default()) {
            errors.push(FieldError::invalid("spec.nodeSelector", value, why));
        }
    }
    for (i, toleration) in list(spec, &["tolerations"]).iter().enumerate() {
        self::toleration(toleration, &format!("spec.tolerations[{i}]"), errors);
    }
    for (i, constraint) in list(spec, &["topologySpreadConstraints"]).iter().enumerate() {
        spread(constraint, &format!("spec.topologySpreadConstraints[{i}]"), errors);
    }
    let mut gates: Vec<&str> = Vec::new();
    for (i, gate) in list(spec, &["schedulingGates"]).iter().enumerate() {
        let name = text(gate, &["name"]);
        if let Some(why) = names::qualified(name) {
            errors.push(FieldError::invalid(format!("spec.schedulingGates[{i}]"), &name.into(), why));
        }
        if gates.contains(&name) {
            errors.push(FieldError::duplicate(format!("spec.schedulingGates[{i}]"), &name.into()));
        }
        gates.push(name);
    }
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    let nodes = &spec["affinity"]["nodeAffinity"][required];
    if !nodes.is_null() && list(nodes, &["nodeSelectorTerms"]).is_empty() {
        let field = format!("spec.affinity.nodeAffinity.{required}.nodeSelectorTerms");
        errors.push(FieldError::required(field, "must have at least one node selector term"));
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        for (i, term) in list(spec, &["affinity", kind, required]).iter().enumerate() {
            if text(term, &["topologyKey"]).is_empty() {
                let field = format!("spec.affinity.{kind}.{required}[{i}].topologyKey");
                errors.push(FieldError::required(field, "can not be empty"));
            }
        }
    }
}

/// Validates the names of kernel parameters.
fn sysctls(sysctls: &[Value], errors: &mut Vec<FieldError>) {
    let mut seen: Vec<&str> = Vec::new();
    for (i, sysctl) in sysctls.iter().enumerate() {
        let (field, name) = (format!("spec.securityContext.sysctls[{i}].name"), text(sysctl, &["name"]));
        if name.is_empty() {
            errors.push(FieldError::required(field, ""));
        } else if name.len() > LONGEST_SYSCTL || !name.split(['.', '/']).all(is_sysctl_part) {
            let why = format!("must have at most {LONGEST_SYSCTL} characters and match regex {SYSCTL}");
            errors.push(FieldError::invalid(field, &name.into(), why));
        } else if seen.contains(&name) {
            errors.push(FieldError::duplicate(field, &name.into()));
        }
        seen.push(name);
    }
}

fn is_sysctl_part(part: &str) -> bool {
    let edge = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let ends = [part.bytes().next(), part.bytes().last()];
    ends.iter().all(|end| end.is_some_and(edge)) && part.bytes().all(|b| edge(b) || matches!(b, b'-' | b'_'))
}

fn toleration(toleration: &Value, at: &str, errors: &mut Vec<FieldError>) {
    let (key, operator) = (text(toleration, &["key"]), text(toleration, &["operator"]));
    if key.is_empty() && operator != "Exists" {
        let why = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
        errors.push(FieldError::invalid(format!("{at}.operator"), &operator.into(), why));
    }
    let value = text(toleration, &["value"]);
    if operator == "Exists" && !value.is_empty() {
        let why = "value must be empty when `operator` is 'Exists'";
        errors.push(FieldError::invalid(format!("{at}.operator"), &value.into(), why));
    }
    let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
    if !text(toleration, &["effect"]).is_empty() {
        one_of(&toleration["effect"], format!("{at}.effect"), &effects, errors);
    }
}

fn spread(constraint: &Value, at_field: &str, errors: &mut Vec<FieldError>) {
    let skew = int(constraint, &["maxSkew"]).unwrap_or(0);
    if skew <= 0 {
        errors.push(FieldError::invalid(format!("{at_field}.maxSkew"), &skew.into(), "must be greater than zero"));
    }
    if text(constraint, &["topologyKey"]).is_empty() {
        errors.push(FieldError::required(format!("{at_field}.topologyKey"), "can not be empty"));
    }
    let when = at(constraint, &["whenUnsatisfiable"]).cloned().unwrap_or_else(|| "".into());
    let whens = ["DoNotSchedule", "ScheduleAnyway"];
    one_of(&when, format!("{at_field}.whenUnsatisfiable"), &whens, errors);
}
