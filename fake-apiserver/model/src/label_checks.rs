//! Label selectors (apimachinery `meta/v1/validation.ValidateLabelSelector`).

use substrate::json::Value;

use crate::fields::FieldError;
use crate::fields::value::{list, text};
use crate::names::{self, refuse};

/// Validates the selector at `at`, which may be missing.
pub fn label_selector(selector: &Value, at: &str, errors: &mut Vec<FieldError>) {
    labels(&selector["matchLabels"], &format!("{at}.matchLabels"), errors);
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
        let key = text(term, &["key"]);
        refuse(key, &format!("{at}.key"), names::qualified(key), errors);
        for (i, value) in values.iter().enumerate() {
            let value = value.as_str().unwrap_or_default();
            refuse(value, &format!("{at}.values[{i}]"), names::label_value(value), errors);
        }
    }
}

/// Validates labels, or another map with the same grammar (`ValidateLabels`).
pub fn labels(labels: &Value, field: &str, errors: &mut Vec<FieldError>) {
    for (key, value) in labels.as_object().into_iter().flatten() {
        refuse(key, field, names::qualified(key), errors);
        let value = value.as_str().unwrap_or_default();
        refuse(value, field, names::label_value(value), errors);
    }
}
