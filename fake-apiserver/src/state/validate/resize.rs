//! Validation of the resized containers of a pod (`ValidatePodResize`).

use substrate::json::{Map, Value};

use super::ephemeral::MIRROR;
use crate::state::FieldError;
use crate::state::default::qos_class;
use crate::state::value::{at, list, text};

const ONLY: &str = "only cpu and memory resources are mutable";

/// Validates a pod whose resources were changed by its subresource `resize`.
pub(in crate::state) fn update(pod: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    if !text(old, &["metadata", "annotations", MIRROR]).is_empty() {
        return errors.push(FieldError::forbidden("", "static pods cannot be resized"));
    }
    if text(old, &["spec", "os", "name"]) == "windows" {
        return errors.push(FieldError::forbidden("", "windows pods cannot be resized"));
    }
    let class = match text(old, &["status", "qosClass"]) {
        "" => qos_class(old),
        class => class,
    };
    if qos_class(pod) != class {
        let why = "Pod QOS Class may not change as a result of resizing";
        errors.push(FieldError::invalid("spec", &text(pod, &["status", "qosClass"]).into(), why));
    }
    let statuses = list(old, &["status", "containerStatuses"]);
    let running = statuses.iter().find(|status| at(status, &["state", "running"]).is_some());
    if running.is_some_and(|status| at(status, &["resources"]).is_none()) {
        errors.push(FieldError::forbidden("spec", "Pod running on node without support for resize"));
    }
    let before = errors.len();
    order(pod, old, errors);
    if errors.len() > before {
        return;
    }
    for field in ["initContainers", "containers"] {
        let pairs = list(pod, &["spec", field]).iter().zip(list(old, &["spec", field]));
        for (i, (new, old)) in pairs.enumerate() {
            let at = format!("spec.{field}[{i}].resources");
            for (part, why) in
                [("requests", "resource requests cannot be removed"), ("limits", "resource limits cannot be removed")]
            {
                let (new, old) = (amounts(new, part), amounts(old, part));
                if old.iter().flat_map(|old| old.keys()).any(|name| new.is_none_or(|new| new.get(name).is_none())) {
                    errors.push(FieldError::forbidden(format!("{at}.{part}"), why));
                }
            }
            if others(new) == others(old) {
                continue;
            }
            errors.push(match field {
                "containers" => FieldError::forbidden("spec", ONLY),
                _ => {
                    let why = "only cpu and memory resources for init or sidecar containers are mutable";
                    FieldError::forbidden(format!("spec.initContainers[{i}]"), why)
                }
            });
        }
    }
}

/// Refuses containers that were added, removed, renamed or reordered (`validatePodResizeContainerOrdering`).
fn order(pod: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    for field in ["containers", "initContainers"] {
        let (new, old) = (list(pod, &["spec", field]), list(old, &["spec", field]));
        if new.len() != old.len() {
            let why = format!("{field} may not be added or removed on resize");
            errors.push(FieldError::forbidden(format!("spec.{field}"), why));
            continue;
        }
        for (i, (new, old)) in new.iter().zip(old).enumerate() {
            if text(new, &["name"]) != text(old, &["name"]) {
                let why = format!("{field} may not be renamed or reordered on resize");
                errors.push(FieldError::forbidden(format!("spec.{field}[{i}].name"), why));
            }
        }
    }
}

fn amounts<'a>(container: &'a Value, part: &str) -> Option<&'a Map> {
    at(container, &["resources", part]).and_then(Value::as_object)
}

/// Returns the resources that a resize may not change: all but cpu and memory.
fn others(container: &Value) -> Vec<(&str, String, &Value)> {
    let named = ["requests", "limits"].into_iter().flat_map(|part| {
        let amounts = amounts(container, part).into_iter().flat_map(|amounts| amounts.iter());
        amounts.map(move |(name, amount)| (part, name.to_string(), amount))
    });
    let mut named: Vec<_> = named.filter(|(_, name, _)| !["cpu", "memory"].contains(&name.as_str())).collect();
    named.sort_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
    named
}
