//! Status of a budget (`getExpectedPodCount`, `buildDisruptedPodMap`, `updatePdbStatus`).

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::kube::{Kind, time};
use crate::workload::availability::is_ready;
use crate::workload::scaled::scaled;

/// Time after which an evicted pod that still exists counts again (`DeletionTimeout`).
pub(super) const DELETION_TIMEOUT: Duration = Duration::from_secs(120);
/// Condition of a budget.
const DISRUPTION_ALLOWED: &str = "DisruptionAllowed";

/// Numbers of pods that a budget expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Expected {
    /// All pods.
    pub(super) pods: i32,
    /// Pods that must be healthy.
    pub(super) healthy: i32,
}

/// Returns true if the budget counts replicas of controllers instead of pods.
pub(super) fn needs_scale(spec: &PodDisruptionBudgetSpec) -> bool {
    spec.max_unavailable.is_some() || matches!(spec.min_available, Some(IntOrString::String(_)))
}

/// Computes the expected numbers; `scale` is the number of replicas of all controllers.
///
/// # Errors
/// A number that is not a percentage; the API server refuses it.
pub(super) fn expected(spec: &PodDisruptionBudgetSpec, pods: usize, scale: i32) -> Result<Expected, String> {
    let count = i32::try_from(pods).unwrap_or(i32::MAX);
    Ok(match (&spec.max_unavailable, &spec.min_available) {
        (Some(limit), _) => Expected { pods: scale, healthy: (scale - scaled(limit, scale, true)?).max(0) },
        (None, Some(IntOrString::Int(least))) => Expected { pods: count, healthy: *least },
        (None, Some(least)) => Expected { pods: scale, healthy: scaled(least, scale, true)? },
        (None, None) => Expected { pods: 0, healthy: 0 },
    })
}

/// Evicted pods that still exist.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Disrupted {
    /// Times of their evictions.
    pub(super) pods: BTreeMap<String, Time>,
    /// Names of pods that were not deleted in time.
    pub(super) late: Vec<String>,
    /// Time until the first of them is late.
    pub(super) recheck: Option<Duration>,
}

fn until(at: Timestamp, now: Timestamp) -> i128 {
    let timeout = i128::try_from(DELETION_TIMEOUT.as_nanos()).unwrap_or(i128::MAX);
    at.as_nanosecond() + timeout - now.as_nanosecond()
}

/// Returns the evicted pods of a budget that still exist (`buildDisruptedPodMap`).
pub(super) fn disrupted(
    budget: &PodDisruptionBudget,
    pods: &[impl std::ops::Deref<Target = Pod>],
    now: Timestamp,
) -> Disrupted {
    let mut found = Disrupted::default();
    let Some(times) = budget.status.as_ref().and_then(|status| status.disrupted_pods.as_ref()) else { return found };
    for pod in pods.iter().filter(|pod| !pod.is_deleting()) {
        let Some(at) = times.get(pod.name()) else { continue };
        match u64::try_from(until(at.0, now)) {
            Err(_) => found.late.push(pod.name().to_owned()),
            Ok(left) => {
                let left = Duration::from_nanos(left);
                found.recheck = Some(found.recheck.map_or(left, |first| first.min(left)));
                found.pods.insert(pod.name().to_owned(), at.clone());
            }
        }
    }
    found
}

/// Counts the pods that are ready and will stay (`countHealthyPods`).
pub(super) fn healthy(pods: &[impl std::ops::Deref<Target = Pod>], disrupted: &Disrupted, now: Timestamp) -> i32 {
    let stays = |pod: &Pod| disrupted.pods.get(pod.name()).is_none_or(|at| until(at.0, now) <= 0);
    let count = pods.iter().filter(|pod| !pod.is_deleting() && stays(pod) && is_ready(pod)).count();
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// Sets a condition; a new status sets the time (`meta.SetStatusCondition`).
fn set_condition(conditions: &mut Vec<Condition>, mut next: Condition) {
    match conditions.iter_mut().find(|present| present.type_ == next.type_) {
        None => conditions.push(next),
        Some(present) => {
            if present.status == next.status {
                next.last_transition_time = present.last_transition_time.clone();
            }
            *present = next;
        }
    }
}

fn condition(status: bool, reason: &str, message: &str, generation: Option<i64>, now: Timestamp) -> Condition {
    Condition {
        type_: DISRUPTION_ALLOWED.to_owned(),
        status: if status { "True" } else { "False" }.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        observed_generation: generation,
        last_transition_time: time(now),
    }
}

/// Computes the status; none if it is the present one (`updatePdbStatus`).
pub(super) fn status(
    budget: &PodDisruptionBudget,
    healthy: i32,
    expected: Expected,
    disrupted: &Disrupted,
    now: Timestamp,
) -> Option<PodDisruptionBudgetStatus> {
    let allowed = if expected.pods <= 0 { 0 } else { (healthy - expected.healthy).max(0) };
    let present = budget.status.clone().unwrap_or_default();
    let generation = budget.metadata.generation.filter(|generation| *generation != 0);
    let mut conditions = present.conditions.clone().unwrap_or_default();
    let found = conditions.iter().find(|condition| condition.type_ == DISRUPTION_ALLOWED);
    let is_condition_current = found.is_some_and(|condition| (condition.status == "True") == (allowed > 0));
    let number = |count: Option<i32>| count.unwrap_or(0);
    let is_same = number(present.current_healthy) == healthy
        && number(present.desired_healthy) == expected.healthy
        && number(present.expected_pods) == expected.pods
        && number(present.disruptions_allowed) == allowed
        && present.disrupted_pods.clone().unwrap_or_default() == disrupted.pods
        && present.observed_generation == generation
        && is_condition_current;
    if is_same {
        return None;
    }
    let reason = if allowed > 0 { "SufficientPods" } else { "InsufficientPods" };
    set_condition(&mut conditions, condition(allowed > 0, reason, "", generation, now));
    Some(PodDisruptionBudgetStatus {
        conditions: Some(conditions),
        current_healthy: Some(healthy),
        desired_healthy: Some(expected.healthy),
        disrupted_pods: (!disrupted.pods.is_empty()).then(|| disrupted.pods.clone()),
        disruptions_allowed: Some(allowed),
        expected_pods: Some(expected.pods),
        observed_generation: generation,
    })
}

/// Returns the status after a failure (`failSafe`): no eviction is allowed.
pub(super) fn fail_safe(budget: &PodDisruptionBudget, error: &str, now: Timestamp) -> PodDisruptionBudgetStatus {
    let mut status = budget.status.clone().unwrap_or_default();
    status.disruptions_allowed = Some(0);
    let failed = condition(false, "SyncFailed", error, status.observed_generation, now);
    set_condition(status.conditions.get_or_insert_default(), failed);
    status
}

/// Prints a selector as Go prints it.
pub(super) fn print(selector: Option<&LabelSelector>) -> String {
    let Some(selector) = selector else { return "nil".to_owned() };
    let labels: String =
        selector.match_labels.iter().flatten().map(|(key, value)| format!("{key}: {value},")).collect();
    let requirement = |r: &k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelectorRequirement| {
        let values = r.values.clone().unwrap_or_default().join(" ");
        format!("LabelSelectorRequirement{{Key:{},Operator:{},Values:[{values}],}},", r.key, r.operator)
    };
    let expressions: String = selector.match_expressions.iter().flatten().map(requirement).collect();
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rstest::rstest;
    use substrate::json::{Value, from_value, json};

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn budget(spec: Value, status: Value) -> PodDisruptionBudget {
        from_value(json!({ "metadata": { "name": "b", "generation": 1 }, "spec": spec, "status": status })).unwrap()
    }

    fn pod(name: &str, ready: &str) -> Arc<Pod> {
        let status = json!({ "conditions": [{ "type": "Ready", "status": ready }] });
        Arc::new(from_value(json!({ "metadata": { "name": name }, "status": status })).unwrap())
    }

    #[rstest]
    #[case(json!({ "maxUnavailable": 1 }), 5, 4)]
    #[case(json!({ "maxUnavailable": "30%" }), 5, 3)]
    #[case(json!({ "maxUnavailable": 9 }), 5, 0)]
    #[case(json!({ "minAvailable": "50%" }), 5, 3)]
    #[case(json!({ "minAvailable": 7 }), 4, 7)]
    fn budgets_expect_pods(#[case] spec: Value, #[case] pods: i32, #[case] healthy: i32) {
        let budget = budget(spec, json!({}));
        assert_eq!(expected(budget.spec.as_ref().unwrap(), 4, 5), Ok(Expected { pods, healthy }));
    }

    #[test]
    fn a_status_is_written_once() {
        let mut budget = budget(json!({ "minAvailable": 1 }), json!({}));
        let (pods, none) = ([pod("a", "True"), pod("b", "True"), pod("c", "False")], Disrupted::default());
        let expected = Expected { pods: 3, healthy: 1 };
        let count = healthy(&pods, &none, at(0));
        let first = status(&budget, count, expected, &none, at(0)).unwrap();
        assert_eq!((first.disruptions_allowed, first.current_healthy), (Some(1), Some(2)));
        let condition = &first.conditions.as_ref().unwrap()[0];
        assert_eq!((condition.status.as_str(), condition.reason.as_str()), ("True", "SufficientPods"));
        budget.status = Some(first);
        assert_eq!(status(&budget, count, expected, &none, at(9)), None);
        let failed = fail_safe(&budget, "no", at(9));
        assert_eq!(failed.disruptions_allowed, Some(0));
        assert_eq!(failed.conditions.unwrap()[0].reason, "SyncFailed");
        let empty = status(&budget, 0, Expected { pods: 0, healthy: 0 }, &none, at(9)).unwrap();
        assert_eq!(empty.disruptions_allowed, Some(0), "without pods there is no surplus");
    }

    #[test]
    fn an_evicted_pod_does_not_count_until_it_is_late() {
        let budget = budget(
            json!({}),
            json!({ "disruptedPods": { "a": "1970-01-01T00:00:00Z", "gone": "1970-01-01T00:00:00Z" } }),
        );
        let pods = [pod("a", "True"), pod("b", "True")];
        let early = disrupted(&budget, &pods, at(30));
        assert_eq!((early.pods.len(), early.recheck), (1, Some(Duration::from_secs(90))));
        assert_eq!(healthy(&pods, &early, at(30)), 1);
        let late = disrupted(&budget, &pods, at(121));
        assert_eq!((late.late, healthy(&pods, &Disrupted::default(), at(121))), (vec!["a".to_owned()], 2));
    }

    #[test]
    fn a_selector_is_printed_as_in_go() {
        let selector: LabelSelector = from_value(json!({ "matchLabels": { "app": "db" } })).unwrap();
        let text =
            "&LabelSelector{MatchLabels:map[string]string{app: db,},MatchExpressions:[]LabelSelectorRequirement{},}";
        assert_eq!(print(Some(&selector)), text);
    }
}
