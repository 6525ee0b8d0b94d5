//! Validation of autoscalers (`pkg/apis/autoscaling/validation`, `pkg/registry/autoscaling/horizontalpodautoscaler`).

use substrate::json::Value;

use super::validate::NEGATIVE;
use crate::state::validate::{names, refuse, resource_names};
use crate::state::value::{has, int, list, text};
use crate::state::{FieldError, quantity};

/// Longest period of a scaling policy, in seconds.
const LONGEST_PERIOD: i64 = 1800;
/// Longest stabilization window, in seconds.
const LONGEST_WINDOW: i64 = 3600;
/// Types of metrics, each with its field, in upstream's order.
const SOURCES: [(&str, &str); 5] = [
    ("Object", "object"),
    ("External", "external"),
    ("Pods", "pods"),
    ("Resource", "resource"),
    ("ContainerResource", "containerResource"),
];
/// Types of metrics, in the order of messages.
const TYPES: [&str; 5] = ["ContainerResource", "External", "Object", "Pods", "Resource"];

/// Check of the API version of a reference.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Api {
    /// No check.
    Any,
    /// The version can be read.
    Readable,
    /// It also has a group.
    WithGroup,
}

/// Validates an autoscaler; `old` is null for a new one.
pub(super) fn check(object: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let spec = &object["spec"];
    replicas(spec, old, errors);
    reference(&spec["scaleTargetRef"], "spec.scaleTargetRef", api_of_target(object, old), errors);
    metrics(spec, api_of_objects(old), errors);
    for direction in ["scaleUp", "scaleDown"] {
        let rules = &spec["behavior"][direction];
        if !rules.is_null() {
            scaling(rules, &format!("spec.behavior.{direction}"), errors);
        }
    }
}

/// Validates the counts in the status of an autoscaler.
pub(super) fn status(object: &Value, errors: &mut Vec<FieldError>) {
    for field in ["currentReplicas", "desiredReplicas"] {
        if let Some(count) = int(object, &["status", field]).filter(|count| *count < 0) {
            errors.push(FieldError::invalid(format!("status.{field}"), &count.into(), NEGATIVE));
        }
    }
}

fn replicas(spec: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let (least, most) = (int(spec, &["minReplicas"]), int(spec, &["maxReplicas"]).unwrap_or(0));
    // Zero needs the feature gate HPAScaleToZero. An autoscaler that has it keeps it.
    let bound = i64::from(int(old, &["spec", "minReplicas"]) != Some(0));
    if let Some(least) = least.filter(|least| *least < bound) {
        let why = format!("must be greater than or equal to {bound}");
        errors.push(FieldError::invalid("spec.minReplicas", &least.into(), why));
    }
    match most {
        0 => errors.push(FieldError::required("spec.maxReplicas", "must be set and greater than 0")),
        ..0 => {
            errors.push(FieldError::invalid("spec.maxReplicas", &most.into(), "must be greater than or equal to 1"));
        }
        _ => {}
    }
    if least.is_some_and(|least| least > most) {
        let why = "must be greater than or equal to `minReplicas`";
        errors.push(FieldError::invalid("spec.maxReplicas", &most.into(), why));
    }
}

/// Returns the check of the target. Only the one kind of the core API has no group.
fn api_of_target(object: &Value, old: &Value) -> Api {
    let of = |object: &Value, field: &str| text(object, &["spec", "scaleTargetRef", field]).to_owned();
    if !old.is_null() && ["apiVersion", "kind"].iter().all(|field| of(object, field) == of(old, field)) {
        Api::Any
    } else if of(object, "kind") == "ReplicationController" {
        Api::Readable
    } else {
        Api::WithGroup
    }
}

/// Returns the check of objects that have metrics. An autoscaler with a wrong one keeps it.
fn api_of_objects(old: &Value) -> Api {
    let is_wrong = |metric: &Value| {
        let version = text(metric, &["object", "describedObject", "apiVersion"]);
        text(metric, &["type"]) == "Object" && refusal(version, Api::Readable).is_some()
    };
    if list(old, &["spec", "metrics"]).iter().any(is_wrong) { Api::Any } else { Api::Readable }
}

/// Returns the reason why an API version is refused (`ValidateAPIVersion`).
fn refusal(version: &str, api: Api) -> Option<String> {
    let group = match version.split_once('/') {
        _ if api == Api::Any => return None,
        Some((_, rest)) if rest.contains('/') => return Some(format!("unexpected GroupVersion string: {version}")),
        Some((group, _)) => group,
        None => "",
    };
    (api == Api::WithGroup && group.is_empty()).then(|| "apiVersion must specify API group".to_owned())
}

/// Validates a reference to an object (`ValidateCrossVersionObjectReference`).
fn reference(reference: &Value, at: &str, api: Api, errors: &mut Vec<FieldError>) {
    for field in ["kind", "name"] {
        segment(text(reference, &[field]), format!("{at}.{field}"), "", errors);
    }
    let version = text(reference, &["apiVersion"]);
    if let Some(why) = refusal(version, api) {
        errors.push(FieldError::invalid(format!("{at}.apiVersion"), &version.into(), why));
    }
}

/// Validates a required part of a path.
fn segment(named: &str, at: String, missing: &str, errors: &mut Vec<FieldError>) {
    if named.is_empty() {
        errors.push(FieldError::required(at, missing));
    } else {
        refuse(named, &at, names::path_segment(named), errors);
    }
}

fn metrics(spec: &Value, api: Api, errors: &mut Vec<FieldError>) {
    let metrics = list(spec, &["metrics"]);
    for (i, one) in metrics.iter().enumerate() {
        metric(one, &format!("spec.metrics[{i}]"), api, errors);
    }
    let is_outside = |one: &Value| matches!(text(one, &["type"]), "Object" | "External");
    if int(spec, &["minReplicas"]) == Some(0) && !metrics.iter().any(is_outside) {
        let why = "must specify at least one Object or External metric to support scaling to zero replicas";
        errors.push(FieldError::forbidden("spec.metrics", why));
    }
}

fn metric(metric: &Value, at: &str, api: Api, errors: &mut Vec<FieldError>) {
    let of = text(metric, &["type"]);
    let unknown = || FieldError::not_supported(format!("{at}.type"), &of.into(), &TYPES);
    if of.is_empty() {
        errors.push(FieldError::required(format!("{at}.type"), "must specify a metric source type"));
    }
    if !TYPES.contains(&of) {
        errors.push(unknown());
    }
    let present: Vec<&str> = SOURCES.iter().map(|(_, field)| *field).filter(|field| has(metric, &[field])).collect();
    if let Some(first) = present.first() {
        source(first, &metric[*first], &format!("{at}.{first}"), api, errors);
    }
    let expected = SOURCES.iter().find(|(name, _)| *name == of).map(|(_, field)| *field);
    match expected {
        None => errors.push(unknown()),
        Some(field) if !present.contains(&field) => {
            let why = "must populate information for the given metric source";
            errors.push(FieldError::required(format!("{at}.{field}"), why));
        }
        Some(_) => {}
    }
    if present.len() > 1 {
        for other in present.into_iter().filter(|field| Some(*field) != expected) {
            errors.push(FieldError::forbidden(format!("{at}.{other}"), "must populate the given metric source only"));
        }
    }
}

/// Validates the source of a metric; `field` is that of its type.
fn source(field: &str, source: &Value, at: &str, api: Api, errors: &mut Vec<FieldError>) {
    match field {
        "object" => {
            reference(&source["describedObject"], &format!("{at}.describedObject"), api, errors);
            identifier(source, at, errors);
        }
        "external" | "pods" => identifier(source, at, errors),
        _ => resource(field, source, at, errors),
    }
    let target = &source["target"];
    metric_target(target, &format!("{at}.target"), errors);
    let has = |field: &str| has(target, &[field]);
    let mut missing = |field: &str, why: &str| errors.push(FieldError::required(format!("{at}.target.{field}"), why));
    match field {
        "object" if !has("value") && !has("averageValue") => {
            missing("averageValue", "must set either a target value or averageValue");
        }
        "external" if !has("value") && !has("averageValue") => {
            missing("averageValue", "must set either a target value for metric or a per-pod target");
        }
        "external" if has("value") && has("averageValue") => {
            let why = "may not set both a target value for metric and a per-pod target";
            errors.push(FieldError::forbidden(format!("{at}.target.value"), why));
        }
        "pods" if !has("averageValue") => {
            missing("averageValue", "must specify a positive target averageValue");
        }
        "resource" | "containerResource" if !has("averageUtilization") && !has("averageValue") => {
            missing("averageUtilization", "must set either a target raw value or a target utilization");
        }
        "resource" | "containerResource" if has("averageUtilization") && has("averageValue") => {
            let why = "may not set both a target raw value and a target utilization";
            errors.push(FieldError::forbidden(format!("{at}.target.averageValue"), why));
        }
        _ => {}
    }
}

fn identifier(source: &Value, at: &str, errors: &mut Vec<FieldError>) {
    let named = text(source, &["metric", "name"]);
    segment(named, format!("{at}.metric.name"), "must specify a metric name", errors);
}

/// Validates the names of a metric of a resource. That of a whole pod is not checked further.
fn resource(field: &str, source: &Value, at: &str, errors: &mut Vec<FieldError>) {
    let (named, container) = (text(source, &["name"]), text(source, &["container"]));
    let is_of_container = field == "containerResource";
    if named.is_empty() {
        errors.push(FieldError::required(format!("{at}.name"), "must specify a resource name"));
    } else if is_of_container {
        resource_names::of_container(named, &format!("{at}.name"), errors);
    }
    if is_of_container && container.is_empty() {
        errors.push(FieldError::required(format!("{at}.container"), "must specify a container"));
    } else if is_of_container {
        refuse(container, &format!("{at}.container"), names::label(container), errors);
    }
}

fn metric_target(target: &Value, at: &str, errors: &mut Vec<FieldError>) {
    let of = text(target, &["type"]);
    if of.is_empty() {
        errors.push(FieldError::required(format!("{at}.type"), "must specify a metric target type"));
    }
    if !matches!(of, "Utilization" | "Value" | "AverageValue") {
        let why = "must be either Utilization, Value, or AverageValue";
        errors.push(FieldError::invalid(format!("{at}.type"), &of.into(), why));
    }
    for field in ["value", "averageValue"] {
        if quantity::nanos(text(target, &[field])).is_some_and(|nanos| nanos <= 0) {
            errors.push(FieldError::invalid(format!("{at}.{field}"), &target[field], "must be positive"));
        }
    }
    if let Some(percent) = int(target, &["averageUtilization"]).filter(|percent| *percent < 1) {
        errors.push(FieldError::invalid(format!("{at}.averageUtilization"), &percent.into(), "must be greater than 0"));
    }
}

/// Validates the rules of one direction.
fn scaling(rules: &Value, at: &str, errors: &mut Vec<FieldError>) {
    if let Some(window) = int(rules, &["stabilizationWindowSeconds"]) {
        let field = format!("{at}.stabilizationWindowSeconds");
        if window < 0 {
            errors.push(FieldError::invalid(field, &window.into(), "must be greater than or equal to zero"));
        } else if window > LONGEST_WINDOW {
            let why = format!("must be less than or equal to {LONGEST_WINDOW}");
            errors.push(FieldError::invalid(field, &window.into(), why));
        }
    }
    let select = &rules["selectPolicy"];
    let selects = ["Disabled", "Max", "Min"];
    if select.as_str().is_some_and(|select| !selects.contains(&select)) {
        errors.push(FieldError::not_supported(format!("{at}.selectPolicy"), select, &selects));
    }
    let policies = list(rules, &["policies"]);
    if policies.is_empty() {
        errors.push(FieldError::required(format!("{at}.policies"), "must specify at least one Policy"));
    }
    for (i, one) in policies.iter().enumerate() {
        policy(one, &format!("{at}.policies[{i}]"), errors);
    }
    if quantity::nanos(text(rules, &["tolerance"])).is_some_and(|nanos| nanos < 0) {
        errors.push(FieldError::invalid(format!("{at}.tolerance"), &rules["tolerance"], NEGATIVE));
    }
}

fn policy(policy: &Value, at: &str, errors: &mut Vec<FieldError>) {
    let (of, types) = (text(policy, &["type"]), ["Percent", "Pods"]);
    if !types.contains(&of) {
        errors.push(FieldError::not_supported(format!("{at}.type"), &of.into(), &types));
    }
    for field in ["value", "periodSeconds"] {
        let number = int(policy, &[field]).unwrap_or(0);
        if number <= 0 {
            errors.push(FieldError::invalid(format!("{at}.{field}"), &number.into(), "must be greater than zero"));
        } else if field == "periodSeconds" && number > LONGEST_PERIOD {
            let why = format!("must be less than or equal to {LONGEST_PERIOD}");
            errors.push(FieldError::invalid(format!("{at}.{field}"), &number.into(), why));
        }
    }
}

#[cfg(test)]
mod tests {
    use substrate::json::json;

    use super::*;

    fn scaler(target: Value, metrics: Value, behavior: Value) -> Value {
        json!({"spec": {"minReplicas": 1, "maxReplicas": 3, "scaleTargetRef": target, "metrics": metrics,
            "behavior": behavior}})
    }

    fn refused(object: &Value, old: &Value) -> Vec<String> {
        let mut errors = Vec::new();
        check(object, old, &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    fn of_metrics(metrics: Value) -> Vec<String> {
        let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
        refused(&scaler(target, metrics, Value::Null), &Value::Null)
    }

    #[test]
    fn a_target_has_the_group_of_its_kind() {
        let of = |version: &str, kind: &str| {
            let target = json!({"apiVersion": version, "kind": kind, "name": "web"});
            scaler(target, json!([]), Value::Null)
        };
        let none = "spec.scaleTargetRef.apiVersion: Invalid value: \"v1\": apiVersion must specify API group";
        assert_eq!(refused(&of("v1", "Deployment"), &Value::Null), [none]);
        let odd = "spec.scaleTargetRef.apiVersion: Invalid value: \"a/b/c\": unexpected GroupVersion string: a/b/c";
        assert_eq!(refused(&of("a/b/c", "ReplicationController"), &Value::Null), [odd]);
        for (version, kind) in [("v1", "ReplicationController"), ("apps/v1", "Deployment")] {
            assert!(refused(&of(version, kind), &Value::Null).is_empty());
        }
        // What is stored stays.
        assert!(refused(&of("v1", "Deployment"), &of("v1", "Deployment")).is_empty());
        assert_eq!(refused(&of("v1", "Deployment"), &of("apps/v1", "Deployment")), [none]);
    }

    #[test]
    fn zero_replicas_stay_only_with_a_metric_from_outside() {
        let mut object = scaler(json!({"apiVersion": "a/v1", "kind": "A", "name": "a"}), json!([]), Value::Null);
        object["spec"]["minReplicas"] = 0.into();
        let metrics = "spec.metrics: Forbidden: must specify at least one Object or External metric to support scaling \
                       to zero replicas";
        let bound = "spec.minReplicas: Invalid value: 0: must be greater than or equal to 1";
        assert_eq!(refused(&object, &Value::Null), [bound, metrics]);
        assert_eq!(refused(&object, &object), [metrics]);
    }

    #[test]
    fn a_metric_has_one_source_of_its_type() {
        let types = "supported values: \"ContainerResource\", \"External\", \"Object\", \"Pods\", \"Resource\"";
        let unknown = format!("spec.metrics[0].type: Unsupported value: \"\": {types}");
        let missing = "spec.metrics[0].type: Required value: must specify a metric source type";
        assert_eq!(of_metrics(json!([{}])), [missing, &unknown, &unknown]);
        let target = json!({"type": "Value", "value": "1"});
        let external = json!({"metric": {"name": "queue"}, "target": target});
        assert!(of_metrics(json!([{"type": "External", "external": external}])).is_empty());
        assert_eq!(
            of_metrics(json!([{"type": "Pods", "external": external, "resource": {"name": "cpu"}}])),
            [
                "spec.metrics[0].pods: Required value: must populate information for the given metric source",
                "spec.metrics[0].external: Forbidden: must populate the given metric source only",
                "spec.metrics[0].resource: Forbidden: must populate the given metric source only",
            ]
        );
    }

    #[test]
    fn a_source_has_names_and_a_target() {
        let object = json!({"describedObject": {"kind": "Ingress", "name": "a/b"}, "metric": {}, "target": {}});
        let at = "spec.metrics[0].object";
        assert_eq!(
            of_metrics(json!([{"type": "Object", "object": object}])),
            [
                &*format!("{at}.describedObject.name: Invalid value: \"a/b\": may not contain '/'"),
                &format!("{at}.metric.name: Required value: must specify a metric name"),
                &format!("{at}.target.type: Required value: must specify a metric target type"),
                &format!("{at}.target.type: Invalid value: \"\": must be either Utilization, Value, or AverageValue"),
                &format!("{at}.target.averageValue: Required value: must set either a target value or averageValue"),
            ]
        );
        let target = json!({"type": "Utilization", "averageUtilization": 0, "averageValue": "0"});
        let container = json!({"name": "disk", "container": "A", "target": target});
        let found = of_metrics(json!([{"type": "ContainerResource", "containerResource": container}]));
        let at = "spec.metrics[0].containerResource";
        for expected in [
            format!("{at}.name: Invalid value: \"disk\": must be a standard resource for containers"),
            format!("{at}.target.averageValue: Invalid value: \"0\": must be positive"),
            format!("{at}.target.averageUtilization: Invalid value: 0: must be greater than 0"),
            format!(
                "{at}.target.averageValue: Forbidden: may not set both a target raw value and a target utilization"
            ),
        ] {
            assert!(found.contains(&expected), "{expected} in {found:?}");
        }
        assert!(found.iter().any(|error| error.starts_with(&format!("{at}.container: Invalid value: \"A\""))));
        let pods = json!({"metric": {"name": "rate"}, "target": {"type": "Value", "value": "1"}});
        assert_eq!(
            of_metrics(json!([{"type": "Pods", "pods": pods}])),
            ["spec.metrics[0].pods.target.averageValue: Required value: must specify a positive target averageValue"]
        );
    }

    #[test]
    fn a_direction_has_policies_and_a_window() {
        let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
        let of = |rules: Value| refused(&scaler(target.clone(), json!([]), json!({"scaleDown": rules})), &Value::Null);
        let at = "spec.behavior.scaleDown";
        assert_eq!(
            of(
                json!({"stabilizationWindowSeconds": 3601, "selectPolicy": "Median", "policies": [], "tolerance": "-1"})
            ),
            [
                &*format!("{at}.stabilizationWindowSeconds: Invalid value: 3601: must be less than or equal to 3600"),
                &format!(
                    "{at}.selectPolicy: Unsupported value: \"Median\": supported values: \"Disabled\", \"Max\", \"Min\""
                ),
                &format!("{at}.policies: Required value: must specify at least one Policy"),
                &format!("{at}.tolerance: Invalid value: \"-1\": must be greater than or equal to 0"),
            ]
        );
        assert_eq!(
            of(json!({"policies": [{"type": "Nodes", "value": 0, "periodSeconds": 1801}]})),
            [
                &*format!(
                    "{at}.policies[0].type: Unsupported value: \"Nodes\": supported values: \"Percent\", \"Pods\""
                ),
                &format!("{at}.policies[0].value: Invalid value: 0: must be greater than zero"),
                &format!("{at}.policies[0].periodSeconds: Invalid value: 1801: must be less than or equal to 1800"),
            ]
        );
        assert!(of(json!({"policies": [{"type": "Pods", "value": 1, "periodSeconds": 15}]})).is_empty());
    }
}
