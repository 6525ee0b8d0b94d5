//! Pods: what they need, and how little of them may change (`ValidatePodUpdate`).

use substrate::json::Value;

use super::{container, names};
use crate::state::FieldError;
use crate::state::value::{at, int, list, text};

/// What is refused with, followed upstream by a diff.
const IMMUTABLE: &str = "pod updates may not change fields other than \
    `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only \
    additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was \
    previously negative)";

pub(in crate::state) fn create(pod: &Value, errors: &mut Vec<FieldError>) {
    template(pod, &[], errors);
}

/// A pod, or a template of pods whose owner adds volumes of its own.
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
        if let Some(claim) = volume.get("persistentVolumeClaim")
            && text(claim, &["claimName"]).is_empty()
        {
            errors.push(FieldError::required(format!("{at}.persistentVolumeClaim.claimName"), ""));
        }
    }
    seen.extend(added);
    let mut names_seen: Vec<&str> = Vec::new();
    for (i, container) in containers.iter().enumerate() {
        self::container(container, &format!("spec.containers[{i}]"), &seen, &mut names_seen, errors);
    }
    let policy = text(pod, &["spec", "restartPolicy"]);
    if !matches!(policy, "Always" | "OnFailure" | "Never") {
        let supported = ["Always", "OnFailure", "Never"];
        errors.push(FieldError::not_supported("spec.restartPolicy", &policy.into(), &supported));
    }
    container::pod(pod, errors);
}

fn container<'a>(
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
    if text(container, &["image"]).is_empty() {
        errors.push(FieldError::required(format!("{at}.image"), ""));
    }
    container::container(container, at, errors);
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
        if text(mount, &["mountPath"]).is_empty() {
            errors.push(FieldError::required(format!("{at}.volumeMounts[{i}].mountPath"), ""));
        }
    }
}

pub(in crate::state) fn update(pod: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    if pod.get("spec") == old.get("spec") {
        return;
    }
    let (mut new_spec, mut old_spec) = (pod["spec"].clone(), old["spec"].clone());
    let (sent, was) = (list(pod, &["spec", "tolerations"]), list(old, &["spec", "tolerations"]));
    // Tolerations may only be added, or be given another number of seconds.
    let kept = was.iter().all(|t| sent.iter().any(|s| same_toleration(s, t)));
    if !kept {
        errors.push(FieldError::forbidden(
            "spec.tolerations",
            "existing toleration can not be modified except its tolerationSeconds",
        ));
    }
    for spec in [&mut new_spec, &mut old_spec] {
        mask(spec);
    }
    let grace = |p: &Value| int(p, &["spec", "terminationGracePeriodSeconds"]);
    let grace_ok = grace(pod) == grace(old) || (grace(pod) == Some(1) && grace(old).is_some_and(|g| g < 0));
    if new_spec != old_spec || !grace_ok {
        errors.push(FieldError::forbidden("spec", IMMUTABLE));
    }
}

fn same_toleration(a: &Value, b: &Value) -> bool {
    ["key", "operator", "value", "effect"].iter().all(|field| at(a, &[field]) == at(b, &[field]))
}

/// Takes out of a spec what may change.
fn mask(spec: &mut Value) {
    let Some(fields) = spec.as_object_mut() else { return };
    for field in ["activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds"] {
        fields.remove(field);
    }
    for field in ["containers", "initContainers"] {
        for container in fields.get_mut(field).and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(container) = container.as_object_mut() {
                container.remove("image");
            }
        }
    }
    // Gates may be taken away, one by one.
    fields.remove("schedulingGates");
}
