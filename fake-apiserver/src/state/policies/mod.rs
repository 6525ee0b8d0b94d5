//! ValidatingAdmissionPolicies: expressions that refuse objects (apiserver `admission/plugin/policy/validating`).

use std::collections::BTreeMap;
use std::sync::Arc;

use substrate::json::{Map, Value, json};

use super::matching::Attributes;
use super::status::Status;
use super::value::{self, at, list, name, text};
use super::{Asking, FieldError, Identity, Store, selector};
use crate::cel::check::Type;
use crate::cel::{Authorizer, Expression, Question};
use crate::kinds;

/// The variable by which expressions ask about access.
const AUTHORIZER: &str = "authorizer";
/// The variables that an expression of a policy may use.
const VARIABLES: &[&str] = &[AUTHORIZER, "namespaceObject", "object", "oldObject", "params", "request", "variables"];

/// The variables that a condition of a webhook may use.
const CONDITION_VARIABLES: &[&str] = &[AUTHORIZER, "object", "oldObject", "request"];
/// Why an access is allowed where access is not checked.
pub const EVERYTHING: &str = "this server does not check access";

impl Store {
    /// Refuses a request that a bound policy denies; what policies only warn of is kept for the answer.
    pub(super) fn check_policies(&mut self, request: &Attributes<'_>) -> Result<(), Status> {
        if self.shelf(kinds::VALIDATING_ADMISSION_POLICY_BINDINGS).objects().is_empty() {
            return Ok(());
        }
        let mut warnings = Vec::new();
        let mut denied = None;
        for binding in self.all(kinds::VALIDATING_ADMISSION_POLICY_BINDINGS) {
            let spec = &binding.value["spec"];
            let Some(policy) = self.get(kinds::VALIDATING_ADMISSION_POLICIES, text(spec, &["policyName"])) else {
                continue;
            };
            if !self.is_bound(&policy.value["spec"], spec, request) {
                continue;
            }
            let actions = list(spec, &["validationActions"]);
            let does = |action: &str| actions.iter().any(|a| a == action);
            for failure in self.failures(&policy.value, spec, request) {
                let text = format!(
                    "ValidatingAdmissionPolicy '{}' with binding '{}' denied request: {}",
                    name(&policy.value),
                    name(&binding.value),
                    failure.why
                );
                if does("Warn") {
                    warnings.push(format!("Validation failed for {}", text.replace(" denied request", "")));
                }
                if does("Deny") && denied.is_none() {
                    denied = Some((text, failure.reason));
                }
            }
        }
        self.warnings.extend(warnings);
        let Some((why, reason)) = denied else { return Ok(()) };
        let mut status = Status::forbidden(request.kind, request.name(), &why);
        (status.code, status.reason) = match reason.as_str() {
            "Unauthorized" => (401, "Unauthorized"),
            "Forbidden" => (403, "Forbidden"),
            "RequestEntityTooLarge" => (413, "RequestEntityTooLarge"),
            _ => (422, "Invalid"),
        };
        Err(status)
    }

    /// Whether a policy and its binding, by their specs, are both about a request.
    pub(super) fn is_bound(&self, policy: &Value, binding: &Value, request: &Attributes<'_>) -> bool {
        let narrowed = &binding["matchResources"];
        // A binding may narrow by selectors alone.
        let narrowed = narrowed.is_null()
            || !list(narrowed, &["resourceRules"]).is_empty() && self.concerns(narrowed, "resourceRules", request)
            || list(narrowed, &["resourceRules"]).is_empty() && self.concerns_by_selectors(narrowed, request);
        narrowed && self.concerns(&policy["matchConstraints"], "resourceRules", request)
    }

    fn concerns_by_selectors(&self, of: &Value, request: &Attributes<'_>) -> bool {
        let mut all = of.clone();
        let rule = json!({"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]});
        value::set(&mut all, "resourceRules", Some(json!([rule])));
        self.concerns(&all, "resourceRules", request)
    }

    /// What a policy holds against a request, once for each of its parameters.
    fn failures(&self, policy: &Value, binding: &Value, request: &Attributes<'_>) -> Vec<Failure> {
        let spec = &policy["spec"];
        let fails = text(spec, &["failurePolicy"]) != "Ignore";
        let broken = |why: String| if fails { vec![Failure { why, reason: String::new() }] } else { Vec::new() };
        let params = match self.params(spec, binding, request) {
            Ok(params) => params,
            Err(why) => return broken(why),
        };
        let mut failures = Vec::new();
        for params in params {
            let mut scope = self.scope(request, params);
            match scope.holds_all(list(spec, &["matchConditions"])) {
                Ok(true) => {}
                Ok(false) => continue,
                Err(why) => {
                    failures.extend(broken(why));
                    continue;
                }
            }
            if let Err(why) = scope.define(list(spec, &["variables"])) {
                failures.extend(broken(why));
                continue;
            }
            for validation in list(spec, &["validations"]) {
                match scope.holds(text(validation, &["expression"])) {
                    Ok(true) => {}
                    Ok(false) => {
                        failures.push(Failure {
                            why: scope.message(validation),
                            reason: text(validation, &["reason"]).to_owned(),
                        });
                    }
                    Err(why) => failures.extend(broken(why)),
                }
            }
        }
        failures
    }

    /// The parameters of a binding: one null for a policy that has none.
    pub(super) fn params(&self, spec: &Value, binding: &Value, request: &Attributes<'_>) -> Result<Vec<Value>, String> {
        let (of, reference) = (&spec["paramKind"], &binding["paramRef"]);
        if of.is_null() || reference.is_null() {
            return Ok(vec![Value::Null]);
        }
        let (api_version, kind) = (text(of, &["apiVersion"]), text(of, &["kind"]));
        let custom = || self.custom_kinds().find(|k| k.kind == kind && k.api_version() == api_version);
        let found = kinds::find_kind(api_version, kind)
            .or_else(|| custom().map(|kind| &**kind))
            .ok_or_else(|| format!("failed to find resource referenced by paramKind: '{api_version}, Kind={kind}'"))?;
        let namespace = Some(text(reference, &["namespace"])).filter(|n| !n.is_empty()).or(request.namespace);
        let named = text(reference, &["name"]);
        let chosen: Vec<Value> = self
            .all(kinds::stored(found))
            .filter(|object| !found.namespaced || namespace == Some(value::namespace(&object.value)))
            .filter(|object| {
                if named.is_empty() {
                    selector::matches(&reference["selector"], &object.value["metadata"]["labels"])
                } else {
                    name(&object.value) == named
                }
            })
            .map(|object| object.value.clone())
            .collect();
        if chosen.is_empty() && text(reference, &["parameterNotFoundAction"]) != "Allow" {
            return Err("no params found for policy binding with `Deny` parameterNotFoundAction".to_owned());
        }
        Ok(chosen)
    }

    pub(super) fn scope(&self, request: &Attributes<'_>, params: Value) -> Scope {
        let namespace = request.namespace.and_then(|n| self.get(kinds::NAMESPACES, n)).map(|n| n.value.clone());
        let kind = request.kind;
        let (group, version, of) = request.object_kind();
        let of = json!({"group": group, "version": version, "kind": of});
        let resource = json!({"group": kind.group, "version": kind.version, "resource": kind.plural});
        let server = || (Arc::new(Identity::of_server()), false, json!({}));
        let asking = self.asking.as_ref();
        let (user, dry_run, options) =
            asking.map_or_else(server, |by| (by.user.clone(), by.dry_run, by.options.clone()));
        let said = json!({
            "kind": of,
            "resource": resource,
            "subResource": request.subresource,
            "requestKind": of,
            "requestResource": resource,
            "requestSubResource": request.subresource,
            "name": request.name(),
            "namespace": request.namespace.unwrap_or_default(),
            "operation": request.operation,
            "userInfo": user.user_info(),
            "dryRun": dry_run,
            "options": options,
        });
        let variables = vec![
            ("object", request.object.clone()),
            ("oldObject", request.old.clone()),
            ("request", said),
            ("params", params),
            ("namespaceObject", namespace.unwrap_or_default()),
            ("variables", json!({})),
        ];
        let about = Question {
            group: kind.group.to_owned(),
            resource: kind.plural.to_owned(),
            subresource: request.subresource.to_owned(),
            namespace: request.namespace.unwrap_or_default().to_owned(),
            name: request.name().to_owned(),
            ..Question::default()
        };
        Scope { variables, authorizer: self.authorizer(user), about }
    }

    /// Answers expressions that ask what `user` may do.
    fn authorizer(&self, user: Arc<Identity>) -> Authorizer {
        if !self.checks_access {
            return Authorizer::new(Arc::new(|_: &Question| Some(EVERYTHING.to_owned())));
        }
        let roles = self.roles();
        Authorizer::new(Arc::new(move |asked: &Question| roles.answer(&user, asked)))
    }

    /// Whether all conditions of a webhook hold for a request.
    ///
    /// # Errors
    /// Which of them cannot be evaluated, where none is false.
    pub fn conditions_hold(
        &mut self,
        asking: Option<&Asking>,
        conditions: &[Value],
        request: &Attributes<'_>,
    ) -> Result<bool, String> {
        if conditions.is_empty() {
            return Ok(true);
        }
        self.asking = asking.cloned();
        let scope = self.scope(request, Value::Null);
        self.asking = None;
        scope.holds_all(conditions)
    }
}

struct Failure {
    why: String,
    reason: String,
}

/// The variables of one evaluation, and whom it asks about access.
pub(super) struct Scope {
    variables: Vec<(&'static str, Value)>,
    authorizer: Authorizer,
    /// What the request is about.
    about: Question,
}

impl Scope {
    /// The variables, for an expression.
    pub(super) fn variables(&self) -> Vec<(&str, &Value)> {
        self.variables.iter().map(|(name, value)| (*name, value)).collect()
    }

    /// Whom an expression asks.
    pub(super) fn authorizer(&self) -> Option<(&Authorizer, &Question)> {
        Some((&self.authorizer, &self.about))
    }

    /// Gives a variable another value.
    pub(super) fn set(&mut self, name: &str, value: Value) {
        if let Some((_, slot)) = self.variables.iter_mut().find(|(known, _)| *known == name) {
            *slot = value;
        }
    }

    fn evaluate(&self, source: &str) -> Result<Value, String> {
        Expression::compile(source)?.evaluate_json_for(&self.variables(), self.authorizer())
    }

    fn holds(&self, source: &str) -> Result<bool, String> {
        match self.evaluate(source) {
            Ok(Value::Bool(is)) => Ok(is),
            Ok(_) => Err(format!("expression '{source}' resulted in no boolean")),
            Err(why) => Err(format!("expression '{source}' resulted in error: {why}")),
        }
    }

    /// Whether all conditions hold. One that is false says more than one that fails.
    pub(super) fn holds_all(&self, conditions: &[Value]) -> Result<bool, String> {
        let mut failed = Ok(true);
        for condition in conditions {
            match self.holds(text(condition, &["expression"])) {
                Ok(true) => {}
                Ok(false) => return Ok(false),
                Err(why) => failed = failed.and(Err(why)),
            }
        }
        failed
    }

    /// Evaluates variables in their order; each may use those before it.
    pub(super) fn define(&mut self, variables: &[Value]) -> Result<(), String> {
        let mut defined = Map::new();
        for variable in variables {
            let value = self.evaluate(text(variable, &["expression"]))?;
            defined.insert(name_of(variable), value);
            self.set("variables", Value::Object(defined.clone()));
        }
        Ok(())
    }

    fn message(&self, validation: &Value) -> String {
        let by_expression = text(validation, &["messageExpression"]);
        let said = if by_expression.is_empty() { None } else { self.evaluate(by_expression).ok() };
        match said.as_ref().and_then(Value::as_str).unwrap_or(text(validation, &["message"])) {
            "" => format!("failed expression: {}", text(validation, &["expression"])),
            message => message.to_owned(),
        }
    }
}

fn name_of(variable: &Value) -> String {
    text(variable, &["name"]).to_owned()
}

/// What is wrong with the expressions of a policy: they are refused when it is written, not when they are needed.
pub(super) fn check(policy: &Value, errors: &mut Vec<FieldError>) {
    let spec = &policy["spec"];
    if list(spec, &["validations"]).is_empty() && list(spec, &["auditAnnotations"]).is_empty() {
        errors.push(FieldError::required(
            "spec.validations",
            "validations or auditAnnotations must contain at least one item",
        ));
    }
    check_match(spec, errors);
    check_sources(spec, "spec", "matchConditions", &["expression"], VARIABLES, errors);
    check_sources(spec, "spec", "variables", &["expression"], VARIABLES, errors);
    check_sources(spec, "spec", "validations", &["expression", "messageExpression"], VARIABLES, errors);
}

/// What is wrong with the conditions of webhooks.
pub(super) fn check_webhooks(configuration: &Value, errors: &mut Vec<FieldError>) {
    for (i, webhook) in list(configuration, &["webhooks"]).iter().enumerate() {
        let at = format!("webhooks[{i}]");
        check_sources(webhook, &at, "matchConditions", &["expression"], CONDITION_VARIABLES, errors);
    }
}

/// A policy says what it is about.
pub(super) fn check_match(spec: &Value, errors: &mut Vec<FieldError>) {
    if at(spec, &["matchConstraints", "resourceRules"]).is_none() {
        errors.push(FieldError::required("spec.matchConstraints", ""));
    }
}

/// What is wrong with the expressions in `fields` of each entry of the list `part` of `spec`, which is found `within`;
/// they may use the variables `known`.
pub(super) fn check_sources(
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
            if source.is_empty() {
                if *field == "expression" {
                    errors.push(FieldError::required(place, ""));
                }
                continue;
            }
            let wrong = match Expression::compile(source) {
                Ok(expression) => {
                    let mut types = types(spec, part, i, known);
                    // A message is to explain, not to ask.
                    types.retain(|(name, _)| *name != AUTHORIZER || *field != "messageExpression");
                    mistyped(&expression, &types, part, field)
                }
                Err(why) => Some(why),
            };
            errors.extend(wrong.map(|why| FieldError::invalid(place, &source.into(), why)));
        }
    }
}

/// What is wrong with the types of an expression; nothing when it is right.
fn mistyped(expression: &Expression, types: &[(&str, Type)], part: &str, field: &str) -> Option<String> {
    let wanted = match (part, field) {
        ("variables", _) => None,
        (_, "messageExpression") => Some(Type::String),
        _ => Some(Type::Bool),
    };
    match expression.check_types(types) {
        Err(why) => Some(format!("compilation failed: {why}")),
        Ok(checked) => {
            let wanted = wanted.filter(|wanted| wanted != checked.result())?;
            Some(format!("must evaluate to {wanted} but got {}", checked.result()))
        }
    }
}

/// The types of the variables that the entry at `at` of a list of expressions may use (apiserver
/// `admission/plugin/cel/compile.go`).
fn types<'k>(spec: &Value, part: &str, at: usize, known: &[&'k str]) -> Vec<(&'k str, Type)> {
    let with = |variables: &BTreeMap<String, Type>| -> Vec<(&'k str, Type)> {
        let of = |name: &str| match name {
            "request" => request_type(),
            AUTHORIZER => Type::AUTHORIZER,
            // Conditions come before them.
            "variables" if part != "matchConditions" => Type::Object(Arc::new(variables.clone())),
            _ => Type::Dyn,
        };
        known.iter().map(|name| (*name, of(name))).collect()
    };
    // Each of the policy's own sees those before it.
    let before = if part == "variables" { at } else { usize::MAX };
    let mut found = BTreeMap::new();
    for variable in list(spec, &["variables"]).iter().take(before) {
        let of = Expression::compile(text(variable, &["expression"])).ok();
        let checked = of.and_then(|of| of.check_types(&with(&found)).ok());
        found.insert(name_of(variable), checked.map_or(Type::Dyn, |checked| checked.result().clone()));
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
