//! Validation of new and updated pods (`ValidatePodUpdate`).

use substrate::json::Value;

use super::{container, ephemeral, names, surroundings};
use crate::state::value::{at, int, list, text};
use crate::state::{FieldError, internal};

/// Message about immutable fields, followed by the difference.
const IMMUTABLE: &str = "pod updates may not change fields other than \
    `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only \
    additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was \
    previously negative)";

pub(in crate::state) fn create(pod: &Value, errors: &mut Vec<FieldError>) {
    template(pod, &[], errors);
    ephemeral::create(pod, errors);
}

/// Validates a pod, or a pod template whose owner adds its own volumes.
pub(in crate::state) fn template<'a>(pod: &'a Value, added: &[&'a str], errors: &mut Vec<FieldError>) {
    let containers = list(pod, &["spec", "containers"]);
    if containers.is_empty() {
        errors.push(FieldError::required("spec.containers", ""));
    }
    let volumes = list(pod, &["spec", "volumes"]);
    let mut seen: Vec<&str> = Vec::new();
    for (i, volume) in volumes.iter().enumerate() {
        let name = text(volume, &["name"]);
        let at = format!("spec.volumes[{i}]");
        if name.is_empty() {
            errors.push(FieldError::required(format!("{at}.name"), ""));
        } else if let Some(why) = names::label(name) {
            errors.push(FieldError::invalid(format!("{at}.name"), &name.into(), why));
        } else if seen.contains(&name) {
            errors.push(FieldError::duplicate(format!("{at}.name"), &name.into()));
        }
        seen.push(name);
        surroundings::volume(volume, &at, errors);
        if let Some(claim) = volume.get("persistentVolumeClaim")
            && text(claim, &["claimName"]).is_empty()
        {
            errors.push(FieldError::required(format!("{at}.persistentVolumeClaim.claimName"), ""));
        }
    }
    seen.extend(added);
    let mut names_seen: Vec<&str> = Vec::new();
    for (i, container) in containers.iter().enumerate() {
        common(container, &format!("spec.containers[{i}]"), &seen, &mut names_seen, errors);
    }
    for (i, container) in list(pod, &["spec", "initContainers"]).iter().enumerate() {
        let at = format!("spec.initContainers[{i}]");
        common(container, &at, &seen, &mut names_seen, errors);
        if text(container, &["restartPolicy"]) == "Always" {
            continue;
        }
        for field in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
            if !container[field].is_null() {
                let why = "may not be set for init containers without restartPolicy=Always";
                errors.push(FieldError::forbidden(format!("{at}.{field}"), why));
            }
        }
    }
    let policy = text(pod, &["spec", "restartPolicy"]);
    if !matches!(policy, "Always" | "OnFailure" | "Never") {
        let supported = ["Always", "OnFailure", "Never"];
        errors.push(FieldError::not_supported("spec.restartPolicy", &policy.into(), &supported));
    }
    container::pod(pod, errors);
    surroundings::pod(pod, errors);
}

/// Validates the fields that containers of all types have.
pub(super) fn common<'a>(
    container: &'a Value,
    at: &str,
    volumes: &[&str],
    seen: &mut Vec<&'a str>,
    errors: &mut Vec<FieldError>,
) {
    let name = text(container, &["name"]);
    if name.is_empty() {
        errors.push(FieldError::required(format!("{at}.name"), ""));
    } else if let Some(why) = names::label(name) {
        errors.push(FieldError::invalid(format!("{at}.name"), &name.into(), why));
    } else if seen.contains(&name) {
        errors.push(FieldError::duplicate(format!("{at}.name"), &name.into()));
    }
    seen.push(name);
    let image = text(container, &["image"]);
    if image.is_empty() {
        errors.push(FieldError::required(format!("{at}.image"), ""));
    } else if image.trim() != image {
        let why = "must not have leading or trailing whitespace";
        errors.push(FieldError::invalid(format!("{at}.image"), &image.into(), why));
    }
    container::container(container, at, errors);
    let mut paths: Vec<&str> = Vec::new();
    for (i, mount) in list(container, &["volumeMounts"]).iter().enumerate() {
        let volume = text(mount, &["name"]);
        if !volumes.contains(&volume) {
            let field = format!("{at}.volumeMounts[{i}].name");
            errors.push(FieldError {
                field,
                fault: crate::state::FieldFault::NotFound(format!("{volume:?}")),
                detail: String::new(),
            });
        }
        let path = text(mount, &["mountPath"]);
        if path.is_empty() {
            errors.push(FieldError::required(format!("{at}.volumeMounts[{i}].mountPath"), ""));
        } else if paths.contains(&path) {
            let field = format!("{at}.volumeMounts[{i}].mountPath");
            errors.push(FieldError::invalid(field, &path.into(), "must be unique"));
        }
        paths.push(path);
    }
}

pub(in crate::state) fn update(pod: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    if pod.get("spec") == old.get("spec") {
        return;
    }
    for field in ["containers", "initContainers"] {
        if list(pod, &["spec", field]).len() != list(old, &["spec", field]).len() {
            let why = "pod updates may not add or remove containers";
            errors.push(FieldError::forbidden(format!("spec.{field}"), why));
            return;
        }
    }
    if let Some(error) = deadline(&pod["spec"]["activeDeadlineSeconds"], &old["spec"]["activeDeadlineSeconds"]) {
        errors.push(error);
        return;
    }
    // Scheduling gates may only be removed.
    let gates = |pod| list(pod, &["spec", "schedulingGates"]).iter().map(|gate| text(gate, &["name"]));
    for gate in gates(pod).filter(|gate| !gates(old).any(|old| old == *gate)) {
        let why = format!("only deletion is allowed, but found new scheduling gate '{gate}'");
        errors.push(FieldError::forbidden("spec.schedulingGates", why));
    }
    let (mut new_spec, old_spec) = (pod["spec"].clone(), &old["spec"]);
    let (sent, was) = (list(pod, &["spec", "tolerations"]), list(old, &["spec", "tolerations"]));
    // Tolerations may be added, or get other tolerationSeconds.
    let kept = was.iter().all(|t| sent.iter().any(|s| same_toleration(s, t)));
    if !kept {
        errors.push(FieldError::forbidden(
            "spec.tolerations",
            "existing toleration can not be modified except its tolerationSeconds",
        ));
    }
    restore(&mut new_spec, old_spec);
    // A gated pod's nodeSelector may be narrowed.
    if gates(old).next().is_some() && new_spec["nodeSelector"] != old_spec["nodeSelector"] {
        let (new, old) = (&new_spec["nodeSelector"], &old_spec["nodeSelector"]);
        if old.as_object().into_iter().flatten().any(|(key, value)| new.get(key) != Some(value)) {
            let why = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
            errors.push(FieldError::invalid("spec.nodeSelector", new, why));
        }
        put(&mut new_spec, old_spec, "nodeSelector");
    }
    if new_spec != *old_spec {
        let why = format!("{IMMUTABLE}\n{}", internal::pod_diff(old_spec, &new_spec));
        errors.push(FieldError::forbidden("spec", why));
    }
}

/// Validates a change of the deadline: it may be set, or brought forward.
fn deadline(new: &Value, old: &Value) -> Option<FieldError> {
    const AT: &str = "spec.activeDeadlineSeconds";
    match (new.as_i64(), old.as_i64()) {
        (None, Some(_)) => {
            Some(FieldError::invalid(AT, &Value::Null, "must not update from a positive integer to nil value"))
        }
        (Some(seconds), _) if i32::try_from(seconds).is_err() || seconds < 0 => {
            Some(FieldError::invalid(AT, new, "must be between 0 and 2147483647, inclusive"))
        }
        (Some(seconds), Some(before)) if before < seconds => {
            Some(FieldError::invalid(AT, new, "must be less than or equal to previous value"))
        }
        _ => None,
    }
}

fn same_toleration(a: &Value, b: &Value) -> bool {
    ["key", "operator", "value", "effect"].iter().all(|field| at(a, &[field]) == at(b, &[field]))
}

/// Sets a field of a spec to its old value.
fn put(spec: &mut Value, old: &Value, field: &str) {
    if let Some(fields) = spec.as_object_mut() {
        crate::fields::value::put(fields, field, old.get(field));
    }
}

/// Resets the mutable fields to their old values.
fn restore(spec: &mut Value, old: &Value) {
    for field in ["activeDeadlineSeconds", "tolerations", "schedulingGates"] {
        put(spec, old, field);
    }
    // A negative grace period may become 1.
    let grace = |spec: &Value| int(spec, &["terminationGracePeriodSeconds"]);
    if grace(spec) == Some(1) && grace(old).is_some_and(|before| before < 0) {
        put(spec, old, "terminationGracePeriodSeconds");
    }
    for field in ["containers", "initContainers"] {
        let before = list(old, &[field]);
        let containers = spec.get_mut(field).and_then(Value::as_array_mut).into_iter().flatten();
        for (container, before) in containers.zip(before) {
            put(container, before, "image");
        }
    }
}
