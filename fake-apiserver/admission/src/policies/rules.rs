//! Matching of policies and webhooks: validation of their rules, selectors and conditions
//! (`pkg/apis/admissionregistration/validation`).

use std::collections::BTreeSet;

use substrate::json::Value;

use api_model::fields::FieldError;
use api_model::fields::value::{list, text};
use api_model::{label_checks as selector, names};

/// Maximum number of match conditions.
const MOST_CONDITIONS: usize = 64;

/// Checks that a field, if set, has one of the known values.
pub(super) fn one_of(of: &Value, field: &str, at: &str, known: &[&str], errors: &mut Vec<FieldError>) {
    let word = &of[field];
    if !word.is_null() && !known.iter().any(|known| word == known) {
        errors.push(FieldError::not_supported(format!("{at}.{field}"), word, known));
    }
}

/// Validates the matchResources of a policy or a binding.
pub(super) fn match_resources(of: &Value, at: &str, errors: &mut Vec<FieldError>) {
    one_of(of, "matchPolicy", at, &["Equivalent", "Exact"], errors);
    selectors(of, at, errors);
    for part in ["resourceRules", "excludeResourceRules"] {
        for (i, rule) in list(of, &[part]).iter().enumerate() {
            let at = format!("{at}.{part}[{i}]");
            let mut seen = BTreeSet::new();
            for (i, name) in list(rule, &["resourceNames"]).iter().enumerate() {
                let place = format!("{at}.resourceNames[{i}]");
                let name = name.as_str().unwrap_or_default();
                for why in names::path_segment(name) {
                    errors.push(FieldError::invalid(place.clone(), &name.into(), why));
                }
                if !seen.insert(name) {
                    errors.push(FieldError::duplicate(place, &name.into()));
                }
            }
            rule_with_operations(rule, &at, errors);
        }
    }
}

/// Validates the namespace and object selectors.
pub(super) fn selectors(of: &Value, at: &str, errors: &mut Vec<FieldError>) {
    for field in ["namespaceSelector", "objectSelector"] {
        selector::label_selector(&of[field], &format!("{at}.{field}"), errors);
    }
}

/// Validates a rule with its operations and resources.
pub(super) fn rule_with_operations(rule: &Value, at: &str, errors: &mut Vec<FieldError>) {
    let required = |field: &str, errors: &mut Vec<FieldError>| {
        if list(rule, &[field]).is_empty() {
            errors.push(FieldError::required(format!("{at}.{field}"), ""));
        }
    };
    let alone = |field: &str, others: &str, errors: &mut Vec<FieldError>| {
        let all = list(rule, &[field]);
        if all.len() > 1 && all.iter().any(|one| one == "*") {
            let why = format!("if '*' is present, must not specify other {others}");
            errors.push(FieldError::invalid(format!("{at}.{field}"), &rule[field], why));
        }
    };
    required("operations", errors);
    alone("operations", "operations", errors);
    let known = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
    for (i, operation) in list(rule, &["operations"]).iter().enumerate() {
        if !known.iter().any(|known| operation == known) {
            errors.push(FieldError::not_supported(format!("{at}.operations[{i}]"), operation, &known));
        }
    }
    required("apiGroups", errors);
    alone("apiGroups", "API groups", errors);
    required("apiVersions", errors);
    alone("apiVersions", "API versions", errors);
    for (i, version) in list(rule, &["apiVersions"]).iter().enumerate() {
        if version == "" {
            errors.push(FieldError::required(format!("{at}.apiVersions[{i}]"), ""));
        }
    }
    required("resources", errors);
    resources(rule, at, errors);
    one_of(rule, "scope", at, &["*", "Cluster", "Namespaced"], errors);
}

/// Refuses resources that a wildcard of the same rule includes.
fn resources(rule: &Value, at: &str, errors: &mut Vec<FieldError>) {
    let all = list(rule, &["resources"]);
    let (mut with_all_parts, mut parts_of_all) = (BTreeSet::new(), BTreeSet::new());
    let mut is_whole = false;
    for (i, resource) in all.iter().enumerate() {
        let place = format!("{at}.resources[{i}]");
        let text = resource.as_str().unwrap_or_default();
        if text.is_empty() {
            errors.push(FieldError::required(place, ""));
            continue;
        }
        let Some((of, part)) = text.split_once('/') else {
            is_whole |= text != "*";
            continue;
        };
        if with_all_parts.contains(of) {
            let why = format!("if '{of}/*' is present, must not specify {text}");
            errors.push(FieldError::invalid(place.clone(), resource, why));
        }
        if parts_of_all.contains(part) {
            let why = format!("if '*/{part}' is present, must not specify {text}");
            errors.push(FieldError::invalid(place, resource, why));
        }
        if part == "*" {
            with_all_parts.insert(of);
        }
        if of == "*" {
            parts_of_all.insert(part);
        }
    }
    let has = |star: &str| all.iter().any(|resource| resource == star);
    if all.len() > 1 && has("*/*") {
        let why = "if '*/*' is present, must not specify other resources";
        errors.push(FieldError::invalid(format!("{at}.resources"), &rule["resources"], why));
    }
    if has("*") && is_whole {
        let why = "if '*' is present, must not specify other resources without subresources";
        errors.push(FieldError::invalid(format!("{at}.resources"), &rule["resources"], why));
    }
}

/// Validates the names of match conditions. Their expressions are validated with all others.
pub(super) fn condition_names(of: &Value, at: &str, errors: &mut Vec<FieldError>) {
    let conditions = list(of, &["matchConditions"]);
    if conditions.len() > MOST_CONDITIONS {
        let why = format!("must have at most {MOST_CONDITIONS} items");
        errors.push(FieldError::invalid(format!("{at}.matchConditions"), &conditions.len().into(), why));
    }
    let mut seen = BTreeSet::new();
    for (i, condition) in conditions.iter().enumerate() {
        let place = format!("{at}.matchConditions[{i}].name");
        let name = text(condition, &["name"]);
        if name.is_empty() {
            errors.push(FieldError::required(place, ""));
            continue;
        }
        for why in names::qualified(name) {
            errors.push(FieldError::invalid(place.clone(), &name.into(), why));
        }
        if !seen.insert(name) {
            errors.push(FieldError::duplicate(place, &name.into()));
        }
    }
}
