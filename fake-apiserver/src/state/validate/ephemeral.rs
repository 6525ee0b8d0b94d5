//! Validation of ephemeral containers (`ValidatePodEphemeralContainersUpdate`).

use substrate::json::{Map, Value};

use super::container::{self, Setting, common};
use crate::state::value::{list, text};
use crate::state::{FieldError, FieldFault};

/// Annotation of the mirror of a static pod.
pub(super) const MIRROR: &str = "kubernetes.io/config.mirror";
/// Fields of a container that an ephemeral one lacks.
const FORBIDDEN: [&str; 9] = [
    "ports",
    "resources",
    "resizePolicy",
    "restartPolicy",
    "restartPolicyRules",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
];
const WHY: &str = "cannot be set for an Ephemeral Container";

/// Refuses ephemeral containers of a new pod: they are added later.
pub(super) fn create(pod: &Value, errors: &mut Vec<FieldError>) {
    if !list(pod, &["spec", "ephemeralContainers"]).is_empty() {
        errors.push(FieldError::forbidden("spec.ephemeralContainers", "cannot be set on create"));
    }
}

/// Validates the ephemeral containers of a pod: those that it has stay as they are.
pub(in crate::state) fn update(pod: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    if !text(old, &["metadata", "annotations", MIRROR]).is_empty() {
        errors.push(FieldError::forbidden("", "static pods do not support ephemeral containers"));
        return;
    }
    let named = |field| list(pod, &["spec", field]).iter().map(|container| text(container, &["name"]));
    let mut seen: Vec<&str> = named("containers").chain(named("initContainers")).collect();
    let others = seen.clone();
    // The volumes were checked when the pod was created.
    let setting = Setting::of(&pod["spec"], &[], &mut Vec::new());
    let containers = list(pod, &["spec", "ephemeralContainers"]);
    for (i, one) in containers.iter().enumerate() {
        let (at, name) = (format!("spec.ephemeralContainers[{i}]"), text(one, &["name"]));
        common(one, &at, &setting, errors);
        container::image(one, &at, errors);
        if seen.contains(&name) {
            errors.push(FieldError::duplicate(format!("{at}.name"), &name.into()));
        }
        seen.push(name);
        let target = text(one, &["targetContainerName"]);
        if !target.is_empty() && !others.contains(&target) {
            errors.push(FieldError {
                field: format!("{at}.targetContainerName"),
                fault: FieldFault::NotFound(format!("{target:?}")),
                detail: String::new(),
            });
        }
        for field in FORBIDDEN.iter().filter(|field| is_set(&one[**field])) {
            errors.push(FieldError::forbidden(format!("{at}.{field}"), WHY));
        }
        for (k, mount) in list(one, &["volumeMounts"]).iter().enumerate() {
            for field in ["subPath", "subPathExpr"] {
                if !text(mount, &[field]).is_empty() {
                    errors.push(FieldError::forbidden(format!("{at}.volumeMounts[{k}].{field}"), WHY));
                }
            }
        }
    }
    for before in list(old, &["spec", "ephemeralContainers"]) {
        let name = text(before, &["name"]);
        let why = match containers.iter().find(|one| text(one, &["name"]) == name) {
            None => "removed",
            Some(one) if one != before => "changed",
            Some(_) => continue,
        };
        let why = format!("existing ephemeral containers {name:?} may not be {why}\n");
        errors.push(FieldError::forbidden("spec.ephemeralContainers", why));
    }
}

/// Returns true unless a value is Go's zero value.
fn is_set(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        _ => !value.as_object().is_some_and(Map::is_empty) && !value.as_array().is_some_and(Vec::is_empty),
    }
}
