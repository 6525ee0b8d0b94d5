//! Conditions of a Job (`newCondition`, `ensureJobConditionStatus`).

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{Job, JobCondition};

use crate::kube::time;

pub(super) const COMPLETE: &str = "Complete";
pub(super) const FAILED: &str = "Failed";
pub(super) const FAILURE_TARGET: &str = "FailureTarget";
pub(super) const SUCCESS_CRITERIA_MET: &str = "SuccessCriteriaMet";
pub(super) const SUSPENDED: &str = "Suspended";

/// Creates a condition.
pub(super) fn condition(type_: &str, status: &str, reason: &str, message: &str, now: Timestamp) -> JobCondition {
    let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    JobCondition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: text(reason),
        message: text(message),
        last_probe_time: Some(time(now)),
        last_transition_time: Some(time(now)),
    }
}

/// Returns the conditions of a Job.
pub(super) fn of(job: &Job) -> &[JobCondition] {
    job.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default()
}

/// Returns the condition of a type whose status is True.
pub(super) fn true_one<'a>(job: &'a Job, type_: &str) -> Option<&'a JobCondition> {
    of(job).iter().find(|condition| condition.type_ == type_ && condition.status == "True")
}

/// Returns the condition with which a Job finished.
pub(super) fn finished(job: &Job) -> Option<&JobCondition> {
    of(job).iter().find(|one| matches!(one.type_.as_str(), COMPLETE | FAILED) && one.status == "True")
}

/// Sets a condition; a missing one is added unless its status is False. Returns true if something changed.
pub(super) fn ensure(conditions: &mut Vec<JobCondition>, next: JobCondition) -> bool {
    match conditions.iter_mut().find(|present| present.type_ == next.type_) {
        Some(present) => {
            let differs =
                present.status != next.status || present.reason != next.reason || present.message != next.message;
            if differs {
                *present = next;
            }
            differs
        }
        None if next.status == "False" => false,
        None => {
            conditions.push(next);
            true
        }
    }
}
