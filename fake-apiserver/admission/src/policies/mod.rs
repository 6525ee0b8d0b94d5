//! ValidatingAdmissionPolicies: expressions that refuse objects (apiserver `admission/plugin/policy/validating`).

mod bindings;
mod check;
mod rules;
mod scope;
mod type_check;
mod webhooks;

use std::collections::BTreeMap;
use std::sync::Arc;

use substrate::json::{Value, json};

pub use self::bindings::{check_actions, check_binding};
pub use self::check::{check, check_match, check_sources};
pub use self::scope::{MOST_FOR_A_POLICY, Scope, Wrong};
pub use self::type_check::type_warnings;
pub use self::webhooks::check_webhooks;
use crate::matching::{Attributes, concerns};
use api_model::fields::value::{self, list, name, text};
use api_model::selector;
use api_model::status::Status;
use api_model::user::{Asking, Identity};

use crate::Cluster;
use api_model::cel::{Authorizer, Question};
use api_model::kinds;

/// Maximum number of failures in an audit event.
const MOST_FAILURES: usize = 50;
/// Audit annotation that lists failures.
const FAILURES: &str = "validation.policy.admission.k8s.io/validation_failure";
/// Reason of an allowed access if the server does not check access.
pub const EVERYTHING: &str = "this server does not check access";

/// The policies of a cluster, for one request.
#[derive(Clone, Copy)]
pub struct Policies<'a> {
    /// The cluster.
    pub cluster: &'a dyn Cluster,
    /// User and options of the request; `None` for one of the server's own.
    pub asking: Option<&'a Asking>,
}

/// Result of all bound policies.
#[derive(Debug)]
pub struct Verdict {
    /// Audit annotations.
    pub annotations: Vec<(String, String)>,
    /// Warnings for the answer.
    pub warnings: Vec<String>,
    /// The refusal, if one of them denies the request.
    pub result: Result<(), Status>,
}

impl Policies<'_> {
    /// Runs the bound policies.
    pub fn check(&self, request: &Attributes<'_>) -> Verdict {
        let bindings = self.cluster.objects(kinds::VALIDATING_ADMISSION_POLICY_BINDINGS);
        let mut warnings = Vec::new();
        let mut denied = None;
        let mut failed = Vec::new();
        // By policy and key: several bindings may add the same value or different ones.
        let mut noted: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for binding in bindings.values() {
            let spec = &binding.value["spec"];
            let Some(policy) = self.cluster.object(kinds::VALIDATING_ADMISSION_POLICIES, text(spec, &["policyName"]))
            else {
                continue;
            };
            if !self.is_bound(&policy.value["spec"], spec, request) {
                continue;
            }
            let (policy_name, binding_name) = (name(&policy.value), name(&binding.value));
            let denies = |why: &str| {
                format!("ValidatingAdmissionPolicy '{policy_name}' with binding '{binding_name}' denied request: {why}")
            };
            let actions = list(spec, &["validationActions"]);
            let does = |action: &str| actions.iter().any(|a| a == action);
            let judged = self.judge(&policy.value, spec, request);
            for failure in judged.failures {
                if does("Audit") {
                    failed.push(json!({
                        "message": failure.why,
                        "policy": policy_name,
                        "binding": binding_name,
                        "expressionIndex": failure.at,
                        "validationActions": actions,
                    }));
                }
                if does("Warn") {
                    warnings.push(format!(
                        "Validation failed for ValidatingAdmissionPolicy '{policy_name}' with binding \
                         '{binding_name}': {}",
                        failure.why
                    ));
                }
                // A binding that cannot be configured denies regardless of its actions.
                if (does("Deny") || failure.always) && denied.is_none() {
                    denied = Some((denies(&failure.why), failure.reason));
                }
            }
            for (key, wording) in judged.annotations {
                let all = noted.entry(format!("{policy_name}/{key}")).or_default();
                if !all.contains(&wording) {
                    all.push(wording);
                }
            }
        }
        let mut annotations: Vec<_> = noted.into_iter().map(|(key, wording)| (key, wording.join(", "))).collect();
        if !failed.is_empty() {
            failed.truncate(MOST_FAILURES);
            annotations.push((FAILURES.to_owned(), Value::Array(failed).to_string()));
        }
        let result = denied.map_or(Ok(()), |(why, reason)| Err(refusal(request, &why, &reason)));
        Verdict { annotations, warnings, result }
    }

    /// Returns true if a policy and its binding, given by their specs, both match a request.
    pub fn is_bound(&self, policy: &Value, binding: &Value, request: &Attributes<'_>) -> bool {
        let narrowed = &binding["matchResources"];
        // A binding may narrow by selectors alone.
        let narrowed = narrowed.is_null()
            || !list(narrowed, &["resourceRules"]).is_empty()
                && concerns(self.cluster, narrowed, "resourceRules", request)
            || list(narrowed, &["resourceRules"]).is_empty() && self.concerns_by_selectors(narrowed, request);
        narrowed && concerns(self.cluster, &policy["matchConstraints"], "resourceRules", request)
    }

    fn concerns_by_selectors(&self, of: &Value, request: &Attributes<'_>) -> bool {
        let mut all = of.clone();
        let rule = json!({"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]});
        value::set(&mut all, "resourceRules", Some(json!([rule])));
        concerns(self.cluster, &all, "resourceRules", request)
    }

    /// Evaluates a policy for a request, once for each of its parameters.
    fn judge(&self, policy: &Value, binding: &Value, request: &Attributes<'_>) -> Judged {
        let spec = &policy["spec"];
        let fails = text(spec, &["failurePolicy"]) != "Ignore";
        let mut judged = Judged::default();
        let params = match self.params(spec, binding, request) {
            Ok(params) => params,
            Err(why) => {
                let why = format!("failed to configure binding: {why}");
                judged.failures.extend(fails.then(|| Failure { always: true, ..Failure::error(0, why) }));
                return judged;
            }
        };
        for params in params {
            let mut scope = self.scope(request, params);
            match scope.holds_all(list(spec, &["matchConditions"])) {
                Ok(true) => {}
                Ok(false) => continue,
                Err(why) => {
                    judged.failures.extend(fails.then(|| Failure::error(0, why)));
                    continue;
                }
            }
            scope.define(list(spec, &["variables"]));
            match validate(&mut scope, spec) {
                Ok(failures) => judged.failures.extend(failures.into_iter().filter(|f| fails || !f.broken)),
                // Once the budget is spent, that is the only failure.
                Err(why) => {
                    judged.failures.extend(fails.then(|| Failure::error(0, why.text())));
                    continue;
                }
            }
            let (annotations, wrong) = scope.annotations(spec);
            judged.annotations.extend(annotations);
            let wrong = wrong.into_iter().map(|why| Failure { always: true, ..Failure::error(0, why) });
            judged.failures.extend(wrong.filter(|_| fails));
        }
        judged
    }

    /// Returns the parameters of a binding; a single null for a policy without parameters.
    pub fn params(&self, spec: &Value, binding: &Value, request: &Attributes<'_>) -> Result<Vec<Value>, String> {
        let (of, reference) = (&spec["paramKind"], &binding["paramRef"]);
        if of.is_null() || reference.is_null() {
            return Ok(vec![Value::Null]);
        }
        let (api_version, kind) = (text(of, &["apiVersion"]), text(of, &["kind"]));
        let found = self
            .cluster
            .kind_of(api_version, kind)
            .ok_or_else(|| format!("failed to find resource referenced by paramKind: '{api_version}, Kind={kind}'"))?;
        let namespace = Some(text(reference, &["namespace"])).filter(|n| !n.is_empty()).or(request.namespace);
        let named = text(reference, &["name"]);
        let chosen: Vec<Value> = self
            .cluster
            .objects(kinds::stored(&found))
            .values()
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

    /// Returns the variables of a policy for a request.
    pub fn scope(&self, request: &Attributes<'_>, params: Value) -> Scope {
        let namespace =
            request.namespace.and_then(|n| self.cluster.object(kinds::NAMESPACES, n)).map(|n| n.value.clone());
        let kind = request.kind;
        let (group, version, of) = request.object_kind();
        let of = json!({"group": group, "version": version, "kind": of});
        let resource = json!({"group": kind.group, "version": kind.version, "resource": kind.plural});
        let server = || (Arc::new(Identity::of_server()), false, json!({}));
        let (user, dry_run, options) =
            self.asking.map_or_else(server, |by| (by.user.clone(), by.dry_run, by.options.clone()));
        let wording = json!({
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
            ("request", wording),
            ("params", params),
            ("namespaceObject", namespace.unwrap_or_default()),
        ];
        let about = Question {
            group: kind.group.to_owned(),
            resource: kind.plural.to_owned(),
            subresource: request.subresource.to_owned(),
            namespace: request.namespace.unwrap_or_default().to_owned(),
            name: request.name().to_owned(),
            ..Question::default()
        };
        Scope::new(variables, self.authorizer(user), about)
    }

    /// Returns the authorizer for expressions that check the access of `user`.
    fn authorizer(&self, user: Arc<Identity>) -> Authorizer {
        let Some(roles) = self.cluster.roles() else {
            return Authorizer::new(Arc::new(|_: &Question| Some(EVERYTHING.to_owned())));
        };
        Authorizer::new(Arc::new(move |asked: &Question| roles.answer(&user, asked)))
    }

    /// Evaluates the match conditions of a webhook for a request.
    ///
    /// # Errors
    /// The first condition that cannot be evaluated, if none is false.
    pub fn hold(&self, conditions: &[Value], request: &Attributes<'_>) -> Result<bool, String> {
        self.scope(request, Value::Null).holds_all(conditions)
    }
}

/// Returns the failure of a request that a policy denies.
fn refusal(request: &Attributes<'_>, why: &str, reason: &str) -> Status {
    let mut status = Status::forbidden(request.kind, request.name(), why);
    (status.code, status.reason) = match reason {
        "Unauthorized" => (401, "Unauthorized"),
        "Forbidden" => (403, "Forbidden"),
        "RequestEntityTooLarge" => (413, "RequestEntityTooLarge"),
        _ => (422, "Invalid"),
    };
    status
}

/// Result of a policy for a request.
#[derive(Default)]
struct Judged {
    failures: Vec<Failure>,
    /// By key.
    annotations: Vec<(String, String)>,
}

/// A failed validation.
struct Failure {
    /// Index of the validation.
    at: usize,
    why: String,
    reason: String,
    /// If set, the validation could not be evaluated.
    broken: bool,
    /// If set, the request is denied regardless of the actions of the binding.
    always: bool,
}

impl Failure {
    fn error(at: usize, why: String) -> Self {
        Self { at, why, reason: String::new(), broken: true, always: false }
    }
}

/// Returns the validations that fail.
fn validate(scope: &mut Scope, spec: &Value) -> Result<Vec<Failure>, Wrong> {
    scope.allow(MOST_FOR_A_POLICY);
    let validations = list(spec, &["validations"]);
    let mut found = Vec::new();
    for (at, validation) in validations.iter().enumerate() {
        match scope.holds(text(validation, &["expression"])) {
            Ok(true) => {}
            Ok(false) => {
                let reason = text(validation, &["reason"]).to_owned();
                found.push(Failure { at, why: String::new(), reason, broken: false, always: false });
            }
            Err(Wrong::Spent) => return Err(Wrong::Spent),
            Err(why) => found.push(Failure::error(at, why.text())),
        }
    }
    // Messages are evaluated last, with the rest of the budget.
    for failure in found.iter_mut().filter(|failure| !failure.broken) {
        match scope.message(&validations[failure.at]) {
            Ok(wording) => failure.why = wording,
            Err(why) => *failure = Failure::error(failure.at, format!("failed messageExpression: {}", why.text())),
        }
    }
    Ok(found)
}
