//! Failures of the metrics of an autoscaler in a cluster without metrics APIs (`computeReplicasForMetric`).

use k8s_openapi::api::autoscaling::v2::{MetricSpec, MetricTarget};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

/// Failure of one metric.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Failure {
    /// Reason of the Event and of the condition.
    pub(super) reason: &'static str,
    /// Their message.
    pub(super) error: String,
    /// The error of the whole computation, if this is its first one.
    pub(super) whole: String,
}

const CUSTOM: &str =
    "unable to fetch metrics from custom metrics API: no custom metrics API (custom.metrics.k8s.io) registered";

/// Returns the error of a resource of pods or of their containers.
fn resource(name: &str, target: &MetricTarget) -> String {
    let what = match (&target.average_value, target.average_utilization) {
        (Some(_), _) => "usage",
        (None, Some(_)) => "utilization",
        (None, None) => {
            return "invalid resource metric source: neither an average utilization target nor an average value (usage) \
                    target was set"
                .to_owned();
        }
    };
    format!(
        "failed to get {name} {what}: unable to get metrics for resource {name}: unable to fetch metrics from resource \
         metrics API: the server could not find the requested resource (get pods.metrics.k8s.io)"
    )
}

/// Prints a selector as the Go value does.
fn printed(selector: Option<&LabelSelector>) -> String {
    let Some(selector) = selector else { return "nil".to_owned() };
    let labels = selector.match_labels.iter().flatten().map(|(name, value)| format!("{name}: {value},"));
    let expressions = selector.match_expressions.iter().flatten().map(|of| {
        let values = of.values.as_deref().unwrap_or_default().join(" ");
        format!("LabelSelectorRequirement{{Key:{},Operator:{},Values:[{values}],}},", of.key, of.operator)
    });
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{}}},MatchExpressions:[]LabelSelectorRequirement{{{}}},}}",
        labels.collect::<String>(),
        expressions.collect::<String>()
    )
}

/// Returns the failure of a metric of an autoscaler in this namespace.
pub(super) fn failure(namespace: &str, metric: &MetricSpec) -> Failure {
    if let Some(source) = &metric.resource {
        let error = resource(&source.name, &source.target);
        let whole = format!("failed to get {} resource metric value: {error}", source.name);
        return Failure { reason: "FailedGetResourceMetric", error, whole };
    }
    if let Some(source) = &metric.container_resource {
        let error = resource(&source.name, &source.target);
        let whole = format!("failed to get {} container metric value: {error}", source.container);
        return Failure { reason: "FailedGetContainerResourceMetric", error, whole };
    }
    if let Some(source) = &metric.pods {
        let error = format!("unable to get metric {}: {CUSTOM}", source.metric.name);
        let whole = format!("failed to get pods metric value: {error}");
        return Failure { reason: "FailedGetPodsMetric", error, whole };
    }
    if let Some(source) = &metric.object {
        let (of, name) = (&source.described_object, &source.metric.name);
        // Upstream passes the values in another order than its format names them.
        let error = format!("unable to get metric {name}: {} on {namespace} {}/{CUSTOM}", of.kind, of.name);
        let whole = match source.target.type_.as_str() {
            "Value" => format!("failed to get object metric value: {error}"),
            _ => format!("failed to get object metric value: failed to get {name} object metric: {error}"),
        };
        return Failure { reason: "FailedGetObjectMetric", error, whole };
    }
    if let Some(source) = &metric.external {
        let name = &source.metric.name;
        let error = format!(
            "unable to get external metric {namespace}/{name}/{}: unable to fetch metrics from external metrics API: the \
             server could not find the requested resource (get {name}.external.metrics.k8s.io)",
            printed(source.metric.selector.as_ref())
        );
        let whole = match source.target.average_value {
            Some(_) => {
                format!("failed to get {name} external metric value: failed to get {name} external metric: {error}")
            }
            None => {
                format!("failed to get {name} external metric value: failed to get external metric {name}: {error}")
            }
        };
        return Failure { reason: "FailedGetExternalMetric", error, whole };
    }
    let error = format!("unknown metric source type \"{}\"", metric.type_);
    Failure { reason: "InvalidMetricSourceType", whole: error.clone(), error }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use substrate::json::{Value, from_value, json};

    use super::*;

    // Recorded from kube-controller-manager 1.36.
    #[rstest]
    #[case::resource(
        json!({ "type": "Resource", "resource": { "name": "cpu", "target": { "type": "Utilization", "averageUtilization": 80 } } }),
        "FailedGetResourceMetric",
        "failed to get cpu utilization: unable to get metrics for resource cpu: unable to fetch metrics from resource metrics API: the server could not find the requested resource (get pods.metrics.k8s.io)",
        "failed to get cpu resource metric value: ",
    )]
    #[case::container(
        json!({ "type": "ContainerResource", "containerResource": { "name": "memory", "container": "c", "target": { "type": "AverageValue", "averageValue": "1Gi" } } }),
        "FailedGetContainerResourceMetric",
        "failed to get memory usage: unable to get metrics for resource memory: unable to fetch metrics from resource metrics API: the server could not find the requested resource (get pods.metrics.k8s.io)",
        "failed to get c container metric value: ",
    )]
    #[case::pods(
        json!({ "type": "Pods", "pods": { "metric": { "name": "rps" }, "target": { "type": "AverageValue", "averageValue": "10" } } }),
        "FailedGetPodsMetric",
        "unable to get metric rps: unable to fetch metrics from custom metrics API: no custom metrics API (custom.metrics.k8s.io) registered",
        "failed to get pods metric value: ",
    )]
    #[case::object(
        json!({ "type": "Object", "object": { "metric": { "name": "rps" }, "describedObject": { "kind": "Ingress", "name": "main" }, "target": { "type": "AverageValue", "averageValue": "10" } } }),
        "FailedGetObjectMetric",
        "unable to get metric rps: Ingress on default main/unable to fetch metrics from custom metrics API: no custom metrics API (custom.metrics.k8s.io) registered",
        "failed to get object metric value: failed to get rps object metric: ",
    )]
    #[case::external(
        json!({ "type": "External", "external": { "metric": { "name": "q", "selector": { "matchLabels": { "a": "b" } } }, "target": { "type": "AverageValue", "averageValue": "10" } } }),
        "FailedGetExternalMetric",
        "unable to get external metric default/q/&LabelSelector{MatchLabels:map[string]string{a: b,},MatchExpressions:[]LabelSelectorRequirement{},}: unable to fetch metrics from external metrics API: the server could not find the requested resource (get q.external.metrics.k8s.io)",
        "failed to get q external metric value: failed to get q external metric: ",
    )]
    #[case::external_value(
        json!({ "type": "External", "external": { "metric": { "name": "q" }, "target": { "type": "Value", "value": "10" } } }),
        "FailedGetExternalMetric",
        "unable to get external metric default/q/nil: unable to fetch metrics from external metrics API: the server could not find the requested resource (get q.external.metrics.k8s.io)",
        "failed to get q external metric value: failed to get external metric q: ",
    )]
    fn a_metric_fails_as_without_metrics_apis(
        #[case] metric: Value,
        #[case] reason: &'static str,
        #[case] error: &str,
        #[case] before: &str,
    ) {
        let metric: MetricSpec = from_value(metric).unwrap();
        let expected = Failure { reason, error: error.to_owned(), whole: format!("{before}{error}") };
        assert_eq!(failure("default", &metric), expected);
    }
}
