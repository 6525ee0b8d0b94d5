//! Numbers and percentages of pods (`ValidatePositiveIntOrPercent`, `IsNotMoreThan100Percent`).

use substrate::json::Value;

use super::validate::NEGATIVE;
use crate::state::FieldError;

const PERCENT: &str = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', \
    regex used for validation is '[0-9]+%')";

/// Validates a number or a percentage.
pub(super) fn positive(bound: &Value, field: &str, errors: &mut Vec<FieldError>) {
    match bound.as_str() {
        Some(text) if percent(text).is_none() => errors.push(FieldError::invalid(field, bound, PERCENT)),
        None if bound.as_i64().is_some_and(|number| number < 0) => {
            errors.push(FieldError::invalid(field, bound, NEGATIVE));
        }
        _ => {}
    }
}

/// Refuses a percentage of more than 100.
pub(super) fn at_most_all(bound: &Value, field: &str, errors: &mut Vec<FieldError>) {
    if bound.as_str().and_then(percent).is_some_and(|percent| percent > 100) {
        errors.push(FieldError::invalid(field, bound, "must not be greater than 100%"));
    }
}

/// Returns the number, or that of the percentage.
pub(super) fn value(bound: &Value) -> i64 {
    bound.as_i64().or_else(|| percent(bound.as_str()?)).unwrap_or(0)
}

fn percent(text: &str) -> Option<i64> {
    let digits = text.strip_suffix('%').filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()))?;
    (!digits.is_empty()).then(|| digits.parse().unwrap_or(i64::MAX))
}
