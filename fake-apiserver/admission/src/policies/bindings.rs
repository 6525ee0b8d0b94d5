//! Validation of policy bindings: policy name, parameters and actions (`pkg/apis/admissionregistration/validation`).

use std::collections::BTreeSet;

use substrate::json::Value;

use super::rules;
use api_model::fields::FieldError;
use api_model::fields::value::{list, text};
use api_model::{
    label_checks as selector,
    names::{self, refuse},
};

/// Validates a binding of either kind.
pub fn check_binding(binding: &Value, errors: &mut Vec<FieldError>) {
    let spec = &binding["spec"];
    match text(spec, &["policyName"]) {
        "" => errors.push(FieldError::required("spec.policyName", "")),
        name => refuse(name, "spec.policyName", names::subdomain(name), errors),
    }
    params(&spec["paramRef"], errors);
    rules::match_resources(&spec["matchResources"], "spec.matchResources", errors);
}

/// Validates the actions of a ValidatingAdmissionPolicyBinding.
pub fn check_actions(binding: &Value, errors: &mut Vec<FieldError>) {
    const KNOWN: &[&str] = &["Audit", "Deny", "Warn"];
    let all = list(binding, &["spec", "validationActions"]);
    let mut seen = BTreeSet::new();
    for (i, action) in all.iter().enumerate() {
        let place = format!("spec.validationActions[{i}]");
        let word = action.as_str().unwrap_or_default();
        if !KNOWN.contains(&word) {
            errors.push(FieldError::not_supported(place.clone(), action, KNOWN));
        }
        if !seen.insert(word) {
            errors.push(FieldError::duplicate(place, action));
        }
    }
    if seen.contains("Deny") && seen.contains("Warn") {
        let why = "must not contain both Deny and Warn (repeating the same validation failure information in the API \
                   response and headers serves no purpose)";
        errors.push(FieldError::invalid("spec.validationActions", &binding["spec"]["validationActions"], why));
    }
    if all.is_empty() {
        errors.push(FieldError::required("spec.validationActions", "at least one validation action is required"));
    }
}

fn params(reference: &Value, errors: &mut Vec<FieldError>) {
    const AT: &str = "spec.paramRef";
    if reference.is_null() {
        return;
    }
    let name = text(reference, &["name"]);
    let selects = !reference["selector"].is_null();
    for why in names::path_segment(name) {
        errors.push(FieldError::invalid(format!("{AT}.name"), &name.into(), why));
    }
    selector::label_selector(&reference["selector"], &format!("{AT}.selector"), errors);
    if !name.is_empty() && selects {
        for field in ["name", "selector"] {
            errors.push(FieldError::forbidden(format!("{AT}.{field}"), "name and selector are mutually exclusive"));
        }
    }
    if name.is_empty() && !selects {
        errors.push(FieldError::required(AT, "one of name or selector must be specified"));
    }
    match text(reference, &["parameterNotFoundAction"]) {
        "" => errors.push(FieldError::required(format!("{AT}.parameterNotFoundAction"), "")),
        _ => rules::one_of(reference, "parameterNotFoundAction", AT, &["Deny", "Allow"], errors),
    }
}
