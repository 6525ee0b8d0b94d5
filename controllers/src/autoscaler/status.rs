//! Status and conditions of an autoscaler (`setStatus`, `setConditionInList`).

use jiff::Timestamp;
use k8s_openapi::api::autoscaling::v2::{
    HorizontalPodAutoscaler, HorizontalPodAutoscalerCondition, HorizontalPodAutoscalerStatus, MetricStatus,
};

use crate::kube::time;
use crate::workload::counter;

pub(super) const ABLE_TO_SCALE: &str = "AbleToScale";
pub(super) const SCALING_ACTIVE: &str = "ScalingActive";

/// Sets a condition. Its time changes with its status.
pub(super) fn set_condition(
    hpa: &mut HorizontalPodAutoscaler,
    (type_, is_true): (&str, bool),
    reason: &str,
    message: String,
    now: Timestamp,
) {
    let all = hpa.status.get_or_insert_default().conditions.get_or_insert_default();
    let at = all.iter().position(|present| present.type_ == type_).unwrap_or_else(|| {
        all.push(HorizontalPodAutoscalerCondition {
            type_: type_.to_owned(),
            ..HorizontalPodAutoscalerCondition::default()
        });
        all.len() - 1
    });
    let condition = &mut all[at];
    let status = if is_true { "True" } else { "False" };
    if condition.status != status {
        condition.last_transition_time = Some(time(now));
    }
    status.clone_into(&mut condition.status);
    condition.reason = Some(reason.to_owned());
    condition.message = Some(message);
}

/// Replaces the status except its conditions. `scaled` is the time of a scaling that has just happened.
pub(super) fn set(
    hpa: &mut HorizontalPodAutoscaler,
    (current, desired): (i32, i32),
    metrics: Vec<MetricStatus>,
    scaled: Option<Timestamp>,
) {
    let old = hpa.status.take().unwrap_or_default();
    hpa.status = Some(HorizontalPodAutoscalerStatus {
        conditions: old.conditions,
        current_metrics: Some(metrics).filter(|all| !all.is_empty()),
        current_replicas: counter(current),
        desired_replicas: desired,
        last_scale_time: scaled.map(time).or(old.last_scale_time),
        observed_generation: None,
    });
}

/// Returns true if two states of an autoscaler have the same status; empty lists are as good as missing ones.
pub(super) fn is_same(one: &HorizontalPodAutoscaler, other: &HorizontalPodAutoscaler) -> bool {
    let plain = |hpa: &HorizontalPodAutoscaler| {
        let mut status = hpa.status.clone().unwrap_or_default();
        status.conditions = status.conditions.filter(|all| !all.is_empty());
        status.current_metrics = status.current_metrics.filter(|all| !all.is_empty());
        status.current_replicas = status.current_replicas.filter(|count| *count != 0);
        status
    };
    plain(one) == plain(other)
}

#[cfg(test)]
mod tests {
    use substrate::json::{from_value, json};

    use super::*;

    #[test]
    fn the_time_of_a_condition_changes_with_its_status() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut hpa: HorizontalPodAutoscaler = from_value(
            json!({ "spec": { "maxReplicas": 1, "scaleTargetRef": { "kind": "Deployment", "name": "a" } } }),
        )
        .unwrap();
        let old = hpa.clone();
        set_condition(&mut hpa, (ABLE_TO_SCALE, true), "A", "a".to_owned(), at(1));
        set_condition(&mut hpa, (ABLE_TO_SCALE, true), "B", "b".to_owned(), at(2));
        assert!(!is_same(&old, &hpa));
        let first = hpa.status.clone().unwrap().conditions.unwrap().remove(0);
        assert_eq!((first.reason.as_deref(), first.last_transition_time), (Some("B"), Some(time(at(1)))));
        set(&mut hpa, (0, 2), Vec::new(), Some(at(3)));
        set_condition(&mut hpa, (ABLE_TO_SCALE, false), "C", "c".to_owned(), at(4));
        let status = hpa.status.clone().unwrap();
        assert_eq!((status.desired_replicas, status.last_scale_time), (2, Some(time(at(3)))));
        assert_eq!(status.conditions.unwrap()[0].last_transition_time, Some(time(at(4))));
    }
}
