//! autoscaling/v1 beside the stored autoscaling/v2 (`pkg/apis/autoscaling/v1/conversion.go`). v1 knows one metric, the
//! use of CPU; the rest of v2 travels in annotations.

use substrate::json::{Map, Value, json};

use super::value::{self, list, map_mut};

/// Annotation of a v1 object, and the field of the v2 spec or status that it holds.
const CARRIED: &[(&str, &str, &str)] = &[
    ("autoscaling.alpha.kubernetes.io/metrics", "spec", "metrics"),
    ("autoscaling.alpha.kubernetes.io/behavior", "spec", "behavior"),
    ("autoscaling.alpha.kubernetes.io/current-metrics", "status", "currentMetrics"),
    ("autoscaling.alpha.kubernetes.io/conditions", "status", "conditions"),
];

/// Field of v1 that holds the CPU target or value, for spec and for status.
const CPU: &[(&str, &str, &str)] = &[
    ("spec", "metrics", "targetCPUUtilizationPercentage"),
    ("status", "currentMetrics", "currentCPUUtilizationPercentage"),
];

/// Returns the name of the field that holds the percentage in a metric of a part.
fn percentage(part: &str) -> &'static str {
    if part == "spec" { "target" } else { "current" }
}

fn is_cpu(metric: &Value, part: &str) -> bool {
    metric["type"] == "Resource"
        && metric["resource"]["name"] == "cpu"
        && !metric["resource"][percentage(part)]["averageUtilization"].is_null()
}

/// Converts a stored autoscaler to autoscaling/v1.
pub(super) fn to_view(object: &Value) -> Value {
    let mut view = object.clone();
    for (part, from, to) in CPU {
        let mut metrics = list(object, &[part, from]).to_vec();
        let Some(fields) = view.get_mut(*part).and_then(Value::as_object_mut) else { continue };
        fields.remove(from);
        if let Some(at) = metrics.iter().position(|metric| is_cpu(metric, part)) {
            let metric = metrics.remove(at);
            fields.insert(*to, metric["resource"][percentage(part)]["averageUtilization"].clone());
        }
        if !metrics.is_empty() {
            fields.insert(*from, metrics.into());
        }
    }
    for (annotation, part, field) in CARRIED {
        let taken = view.get_mut(*part).and_then(Value::as_object_mut).and_then(|fields| fields.remove(field));
        if let Some(taken) = taken {
            let annotations = value::metadata(&mut view).entry("annotations").or_insert_with(|| json!({}));
            if let Some(map) = annotations.as_object_mut() {
                map.insert(*annotation, taken.to_string().into());
            }
        }
    }
    set_version(&mut view, "autoscaling/v1");
    view
}

/// Converts an autoscaling/v1 object to its stored form.
pub(super) fn from_view(view: &Value) -> Value {
    let mut object = view.clone();
    for (annotation, part, field) in CARRIED {
        let annotations = value::metadata(&mut object).get_mut("annotations").and_then(Value::as_object_mut);
        let Some(text) = annotations.and_then(|map| map.remove(annotation)) else { continue };
        // An annotation that does not parse was not written by this server. It is dropped, as upstream does.
        let carried = text.as_str().and_then(|text| serde_json::from_str::<Value>(text).ok());
        if let (Some(carried), Some(fields)) = (carried, map_mut(&mut object, part)) {
            fields.insert(*field, carried);
        }
    }
    for (part, to, from) in CPU {
        let Some(fields) = object.get_mut(*part).and_then(Value::as_object_mut) else { continue };
        let Some(percent) = fields.remove(from) else { continue };
        let mut amount = Map::new();
        amount.insert("averageUtilization", percent);
        if *part == "spec" {
            amount.insert("type", "Utilization".into());
        }
        let metric = json!({"type": "Resource", "resource": {"name": "cpu", (percentage(part)): amount}});
        let slot = fields.entry(*to).or_insert_with(|| json!([]));
        if let Some(metrics) = slot.as_array_mut() {
            metrics.insert(0, metric);
        }
    }
    set_version(&mut object, "autoscaling/v2");
    object
}

fn set_version(object: &mut Value, version: &str) {
    if let Some(slot) = object.get_mut("apiVersion") {
        *slot = version.into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_versions_hold_the_same_autoscaler() {
        let v2 = json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "h"},
            "spec": {"maxReplicas": 3, "metrics": [
                {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 60}}},
                {"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}}}],
                "behavior": {"scaleUp": {"stabilizationWindowSeconds": 0}}},
            "status": {"desiredReplicas": 2, "conditions": [{"type": "AbleToScale", "status": "True"}]}});
        let v1 = to_view(&v2);
        assert_eq!(v1["spec"], json!({"maxReplicas": 3, "targetCPUUtilizationPercentage": 60}));
        assert_eq!(v1["status"], json!({"desiredReplicas": 2}));
        assert_eq!(v1["metadata"]["annotations"].as_object().unwrap().len(), 3);
        let mut back = from_view(&v1);
        value::metadata(&mut back).remove("annotations");
        assert_eq!(back, v2);
    }
}
