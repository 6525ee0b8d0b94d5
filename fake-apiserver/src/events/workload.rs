//! Details of commits of workloads: StatefulSets, Jobs, ReplicaSets, Deployments, disruption budgets, and pods that have
//! labels or a controller.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use substrate::json::{Text, Value};

use super::is_false;
use super::manifest::{controller, is_deleting, word};
use crate::kinds::{Kind, index};

/// A workload in [`Commit`](super::Commit).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// Disruptions that the status of a budget allows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed: Option<i64>,
    /// True if it is being deleted; absent for a pod.
    #[serde(default, skip_serializing_if = "is_false")]
    pub deleting: bool,
    /// True if a Job has a true condition Complete or Failed.
    #[serde(default, skip_serializing_if = "is_false")]
    pub finished: bool,
    /// Labels of a pod, and the labels that a budget or a StatefulSet selects. A selector with expressions is left out.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<Text, Text>,
    /// Kind and uid of its controller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<(Text, Text)>,
    /// True for a StatefulSet that works on all its pods at once.
    #[serde(default, skip_serializing_if = "is_false")]
    pub parallel: bool,
    /// Ordinal from which on a rolling update replaces the pods of a StatefulSet.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub partition: i64,
    /// True for a pod with the condition Ready.
    #[serde(default, skip_serializing_if = "is_false")]
    pub ready: bool,
    /// Number of pods that it asks for; for a Job, its parallelism.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i64>,
    /// First ordinal of a StatefulSet.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub start: i64,
    /// Number of pods beyond `replicas` that a rolling Deployment may have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub surge: Option<i64>,
    /// Its uid; absent for a pod, which has it in its own details.
    #[serde(default, skip_serializing_if = "Text::is_empty")]
    pub uid: Text,
    /// Number of `replicas` that a rolling Deployment may lack.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unavailable: Option<i64>,
}

fn is_zero(number: &i64) -> bool {
    *number == 0
}

/// Returns true if commits of a kind have these details.
pub(super) fn has_details(kind: &Kind) -> bool {
    matches!(
        kind.index,
        index::STATEFUL_SETS | index::JOBS | index::REPLICA_SETS | index::DEPLOYMENTS | index::POD_DISRUPTION_BUDGETS
    )
}

fn labels(map: &Value) -> BTreeMap<Text, Text> {
    let entries = map.as_object().into_iter().flatten();
    entries.filter_map(|(key, value)| Some((key.clone(), word(value)?))).collect()
}

fn has_condition(object: &Value, types: &[&str]) -> bool {
    let mut conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    conditions.any(|has| types.iter().any(|of| has["type"] == **of) && has["status"] == "True")
}

/// Returns a number, or a percentage of `total`, rounded up or down.
fn scaled(value: &Value, total: i64, up: bool) -> Option<i64> {
    let Some(text) = value.as_str() else { return value.as_i64() };
    let product = text.strip_suffix('%')?.parse::<i64>().ok()?.checked_mul(total)?;
    Some(product / 100 + i64::from(up && product % 100 != 0))
}

/// Returns kind and uid of the controller of an object.
fn owner(object: &Value) -> Option<(Text, Text)> {
    let mut owners = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    let kind = word(&owners.find(|owner| owner["controller"] == true)?["kind"])?;
    Some((kind, controller(object)?))
}

impl Workload {
    /// Returns the details of an object; none if it has no such details.
    pub(super) fn of(kind: &Kind, object: &Value) -> Option<Box<Self>> {
        if kind.index == index::PODS {
            let pod = Self {
                labels: labels(&object["metadata"]["labels"]),
                owner: owner(object),
                ready: has_condition(object, &["Ready"]),
                ..Self::default()
            };
            return Some(pod).filter(|pod| !pod.labels.is_empty() || pod.owner.is_some()).map(Box::new);
        }
        if !has_details(kind) {
            return None;
        }
        let (spec, status) = (&object["spec"], &object["status"]);
        let selects_labels = spec["selector"]["matchExpressions"].as_array().is_none_or(|list| list.is_empty());
        let mut workload = Self {
            deleting: is_deleting(object),
            labels: if selects_labels { labels(&spec["selector"]["matchLabels"]) } else { BTreeMap::new() },
            owner: owner(object),
            replicas: spec["replicas"].as_i64(),
            uid: word(&object["metadata"]["uid"]).unwrap_or_default(),
            ..Self::default()
        };
        match kind.index {
            index::POD_DISRUPTION_BUDGETS => workload.allowed = status["disruptionsAllowed"].as_i64(),
            index::STATEFUL_SETS => {
                workload.parallel = spec["podManagementPolicy"] == "Parallel";
                workload.partition = spec["updateStrategy"]["rollingUpdate"]["partition"].as_i64().unwrap_or(0);
                workload.start = spec["ordinals"]["start"].as_i64().unwrap_or(0);
            }
            index::JOBS => {
                workload.finished = has_condition(object, &["Complete", "Failed"]);
                workload.replicas = Some(spec["parallelism"].as_i64().unwrap_or(1));
            }
            index::DEPLOYMENTS if spec["strategy"]["type"] == "RollingUpdate" => {
                let (rolling, total) = (&spec["strategy"]["rollingUpdate"], workload.replicas.unwrap_or(1));
                workload.surge = scaled(&rolling["maxSurge"], total, true);
                workload.unavailable = scaled(&rolling["maxUnavailable"], total, false);
            }
            _ => {}
        }
        Some(Box::new(workload))
    }
}

#[cfg(test)]
mod tests {
    use substrate::json::json;

    use super::*;
    use crate::kinds;

    #[test]
    fn a_commit_says_the_bounds_of_a_workload() {
        let rolling = json!({ "maxSurge": "25%", "maxUnavailable": "25%" });
        let deployment = json!({ "metadata": { "uid": "u" }, "spec": {
            "replicas": 5, "strategy": { "type": "RollingUpdate", "rollingUpdate": rolling } } });
        let of = Workload::of(kinds::DEPLOYMENTS, &deployment).unwrap();
        assert_eq!((of.replicas, of.surge, of.unavailable, of.uid.as_str()), (Some(5), Some(2), Some(1), "u"));
        let owners = json!([{ "kind": "StatefulSet", "uid": "s", "controller": true }]);
        let ready = json!({ "conditions": [{ "type": "Ready", "status": "True" }] });
        let pod = json!({ "metadata": { "ownerReferences": owners }, "status": ready });
        let of = Workload::of(kinds::PODS, &pod).unwrap();
        assert_eq!((of.owner, of.ready), (Some(("StatefulSet".into(), "s".into())), true));
        assert_eq!(Workload::of(kinds::PODS, &json!({})), None);
        let budget = json!({ "spec": { "selector": { "matchLabels": { "app": "db" } } },
            "status": { "disruptionsAllowed": 1 } });
        let of = Workload::of(kinds::POD_DISRUPTION_BUDGETS, &budget).unwrap();
        assert_eq!((of.allowed, of.labels.len()), (Some(1), 1));
    }
}
