//! ResourceQuotas (`pkg/registry/core/resourcequota`, `ValidateResourceQuotaSpec`).

use substrate::json::Value;

use super::{PLAIN, Strategy};
use crate::state::command::Part;
use crate::state::validate::{resource_names, unchanged};
use crate::state::value::{list, text};
use crate::state::{FieldError, quantity};

pub(super) static QUOTA: Strategy = Strategy {
    validate: quota,
    validate_update: |part, object, old, errors| {
        if part == Part::Main {
            quota(object, errors);
            unchanged(object, old, &["spec", "scopes"], errors);
        }
    },
    ..PLAIN
};

/// Resources of scopes of pods, except for BestEffort, which is for `pods` only.
const OF_PODS: &[&str] = &["pods", "cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"];
/// Resources of scopes of claims.
const OF_CLAIMS: &[&str] = &["persistentvolumeclaims", "requests.storage"];
/// Scopes that exclude each other.
const CONFLICTS: [[&str; 2]; 2] = [["BestEffort", "NotBestEffort"], ["Terminating", "NotTerminating"]];
/// Scopes with the resources that they apply to.
const SCOPES: &[(&str, &[&str])] = &[
    ("BestEffort", &["pods"]),
    ("CrossNamespacePodAffinity", OF_PODS),
    ("NotBestEffort", OF_PODS),
    ("NotTerminating", OF_PODS),
    ("PriorityClass", OF_PODS),
    ("Terminating", OF_PODS),
    ("VolumeAttributesClass", OF_CLAIMS),
];

fn quota(quota: &Value, errors: &mut Vec<FieldError>) {
    let spec = &quota["spec"];
    let hard: Vec<&str> = spec["hard"].as_object().into_iter().flatten().map(|(name, _)| name.as_str()).collect();
    for (resource, amount) in spec["hard"].as_object().into_iter().flatten() {
        let field = format!("spec.hard[{resource}]");
        let name = resource.as_str();
        resource_names::resource(name, &field, errors);
        if !name.contains('/') && !resource_names::is_of_quotas(name) {
            errors.push(FieldError::invalid(&field, &name.into(), "must be a standard resource for quota"));
        }
        if quantity::nanos(amount.as_str().unwrap_or_default()).is_some_and(|n| n < 0) {
            errors.push(FieldError::invalid(field, amount, "must be greater than or equal to 0"));
        }
    }
    scopes(&spec["scopes"], &hard, errors);
    selector(&spec["scopeSelector"], &hard, errors);
}

/// Returns the messages about a scope: it is unknown, or does not apply to one of the limited resources.
fn wrong(scope: &str, hard: &[&str]) -> Vec<&'static str> {
    match SCOPES.iter().find(|(known, _)| *known == scope) {
        None => vec!["unsupported scope"],
        Some((_, resources)) => {
            let foreign =
                hard.iter().filter(|resource| resource_names::is_of_quotas(resource) && !resources.contains(resource));
            foreign.map(|_| "unsupported scope applied to resource").collect()
        }
    }
}

fn scopes(scopes: &Value, hard: &[&str], errors: &mut Vec<FieldError>) {
    let named: Vec<&str> = scopes.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    for why in named.iter().flat_map(|scope| wrong(scope, hard)) {
        errors.push(FieldError::invalid("spec.scopes", scopes, why));
    }
    for _ in CONFLICTS.iter().filter(|pair| pair.iter().all(|scope| named.contains(scope))) {
        errors.push(FieldError::invalid("spec.scopes", scopes, "conflicting scopes"));
    }
}

fn selector(selector: &Value, hard: &[&str], errors: &mut Vec<FieldError>) {
    const AT: &str = "spec.scopeSelector.matchExpressions";
    for expression in list(selector, &["matchExpressions"]) {
        let (scope, operator) = (text(expression, &["scopeName"]), text(expression, &["operator"]));
        for why in wrong(scope, hard) {
            errors.push(FieldError::invalid(format!("{AT}.scopeName"), &scope.into(), why));
        }
        let has_values = !list(expression, &["values"]).is_empty();
        if !matches!(scope, "PriorityClass" | "VolumeAttributesClass") && operator != "Exists" {
            let why = "must be 'Exist' when scope is any of ResourceQuotaScopeTerminating, \
                       ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, \
                       ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity";
            errors.push(FieldError::invalid(format!("{AT}.operator"), &operator.into(), why));
        }
        match operator {
            "In" | "NotIn" if !has_values => {
                let why = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector";
                errors.push(FieldError::required(format!("{AT}.values"), why));
            }
            "Exists" | "DoesNotExist" if has_values => {
                let why = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector";
                errors.push(FieldError::invalid(format!("{AT}.values"), &expression["values"], why));
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            _ => {
                let why = "not a valid selector operator";
                errors.push(FieldError::invalid(format!("{AT}.operator"), &operator.into(), why));
            }
        }
    }
}
