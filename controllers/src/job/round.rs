//! One round of a Job (`syncJob`): its end, its pods and its status.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{Job, JobCondition, JobSpec};
use k8s_openapi::api::core::v1::Pod;

use super::backoff::Backoff;
use super::conditions::{self, FAILED, FAILURE_TARGET, SUCCESS_CRITERIA_MET, condition};
use super::failure_policy::Reaction;
use super::index_failures::{self, Delayed};
use super::indexes::{index, is_indexed, parse, valid_index};
use super::pods::{is_failed, is_suspended, is_tracked, past_restart_limit};
use super::success_policy;
use crate::kube::{Kind, time};
use crate::pod_status::phase;
use crate::workload::availability::{is_active, is_ready, is_terminating};

/// Observed state of a Job and its pods.
#[derive(Debug)]
pub(super) struct Round {
    /// Copy of the Job whose status this round changes.
    pub(super) job: Job,
    pub(super) spec: JobSpec,
    pub(super) pods: Vec<Arc<Pod>>,
    pub(super) active: Vec<Arc<Pod>>,
    /// Uids of pods whose finalizer was removed, but the cache does not show it yet.
    pub(super) removed: BTreeSet<String>,
    pub(super) succeeded: i32,
    pub(super) failed: i32,
    pub(super) ready: i32,
    pub(super) terminating: i32,
    /// Indexes that had succeeded before this round, and those with the pods of this round.
    pub(super) known_indexes: BTreeSet<i32>,
    pub(super) succeeded_indexes: BTreeSet<i32>,
    /// Indexes that have failed; none if the Job has no limit per index.
    pub(super) failed_indexes: Option<BTreeSet<i32>>,
    /// Last failed pods of indexes that get another pod.
    pub(super) delayed: Delayed,
    pub(super) backoff: Backoff,
    /// Condition with which the Job ends.
    pub(super) finished: Option<JobCondition>,
    pub(super) now: Timestamp,
}

fn number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

impl Round {
    /// Begins a round: counts pods and decides whether the Job has ended.
    pub(super) fn begin(
        job: &Job,
        spec: &JobSpec,
        pods: Vec<Arc<Pod>>,
        removed: BTreeSet<String>,
        backoff: Backoff,
        now: Timestamp,
    ) -> Self {
        let mut job = job.clone();
        let suspended = is_suspended(&job);
        let status = job.status.get_or_insert_default();
        let uncounted = status.uncounted_terminated_pods.get_or_insert_default().clone();
        if status.start_time.is_none() && !suspended {
            status.start_time = Some(time(now));
        }
        let contains = |list: &Option<Vec<String>>, pod: &Pod| list.iter().flatten().any(|uid| uid == pod.uid());
        let is_new = |pod: &Pod, list: &Option<Vec<String>>| {
            is_tracked(pod)
                && !contains(list, pod)
                && !removed.contains(pod.uid())
                && (!is_indexed(spec) || valid_index(pod, spec).is_some())
        };
        let ended = |list: &Option<Vec<String>>, ended: &dyn Fn(&Pod) -> bool| -> Vec<Arc<Pod>> {
            pods.iter().filter(|pod| is_new(pod, list) && ended(pod)).cloned().collect()
        };
        let new_succeeded = ended(&uncounted.succeeded, &|pod| phase(pod) == "Succeeded");
        let new_failed = ended(&uncounted.failed, &|pod| is_failed(pod, spec));
        let of = |list: &Option<Vec<String>>| list.as_ref().map_or(0, Vec::len);
        let mut succeeded = status.succeeded.unwrap_or(0) + number(new_succeeded.len() + of(&uncounted.succeeded));
        let that_count = new_failed.iter().filter(|pod| Reaction::to(spec, pod).counts()).count();
        let failed = status.failed.unwrap_or(0) + number(that_count + of(&uncounted.failed));
        let (mut known_indexes, mut succeeded_indexes) = (BTreeSet::new(), BTreeSet::new());
        if is_indexed(spec) {
            let text = status.completed_indexes.as_deref().unwrap_or_default();
            known_indexes = parse(text, spec.completions.unwrap_or(0));
            succeeded_indexes = known_indexes.clone();
            let done = pods.iter().filter(|pod| phase(pod) == "Succeeded" && is_tracked(pod));
            succeeded_indexes.extend(done.filter_map(|pod| valid_index(pod, spec)));
            succeeded = number(succeeded_indexes.len());
        }
        let active: Vec<Arc<Pod>> = pods.iter().filter(|pod| is_active(pod)).cloned().collect();
        let mut failed_indexes = None;
        let mut delayed = BTreeMap::new();
        if is_indexed(spec) && spec.backoff_limit_per_index.is_some() {
            let text = status.failed_indexes.as_deref().unwrap_or_default();
            let mut all = parse(text, spec.completions.unwrap_or(0));
            all.extend(index_failures::failed(spec, pods.iter().map(|pod| &**pod)));
            let running = active.iter().filter_map(|pod| index(pod)).collect();
            let unreleased = pods.iter().filter(|pod| !removed.contains(pod.uid()));
            delayed = index_failures::delayed(spec, unreleased, [&succeeded_indexes, &all, &running]);
            failed_indexes = Some(all);
        }
        let mut round = Self {
            spec: spec.clone(),
            succeeded,
            failed,
            ready: number(active.iter().filter(|pod| is_ready(pod)).count()),
            terminating: number(pods.iter().filter(|pod| is_terminating(pod)).count()),
            known_indexes,
            succeeded_indexes,
            failed_indexes,
            delayed,
            backoff: backoff.after(&new_succeeded, &new_failed),
            finished: None,
            removed,
            active,
            pods,
            job,
            now,
        };
        round.finished = round.end();
        round
    }

    /// Returns the condition with which the Job ends, if it does.
    fn end(&self) -> Option<JobCondition> {
        if let Some(met) = conditions::true_one(&self.job, SUCCESS_CRITERIA_MET) {
            return Some(met.clone());
        }
        if let Some(target) = conditions::true_one(&self.job, FAILURE_TARGET) {
            return Some(failed(target, self.now));
        }
        let target = |reason: &str, message: &str| Some(condition(FAILURE_TARGET, "True", reason, message, self.now));
        let failed = self.pods.iter().filter(|pod| is_failed(pod, &self.spec));
        let message = failed.into_iter().find_map(|pod| match Reaction::to(&self.spec, pod) {
            Reaction::FailJob(message) => Some(message),
            _ => None,
        });
        if let Some(message) = message {
            return target("PodFailurePolicy", &message);
        }
        let exceeds = self.failed > self.spec.backoff_limit.unwrap_or(6);
        if exceeds || past_restart_limit(&self.spec, self.pods.iter().map(|pod| &**pod)) {
            return target("BackoffLimitExceeded", "Job has reached the specified backoff limit");
        }
        if self.until_deadline().is_some_and(|left| left.is_zero()) {
            return target("DeadlineExceeded", "Job was active longer than specified deadline");
        }
        if let Some(failed) = &self.failed_indexes {
            let most = self.spec.max_failed_indexes.and_then(|most| usize::try_from(most).ok());
            if most.is_some_and(|most| failed.len() > most) {
                let message = "Job has exceeded the specified maximal number of failed indexes";
                return target("MaxFailedIndexesExceeded", message);
            }
            let ended = number(failed.len() + self.succeeded_indexes.len());
            if !failed.is_empty() && ended >= self.spec.completions.unwrap_or(0) {
                return target("FailedIndexes", "Job has failed indexes");
            }
        }
        let met = success_policy::met(&self.spec, &self.succeeded_indexes)?;
        Some(condition(SUCCESS_CRITERIA_MET, "True", "SuccessPolicy", &met, self.now))
    }

    /// Returns the time until the deadline of a Job that is not suspended (`pastActiveDeadline`).
    pub(super) fn until_deadline(&self) -> Option<Duration> {
        let seconds = self.spec.active_deadline_seconds.filter(|_| !is_suspended(&self.job));
        until_deadline(&self.job, seconds, self.now)
    }

    /// Returns true if enough pods have succeeded and none is active.
    pub(super) fn is_complete(&self, active: i32) -> bool {
        let enough = match self.spec.completions {
            None => self.succeeded > 0,
            Some(completions) => self.succeeded >= completions,
        };
        enough && active == 0
    }
}

/// Returns the time until a started Job has been active for so many seconds.
pub(super) fn until_deadline(job: &Job, seconds: Option<i64>, now: Timestamp) -> Option<Duration> {
    let start = job.status.as_ref()?.start_time.as_ref()?.0;
    let due = start.as_nanosecond() + i128::from(seconds?) * 1_000_000_000;
    let left = (due - now.as_nanosecond()).max(0);
    Some(Duration::from_nanos(u64::try_from(left).unwrap_or(u64::MAX)))
}

/// Builds the final condition from the one that announced the failure (`newFailedConditionForFailureTarget`).
pub(super) fn failed(target: &JobCondition, now: Timestamp) -> JobCondition {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    condition(FAILED, "True", &text(&target.reason), &text(&target.message), now)
}
