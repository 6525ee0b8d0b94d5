//! Selectors of nodes (`ValidateNodeSelector`).

use substrate::json::Value;

use super::{names, refuse};
use crate::fields::FieldError;
use crate::state::value::{list, text};

const OPERATOR: &str = "not a valid selector operator";

/// Validates a selector: it has terms.
pub(in crate::state) fn node_selector(selector: &Value, at: &str, errors: &mut Vec<FieldError>) {
    let terms = list(selector, &["nodeSelectorTerms"]);
    let at = format!("{at}.nodeSelectorTerms");
    if terms.is_empty() {
        errors.push(FieldError::required(&at, "must have at least one node selector term"));
    }
    for (i, term) in terms.iter().enumerate() {
        required(term, &format!("{at}[{i}]"), errors);
    }
}

/// Validates a preferred term. For compatibility, its values need not be values of labels.
pub(super) fn preferred(term: &Value, at: &str, errors: &mut Vec<FieldError>) {
    for (i, requirement) in list(term, &["matchExpressions"]).iter().enumerate() {
        on_label(requirement, &format!("{at}.matchExpressions[{i}]"), errors);
    }
    for (i, requirement) in list(term, &["matchFields"]).iter().enumerate() {
        on_field(requirement, &format!("{at}.matchFields[{i}]"), errors);
    }
}

/// Validates a required term: requirements on labels and on fields.
fn required(term: &Value, at: &str, errors: &mut Vec<FieldError>) {
    for (i, requirement) in list(term, &["matchExpressions"]).iter().enumerate() {
        let at = format!("{at}.matchExpressions[{i}]");
        on_label(requirement, &at, errors);
        for (k, value) in list(requirement, &["values"]).iter().enumerate() {
            let value = value.as_str().unwrap_or_default();
            refuse(value, &format!("{at}.values[{k}]"), names::label_value(value), errors);
        }
    }
    for (i, requirement) in list(term, &["matchFields"]).iter().enumerate() {
        on_field(requirement, &format!("{at}.matchFields[{i}]"), errors);
    }
}

fn on_label(requirement: &Value, at: &str, errors: &mut Vec<FieldError>) {
    let (key, values) = (text(requirement, &["key"]), list(requirement, &["values"]));
    let place = format!("{at}.values");
    match text(requirement, &["operator"]) {
        "In" | "NotIn" if values.is_empty() => {
            errors.push(FieldError::required(place, "must be specified when `operator` is 'In' or 'NotIn'"));
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.push(FieldError::forbidden(place, why));
        }
        "Gt" | "Lt" if values.len() != 1 => {
            let why = "must be specified single value when `operator` is 'Lt' or 'Gt'";
            errors.push(FieldError::required(place, why));
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
        other => errors.push(FieldError::invalid(format!("{at}.operator"), &other.into(), OPERATOR)),
    }
    refuse(key, &format!("{at}.key"), names::qualified(key), errors);
}

/// Validates a requirement on a field: only the name can be selected.
fn on_field(requirement: &Value, at: &str, errors: &mut Vec<FieldError>) {
    let (key, values) = (text(requirement, &["key"]), list(requirement, &["values"]));
    match text(requirement, &["operator"]) {
        "In" | "NotIn" if values.len() != 1 => {
            let why = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
            errors.push(FieldError::required(format!("{at}.values"), why));
        }
        "In" | "NotIn" => {}
        other => errors.push(FieldError::invalid(format!("{at}.operator"), &other.into(), OPERATOR)),
    }
    if key != "metadata.name" {
        errors.push(FieldError::invalid(format!("{at}.key"), &key.into(), "not a valid field selector key"));
        return;
    }
    for (i, value) in values.iter().enumerate() {
        let value = value.as_str().unwrap_or_default();
        refuse(value, &format!("{at}.values[{i}]"), names::subdomain(value), errors);
    }
}
