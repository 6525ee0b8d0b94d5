//! Cells of workloads.

use jiff::Timestamp;
use substrate::json::Value;

use super::age;
use super::cells::{list, name_and_age, or, text};
use crate::kinds::Kind;

/// Returns the cells of a workload; `None` for other kinds.
pub(super) fn cells(kind: &Kind, object: &Value, now: Timestamp) -> Option<Vec<Value>> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let (name, age) = name_and_age(object, now);
    let count = |field: &str| Value::from(number(&status[field]));
    let (containers, images) = containers(&spec["template"]["spec"]);
    let selector = Value::from(selector(&spec["selector"]));
    Some(match kind.plural {
        "deployments" => {
            let ready = format!("{}/{}", number(&status["readyReplicas"]), number(&spec["replicas"]));
            let (updated, available) = (count("updatedReplicas"), count("availableReplicas"));
            // Without terms, the other kinds print `<none>`.
            let selector = if selector == "<none>" { "".into() } else { selector };
            vec![name, ready.into(), updated, available, age, containers, images, selector]
        }
        "replicasets" | "replicationcontrollers" => vec![
            name,
            number(&spec["replicas"]).into(),
            count("replicas"),
            count("readyReplicas"),
            age,
            containers,
            images,
            selector,
        ],
        "statefulsets" => {
            let ready = format!("{}/{}", number(&status["readyReplicas"]), number(&spec["replicas"]));
            vec![name, ready.into(), age, containers, images]
        }
        "daemonsets" => {
            let on = labels(&spec["template"]["spec"]["nodeSelector"]);
            vec![
                name,
                count("desiredNumberScheduled"),
                count("currentNumberScheduled"),
                count("numberReady"),
                count("updatedNumberScheduled"),
                count("numberAvailable"),
                on.into(),
                age,
                containers,
                images,
                selector,
            ]
        }
        "jobs" => vec![
            name,
            state(object).into(),
            completions(object).into(),
            duration(status, now).into(),
            age,
            containers,
            images,
            selector,
        ],
        "cronjobs" => {
            let template = &spec["jobTemplate"]["spec"];
            let (containers, images) = self::containers(&template["template"]["spec"]);
            let last = &status["lastScheduleTime"];
            let last = if last.is_null() { "<none>".to_owned() } else { age::since(last, now) };
            let suspended = match spec["suspend"].as_bool() {
                None => "<unset>",
                Some(true) => "True",
                Some(false) => "False",
            };
            vec![
                name,
                text(&spec["schedule"]),
                or(&spec["timeZone"], "<none>"),
                suspended.into(),
                list(&status["active"]).len().into(),
                last.into(),
                age,
                containers,
                images,
                self::selector(&template["selector"]).into(),
            ]
        }
        "podtemplates" => {
            let template = &object["template"];
            let (containers, images) = self::containers(&template["spec"]);
            vec![name, containers, images, labels(&template["metadata"]["labels"]).into()]
        }
        "controllerrevisions" => {
            let owners = list(&object["metadata"]["ownerReferences"]);
            let controller = owners.iter().find(|owner| owner["controller"] == true).map(|owner| {
                let group = owner["apiVersion"].as_str().and_then(|v| v.split_once('/')).map_or("", |(group, _)| group);
                let kind = owner["kind"].as_str().unwrap_or_default().to_lowercase();
                let dot = if group.is_empty() { "" } else { "." };
                format!("{kind}{dot}{group}/{}", owner["name"].as_str().unwrap_or_default())
            });
            vec![
                name,
                controller.unwrap_or_else(|| "<none>".to_owned()).into(),
                number(&object["revision"]).into(),
                age,
            ]
        }
        "horizontalpodautoscalers" => autoscaler(object, name, age),
        _ => return None,
    })
}

pub(super) fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or(0)
}

/// Returns names and images of the containers.
fn containers(pod: &Value) -> (Value, Value) {
    let all = |field: &str| {
        let words: Vec<&str> = list(&pod["containers"]).iter().filter_map(|c| c[field].as_str()).collect();
        Value::from(words.join(","))
    };
    (all("name"), all("image"))
}

/// Formats a map of labels.
pub(super) fn labels(labels: &Value) -> String {
    let pairs: Vec<String> = labels
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    if pairs.is_empty() { "<none>".to_owned() } else { pairs.join(",") }
}

/// Formats a label selector; that of a ReplicationController is a plain map.
pub(super) fn selector(selector: &Value) -> String {
    if selector.get("matchLabels").is_none() && selector.get("matchExpressions").is_none() {
        return labels(selector);
    }
    let labels = selector["matchLabels"].as_object().into_iter().flatten();
    let mut terms: Vec<(&str, String)> =
        labels.map(|(key, value)| (key.as_str(), format!("{key}={}", value.as_str().unwrap_or_default()))).collect();
    for term in list(&selector["matchExpressions"]) {
        let key = term["key"].as_str().unwrap_or_default();
        let mut values: Vec<&str> = list(&term["values"]).iter().filter_map(Value::as_str).collect();
        values.sort_unstable();
        let text = match term["operator"].as_str() {
            Some("In") => format!("{key} in ({})", values.join(",")),
            Some("NotIn") => format!("{key} notin ({})", values.join(",")),
            Some("DoesNotExist") => format!("!{key}"),
            _ => key.to_owned(),
        };
        terms.push((key, text));
    }
    terms.sort_by_key(|(key, _)| *key);
    let terms: Vec<String> = terms.into_iter().map(|(_, text)| text).collect();
    if terms.is_empty() { "<none>".to_owned() } else { terms.join(",") }
}

/// Returns true if a condition is true.
fn has(object: &Value, condition: &str) -> bool {
    list(&object["status"]["conditions"]).iter().any(|c| c["type"] == condition && c["status"] == "True")
}

fn state(job: &Value) -> &'static str {
    if has(job, "Complete") {
        "Complete"
    } else if has(job, "Failed") {
        "Failed"
    } else if !job["metadata"]["deletionTimestamp"].is_null() {
        "Terminating"
    } else if has(job, "Suspended") {
        "Suspended"
    } else if has(job, "FailureTarget") {
        "FailureTarget"
    } else if has(job, "SuccessCriteriaMet") {
        "SuccessCriteriaMet"
    } else {
        "Running"
    }
}

fn completions(job: &Value) -> String {
    let (spec, succeeded) = (&job["spec"], number(&job["status"]["succeeded"]));
    match (spec["completions"].as_i64(), spec["parallelism"].as_i64()) {
        (Some(wanted), _) => format!("{succeeded}/{wanted}"),
        (None, Some(parallel)) if parallel > 1 => format!("{succeeded}/1 of {parallel}"),
        _ => format!("{succeeded}/1"),
    }
}

fn duration(status: &Value, now: Timestamp) -> String {
    let Some(_) = age::parse(&status["startTime"]) else { return String::new() };
    let end = age::parse(&status["completionTime"]).unwrap_or(now);
    age::since(&status["startTime"], end)
}

fn autoscaler(object: &Value, name: Value, age: Value) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let target = &spec["scaleTargetRef"];
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let targets: Vec<String> = if let Some(percent) = spec["targetCPUUtilizationPercentage"].as_i64() {
        let now = status["currentCPUUtilizationPercentage"].as_i64();
        vec![format!("cpu: {}/{percent}%", now.map_or("<unknown>".to_owned(), |n| format!("{n}%")))]
    } else {
        list(&spec["metrics"])
            .iter()
            .enumerate()
            .map(|(i, metric)| {
                self::target(metric, &list(&status["currentMetrics"]).get(i).cloned().unwrap_or_default())
            })
            .collect()
    };
    // At most two metrics are shown.
    let rest = targets.len().saturating_sub(2);
    let mut shown = targets[..targets.len() - rest].join(", ");
    if rest > 0 {
        shown = format!("{shown} + {rest} more...");
    }
    vec![
        name,
        format!("{}/{}", word(&target["kind"]), word(&target["name"])).into(),
        if targets.is_empty() { "<none>".into() } else { shown.into() },
        spec["minReplicas"].as_i64().map_or("<unset>".to_owned(), |n| n.to_string()).into(),
        number(&spec["maxReplicas"]).into(),
        number(&status["currentReplicas"]).into(),
        age,
    ]
}

/// Formats one metric: present value and target.
fn target(metric: &Value, current: &Value) -> String {
    let (source, label) = match metric["type"].as_str().unwrap_or_default() {
        "Resource" => ("resource", metric["resource"]["name"].as_str().unwrap_or_default()),
        "ContainerResource" => ("containerResource", metric["containerResource"]["name"].as_str().unwrap_or_default()),
        "Pods" => ("pods", ""),
        "Object" => ("object", ""),
        "External" => ("external", ""),
        _ => return "<unknown type>".to_owned(),
    };
    let (wanted, is) = (&metric[source]["target"], &current[source]["current"]);
    let shown = |field: &str, unit: &str| {
        let show = |v: &Value| match v {
            Value::Null => "<unknown>".to_owned(),
            Value::String(text) => text.to_string(),
            other => format!("{other}{unit}"),
        };
        let average = if field == "averageValue" && source != "pods" && label.is_empty() { " (avg)" } else { "" };
        format!("{}/{}{average}", show(&is[field]), show(&wanted[field]))
    };
    let text = if !wanted["averageUtilization"].is_null() {
        shown("averageUtilization", "%")
    } else if !wanted["averageValue"].is_null() {
        shown("averageValue", "")
    } else if label.is_empty() {
        shown("value", "")
    } else {
        "<unknown>/<auto>".to_owned()
    };
    if label.is_empty() { text } else { format!("{label}: {text}") }
}

#[cfg(test)]
mod tests {
    use substrate::json::json;

    use super::*;

    #[test]
    fn selectors_and_labels_read_as_kubectl_shows_them() {
        assert_eq!(
            selector(&json!({"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "c", "operator": "Exists"}]})),
            "a=b,c"
        );
        assert_eq!((selector(&json!({})), labels(&Value::Null)), ("<none>".to_owned(), "<none>".to_owned()));
        assert_eq!(selector(&json!({"app": "web"})), "app=web");
    }

    #[test]
    fn a_job_says_how_far_it_is() {
        let job = json!({"spec": {"completions": 3}, "status": {"succeeded": 1, "startTime": "2026-01-01T00:00:00Z"}});
        assert_eq!((completions(&job).as_str(), state(&job)), ("1/3", "Running"));
        assert_eq!(duration(&job["status"], "2026-01-01T00:00:09Z".parse().unwrap()), "9s");
    }
}
