//! Roles and bindings, priority classes, configuration, quotas and nodes: what a new one must have.

use substrate::json::Value;

use super::names;
use crate::kinds::Kind;
use crate::state::value::{list, name, text};
use crate::state::{FieldError, quantity};

/// The greatest priority that users may give.
const MAX_PRIORITY: i64 = 1_000_000_000;
/// Classes of the system's own.
const SYSTEM_CLASSES: [&str; 2] = ["system-cluster-critical", "system-node-critical"];
/// What each type of secret must hold.
const NEEDED: &[(&str, &[&str])] = &[
    ("kubernetes.io/tls", &["tls.crt", "tls.key"]),
    ("kubernetes.io/dockerconfigjson", &[".dockerconfigjson"]),
    ("kubernetes.io/dockercfg", &[".dockercfg"]),
    ("kubernetes.io/ssh-auth", &["ssh-privatekey"]),
];
const CONFIG_KEY: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. \
    'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";

pub(super) fn create(kind: &Kind, object: &Value, errors: &mut Vec<FieldError>) {
    match kind.kind {
        "ConfigMap" => configuration(object, errors),
        "Secret" => secret(object, errors),
        "Node" => node(object, errors),
        "ResourceQuota" => quota(object, errors),
        "PriorityClass" => priority(object, errors),
        "Role" | "ClusterRole" => role(object, kind.namespaced, errors),
        "RoleBinding" | "ClusterRoleBinding" => binding(object, kind.namespaced, errors),
        _ => {}
    }
}

fn keys(object: &Value, field: &str, errors: &mut Vec<FieldError>) {
    for key in object[field].as_object().into_iter().flatten().map(|(key, _)| key.as_str()) {
        let fits = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
        if key.is_empty() || !key.bytes().all(fits) {
            errors.push(FieldError::invalid(format!("{field}[{key}]"), &key.into(), CONFIG_KEY));
        }
    }
}

pub(super) fn configuration(map: &Value, errors: &mut Vec<FieldError>) {
    keys(map, "data", errors);
    keys(map, "binaryData", errors);
    for key in map["data"].as_object().into_iter().flatten().map(|(key, _)| key) {
        if map["binaryData"].get(key).is_some() {
            let why = "duplicate of key present in binaryData";
            errors.push(FieldError::invalid(format!("data[{key}]"), &key.as_str().into(), why));
        }
    }
}

pub(super) fn secret(secret: &Value, errors: &mut Vec<FieldError>) {
    keys(secret, "data", errors);
    let of = text(secret, &["type"]);
    let has = |key: &str| secret["data"].get(key).is_some();
    for (_, needed) in NEEDED.iter().filter(|(named, _)| *named == of) {
        for key in needed.iter().filter(|key| !has(key)) {
            errors.push(FieldError::required(format!("data[{key}]"), ""));
        }
    }
    // A user or a password is enough.
    if of == "kubernetes.io/basic-auth" && !has("username") && !has("password") {
        for key in ["username", "password"] {
            errors.push(FieldError::required(format!("data[{key}]"), ""));
        }
    }
    let account = "kubernetes.io/service-account.name";
    if of == "kubernetes.io/service-account-token" && text(secret, &["metadata", "annotations", account]).is_empty() {
        errors.push(FieldError::required(format!("metadata.annotations[{account}]"), ""));
    }
}

fn node(node: &Value, errors: &mut Vec<FieldError>) {
    let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
    let mut seen: Vec<(&str, &str)> = Vec::new();
    for (i, taint) in list(node, &["spec", "taints"]).iter().enumerate() {
        let at = format!("metadata.taints[{i}]");
        let (key, effect) = (text(taint, &["key"]), text(taint, &["effect"]));
        if let Some(why) = names::qualified(key) {
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

fn quota(quota: &Value, errors: &mut Vec<FieldError>) {
    for (resource, amount) in quota["spec"]["hard"].as_object().into_iter().flatten() {
        let field = format!("spec.hard[{resource}]");
        if let Some(why) = names::qualified(resource) {
            errors.push(FieldError::invalid(&field, &resource.as_str().into(), why));
        }
        if quantity::nanos(amount.as_str().unwrap_or_default()).is_some_and(|n| n < 0) {
            errors.push(FieldError::invalid(field, amount, "must be greater than or equal to 0"));
        }
    }
}

fn priority(class: &Value, errors: &mut Vec<FieldError>) {
    let named = name(class);
    let system = SYSTEM_CLASSES.contains(&named);
    if named.starts_with("system-") && !system {
        let why = format!(
            "priority class names with 'system-' prefix are reserved for system use only. error: {named} is not a \
             known system priority class"
        );
        errors.push(FieldError::forbidden("metadata.name", why));
    }
    if !system && class["value"].as_i64().is_some_and(|value| value > MAX_PRIORITY) {
        let why = format!("maximum allowed value of a user defined priority is {MAX_PRIORITY}");
        errors.push(FieldError::forbidden("value", why));
    }
    let policy = text(class, &["preemptionPolicy"]);
    let policies = ["PreemptLowerPriority", "Never"];
    if !policies.contains(&policy) {
        errors.push(FieldError::not_supported("preemptionPolicy", &policy.into(), &policies));
    }
}

pub(super) fn role(role: &Value, namespaced: bool, errors: &mut Vec<FieldError>) {
    for (i, rule) in list(role, &["rules"]).iter().enumerate() {
        let at = format!("rules[{i}]");
        if list(rule, &["verbs"]).is_empty() {
            errors.push(FieldError::required(format!("{at}.verbs"), "verbs must contain at least one value"));
        }
        let urls = list(rule, &["nonResourceURLs"]);
        if !urls.is_empty() {
            let field = format!("{at}.nonResourceURLs");
            let shown = &rule["nonResourceURLs"];
            if namespaced {
                let why = "namespaced rules cannot apply to non-resource URLs";
                errors.push(FieldError::invalid(&field, shown, why));
            }
            if ["apiGroups", "resources", "resourceNames"].iter().any(|f| !list(rule, &[f]).is_empty()) {
                let why = "rules cannot apply to both regular resources and non-resource URLs";
                errors.push(FieldError::invalid(&field, shown, why));
            }
            continue;
        }
        if list(rule, &["apiGroups"]).is_empty() {
            let why = "resource rules must supply at least one api group";
            errors.push(FieldError::required(format!("{at}.apiGroups"), why));
        }
        if list(rule, &["resources"]).is_empty() {
            let why = "resource rules must supply at least one resource";
            errors.push(FieldError::required(format!("{at}.resources"), why));
        }
    }
}

fn binding(binding: &Value, namespaced: bool, errors: &mut Vec<FieldError>) {
    let kind = text(binding, &["roleRef", "kind"]);
    let kinds: &[&str] = if namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    if !kinds.contains(&kind) {
        errors.push(FieldError::not_supported("roleRef.kind", &kind.into(), kinds));
    }
    if text(binding, &["roleRef", "name"]).is_empty() {
        errors.push(FieldError::required("roleRef.name", ""));
    }
    for (i, subject) in list(binding, &["subjects"]).iter().enumerate() {
        if text(subject, &["name"]).is_empty() {
            errors.push(FieldError::required(format!("subjects[{i}].name"), ""));
        }
        let kind = text(subject, &["kind"]);
        let kinds = ["ServiceAccount", "User", "Group"];
        if !kinds.contains(&kind) {
            errors.push(FieldError::not_supported(format!("subjects[{i}].kind"), &kind.into(), &kinds));
        } else if kind == "ServiceAccount" && !namespaced && text(subject, &["namespace"]).is_empty() {
            errors.push(FieldError::required(format!("subjects[{i}].namespace"), ""));
        }
    }
}
