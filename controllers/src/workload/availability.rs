//! Activity, readiness and availability of pods (`pkg/api/v1/pod`, `pkg/controller/controller_utils.go`).

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodCondition};

use crate::kube::Kind;
use crate::pod_status::{conditions, phase};

/// Returns true if the pod has not ended and is not being deleted (`IsPodActive`).
pub(crate) fn is_active(pod: &Pod) -> bool {
    !is_terminal(pod) && !pod.is_deleting()
}

/// Returns true if the pod is being deleted and has not ended (`IsPodTerminating`).
pub(crate) fn is_terminating(pod: &Pod) -> bool {
    !is_terminal(pod) && pod.is_deleting()
}

/// Returns true if all containers of the pod have ended for good (`IsPodTerminal`).
pub(crate) fn is_terminal(pod: &Pod) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}

/// Returns the pod's Ready condition.
fn ready_condition(pod: &Pod) -> Option<&PodCondition> {
    conditions(pod).iter().find(|condition| condition.type_ == "Ready")
}

/// Returns true if the pod is ready.
pub(crate) fn is_ready(pod: &Pod) -> bool {
    ready_condition(pod).is_some_and(|condition| condition.status == "True")
}

/// Returns the time since which the pod is ready.
pub(crate) fn ready_since(pod: &Pod) -> Option<Timestamp> {
    ready_condition(pod)
        .filter(|condition| condition.status == "True")
        .and_then(|condition| condition.last_transition_time.as_ref())
        .map(|time| time.0)
}

/// Returns a number of seconds as a duration. The API server admits no negative one.
pub(crate) fn seconds(count: i32) -> Duration {
    Duration::from_secs(u64::try_from(count).unwrap_or(0))
}

/// Returns true if the pod has been ready for `min_ready_seconds` (`IsPodAvailable`).
pub(crate) fn is_available(pod: &Pod, min_ready_seconds: i32, now: Timestamp) -> bool {
    if !is_ready(pod) {
        return false;
    }
    min_ready_seconds == 0 || until_available(pod, min_ready_seconds, now).is_some_and(|left| left.is_zero())
}

/// Returns the time until a ready pod becomes available; none if its transition time is unknown.
fn until_available(pod: &Pod, min_ready_seconds: i32, now: Timestamp) -> Option<Duration> {
    let due = ready_since(pod)?.as_nanosecond() + i128::from(min_ready_seconds) * 1_000_000_000;
    let left = (due - now.as_nanosecond()).max(0);
    Some(Duration::from_nanos(u64::try_from(left).unwrap_or(u64::MAX)))
}

/// Returns the time until the next of the ready pods becomes available (`FindMinNextPodAvailabilityCheck`).
pub(crate) fn next_check<'a>(
    pods: impl IntoIterator<Item = &'a Pod>,
    min_ready_seconds: i32,
    now: Timestamp,
) -> Option<Duration> {
    let waiting = pods.into_iter().filter(|pod| is_ready(pod) && !is_available(pod, min_ready_seconds, now));
    waiting.filter_map(|pod| until_available(pod, min_ready_seconds, now)).min()
}

#[cfg(test)]
mod tests {
    use substrate::json::{from_value, json};

    use super::*;

    #[test]
    fn a_pod_is_available_once_it_was_ready_long_enough() {
        let ready = json!({ "type": "Ready", "status": "True", "lastTransitionTime": "1970-01-01T00:01:00Z" });
        let pod: Pod = from_value(json!({ "status": { "phase": "Running", "conditions": [ready] } })).unwrap();
        let at = |second| Timestamp::from_second(second).unwrap();
        assert!(is_available(&pod, 0, at(0)) && !is_available(&pod, 10, at(69)) && is_available(&pod, 10, at(70)));
        assert_eq!(next_check([&pod], 10, at(65)), Some(Duration::from_secs(5)));
        assert_eq!(next_check([&pod], 10, at(70)), None);
        assert!(!is_ready(&Pod::default()) && !is_available(&Pod::default(), 0, at(0)));
    }
}
