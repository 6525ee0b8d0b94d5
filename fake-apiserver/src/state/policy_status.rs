//! Status of ValidatingAdmissionPolicies: the type errors of their expressions (kube-controller-manager
//! `validatingadmissionpolicy-status-controller`).

use api_admission::policies::type_warnings;
use substrate::Now;
use substrate::json::{Value, json};

use super::Store;
use super::history::Event;
use super::object::Object;
use super::value::int;
use crate::kinds;

impl Store {
    /// Checks a new or changed policy, and writes the result into its status.
    pub(super) fn follow_policy(&mut self, now: Now, event: &Event) {
        let Some(policy) = event.new.as_ref().map(Object::unfolded) else { return };
        let generation = int(&policy.value, &["metadata", "generation"]).unwrap_or(0);
        if generation <= int(&policy.value, &["status", "observedGeneration"]).unwrap_or(0) {
            return;
        }
        let warnings = type_warnings(self, &policy.value["spec"]);
        let checked = if warnings.is_empty() { json!({}) } else { json!({"expressionWarnings": warnings}) };
        let mut reported: Value = policy.value.clone();
        let status = reported.as_object_mut().map(|object| object.entry("status").or_insert_with(|| json!({})));
        if let Some(status) = status.and_then(Value::as_object_mut) {
            status.insert("observedGeneration", generation.into());
            status.insert("typeChecking", checked);
        }
        self.put(now, kinds::VALIDATING_ADMISSION_POLICIES, event.key.clone(), reported);
    }
}
