//! Nodes (`pkg/registry/core/node/strategy.go`).

use substrate::json::{Value, json};

use super::{PLAIN, Strategy};
use crate::state::command::Part;
use crate::state::validate::names;
use crate::state::value::{self, at, has, list, map_mut, text};
use crate::state::{FieldError, quantity};

pub(super) static NODE: Strategy = Strategy {
    default,
    admit_create: |_, _, node| {
        taint_new_node(node);
        Ok(())
    },
    // A new node keeps the status that it was sent with.
    begin: |_, _| None,
    validate,
    validate_update: |part, node, old, errors| {
        if part == Part::Main {
            validate_update(node, old, errors);
        }
    },
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
    let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
    let mut seen: Vec<(&str, &str)> = Vec::new();
    for (i, taint) in list(node, &["spec", "taints"]).iter().enumerate() {
        let at = format!("metadata.taints[{i}]");
        let (key, effect) = (text(taint, &["key"]), text(taint, &["effect"]));
        for why in names::qualified(key) {
            errors.push(FieldError::invalid(format!("{at}.key"), &key.into(), why));
        }
        if effect.is_empty() {
            errors.push(FieldError::required(format!("{at}.effect"), ""));
        } else if !effects.contains(&effect) {
            errors.push(FieldError::not_supported(format!("{at}.effect"), &effect.into(), &effects));
        }
        if seen.contains(&(key, effect)) {
            let mut error = FieldError::duplicate(at, taint);
            error.detail = "taints must be unique by key and effect pair".to_owned();
            errors.push(error);
        }
        seen.push((key, effect));
    }
    for field in ["capacity", "allocatable"] {
        for (resource, amount) in node["status"][field].as_object().into_iter().flatten() {
            if quantity::nanos(amount.as_str().unwrap_or_default()).is_some_and(|n| n < 0) {
                let why = "must be greater than or equal to 0";
                errors.push(FieldError::invalid(format!("status.{field}.{resource}"), amount, why));
            }
        }
    }
}

fn validate_update(object: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let (provider, was) = (text(object, &["spec", "providerID"]), text(old, &["spec", "providerID"]));
    if !was.is_empty() && provider != was {
        errors.push(FieldError::forbidden(
            "spec.providerID",
            "node updates may not change providerID except from \"\" to valid",
        ));
    }
    let (cidrs, was) = (at(object, &["spec", "podCIDRs"]), at(old, &["spec", "podCIDRs"]));
    if was.is_some() && cidrs != was {
        let why = "node updates may not change podCIDR except from \"\" to valid";
        errors.push(FieldError::forbidden("spec.podCIDRs", why));
    }
}

fn warn(node: &Value, _: &Value) -> Vec<String> {
    let external = has(node, &["spec", "externalID"])
        .then(|| "spec.externalID: this field is deprecated, and is unused by Kubernetes".to_owned());
    let removed = has(node, &["spec", "configSource"]).then(|| "spec.configSource: the feature is removed".to_owned());
    removed.into_iter().chain(external).collect()
}
