//! Label selectors (apimachinery `meta/v1/validation.ValidateLabelSelector`).

use substrate::json::Value;

use super::names;
use crate::fields::FieldError;
use crate::state::value::{list, text};

/// Validates the selector at `at`, which may be missing.
pub(in crate::state) fn label_selector(selector: &Value, at: &str, errors: &mut Vec<FieldError>) {
    for (key, value) in selector["matchLabels"].as_object().into_iter().flatten() {
        let place = format!("{at}.matchLabels");
        if let Some(why) = names::qualified(key) {
            errors.push(FieldError::invalid(place.clone(), &Value::from(&**key), why));
        }
        if let Some(why) = value.as_str().and_then(names::label_value) {
            errors.push(FieldError::invalid(place, value, why));
        }
    }
    for (i, term) in list(selector, &["matchExpressions"]).iter().enumerate() {
        let at = format!("{at}.matchExpressions[{i}]");
        let values = list(term, &["values"]);
        match text(term, &["operator"]) {
            "In" | "NotIn" if values.is_empty() => {
                let why = "must be specified when `operator` is 'In' or 'NotIn'";
                errors.push(FieldError::required(format!("{at}.values"), why));
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                errors.push(FieldError::forbidden(format!("{at}.values"), why));
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => {
                let why = "not a valid selector operator";
                errors.push(FieldError::invalid(format!("{at}.operator"), &other.into(), why));
            }
        }
        if let Some(why) = names::qualified(text(term, &["key"])) {
            errors.push(FieldError::invalid(format!("{at}.key"), &term["key"], why));
        }
        for (i, value) in values.iter().enumerate() {
            if let Some(why) = value.as_str().and_then(names::label_value) {
                errors.push(FieldError::invalid(format!("{at}.values[{i}]"), value, why));
            }
        }
    }
}
