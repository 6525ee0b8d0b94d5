//! Cost limits for evaluating the rules of one object (apiserver `pkg/apis/cel`).
//!
//! The evaluator does not count steps. The cost of a rule is estimated as for its schema, but with the sizes of the
//! given value: an upper bound for this value.

use substrate::json::Value;

use super::rules::Rule;
use crate::cel::check::Declared;
use crate::field_path::FieldPath;
use crate::fields::FieldError;

/// Cost limit of one evaluation.
const MOST_FOR_A_CALL: u64 = 1_000_000;
/// Cost limit of all evaluations for an object.
const MOST_FOR_AN_OBJECT: u64 = 10_000_000;
/// Rules whose bound by schema is at most this are not estimated for each value.
const CHEAP: u64 = 1000;

/// The validation of one object.
pub(super) struct Run<'e> {
    /// Errors so far.
    pub errors: &'e mut Vec<FieldError>,
    /// Rest of the cost budget; `None` after it was exceeded.
    left: Option<u64>,
}

impl<'e> Run<'e> {
    /// Starts a validation.
    pub fn new(errors: &'e mut Vec<FieldError>) -> Self {
        Self { errors, left: Some(MOST_FOR_AN_OBJECT) }
    }

    /// Returns true if a rule may be evaluated for a value. Otherwise it adds an error, and no further rule is
    /// evaluated.
    pub fn spend(&mut self, rule: &Rule, value: &Value, old: Option<&Value>, path: &FieldPath<'_>) -> bool {
        let Some(left) = self.left else { return false };
        let Some(bound) = &rule.bound else { return true };
        let mut cost = bound.most;
        if cost > CHEAP {
            let now = sized(&bound.declared, value);
            let both = old.map_or(now.clone(), |old| now.or(&sized(&bound.declared, old)));
            cost = rule.expression.most_cost(&bound.checked, &both);
        }
        let why = if cost > MOST_FOR_A_CALL {
            format!(
                "'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to call \
                 cost exceeds limit for rule: {}",
                rule.shown()
            )
        } else if cost > left {
            "validation failed due to running out of cost budget, no further validation rules will be run".to_owned()
        } else {
            self.left = Some(left - cost);
            return true;
        };
        self.left = None;
        let of = type_of(value);
        self.errors.push(FieldError::invalid_text(place(path), format!("{of:?}"), why));
        false
    }
}

/// Formats a path like upstream in errors of rules: the object itself is `<nil>`.
pub(super) fn place(path: &FieldPath<'_>) -> String {
    Some(format!("{path:#}")).filter(|path| !path.is_empty()).unwrap_or_else(|| "<nil>".to_owned())
}

/// Returns the schema type of a value.
pub(super) fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Object(_) => "object",
        Value::Array(_) => "array",
        Value::String(_) => "string",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::Null => "null",
    }
}

/// Returns a declaration with the sizes of a value.
fn sized(declared: &Declared, value: &Value) -> Declared {
    let mut found = declared.clone();
    match value {
        Value::String(text) => found.most = text.chars().count() as u64,
        Value::Array(list) => {
            found.most = list.len() as u64;
            found.item = declared.item.as_deref().and_then(|item| all(item, list.iter()));
        }
        Value::Object(map) if declared.item.is_some() => {
            found.most = map.len() as u64;
            found.item = declared.item.as_deref().and_then(|item| all(item, map.values()));
            let longest = map.keys().map(|key| key.chars().count()).max().unwrap_or(0);
            let key = declared.key.as_deref().map(|key| Declared { most: longest as u64, ..key.clone() });
            found.key = key.map(Into::into);
        }
        Value::Object(map) => {
            for (name, field) in &mut found.fields {
                let value = map.get(name.as_str()).unwrap_or(&Value::Null);
                *field = sized(field, value).into();
            }
        }
        _ => found.most = found.most.min(1),
    }
    found
}

/// Returns a declaration with the maximum sizes of several values.
fn all<'v>(declared: &Declared, mut values: impl Iterator<Item = &'v Value>) -> Option<std::sync::Arc<Declared>> {
    let first = sized(declared, values.next().unwrap_or(&Value::Null));
    Some(values.fold(first, |largest, value| largest.or(&sized(declared, value))).into())
}
