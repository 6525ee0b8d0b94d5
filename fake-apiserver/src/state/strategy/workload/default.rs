//! Defaults of workloads (`pkg/apis/{apps,batch,core,autoscaling}/v1/defaults.go`): controllers dereference all of them.

use substrate::json::{Map, Value, json};

use crate::state::default::{elements, pod};
use crate::state::strategy::claim;
use crate::state::value::{at, default, default_zero, map_mut};

/// Sets the defaults of the pod template under `template`.
pub(super) fn template(owner: &mut Value) {
    if let Some(spec) = owner.get_mut("template").and_then(|t| map_mut(t, "spec")) {
        pod::spec(spec);
    }
}

/// Returns the map under `key`, and creates it if it is missing.
fn map_in<'a>(map: &'a mut Map, key: &str) -> Option<&'a mut Map> {
    let slot = map.entry(key).or_insert_with(|| json!({}));
    if slot.is_null() {
        *slot = json!({});
    }
    slot.as_object_mut()
}

pub(super) fn replicas(spec: &mut Map) {
    default(spec, "replicas", 1);
}

pub(super) fn cron_job(object: &mut Value) {
    let Some(spec) = map_mut(object, "spec") else { return };
    for (field, value) in [
        ("concurrencyPolicy", json!("Allow")),
        ("suspend", json!(false)),
        ("successfulJobsHistoryLimit", json!(3)),
        ("failedJobsHistoryLimit", json!(1)),
    ] {
        default(spec, field, value);
    }
    if let Some(template) = map_in(spec, "jobTemplate") {
        default(template, "metadata", json!({}));
    }
    if let Some(template) = spec.get_mut("jobTemplate").and_then(|t| t.get_mut("spec")) {
        self::template(template);
    }
}

pub(super) fn autoscaler(object: &mut Value) {
    let Some(spec) = map_mut(object, "spec") else { return };
    default(spec, "minReplicas", 1);
    if spec.get("metrics").and_then(Value::as_array).is_none_or(Vec::is_empty) {
        let target = json!({"type": "Utilization", "averageUtilization": 80});
        spec.insert("metrics", json!([{"type": "Resource", "resource": {"name": "cpu", "target": target}}]));
    }
    if let Some(behavior) = spec.get_mut("behavior").and_then(Value::as_object_mut) {
        scaling(behavior);
    }
}

pub(super) fn deployment(spec: &mut Map) {
    default(spec, "replicas", 1);
    default(spec, "revisionHistoryLimit", 10);
    default(spec, "progressDeadlineSeconds", 600);
    let Some(strategy) = map_in(spec, "strategy") else { return };
    default_zero(strategy, "type", "RollingUpdate");
    if strategy.get("type").is_some_and(|t| t == "RollingUpdate")
        && let Some(rolling) = map_in(strategy, "rollingUpdate")
    {
        default(rolling, "maxUnavailable", "25%");
        default(rolling, "maxSurge", "25%");
    }
}

pub(super) fn stateful_set(spec: &mut Map) {
    default(spec, "replicas", 1);
    default(spec, "revisionHistoryLimit", 10);
    default_zero(spec, "podManagementPolicy", "OrderedReady");
    if let Some(strategy) = map_in(spec, "updateStrategy") {
        default_zero(strategy, "type", "RollingUpdate");
        if strategy.get("type").is_some_and(|t| t == "RollingUpdate")
            && let Some(rolling) = map_in(strategy, "rollingUpdate")
        {
            default(rolling, "partition", 0);
        }
    }
    if let Some(policy) = map_in(spec, "persistentVolumeClaimRetentionPolicy") {
        default_zero(policy, "whenDeleted", "Retain");
        default_zero(policy, "whenScaled", "Retain");
    }
    if let Some(Value::Array(claims)) = spec.get_mut("volumeClaimTemplates") {
        for claim in claims {
            if let Some(map) = claim.as_object_mut() {
                default(map, "apiVersion", "v1");
                default(map, "kind", "PersistentVolumeClaim");
            }
            claim::default(claim);
            if let Some(status) = map_mut(claim, "status") {
                default(status, "phase", "Pending");
            }
        }
    }
}

pub(super) fn daemon_set(spec: &mut Map) {
    default(spec, "revisionHistoryLimit", 10);
    let Some(strategy) = map_in(spec, "updateStrategy") else { return };
    default_zero(strategy, "type", "RollingUpdate");
    if strategy.get("type").is_some_and(|t| t == "RollingUpdate")
        && let Some(rolling) = map_in(strategy, "rollingUpdate")
    {
        default(rolling, "maxUnavailable", 1);
        default(rolling, "maxSurge", 0);
    }
}

pub(super) fn job(spec: &mut Map) {
    let unset = |spec: &Map, field: &str| spec.get(field).is_none_or(Value::is_null);
    if unset(spec, "completions") && unset(spec, "parallelism") {
        spec.insert("completions", 1.into());
    }
    default(spec, "parallelism", 1);
    let per_index = !unset(spec, "backoffLimitPerIndex");
    default(spec, "backoffLimit", if per_index { i64::from(i32::MAX) } else { 6 });
    default(spec, "completionMode", "NonIndexed");
    default(spec, "suspend", false);
    default(spec, "manualSelector", false);
    let policy = if unset(spec, "podFailurePolicy") { "TerminatingOrFailed" } else { "Failed" };
    default(spec, "podReplacementPolicy", policy);
    if let Some(policy) = spec.get_mut("podFailurePolicy").and_then(Value::as_object_mut) {
        for rule in elements(policy, "rules") {
            for pattern in elements(rule, "onPodConditions") {
                default_zero(pattern, "status", "True");
            }
        }
    }
}

/// Sets the defaults of an autoscaler's `behavior`, if it is set.
fn scaling(behavior: &mut Map) {
    let most = json!({"type": "Percent", "value": 100, "periodSeconds": 15});
    if let Some(up) = map_in(behavior, "scaleUp") {
        default(up, "stabilizationWindowSeconds", 0);
        default(up, "selectPolicy", "Max");
        default(up, "policies", json!([{"type": "Pods", "value": 4, "periodSeconds": 15}, most]));
    }
    if let Some(down) = map_in(behavior, "scaleDown") {
        default(down, "selectPolicy", "Max");
        default(down, "policies", json!([most]));
    }
}

/// Copies the labels of a ReplicationController's template to its selector and its own labels, if these are unset.
pub(super) fn labels_of_template(object: &mut Value) {
    let Some(labels) = at(object, &["spec", "template", "metadata", "labels"]).cloned() else { return };
    if let Some(spec) = map_mut(object, "spec")
        && spec.get("selector").and_then(Value::as_object).is_none_or(Map::is_empty)
    {
        spec.insert("selector", labels.clone());
    }
    let metadata = crate::state::value::metadata(object);
    if metadata.get("labels").and_then(Value::as_object).is_none_or(Map::is_empty) {
        metadata.insert("labels", labels);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds;

    fn defaulted(plural: &str, spec: Value) -> Value {
        let mut object = json!({ "spec": spec });
        let kind = kinds::all().iter().find(|k| k.plural == plural).unwrap();
        crate::state::strategy::default(kind, &mut object);
        object["spec"].take()
    }

    #[test]
    fn workloads_get_what_controllers_dereference() {
        let template = json!({"spec": {"containers": [{"name": "c", "image": "x"}]}});
        let deployment = defaulted("deployments", json!({"template": template}));
        assert_eq!(deployment["strategy"]["rollingUpdate"], json!({"maxUnavailable": "25%", "maxSurge": "25%"}));
        assert_eq!((&deployment["replicas"], &deployment["progressDeadlineSeconds"]), (&json!(1), &json!(600)));
        let pod = &deployment["template"]["spec"];
        assert_eq!((&pod["restartPolicy"], pod.get("enableServiceLinks")), (&json!("Always"), None));
        let sets = defaulted(
            "statefulsets",
            json!({"template": template, "volumeClaimTemplates": [{"metadata": {"name": "v"}, "spec": {}}]}),
        );
        assert_eq!(sets["volumeClaimTemplates"][0]["kind"], "PersistentVolumeClaim");
        assert_eq!(sets["volumeClaimTemplates"][0]["spec"]["volumeMode"], "Filesystem");
        assert_eq!(sets["persistentVolumeClaimRetentionPolicy"]["whenScaled"], "Retain");
        assert_eq!(
            defaulted("daemonsets", json!({"template": template}))["updateStrategy"]["rollingUpdate"]["maxSurge"],
            0
        );
        let job = defaulted("jobs", json!({"template": template}));
        assert_eq!((&job["completions"], &job["parallelism"], &job["backoffLimit"]), (&json!(1), &json!(1), &json!(6)));
        assert_eq!(defaulted("jobs", json!({"parallelism": 2, "template": template})).get("completions"), None);
        let cron = defaulted("cronjobs", json!({"jobTemplate": {"spec": {"template": template}}}));
        assert_eq!(cron["jobTemplate"]["spec"]["template"]["spec"]["dnsPolicy"], "ClusterFirst");
    }
}
