//! Endpoints, slices, network policies and ingresses (`pkg/registry/{core/endpoint,discovery,networking}`).

use substrate::json::{Value, json};

use super::network_policy::validate as validate_policy;
use super::{PLAIN, Strategy};
use crate::kinds;
use crate::state::command::Part;
use crate::state::default::elements;
use crate::state::validate::addresses;
use crate::state::value::{self, default, has, list, map_mut, name, text};
use crate::state::{FieldError, Store, internal};

pub(super) static ENDPOINTS: Strategy = Strategy {
    default: |object| {
        let Some(map) = object.as_object_mut() else { return };
        for subset in elements(map, "subsets") {
            for port in elements(subset, "ports") {
                default(port, "protocol", "TCP");
            }
        }
    },
    ..PLAIN
};

pub(super) static SLICE: Strategy = Strategy {
    default: |object| {
        let Some(map) = object.as_object_mut() else { return };
        for endpoint in elements(map, "endpoints") {
            default(endpoint, "conditions", json!({}));
        }
        for port in elements(map, "ports") {
            default(port, "name", "");
            default(port, "protocol", "TCP");
        }
    },
    counts: true,
    ..PLAIN
};

pub(super) static NETWORK_POLICY: Strategy = Strategy {
    default: network_policy,
    counts: true,
    validate: validate_policy,
    validate_update: |_, object, _, errors| validate_policy(object, errors),
    ..PLAIN
};

/// Addresses of services. The name of an IPAddress is the address.
pub(super) static IP_ADDRESS: Strategy = Strategy {
    validate: ip_address,
    validate_update: |_, object, old, errors| {
        ip_address(object, errors);
        if object["spec"]["parentRef"] != old["spec"]["parentRef"] {
            let shown = internal::shown(&object["spec"]["parentRef"], internal::PARENT);
            errors.push(FieldError::invalid_text("spec.parentRef", shown, "field is immutable"));
        }
    },
    check_name: |name| addresses::canonical(name).into_iter().collect(),
    ..PLAIN
};

pub(super) static INGRESS: Strategy = Strategy {
    admit_create: |store, _, ingress| {
        store.default_ingress_class(ingress);
        Ok(())
    },
    counts: true,
    begin: |_, _| Some(json!({"loadBalancer": {}})),
    validate: ingress,
    validate_update: |part, object, _, errors| {
        if part == Part::Main {
            ingress(object, errors);
        }
    },
    warn: of_ingress,
    ..PLAIN
};

pub(super) static INGRESS_CLASS: Strategy = Strategy {
    default: |object| {
        let parameters = object.get_mut("spec").and_then(|spec| spec.get_mut("parameters"));
        if let Some(parameters) = parameters.and_then(Value::as_object_mut) {
            default(parameters, "scope", "Cluster");
        }
    },
    counts: true,
    ..PLAIN
};

fn ip_address(address: &Value, errors: &mut Vec<FieldError>) {
    if !has(address, &["spec", "parentRef"]) {
        errors.push(FieldError::required("spec.parentRef", ""));
        return;
    }
    for field in ["resource", "name"] {
        if text(address, &["spec", "parentRef", field]).is_empty() {
            errors.push(FieldError::required(format!("spec.parentRef.{field}"), ""));
        }
    }
}

fn network_policy(object: &mut Value) {
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

/// Validates an ingress: it has a backend, and its paths have a type.
fn ingress(object: &Value, errors: &mut Vec<FieldError>) {
    let spec = &object["spec"];
    let rules = list(spec, &["rules"]);
    if rules.is_empty() && spec["defaultBackend"].is_null() {
        let why = "either `defaultBackend` or `rules` must be specified";
        errors.push(FieldError::invalid("spec", &Value::Null, why));
    }
    for (i, rule) in rules.iter().enumerate() {
        for (j, path) in list(rule, &["http", "paths"]).iter().enumerate() {
            let at = format!("spec.rules[{i}].http.paths[{j}]");
            let (of, place) = (text(path, &["pathType"]), text(path, &["path"]));
            if of.is_empty() {
                errors.push(FieldError::required(format!("{at}.pathType"), "pathType must be specified"));
            } else if of != "ImplementationSpecific" && !place.starts_with('/') {
                errors.push(FieldError::invalid(format!("{at}.path"), &place.into(), "must be an absolute path"));
            }
        }
    }
}

fn of_ingress(ingress: &Value, old: &Value) -> Vec<String> {
    let annotated = has(ingress, &["metadata", "annotations", "kubernetes.io/ingress.class"]);
    if !old.is_null() || !annotated || has(ingress, &["spec", "ingressClassName"]) {
        return Vec::new();
    }
    let text = "annotation \"kubernetes.io/ingress.class\" is deprecated, please use 'spec.ingressClassName' instead";
    vec![text.to_owned()]
}

impl Store {
    /// Gives an ingress without a class the default one (`DefaultIngressClass`).
    fn default_ingress_class(&self, ingress: &mut Value) {
        if has(ingress, &["spec", "ingressClassName"])
            || has(ingress, &["metadata", "annotations", "kubernetes.io/ingress.class"])
        {
            return;
        }
        let marked = |class: &Value| {
            text(class, &["metadata", "annotations", "ingressclass.kubernetes.io/is-default-class"]) == "true"
        };
        let class = self.all(kinds::INGRESS_CLASSES).find(|class| marked(&class.value));
        if let (Some(class), Some(spec)) = (class, value::map_mut(ingress, "spec")) {
            spec.insert("ingressClassName", name(&class.value).into());
        }
    }
}
