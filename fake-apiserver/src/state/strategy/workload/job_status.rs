//! Validation of the status of jobs (`ValidateJobUpdateStatus`). Most rules look only at what an update changes
//! (`getStatusValidationOptions` in `pkg/registry/batch/job`).

use std::collections::BTreeSet;

use substrate::json::Value;

use super::success_policy::{limits, number_of_indexes};
use super::validate::NEGATIVE;
use crate::state::value::{has, int, list, text};
use crate::state::{FieldError, internal};

/// Conditions of a job that finishes. They stay true.
const TERMINAL: [&str; 3] = ["Failed", "Complete", "FailureTarget"];

/// Status of a job.
#[derive(Clone, Copy)]
struct Status<'a>(&'a Value);

impl<'a> Status<'a> {
    fn is(self, condition: &str) -> bool {
        self.has(condition, "True")
    }

    fn has(self, condition: &str, status: &str) -> bool {
        let mut all = list(self.0, &["conditions"]).iter();
        all.any(|one| text(one, &["type"]) == condition && text(one, &["status"]) == status)
    }

    fn is_finished(self) -> bool {
        self.is("Complete") || self.is("Failed")
    }

    fn count(self, field: &str) -> i64 {
        int(self.0, &[field]).unwrap_or(0)
    }

    fn indexes(self, field: &str) -> &'a str {
        text(self.0, &[field])
    }
}

/// Update of the status of a job.
struct Update<'a> {
    spec: &'a Value,
    now: Status<'a>,
    old: Status<'a>,
    errors: &'a mut Vec<FieldError>,
}

/// Validates an update of the status of a job.
pub(super) fn check(object: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let (now, old) = (Status(&object["status"]), Status(&old["status"]));
    let mut update = Update { spec: &object["spec"], now, old, errors };
    update.numbers();
    update.uncounted();
    update.times();
    update.targets();
    update.finished();
    update.indexes();
    update.ready();
    update.success_criteria();
    update.kept();
}

impl Update<'_> {
    /// Returns true if the update changes a field.
    fn changes(&self, field: &str) -> bool {
        self.now.0[field] != self.old.0[field]
    }

    /// Returns true if a condition becomes true, or no longer is.
    fn turns(&self, condition: &str) -> bool {
        self.now.is(condition) != self.old.is(condition)
    }

    fn has(&self, field: &str) -> bool {
        has(self.now.0, &[field])
    }

    fn is_indexed(&self) -> bool {
        text(self.spec, &["completionMode"]) == "Indexed"
    }

    fn wrong(&mut self, field: &str, why: impl Into<String>) {
        let value = &self.now.0[field];
        self.errors.push(FieldError::invalid(format!("status.{field}"), value, why));
    }

    fn wrong_count(&mut self, field: &str, why: &str) {
        let count = self.now.count(field).into();
        self.errors.push(FieldError::invalid(format!("status.{field}"), &count, why));
    }

    fn wrong_conditions(&mut self, why: impl Into<String>) {
        self.errors.push(FieldError::invalid_text("status.conditions", "", why));
    }

    fn missing(&mut self, field: &str, why: &str) {
        self.errors.push(FieldError::required(format!("status.{field}"), why));
    }

    fn numbers(&mut self) {
        for field in ["active", "succeeded", "failed", "ready", "terminating"] {
            if self.now.count(field) < 0 {
                self.wrong_count(field, NEGATIVE);
            }
        }
    }

    fn uncounted(&mut self) {
        let (mut seen, status) = (BTreeSet::new(), self.now.0);
        for list_of in ["succeeded", "failed"] {
            for (i, uid) in list(status, &["uncountedTerminatedPods", list_of]).iter().enumerate() {
                let at = format!("status.uncountedTerminatedPods.{list_of}[{i}]");
                let named = uid.as_str().unwrap_or_default();
                if named.is_empty() {
                    self.errors.push(FieldError::invalid(at, &named.into(), "must not be empty"));
                } else if !seen.insert(named) {
                    self.errors.push(FieldError::duplicate(at, uid));
                }
            }
        }
    }

    /// Checks the end of a complete job, and its times.
    fn times(&mut self) {
        let is_complete = self.now.is("Complete");
        if (self.turns("Complete") || self.turns("Failed")) && is_complete && self.now.is("Failed") {
            self.wrong_conditions("cannot set Complete=True and Failed=true conditions");
        }
        if (self.turns("Complete") || self.turns("FailureTarget")) && is_complete && self.now.is("FailureTarget") {
            self.wrong_conditions("cannot set Complete=True and FailureTarget=true conditions");
        }
        if self.turns("Complete") || self.changes("completionTime") {
            match (self.has("completionTime"), is_complete) {
                (true, false) => {
                    let why = "cannot set completionTime when there is no Complete=True condition";
                    self.wrong("completionTime", why);
                }
                (false, true) => self.missing("completionTime", "completionTime is required for Complete jobs"),
                _ => {}
            }
        }
        // Times have one form, so their texts have their order.
        let is_early = text(self.now.0, &["completionTime"]) < text(self.now.0, &["startTime"]);
        let are_changed = self.changes("startTime") || self.changes("completionTime");
        if are_changed && self.has("startTime") && self.has("completionTime") && is_early {
            self.wrong("completionTime", "must be equal to or after `startTime`");
        }
    }

    /// Checks the conditions that come before the last one.
    fn targets(&mut self) {
        let is_failing = self.turns("Failed") || self.changes("failedIndexes");
        if is_failing && self.now.is("Failed") && !self.now.is("FailureTarget") {
            self.wrong_conditions("cannot set Failed=True condition without the FailureTarget=true condition");
        }
        let is_completing = self.turns("Complete") || self.turns("SuccessCriteriaMet");
        if is_completing && self.now.is("Complete") && !self.now.is("SuccessCriteriaMet") {
            self.wrong_conditions("cannot set Complete=True condition without the SuccessCriteriaMet=true condition");
        }
    }

    fn finished(&mut self) {
        if !self.now.is_finished() {
            return;
        }
        let finishes = !self.old.is_finished();
        let (active, old_active) = (self.now.count("active"), self.old.count("active"));
        if (finishes || active != old_active) && active > 0 {
            self.wrong_count("active", "active>0 is invalid for finished job");
        }
        let never_ran = self.spec["suspend"] == true && int(self.spec, &["completions"]) == Some(0);
        if (finishes || self.changes("startTime")) && !never_ran && !self.has("startTime") {
            self.missing("startTime", "startTime is required for finished job");
        }
        let uncounted = &self.now.0["uncountedTerminatedPods"];
        let is_empty = ["succeeded", "failed"].iter().all(|field| list(uncounted, &[field]).is_empty());
        if (finishes || self.changes("uncountedTerminatedPods")) && !is_empty {
            let shown = internal::shown(uncounted, internal::UNCOUNTED_PODS);
            let why = "must be empty for finished job";
            self.errors.push(FieldError::invalid_text("status.uncountedTerminatedPods", shown, why));
        }
    }

    fn indexes(&mut self) {
        let completions = int(self.spec, &["completions"]);
        let has_limit = has(self.spec, &["backoffLimitPerIndex"]);
        let (completed, failed) = (self.now.indexes("completedIndexes"), self.now.indexes("failedIndexes"));
        let is_completed_changed = completed != self.old.indexes("completedIndexes");
        let is_failed_changed = self.changes("failedIndexes");
        if let (true, Some(completions)) = (is_completed_changed, completions)
            && let Err(why) = number_of_indexes(completed, completions)
        {
            self.wrong("completedIndexes", format!("error parsing completedIndexes: {why}"));
        }
        if let (true, Some(completions)) = (is_failed_changed && has_limit, completions)
            && let Err(why) = number_of_indexes(failed, completions)
        {
            self.wrong("failedIndexes", format!("error parsing failedIndexes: {why}"));
        }
        if is_completed_changed && !completed.is_empty() && !self.is_indexed() {
            let why = "cannot set non-empty completedIndexes when non-indexed completion mode";
            self.wrong("completedIndexes", why);
        }
        if is_failed_changed && !has_limit && self.has("failedIndexes") {
            self.wrong("failedIndexes", "cannot set non-null failedIndexes when backoffLimitPerIndex is null");
        }
        if let (true, Some(completions)) = (is_completed_changed || is_failed_changed, completions)
            && let Some(index) = overlap(completed, failed, completions)
        {
            self.wrong("failedIndexes", format!("failedIndexes and completedIndexes overlap at index: {index}"));
        }
    }

    fn ready(&mut self) {
        let turns = self.now.is_finished() != self.old.is_finished();
        if (turns || self.changes("terminating")) && self.now.is_finished() && self.now.count("terminating") > 0 {
            self.wrong_count("terminating", "terminating>0 is invalid for finished job");
        }
        let (ready, active) = (self.now.count("ready"), self.now.count("active"));
        if (self.changes("ready") || active != self.old.count("active")) && self.has("ready") && ready > active {
            self.wrong_count("ready", "cannot set more ready pods than active");
        }
    }

    fn success_criteria(&mut self) {
        let is_met = self.now.is("SuccessCriteriaMet");
        if is_met && self.now.is("Failed") {
            self.wrong_conditions("cannot set SuccessCriteriaMet=True and Failed=true conditions");
        }
        if is_met && self.now.is("FailureTarget") {
            self.wrong_conditions("cannot set SuccessCriteriaMet=True and FailureTarget=true conditions");
        }
        if has(self.spec, &["successPolicy"]) && !is_met && self.now.is("Complete") {
            let why = "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True";
            self.wrong_conditions(why);
        }
    }

    /// Checks what does not change back.
    fn kept(&mut self) {
        let (now, old) = (self.now, self.old);
        for condition in TERMINAL.into_iter().filter(|condition| old.is(condition) && !now.is(condition)) {
            self.wrong_conditions(format!("cannot disable the terminal {condition}=True condition"));
        }
        if now.count("failed") < old.count("failed") {
            self.wrong_count("failed", "cannot decrease the failed counter");
        }
        let is_elastic = self.is_indexed() && self.spec["completions"] == self.spec["parallelism"];
        if now.count("succeeded") < old.count("succeeded") && !is_elastic {
            self.wrong_count("succeeded", "cannot decrease the succeeded counter");
        }
        if self.has("completionTime") && has(old.0, &["completionTime"]) && self.changes("completionTime") {
            self.wrong("completionTime", "field is immutable");
        }
        let resumes = old.is("Suspended") && now.has("Suspended", "False");
        let is_suspended = self.spec["suspend"] == true;
        if has(old.0, &["startTime"]) && self.changes("startTime") && !is_suspended && !resumes {
            self.wrong("startTime", "field is immutable for unsuspended job once set");
        }
        if old.is("SuccessCriteriaMet") && !now.is("SuccessCriteriaMet") {
            self.wrong_conditions("cannot disable the SuccessCriteriaMet=True condition");
        }
        if old.is("Complete") && !old.is("SuccessCriteriaMet") && now.is("SuccessCriteriaMet") {
            let why = "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions";
            self.wrong_conditions(why);
        }
    }
}

/// Returns an index that two texts such as `1,3-5` name (`validateFailedIndexesNotOverlapCompleted`).
fn overlap(completed: &str, failed: &str, completions: i64) -> Option<i64> {
    let read = |text: &str| -> Vec<(i64, i64)> {
        text.split(',').filter_map(|interval| limits(interval, completions).ok()).collect()
    };
    let (completed, failed) = (read(completed), read(failed));
    let (mut completed, mut failed) = (completed.iter().peekable(), failed.iter().peekable());
    while let (Some((first, last)), Some((from, to))) = (completed.peek(), failed.peek()) {
        if first <= to && from <= last {
            return Some(*first.max(from));
        }
        if first <= from {
            completed.next();
        } else {
            failed.next();
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use substrate::json::json;

    use super::*;

    const START: &str = "2026-01-01T00:00:00Z";
    const END: &str = "2026-01-01T00:01:00Z";

    fn conditions(types: &[&str]) -> Value {
        types.iter().map(|of| json!({"type": of, "status": "True"})).collect()
    }

    fn refused(spec: Value, status: Value, old: Value) -> Vec<String> {
        let mut errors = Vec::new();
        check(&json!({"spec": spec, "status": status}), &json!({"spec": spec, "status": old}), &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    fn of_conditions(types: &[&str], old: &[&str]) -> Vec<String> {
        let status = json!({"startTime": START, "conditions": conditions(types)});
        refused(json!({}), status, json!({"startTime": START, "conditions": conditions(old)}))
    }

    #[test]
    fn a_job_ends_step_by_step() {
        let done = json!({"startTime": START, "completionTime": END, "succeeded": 1, "ready": 0, "terminating": 0,
            "conditions": conditions(&["SuccessCriteriaMet", "Complete"]), "uncountedTerminatedPods": {}});
        let met = json!({"startTime": START, "conditions": conditions(&["SuccessCriteriaMet"])});
        assert!(refused(json!({}), done, met).is_empty());
        assert!(of_conditions(&["FailureTarget"], &[]).is_empty());
        assert!(of_conditions(&["FailureTarget", "Failed"], &["FailureTarget"]).is_empty());
        let failed = "status.conditions: Invalid value: cannot set Failed=True condition without the \
                      FailureTarget=true condition";
        assert_eq!(of_conditions(&["Failed"], &[]), [failed]);
        assert_eq!(
            of_conditions(&["Complete"], &[]),
            [
                "status.completionTime: Required value: completionTime is required for Complete jobs",
                "status.conditions: Invalid value: cannot set Complete=True condition without the \
                 SuccessCriteriaMet=true condition",
            ]
        );
        let disabled = "status.conditions: Invalid value: cannot disable the terminal Failed=True condition";
        assert_eq!(of_conditions(&["FailureTarget"], &["FailureTarget", "Failed"]), [disabled]);
    }

    #[rstest]
    #[case(json!({"active": -1}), json!({}), &["status.active: Invalid value: -1: must be greater than or equal to 0"])]
    #[case(json!({"active": 1, "ready": 2}), json!({}), &["status.ready: Invalid value: 2: cannot set more ready pods than active"])]
    #[case(json!({"active": 1, "ready": 2}), json!({"active": 1, "ready": 2}), &[])]
    #[case(json!({}), json!({"failed": 1, "succeeded": 2}), &[
        "status.failed: Invalid value: 0: cannot decrease the failed counter",
        "status.succeeded: Invalid value: 0: cannot decrease the succeeded counter"])]
    #[case(json!({"startTime": END}), json!({"startTime": START}), &[
        "status.startTime: Invalid value: \"2026-01-01T00:01:00Z\": field is immutable for unsuspended job once set"])]
    #[case(json!({"completionTime": START}), json!({}), &[
        "status.completionTime: Invalid value: \"2026-01-01T00:00:00Z\": cannot set completionTime when there is no \
         Complete=True condition"])]
    #[case(json!({"uncountedTerminatedPods": {"succeeded": ["a", ""], "failed": ["a"]}}), json!({}), &[
        "status.uncountedTerminatedPods.succeeded[1]: Invalid value: \"\": must not be empty",
        "status.uncountedTerminatedPods.failed[0]: Duplicate value: \"a\""])]
    #[case(json!({"completedIndexes": "1"}), json!({}), &[
        "status.completedIndexes: Invalid value: \"1\": cannot set non-empty completedIndexes when non-indexed completion \
         mode"])]
    #[case(json!({"failedIndexes": "1"}), json!({}), &[
        "status.failedIndexes: Invalid value: \"1\": cannot set non-null failedIndexes when backoffLimitPerIndex is null"])]
    fn a_status_is_checked_where_it_changes(#[case] status: Value, #[case] old: Value, #[case] expected: &[&str]) {
        assert_eq!(refused(json!({}), status, old), expected);
    }

    #[test]
    fn a_finished_job_has_no_pods() {
        let types = conditions(&["FailureTarget", "Failed"]);
        let status = json!({"active": 1, "terminating": 1, "conditions": types,
            "uncountedTerminatedPods": {"failed": ["a"]}});
        assert_eq!(
            refused(json!({}), status, json!({})),
            [
                "status.active: Invalid value: 1: active>0 is invalid for finished job",
                "status.startTime: Required value: startTime is required for finished job",
                "status.uncountedTerminatedPods: Invalid value: {\"Succeeded\":null,\"Failed\":[\"a\"]}: must be empty for \
                 finished job",
                "status.terminating: Invalid value: 1: terminating>0 is invalid for finished job",
            ]
        );
    }

    #[test]
    fn indexes_are_those_of_the_job_and_do_not_overlap() {
        let spec = json!({"completionMode": "Indexed", "completions": 5, "parallelism": 5, "backoffLimitPerIndex": 1});
        let of = |completed: &str, failed: &str| {
            refused(spec.clone(), json!({"completedIndexes": completed, "failedIndexes": failed}), json!({}))
        };
        assert!(of("0,2-3", "1,4").is_empty());
        assert_eq!(
            of("0,2-3", "3"),
            ["status.failedIndexes: Invalid value: \"3\": failedIndexes and completedIndexes overlap at index: 3"]
        );
        assert_eq!(
            of("7", "2-1"),
            [
                "status.completedIndexes: Invalid value: \"7\": error parsing completedIndexes: too large index: \"7\"",
                "status.failedIndexes: Invalid value: \"2-1\": error parsing failedIndexes: non-increasing order, \
                 previous: 2, current: 1",
            ]
        );
        // The counter of such a job goes down with its completions.
        assert!(refused(spec, json!({}), json!({"succeeded": 2})).is_empty());
    }
}
