//! Validation of a policy (`pkg/apis/admissionregistration/validation`). Bad expressions are refused when the policy is
//! written, not when it runs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use substrate::json::Value;

use super::rules;
use api_model::cel::check::Type;
use api_model::cel::{Expression, is_identifier};
use api_model::fields::FieldError;
use api_model::fields::value::{list, name, text};
use api_model::names::{self, refuse};

/// Variable through which expressions check access.
const AUTHORIZER: &str = "authorizer";
/// Variables that an expression of a policy may use.
const VARIABLES: &[&str] = &[AUTHORIZER, "namespaceObject", "object", "oldObject", "params", "request", "variables"];
/// Maximum number of audit annotations of a policy.
const MOST_ANNOTATIONS: usize = 20;
/// Maximum length of the expression of an audit annotation, in bytes.
const LONGEST_ANNOTATION: usize = 5 << 10;

/// Validates a ValidatingAdmissionPolicy.
pub fn check(policy: &Value, errors: &mut Vec<FieldError>) {
    let spec = &policy["spec"];
    check_match(spec, errors);
    check_sources(spec, "spec", "variables", &["expression"], VARIABLES, errors);
    if list(spec, &["validations"]).is_empty() && list(spec, &["auditAnnotations"]).is_empty() {
        for field in ["validations", "auditAnnotations"] {
            let why = "validations or auditAnnotations must contain at least one item";
            errors.push(FieldError::required(format!("spec.{field}"), why));
        }
    }
    check_sources(spec, "spec", "validations", &["expression", "messageExpression"], VARIABLES, errors);
    for (i, validation) in list(spec, &["validations"]).iter().enumerate() {
        let at = format!("spec.validations[{i}]");
        let message = text(validation, &["message"]);
        if !message.is_empty() && message.trim().is_empty() {
            let why = "message must be non-empty if specified";
            errors.push(FieldError::invalid(format!("{at}.message"), &message.into(), why));
        } else if message.trim().contains(['\n', '\r']) {
            let why = "message must not contain line breaks";
            errors.push(FieldError::invalid(format!("{at}.message"), &message.into(), why));
        }
        let reasons = ["Forbidden", "Invalid", "RequestEntityTooLarge"];
        rules::one_of(validation, "reason", &at, &reasons, errors);
    }
    annotations(policy, errors);
}

/// Validates the audit annotations of a policy.
fn annotations(policy: &Value, errors: &mut Vec<FieldError>) {
    let spec = &policy["spec"];
    let all = list(spec, &["auditAnnotations"]);
    if all.len() > MOST_ANNOTATIONS {
        let why = format!("must not have more than {MOST_ANNOTATIONS} auditAnnotations");
        errors.push(FieldError::invalid("spec.auditAnnotations", &spec["auditAnnotations"], why));
    }
    let mut seen = BTreeSet::new();
    for (i, annotation) in all.iter().enumerate() {
        let at = format!("spec.auditAnnotations[{i}]");
        let key = text(annotation, &["key"]);
        let full = format!("{}/{key}", name(policy));
        refuse(&full, &format!("{at}.key"), names::qualified(&full), errors);
        let place = format!("{at}.valueExpression");
        let source = text(annotation, &["valueExpression"]).trim();
        if source.is_empty() {
            errors.push(FieldError::required(place, "valueExpression is not specified"));
        } else if source.len() > LONGEST_ANNOTATION {
            let why = format!("must not exceed {LONGEST_ANNOTATION} bytes in length");
            errors.push(FieldError::required(place, why));
        } else {
            let wrong = match Expression::compile(source) {
                Ok(expression) => {
                    let types = types(spec, "auditAnnotations", i, VARIABLES, &[]);
                    mistyped(&expression, &types, &[Type::String, Type::Null])
                }
                Err(why) => Some(why),
            };
            errors.extend(wrong.map(|why| FieldError::invalid(place, &annotation["valueExpression"], why)));
        }
        if !seen.insert(key) {
            errors.push(FieldError::duplicate(format!("{at}.key"), &key.into()));
        }
    }
}

/// Validates the parts that both kinds of policy have: matching, parameters, and names of variables.
pub fn check_match(spec: &Value, errors: &mut Vec<FieldError>) {
    rules::one_of(spec, "failurePolicy", "spec", &["Fail", "Ignore"], errors);
    if !spec["paramKind"].is_null() {
        param_kind(&spec["paramKind"], errors);
    }
    let constraints = &spec["matchConstraints"];
    if constraints.is_null() {
        errors.push(FieldError::required("spec.matchConstraints", ""));
    } else {
        rules::match_resources(constraints, "spec.matchConstraints", errors);
        if list(constraints, &["resourceRules"]).is_empty() {
            errors.push(FieldError::required("spec.matchConstraints.resourceRules", ""));
        }
    }
    rules::condition_names(spec, "spec", errors);
    check_sources(spec, "spec", "matchConditions", &["expression"], VARIABLES, errors);
    for (i, variable) in list(spec, &["variables"]).iter().enumerate() {
        let place = format!("spec.variables[{i}].name");
        match text(variable, &["name"]) {
            name if name.trim().is_empty() => errors.push(FieldError::required(place, "name is not specified")),
            name if !is_identifier(name) => {
                errors.push(FieldError::invalid(place, &name.into(), "name is not a valid CEL identifier"));
            }
            _ => {}
        }
    }
}

fn param_kind(of: &Value, errors: &mut Vec<FieldError>) {
    const AT: &str = "spec.paramKind";
    let place = format!("{AT}.apiVersion");
    let version = text(of, &["apiVersion"]);
    match version.split('/').collect::<Vec<_>>()[..] {
        [""] => errors.push(FieldError::required(place, "")),
        [version] => refuse(version, &place, names::label_of_letter(version), errors),
        [group, version] => {
            if !group.is_empty() {
                refuse(group, &place, names::subdomain(group), errors);
            }
            if version.is_empty() {
                errors.push(FieldError::invalid(place, &of["apiVersion"], "version must be specified"));
            } else {
                refuse(version, &place, names::label_of_letter(version), errors);
            }
        }
        _ => {
            let why = format!("unexpected GroupVersion string: {version}");
            errors.push(FieldError::invalid(place, &of["apiVersion"], why));
        }
    }
    let kind = text(of, &["kind"]);
    if kind.is_empty() {
        errors.push(FieldError::required(format!("{AT}.kind"), ""));
    } else if let Some(why) = names::joined(&names::label_of_letter(&kind.to_lowercase())) {
        let why = format!("may have mixed case, but should otherwise match: {why}");
        errors.push(FieldError::invalid(format!("{AT}.kind"), &kind.into(), why));
    }
}

/// Validates the expressions in `fields` of each entry of the list `part` of `spec`; `within` is the path of the list.
/// Expressions may use the variables `known`.
pub fn check_sources(
    spec: &Value,
    within: &str,
    part: &str,
    fields: &[&str],
    known: &[&str],
    errors: &mut Vec<FieldError>,
) {
    for (i, entry) in list(spec, &[part]).iter().enumerate() {
        for field in fields {
            let source = text(entry, &[field]);
            let place = format!("{within}.{part}[{i}].{field}");
            if source.trim().is_empty() {
                if *field == "expression" {
                    let why = if part == "matchConditions" { "" } else { "expression is not specified" };
                    errors.push(FieldError::required(place, why));
                } else if !source.is_empty() {
                    errors.push(FieldError::invalid(place, &source.into(), "must be non-empty if specified"));
                }
                continue;
            }
            let wrong = match Expression::compile(source) {
                Ok(expression) => {
                    let mut types = types(spec, part, i, known, &[]);
                    // A message expression must not check access.
                    types.retain(|(name, _)| *name != AUTHORIZER || *field != "messageExpression");
                    let wanted: &[Type] = match (part, *field) {
                        ("variables", _) => &[],
                        (_, "messageExpression") => &[Type::String],
                        _ => &[Type::Bool],
                    };
                    mistyped(&expression, &types, wanted)
                }
                Err(why) => Some(why),
            };
            errors.extend(wrong.map(|why| FieldError::invalid(place, &source.into(), why)));
        }
    }
}

/// Checks the types of an expression, whose result must have one of the `wanted` types. Returns the error, if any.
fn mistyped(expression: &Expression, types: &[(&str, Type)], wanted: &[Type]) -> Option<String> {
    let checked = match expression.check_types(types) {
        Err(why) => return Some(format!("compilation failed: {why}")),
        Ok(checked) => checked,
    };
    let of = checked.result();
    match wanted {
        _ if wanted.contains(of) => None,
        [] => None,
        [wanted] => Some(format!("must evaluate to {wanted} but got {of}")),
        several => {
            // Go's name of the null type differs from the checker's.
            let shown = |of: &Type| if *of == Type::Null { "null_type".to_owned() } else { of.to_string() };
            let several: Vec<String> = several.iter().map(shown).collect();
            Some(format!("must evaluate to one of [{}] but got {of}", several.join(" ")))
        }
    }
}

/// Returns the types of the variables of validations, given those of the object and of the parameters.
pub(super) fn types_with(spec: &Value, object: &Type, params: &Type) -> Vec<(&'static str, Type)> {
    let given = [("object", object.clone()), ("oldObject", object.clone()), ("params", params.clone())];
    types(spec, "validations", 0, VARIABLES, &given)
}

/// Returns the types of the variables that the expression at index `at` of a list may use (apiserver
/// `admission/plugin/cel/compile.go`). `given` has the types of variables that are otherwise unknown.
fn types<'k>(spec: &Value, part: &str, at: usize, known: &[&'k str], given: &[(&str, Type)]) -> Vec<(&'k str, Type)> {
    let with = |variables: &BTreeMap<String, Type>| -> Vec<(&'k str, Type)> {
        let of = |name: &str| match name {
            "request" => request_type(),
            AUTHORIZER => Type::AUTHORIZER,
            // Match conditions are evaluated before the variables.
            "variables" if part != "matchConditions" => Type::Object(Arc::new(variables.clone())),
            name => given.iter().find(|(other, _)| *other == name).map_or(Type::Dyn, |(_, of)| of.clone()),
        };
        known.iter().map(|name| (*name, of(name))).collect()
    };
    // A variable may use the variables before it.
    let before = if part == "variables" { at } else { usize::MAX };
    let mut found = BTreeMap::new();
    for variable in list(spec, &["variables"]).iter().take(before) {
        let of = Expression::compile(text(variable, &["expression"])).ok();
        let checked = of.and_then(|of| of.check_types(&with(&found)).ok());
        found.insert(
            text(variable, &["name"]).to_owned(),
            checked.map_or(Type::Dyn, |checked| checked.result().clone()),
        );
    }
    with(&found)
}

fn request_type() -> Type {
    let texts =
        |names: &[&str]| names.iter().map(|name| ((*name).to_owned(), Type::String)).collect::<BTreeMap<_, _>>();
    let object = |fields| Type::Object(Arc::new(fields));
    let mut user = texts(&["username", "uid"]);
    user.insert("groups".to_owned(), Type::list(Type::String));
    user.insert("extra".to_owned(), Type::map(Type::String, Type::list(Type::String)));
    let mut request = texts(&["subResource", "requestSubResource", "name", "namespace", "operation"]);
    for (names, last) in [(["kind", "requestKind"], "kind"), (["resource", "requestResource"], "resource")] {
        for name in names {
            request.insert(name.to_owned(), object(texts(&["group", "version", last])));
        }
    }
    request.insert("userInfo".to_owned(), object(user));
    request.insert("dryRun".to_owned(), Type::Bool);
    request.insert("options".to_owned(), Type::Dyn);
    object(request)
}
