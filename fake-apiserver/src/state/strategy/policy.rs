//! Admission policies and webhooks, flow control, CustomResourceDefinitions, and devices
//! (`pkg/registry/{admissionregistration,flowcontrol,resource}`, apiextensions' `registry/customresourcedefinition`).

use substrate::json::{Map, Value, json};

use super::{PLAIN, Strategy};
use crate::custom::{approval, definition};
use crate::fields::FieldError;
use crate::state::command::Part;
use crate::state::default::elements;
use crate::state::validate::unchanged;
use crate::state::value::{default, default_zero, map_mut};
use crate::state::{mutation_checks, policies};

pub(super) static MUTATING_WEBHOOKS: Strategy = Strategy { default: |object| webhooks(object, true), ..WEBHOOKS };

pub(super) static VALIDATING_WEBHOOKS: Strategy = Strategy { default: |object| webhooks(object, false), ..WEBHOOKS };

const WEBHOOKS: Strategy = Strategy {
    counts: true,
    validate: policies::check_webhooks,
    validate_update: |_, object, _, errors| policies::check_webhooks(object, errors),
    ..PLAIN
};

pub(super) static MUTATING_POLICY: Strategy = Strategy {
    default: |object| {
        if let Some(spec) = policy(object) {
            default(spec, "reinvocationPolicy", "Never");
        }
    },
    counts: true,
    validate: mutation_checks::check,
    validate_update: |part, object, _, errors| {
        if part == Part::Main {
            mutation_checks::check(object, errors);
        }
    },
    ..PLAIN
};

pub(super) static VALIDATING_POLICY: Strategy = Strategy {
    default: |object| {
        policy(object);
    },
    counts: true,
    validate: policies::check,
    validate_update: |part, object, _, errors| {
        if part == Part::Main {
            policies::check(object, errors);
        }
    },
    ..PLAIN
};

pub(super) static VALIDATING_BINDING: Strategy = Strategy {
    validate: validating_binding,
    validate_update: |_, object, _, errors| validating_binding(object, errors),
    ..POLICY_BINDING
};

pub(super) static MUTATING_BINDING: Strategy = Strategy { ..POLICY_BINDING };

/// Bindings of both kinds of policy.
const POLICY_BINDING: Strategy = Strategy {
    default: |object| {
        if let Some(spec) = map_mut(object, "spec") {
            match_resources(spec.get_mut("matchResources"));
        }
    },
    counts: true,
    validate: policies::check_binding,
    validate_update: |_, object, _, errors| policies::check_binding(object, errors),
    ..PLAIN
};

fn validating_binding(object: &Value, errors: &mut Vec<FieldError>) {
    policies::check_binding(object, errors);
    policies::check_actions(object, errors);
}

pub(super) static DEFINITION: Strategy = Strategy {
    default: default_definition,
    counts: true,
    validate: |object, errors| {
        errors.extend(definition::check(object));
        errors.extend(approval::check(object, None));
    },
    validate_update: |part, object, old, errors| {
        if part == Part::Main {
            errors.extend(definition::check(object));
            errors.extend(approval::check(object, Some(old)));
            for field in ["group", "scope"] {
                unchanged(object, old, &["spec", field], errors);
            }
        }
    },
    ..PLAIN
};

pub(super) static API_SERVICE: Strategy = Strategy {
    default: |object| {
        if let Some(service) = object.get_mut("spec").and_then(|spec| spec.get_mut("service")) {
            port_of(service);
        }
    },
    ..PLAIN
};

pub(super) static FLOW_SCHEMA: Strategy = Strategy {
    default: |object| {
        if let Some(spec) = map_mut(object, "spec") {
            default_zero(spec, "matchingPrecedence", 1000);
        }
    },
    counts: true,
    ..PLAIN
};

pub(super) static PRIORITY_LEVEL: Strategy = Strategy { default: priority_level, counts: true, ..PLAIN };

pub(super) static RESOURCE_CLAIM: Strategy = Strategy { default: |object| devices(object.get_mut("spec")), ..PLAIN };

pub(super) static RESOURCE_CLAIM_TEMPLATE: Strategy = Strategy {
    default: |object| {
        if let Some(spec) = map_mut(object, "spec") {
            default(spec, "metadata", json!({}));
        }
        devices(object.get_mut("spec").and_then(|spec| spec.get_mut("spec")));
    },
    ..PLAIN
};

/// Sets the defaults that both kinds of policy share, and returns the spec.
fn policy(object: &mut Value) -> Option<&mut Map> {
    let spec = map_mut(object, "spec")?;
    default(spec, "failurePolicy", "Fail");
    match_resources(spec.get_mut("matchConstraints"));
    Some(spec)
}

fn webhooks(object: &mut Value, mutating: bool) {
    let Some(map) = object.as_object_mut() else { return };
    for webhook in elements(map, "webhooks") {
        default(webhook, "failurePolicy", "Fail");
        default(webhook, "matchPolicy", "Equivalent");
        default(webhook, "namespaceSelector", json!({}));
        default(webhook, "objectSelector", json!({}));
        default(webhook, "timeoutSeconds", 10);
        if mutating {
            default(webhook, "reinvocationPolicy", "Never");
        }
        if let Some(service) = webhook.get_mut("clientConfig").and_then(|c| c.get_mut("service")) {
            port_of(service);
        }
        for rule in elements(webhook, "rules") {
            default(rule, "scope", "*");
        }
    }
}

fn port_of(service: &mut Value) {
    if let Some(service) = service.as_object_mut() {
        default(service, "port", 443);
    }
}

fn match_resources(constraints: Option<&mut Value>) {
    let Some(constraints) = constraints.and_then(Value::as_object_mut) else { return };
    default(constraints, "matchPolicy", "Equivalent");
    default(constraints, "namespaceSelector", json!({}));
    default(constraints, "objectSelector", json!({}));
    for rules in ["resourceRules", "excludeResourceRules"] {
        for rule in elements(constraints, rules) {
            default(rule, "scope", "*");
        }
    }
}

fn default_definition(object: &mut Value) {
    let Some(spec) = map_mut(object, "spec") else { return };
    if let Some(names) = spec.get_mut("names").and_then(Value::as_object_mut) {
        let kind = names.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
        default(names, "singular", kind.to_lowercase());
        default(names, "listKind", format!("{kind}List"));
    }
    default(spec, "conversion", json!({"strategy": "None"}));
    let service = spec.get_mut("conversion").and_then(|c| c.pointer_mut("/webhook/clientConfig/service"));
    if let Some(service) = service {
        port_of(service);
    }
}

fn priority_level(object: &mut Value) {
    let Some(spec) = map_mut(object, "spec") else { return };
    if spec.get("type").is_some_and(|of| of == "Exempt") {
        if let Some(exempt) = spec.entry("exempt").or_insert_with(|| json!({})).as_object_mut() {
            default(exempt, "nominalConcurrencyShares", 0);
            default(exempt, "lendablePercent", 0);
        }
        return;
    }
    let Some(limited) = spec.get_mut("limited").and_then(Value::as_object_mut) else { return };
    default(limited, "nominalConcurrencyShares", 30);
    default(limited, "lendablePercent", 0);
    if let Some(queuing) =
        limited.get_mut("limitResponse").and_then(|r| r.get_mut("queuing")).and_then(Value::as_object_mut)
    {
        for (field, value) in [("queues", 64), ("handSize", 8), ("queueLengthLimit", 50)] {
            default_zero(queuing, field, value);
        }
    }
}

fn devices(spec: Option<&mut Value>) {
    let Some(devices) = spec.and_then(|spec| spec.get_mut("devices")).and_then(Value::as_object_mut) else { return };
    let count = |request: &mut Map| {
        default(request, "allocationMode", "ExactCount");
        if request.get("allocationMode").is_some_and(|mode| mode == "ExactCount") {
            default(request, "count", 1);
        }
    };
    for request in elements(devices, "requests") {
        if let Some(exactly) = request.get_mut("exactly").and_then(Value::as_object_mut) {
            count(exactly);
        }
        for alternative in elements(request, "firstAvailable") {
            count(alternative);
        }
    }
}
