//! Endpoints, slices, network policies and ingresses (`pkg/registry/{core/endpoint,discovery,networking}`).

use substrate::json::{Value, json};

use super::{PLAIN, Strategy, endpoints, ingress, network_policy};
use crate::kinds;
use crate::state::command::Part;
use crate::state::default::elements;
use crate::state::validate::addresses;
use crate::state::value::{self, default, has, map_mut, name, text};
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
    validate: |object, errors| endpoints::endpoints(object, &Value::Null, errors),
    validate_update: |_, object, old, errors| endpoints::endpoints(object, old, errors),
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
    validate: |object, errors| endpoints::slice(object, &Value::Null, errors),
    validate_update: |_, object, old, errors| endpoints::slice(object, old, errors),
    ..PLAIN
};

pub(super) static NETWORK_POLICY: Strategy = Strategy {
    default: policy,
    counts: true,
    validate: |policy, errors| network_policy::validate(policy, &Value::Null, errors),
    validate_update: |_, policy, old, errors| network_policy::validate(policy, old, errors),
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
    validate: |object, errors| {
        ingress::validate(object, errors);
        ingress::annotation(object, errors);
    },
    validate_update: |part, object, _, errors| {
        if part == Part::Main {
            ingress::validate(object, errors);
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
    validate: |object, errors| ingress::class(object, &Value::Null, errors),
    validate_update: |_, object, old, errors| ingress::class(object, old, errors),
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

fn policy(object: &mut Value) {
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
