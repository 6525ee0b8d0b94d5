//! Validates mutating admission policies.

use substrate::json::Value;

use crate::policies::{check_match, check_sources};
use api_model::cel::Expression;
use api_model::fields::FieldError;
use api_model::fields::value::{self, list, text};

/// Variables that a mutation may use; `jsonpatch` is the receiver of `jsonpatch.escapeKey`.
const VARIABLES: &[&str] =
    &["authorizer", "jsonpatch", "namespaceObject", "object", "oldObject", "params", "request", "variables"];

/// Validates a policy. Bad expressions are refused when the policy is written, not when it runs.
pub fn check(policy: &Value, errors: &mut Vec<FieldError>) {
    let spec = &policy["spec"];
    check_match(spec, errors);
    let mutations = list(spec, &["mutations"]);
    if mutations.is_empty() {
        errors.push(FieldError::required("spec.mutations", "mutations must contain at least one item"));
    }
    check_sources(spec, "spec", "variables", &["expression"], VARIABLES, errors);
    for (i, mutation) in mutations.iter().enumerate() {
        let at = format!("spec.mutations[{i}]");
        let part = match text(mutation, &["patchType"]) {
            "ApplyConfiguration" => "applyConfiguration",
            "JSONPatch" => "jsonPatch",
            "" => {
                errors.push(FieldError::required(format!("{at}.patchType"), ""));
                continue;
            }
            other => {
                let known = ["ApplyConfiguration", "JSONPatch"];
                errors.push(FieldError::not_supported(format!("{at}.patchType"), &other.into(), &known));
                continue;
            }
        };
        let other = if part == "jsonPatch" { "applyConfiguration" } else { "jsonPatch" };
        if value::has(mutation, &[other]) {
            let why = format!("may not be specified when patchType is {}", text(mutation, &["patchType"]));
            errors.push(FieldError::forbidden(format!("{at}.{other}"), why));
        }
        let source = text(mutation, &[part, "expression"]);
        let place = format!("{at}.{part}.expression");
        if source.trim().is_empty() {
            errors.push(FieldError::required(place, "expression is not specified"));
            continue;
        }
        let unknown = match Expression::compile_mutation(source) {
            Ok(expression) => expression.unknown_variable(VARIABLES),
            Err(why) => {
                errors.push(FieldError::invalid(place, &source.into(), why));
                continue;
            }
        };
        if let Some(variable) = unknown {
            let why =
                format!("compilation failed: undeclared reference to '{variable}': this server has no such variable");
            errors.push(FieldError::invalid(place, &source.into(), why));
        }
    }
}
