//! Failures of the indexes of a Job with `spec.backoffLimitPerIndex` (`indexed_job_utils.go`). A pod knows from its
//! annotations how often its index has failed before. The last failed pod of an index keeps its finalizer until its
//! successor exists.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::JobSpec;
use k8s_openapi::api::core::v1::{Pod, PodTemplateSpec};

use super::backoff;
use super::failure_policy::Reaction;
use super::indexes::{index, valid_index};
use super::pods::{finished_at, is_failed, is_tracked};
use crate::kube::Kind;

/// Annotations of a pod: failures of its index before it that count, and that do not.
const COUNTED: &str = "batch.kubernetes.io/job-index-failure-count";
const IGNORED: &str = "batch.kubernetes.io/job-index-ignored-failure-count";

/// Last failed pods of indexes that have no other pod, by index.
pub(super) type Delayed = BTreeMap<i32, Arc<Pod>>;

fn number(pod: &Pod, annotation: &str) -> i32 {
    pod.annotation(annotation).and_then(|text| text.parse().ok()).filter(|count| *count >= 0).unwrap_or(0)
}

/// Returns how often the index of a pod had failed before it (`getIndexAbsoluteFailureCount`).
fn before(pod: &Pod) -> i32 {
    number(pod, COUNTED).saturating_add(number(pod, IGNORED))
}

/// Returns the indexes that fail because of their pods (`calculateFailedIndexes`).
pub(super) fn failed<'a>(spec: &JobSpec, pods: impl IntoIterator<Item = &'a Pod>) -> BTreeSet<i32> {
    let limit = spec.backoff_limit_per_index.unwrap_or(i32::MAX);
    let is_over = |pod: &Pod| match Reaction::to(spec, pod) {
        Reaction::FailIndex => true,
        reaction => reaction.counts() && number(pod, COUNTED) >= limit,
    };
    let over = pods.into_iter().filter(|pod| is_tracked(pod) && is_failed(pod, spec) && is_over(pod));
    over.filter_map(|pod| valid_index(pod, spec)).collect()
}

/// Returns the last failed pod of each index in neither of the sets (`getPodsWithDelayedDeletionPerIndex`). `pods` are
/// those whose finalizer was not removed.
pub(super) fn delayed<'a>(
    spec: &JobSpec,
    pods: impl IntoIterator<Item = &'a Arc<Pod>>,
    done: [&BTreeSet<i32>; 3],
) -> Delayed {
    let mut found = Delayed::new();
    for pod in pods.into_iter().filter(|pod| is_tracked(pod) && is_failed(pod, spec)) {
        let Some(index) = valid_index(pod, spec).filter(|index| done.iter().all(|set| !set.contains(index))) else {
            continue;
        };
        let is_later =
            found.get(&index).is_none_or(|last| before(last) <= before(pod) && finished_at(pod) >= finished_at(last));
        if is_later {
            found.insert(index, pod.clone());
        }
    }
    found
}

/// Returns true if a failed pod keeps its finalizer, because it is the last one of its index (`canRemoveFinalizer`).
pub(super) fn is_delayed(delayed: &Delayed, pod: &Pod) -> bool {
    index(pod).and_then(|index| delayed.get(&index)).is_some_and(|last| last.uid() == pod.uid())
}

/// Returns the waits of indexes before their next pod (`getRemainingTimePerIndex`), without those that are over.
pub(super) fn waits(delayed: &Delayed, now: Timestamp) -> BTreeMap<i32, Duration> {
    let wait = |(index, pod): (&i32, &Arc<Pod>)| {
        let failures = u32::try_from(before(pod)).unwrap_or(0).saturating_add(1);
        (*index, backoff::remaining(failures, finished_at(pod), now))
    };
    delayed.iter().map(wait).filter(|(_, wait)| !wait.is_zero()).collect()
}

/// Notes in the template of a pod how often its index has failed (`addIndexFailureCountAnnotation`); `last` is the pod
/// that it replaces.
pub(super) fn annotate(spec: &JobSpec, template: &mut PodTemplateSpec, last: Option<&Pod>) {
    let (mut counted, mut ignored) = last.map_or((0, 0), |last| (number(last, COUNTED), number(last, IGNORED)));
    if let Some(last) = last {
        let number = if Reaction::to(spec, last).counts() { &mut counted } else { &mut ignored };
        *number += 1;
    }
    let annotations = template.metadata.get_or_insert_default().annotations.get_or_insert_default();
    annotations.insert(COUNTED.to_owned(), counted.to_string());
    if ignored > 0 {
        annotations.insert(IGNORED.to_owned(), ignored.to_string());
    }
}

#[cfg(test)]
mod tests {
    use substrate::json::{from_value, json};

    use super::*;
    use crate::job::pods::TRACKING;

    fn spec(limit: i32) -> JobSpec {
        let rule = json!({ "action": "Ignore", "onPodConditions": [{ "type": "DisruptionTarget", "status": "True" }] });
        from_value(json!({ "template": {}, "completions": 3, "completionMode": "Indexed",
            "backoffLimitPerIndex": limit, "podFailurePolicy": { "rules": [rule] } }))
        .unwrap()
    }

    fn pod(name: &str, index: i32, counted: i32, second: i64, disrupted: bool) -> Arc<Pod> {
        let annotations =
            json!({ "batch.kubernetes.io/job-completion-index": index.to_string(), COUNTED: counted.to_string() });
        let metadata = json!({ "name": name, "uid": name, "finalizers": [TRACKING], "annotations": annotations });
        let at = Timestamp::from_second(second).unwrap().to_string();
        let ready = json!({ "type": "Ready", "status": "False", "lastTransitionTime": at });
        let disruption = json!({ "type": "DisruptionTarget", "status": if disrupted { "True" } else { "False" } });
        let status = json!({ "phase": "Failed", "conditions": [ready, disruption] });
        Arc::new(from_value(json!({ "metadata": metadata, "status": status })).unwrap())
    }

    #[test]
    fn an_index_fails_with_its_limit_unless_the_failure_is_ignored() {
        let all =
            [pod("a", 0, 1, 0, false), pod("b", 1, 0, 0, false), pod("c", 2, 1, 0, true), pod("d", 7, 1, 0, false)];
        assert_eq!(failed(&spec(1), all.iter().map(|pod| &**pod)), BTreeSet::from([0]));
        assert_eq!(failed(&spec(0), all.iter().map(|pod| &**pod)), BTreeSet::from([0, 1]));
    }

    #[test]
    fn the_last_failed_pod_of_an_index_stays_and_its_successor_waits() {
        let all =
            [pod("a", 0, 0, 10, false), pod("b", 0, 1, 20, false), pod("c", 1, 0, 30, false), pod("d", 2, 0, 0, false)];
        let (none, done) = (BTreeSet::new(), BTreeSet::from([2]));
        let delayed = delayed(&spec(3), &all, [&done, &none, &none]);
        let names: Vec<&str> = delayed.values().map(|pod| pod.name()).collect();
        assert_eq!(names, ["b", "c"]);
        assert!(is_delayed(&delayed, &all[1]) && !is_delayed(&delayed, &all[0]));
        let waits = waits(&delayed, Timestamp::from_second(40).unwrap());
        // Twenty seconds after the second failure of index 0, and ten after the first one of index 1: none is left.
        assert_eq!(waits, BTreeMap::new());
        let waits = super::waits(&delayed, Timestamp::from_second(35).unwrap());
        assert_eq!(waits, BTreeMap::from([(0, Duration::from_secs(5)), (1, Duration::from_secs(5))]));
    }

    #[test]
    fn a_pod_knows_the_failures_before_it() {
        let noted = |last: Option<&Pod>| {
            let mut template = PodTemplateSpec::default();
            annotate(&spec(3), &mut template, last);
            let all = template.metadata.and_then(|metadata| metadata.annotations).unwrap();
            (all.get(COUNTED).cloned(), all.get(IGNORED).cloned())
        };
        let text = |number: &str| Some(number.to_owned());
        assert_eq!(noted(None), (text("0"), None));
        assert_eq!(noted(Some(&pod("a", 0, 1, 0, false))), (text("2"), None));
        assert_eq!(noted(Some(&pod("a", 0, 1, 0, true))), (text("1"), text("1")));
    }
}
