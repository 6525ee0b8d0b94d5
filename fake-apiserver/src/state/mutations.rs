//! MutatingAdmissionPolicies: expressions that change objects (apiserver `admission/plugin/policy/mutating`).

use std::sync::Arc;

use json_patch::PatchErrorKind;
use substrate::json::{self, Value};

use super::matching::Attributes;
use super::object::Object;
use super::policies::{MOST_FOR_A_POLICY, Scope, Wrong};
use super::status::Status;
use super::value::{self, list, name, text};
use super::{Store, managed, shape, strategy};
use crate::cel::Expression;
use crate::kinds;

/// One policy for one binding and one of its parameters.
struct Invocation {
    policy: Arc<Object>,
    binding: Arc<Object>,
    params: Value,
}

impl Invocation {
    fn is_repeated(&self) -> bool {
        text(&self.policy.value, &["spec", "reinvocationPolicy"]) == "IfNeeded"
    }

    /// Fails with the reason, unless the policy's failurePolicy is Ignore.
    fn failed(&self, request: &Attributes<'_>, why: &str) -> Result<(), Status> {
        if text(&self.policy.value, &["spec", "failurePolicy"]) == "Ignore" {
            return Ok(());
        }
        let (policy, binding) = (name(&self.policy.value), name(&self.binding.value));
        let mut status = Status::forbidden(request.kind, request.name(), why);
        status.reason = "Invalid";
        status.message = format!("policy '{policy}' with binding '{binding}' denied request: {why}");
        Err(status)
    }
}

impl Store {
    /// Runs the bound policies on an object that is written. Returns the changed object, or `None` if it did not
    /// change. `before` is set if webhooks changed the object after a first run; then only policies with
    /// reinvocationPolicy IfNeeded run again.
    ///
    /// # Errors
    /// 403 if a policy fails whose failurePolicy is Fail.
    pub(super) fn mutated(&self, request: &Attributes<'_>, before: bool) -> Result<Option<Value>, Status> {
        if self.kind_store(kinds::MUTATING_ADMISSION_POLICY_BINDINGS).objects().is_empty()
            || request.operation == "DELETE"
        {
            return Ok(None);
        }
        let mut object = request.object.clone();
        let mut seen: Vec<(Invocation, Value)> = Vec::new();
        for binding in self.all(kinds::MUTATING_ADMISSION_POLICY_BINDINGS) {
            let spec = &binding.value["spec"];
            let Some(policy) = self.get(kinds::MUTATING_ADMISSION_POLICIES, text(spec, &["policyName"])) else {
                continue;
            };
            if !self.policies().is_bound(&policy.value["spec"], spec, request) {
                continue;
            }
            let of = |params| Invocation { policy: policy.clone(), binding: binding.clone(), params };
            let chosen = match self.policies().params(&policy.value["spec"], spec, request) {
                Ok(chosen) => chosen,
                Err(why) => {
                    of(Value::Null).failed(request, &why)?;
                    continue;
                }
            };
            for params in chosen {
                let invocation = of(params);
                if before && !invocation.is_repeated() {
                    continue;
                }
                self.invoke(&invocation, request, &mut object)?;
                seen.push((invocation, object.clone()));
            }
        }
        // With reinvocationPolicy IfNeeded, a policy runs once more if later policies changed the object.
        for (invocation, was) in seen {
            if invocation.is_repeated() && was != object {
                self.invoke(&invocation, request, &mut object)?;
            }
        }
        Ok((object != *request.object).then_some(object))
    }

    fn invoke(&self, invocation: &Invocation, request: &Attributes<'_>, object: &mut Value) -> Result<(), Status> {
        let spec = &invocation.policy.value["spec"];
        let mut scope = self.policies().scope(&Attributes { object, ..*request }, invocation.params.clone());
        match scope.holds_all(list(spec, &["matchConditions"])) {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            Err(why) => return invocation.failed(request, &why),
        }
        for mutation in list(spec, &["mutations"]) {
            // Each mutation sees the changes of the earlier ones.
            scope.set("object", object.clone());
            scope.define(list(spec, &["variables"]));
            scope.allow(MOST_FOR_A_POLICY);
            match self.change(mutation, &mut scope, request, object) {
                Ok(changed) => *object = changed,
                Err(why) => invocation.failed(request, &why)?,
            }
        }
        Ok(())
    }

    /// Returns an object with one mutation applied.
    fn change(
        &self,
        mutation: &Value,
        scope: &mut Scope,
        request: &Attributes<'_>,
        object: &Value,
    ) -> Result<Value, String> {
        let mut changed = object.clone();
        if text(mutation, &["patchType"]) == "JSONPatch" {
            let source = text(mutation, &["jsonPatch", "expression"]);
            let patch = scope.evaluate(source, Expression::compile_mutation, Expression::evaluate_json_patch);
            let patch = patch.map_err(Wrong::text)?;
            let patch: json_patch::Patch = json::from_value(patch).map_err(|error| format!("JSON Patch: {error}"))?;
            let mut patched = serde_json::Value::from(changed);
            let result = json_patch::patch(&mut patched, &patch);
            changed = patched.into();
            match result {
                // A failed test leaves the object unchanged.
                Err(error) if matches!(error.kind, PatchErrorKind::TestFailed) => return Ok(object.clone()),
                other => other.map_err(|error| format!("JSON Patch: {error}"))?,
            }
        } else {
            let source = text(mutation, &["applyConfiguration", "expression"]);
            let applied = scope.evaluate(source, Expression::compile_mutation, Expression::evaluate_object);
            let applied = applied.map_err(Wrong::text)?;
            if request.object_kind().2 != request.kind.kind {
                return Err(format!("error applying patch: this server has no schema of {}", request.object_kind().2));
            }
            managed::overlay(request.kind, &mut changed, &applied)?;
        }
        for field in ["apiVersion", "kind"] {
            value::set(&mut changed, field, object.get(field).cloned());
        }
        // Policies cannot change the identity of an object or the fields that the server sets.
        for field in value::SERVERS_OWN {
            value::copy_meta(object, &mut changed, field);
        }
        if request.object_kind().2 == request.kind.kind {
            shape::decode_strictly(request.kind, &mut changed).map_err(|status| status.message)?;
            strategy::default(kinds::stored(request.kind), &mut changed);
        }
        Ok(changed)
    }
}
