//! Validation rules of schemas (`x-kubernetes-validations`).

use substrate::json::Value;

use super::budget::{Run, place, type_of};
use crate::cel::check::{Checked, Declared};
use crate::cel::{CelValue, Expression};
use crate::field_path::FieldPath;
use crate::fields::{FieldError, FieldFault};

/// Maximum cost of a rule by its schema.
#[derive(Debug)]
pub(super) struct Bound {
    pub declared: Declared,
    pub checked: Checked,
    pub most: u64,
}

/// A rule of a schema.
#[derive(Debug)]
pub struct Rule {
    pub(super) expression: Expression,
    message: String,
    pub(super) message_expression: Option<Expression>,
    reason: String,
    field: String,
    /// True if `oldSelf` is optional, so that the rule also applies to a new value.
    pub(super) optional_old: bool,
    /// `optionalOldSelf` as in the definition.
    pub(super) optional_old_set: Option<bool>,
    /// Maximum cost; `None` before the rule is examined.
    pub(super) bound: Option<Bound>,
}

impl Rule {
    /// Parses an entry of `x-kubernetes-validations`; `None`, with errors added, if it is invalid.
    pub(super) fn parse(source: &Value, at: &str, errors: &mut Vec<FieldError>) -> Option<Self> {
        let word = |name: &str| source[name].as_str().unwrap_or_default();
        let mut compile = |name: &str| match Expression::compile(word(name)) {
            Ok(expression) => Some(expression),
            Err(why) => {
                errors.push(FieldError::invalid(format!("{at}.{name}"), &word(name).into(), why));
                None
            }
        };
        let expression = compile("rule")?;
        let message_expression = if word("messageExpression").is_empty() { None } else { compile("messageExpression") };
        Some(Self {
            expression,
            message: word("message").to_owned(),
            message_expression,
            reason: word("reason").to_owned(),
            field: word("fieldPath").to_owned(),
            optional_old: source["optionalOldSelf"] == true,
            optional_old_set: source["optionalOldSelf"].as_bool(),
            bound: None,
        })
    }

    /// Returns true if the rule uses the old value (a transition rule).
    pub(super) fn uses_old(&self) -> bool {
        self.expression.mentions("oldSelf")
    }

    /// Evaluates the rule and adds an error if it is false.
    pub(super) fn check(&self, value: &Value, old: Option<&Value>, path: &FieldPath<'_>, run: &mut Run<'_>) {
        let mut variables = vec![("self", value)];
        let mut optional = Vec::new();
        match old {
            _ if self.optional_old => optional.push(("oldSelf", old)),
            Some(old) => variables.push(("oldSelf", old)),
            // A transition rule does not apply to a new value.
            None if self.uses_old() => return,
            None => {}
        }
        if !run.spend(self, value, old, path) {
            return;
        }
        let failed = |why: String| FieldError::invalid_text(place(path), format!("{:?}", type_of(value)), why);
        let why = match self.expression.evaluate_with(&variables, &optional) {
            Ok(CelValue::Bool(true)) => return,
            Ok(CelValue::Bool(false)) => self.evaluate_message(&variables, &optional),
            Ok(_) => {
                run.errors.push(failed(format!("rule {:?} gave no boolean", self.expression.source())));
                return;
            }
            Err(error) => {
                run.errors.push(failed(format!("{error} evaluating rule: {}", self.shown())));
                return;
            }
        };
        let field = match self.field.strip_prefix('.') {
            _ if self.field.is_empty() => place(path),
            Some(field) => format!("{:#}", path.field(field)),
            None => format!("{path:#}{}", self.field),
        };
        // Errors about objects and lists do not print them.
        let shown = if value.is_object() || value.is_array() { String::new() } else { value.to_string() };
        run.errors.push(match self.reason.as_str() {
            "FieldValueForbidden" => FieldError::forbidden(field, why),
            "FieldValueRequired" => FieldError::required(field, why),
            "FieldValueDuplicate" => FieldError { field, fault: FieldFault::Duplicate(shown), detail: String::new() },
            _ => FieldError::invalid_text(field, shown, why),
        });
    }

    /// Returns the rule as errors name it.
    pub(super) fn shown(&self) -> &str {
        if self.message.is_empty() { self.expression.source().trim() } else { self.message.trim() }
    }

    fn evaluate_message(&self, variables: &[(&str, &Value)], optional: &[(&str, Option<&Value>)]) -> String {
        let wording = self.message_expression.as_ref().and_then(|e| e.evaluate_with(variables, optional).ok());
        let wording = wording.and_then(|value| match value {
            CelValue::String(text) => Some(text.to_string()),
            _ => None,
        });
        match wording {
            Some(text) => text,
            None if !self.message.is_empty() => self.message.clone(),
            None => format!("failed rule: {}", self.expression.source()),
        }
    }
}
