//! Nodes (`pkg/registry/core/node/strategy.go`).

use substrate::json::{Value, json};

use super::{PLAIN, Strategy};
use crate::fields::FieldFault;
use crate::state::validate::{addresses, names, refuse, resource_names};
use crate::state::value::{self, has, list, map_mut, text};
use crate::state::{FieldError, internal, quantity};

pub(super) static NODE: Strategy = Strategy {
    default,
    admit_create: |_, _, node| {
        taint_new_node(node);
        Ok(())
    },
    // A new node keeps the status that it was sent with.
    begin: |_, _| None,
    validate,
    validate_update: |_, node, old, errors| validate_update(node, old, errors),
    warn,
    ..PLAIN
};

/// Fields of `nodeInfo` that Go always writes.
const NODE_INFO: &[&str] = &[
    "architecture",
    "bootID",
    "containerRuntimeVersion",
    "kernelVersion",
    "kubeProxyVersion",
    "kubeletVersion",
    "machineID",
    "operatingSystem",
    "osImage",
    "systemUUID",
];

fn default(node: &mut Value) {
    if let Some(spec) = node.get_mut("spec").and_then(Value::as_object_mut)
        && let Some(cidr) = spec.get("podCIDR").filter(|cidr| cidr.is_string()).cloned()
    {
        value::default(spec, "podCIDRs", json!([cidr]));
    }
    // Go omits empty lists.
    if let Some(spec) = node.get_mut("spec").and_then(Value::as_object_mut) {
        for field in ["podCIDRs", "taints"] {
            if spec.get(field).and_then(Value::as_array).is_some_and(Vec::is_empty) {
                spec.remove(field);
            }
        }
    }
    let Some(status) = map_mut(node, "status") else { return };
    if let Some(capacity) = status.get("capacity").cloned() {
        value::default(status, "allocatable", capacity);
    }
    // Fields that Go always writes.
    value::default(status, "daemonEndpoints", json!({"kubeletEndpoint": {"Port": 0}}));
    value::default(status, "nodeInfo", json!({}));
    if let Some(info) = status.get_mut("nodeInfo").and_then(Value::as_object_mut) {
        for field in NODE_INFO {
            value::default(info, field, "");
        }
    }
}

/// Taints a new node until the node controller finds it ready (`TaintNodesByCondition`).
fn taint_new_node(node: &mut Value) {
    let key = "node.kubernetes.io/not-ready";
    let there = |t: &Value| text(t, &["key"]) == key && text(t, &["effect"]) == "NoSchedule";
    if list(node, &["spec", "taints"]).iter().any(there) {
        return;
    }
    let Some(spec) = value::map_mut(node, "spec") else { return };
    if let Some(taints) = spec.entry("taints").or_insert_with(|| json!([])).as_array_mut() {
        taints.push(json!({"key": key, "effect": "NoSchedule"}));
    }
}

fn validate(node: &Value, errors: &mut Vec<FieldError>) {
    taints(node, errors);
    resources(node, errors);
    let cidrs = list(node, &["spec", "podCIDRs"]);
    for (i, cidr) in cidrs.iter().enumerate() {
        if let Some(why) = addresses::block(cidr.as_str().unwrap_or_default()) {
            errors.push(FieldError::invalid(format!("spec.podCIDRs[{i}]"), cidr, why));
        }
    }
    let is_ipv6 = |cidr: &Value| cidr.as_str().is_some_and(|cidr| cidr.contains(':'));
    if cidrs.len() > 2 || cidrs.len() == 2 && is_ipv6(&cidrs[0]) == is_ipv6(&cidrs[1]) {
        let why = "may specify no more than one CIDR for each IP family";
        errors.push(FieldError::invalid("spec.podCIDRs", &json!(cidrs), why));
    }
}

/// Validates taints; upstream's paths say that they are in the metadata.
fn taints(node: &Value, errors: &mut Vec<FieldError>) {
    let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
    let mut seen: Vec<(&str, &str)> = Vec::new();
    for (i, taint) in list(node, &["spec", "taints"]).iter().enumerate() {
        let at = format!("metadata.taints[{i}]");
        let [key, value, effect] = ["key", "value", "effect"].map(|field| text(taint, &[field]));
        refuse(key, &format!("{at}.key"), names::qualified(key), errors);
        let wrong = names::label_value(value);
        if !wrong.is_empty() {
            errors.push(FieldError::invalid(format!("{at}.value"), &value.into(), wrong.join(";")));
        }
        if effect.is_empty() {
            errors.push(FieldError::required(format!("{at}.effect"), ""));
        } else if !effects.contains(&effect) {
            errors.push(FieldError::not_supported(format!("{at}.effect"), &effect.into(), &effects));
        }
        if seen.contains(&(key, effect)) {
            let detail = "taints must be unique by key and effect pair".to_owned();
            let fault = FieldFault::Duplicate(internal::shown(taint, internal::TAINT));
            errors.push(FieldError { field: at, fault, detail });
        }
        seen.push((key, effect));
    }
}

/// Validates the amounts of resources in the status.
fn resources(node: &Value, errors: &mut Vec<FieldError>) {
    for field in ["capacity", "allocatable"] {
        for (resource, amount) in node["status"][field].as_object().into_iter().flatten() {
            let (at, nanos) =
                (format!("status.{field}.{resource}"), quantity::nanos(amount.as_str().unwrap_or_default()));
            if nanos.is_some_and(|n| n < 0) {
                errors.push(FieldError::invalid(at.as_str(), amount, "must be greater than or equal to 0"));
            }
            if resource_names::is_counted(resource) && nanos.is_some_and(|n| n % 1_000_000_000 != 0) {
                errors.push(FieldError::invalid(at, amount, "must be an integer"));
            }
        }
    }
}

fn validate_update(object: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    resources(object, errors);
    let all = list(object, &["status", "addresses"]);
    for (i, address) in all.iter().enumerate().filter(|(i, address)| all[..*i].contains(address)) {
        let [of, shown] = ["type", "address"].map(|field| text(address, &[field]));
        // Upstream shows a struct of Go.
        let fault = FieldFault::Duplicate(format!(r#"{{"Type":"{of}","Address":"{shown}"}}"#));
        errors.push(FieldError { field: format!("status.addresses[{i}]"), fault, detail: String::new() });
    }
    let (cidrs, was) = (list(object, &["spec", "podCIDRs"]), list(old, &["spec", "podCIDRs"]));
    let changes = if cidrs.len() == was.len() {
        cidrs.iter().zip(was).filter(|(new, old)| new != old).count()
    } else {
        usize::from(!was.is_empty())
    };
    for _ in 0..changes {
        let why = "node updates may not change podCIDR except from \"\" to valid";
        errors.push(FieldError::forbidden("spec.podCIDRs", why));
    }
    let (provider, was) = (text(object, &["spec", "providerID"]), text(old, &["spec", "providerID"]));
    if !was.is_empty() && provider != was {
        let why = "node updates may not change providerID except from \"\" to valid";
        errors.push(FieldError::forbidden("spec.providerID", why));
    }
    taints(object, errors);
    if text(object, &["spec", "externalID"]) != text(old, &["spec", "externalID"]) {
        errors.push(FieldError::forbidden("spec.externalID", "may not be updated"));
    }
}

fn warn(node: &Value, _: &Value) -> Vec<String> {
    let external = has(node, &["spec", "externalID"])
        .then(|| "spec.externalID: this field is deprecated, and is unused by Kubernetes".to_owned());
    let removed = has(node, &["spec", "configSource"]).then(|| "spec.configSource: the feature is removed".to_owned());
    removed.into_iter().chain(external).collect()
}
