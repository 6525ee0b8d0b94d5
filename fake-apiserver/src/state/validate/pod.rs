//! Validation of new and updated pods (`ValidatePodUpdate`).

use substrate::json::{Value, json};

use super::container::{self, Setting, one_of};
use super::{
    ephemeral, meta, names, operating_system, refuse, resources, scheduling, security, selector, surroundings,
};
use crate::state::value::{at, int, list, text};
use crate::state::{FieldError, internal};

/// Message about immutable fields, followed by the difference.
const IMMUTABLE: &str = "pod updates may not change fields other than \
    `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only \
    additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was \
    previously negative)";

const DNS_POLICIES: &[&str] = &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
const MAX_DEADLINE: i64 = 2_147_483_647;
/// Annotation with the cost of deleting a pod, compared with others of its ReplicaSet.
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

pub(in crate::state) fn create(pod: &Value, errors: &mut Vec<FieldError>) {
    annotations(pod, "metadata.annotations", errors);
    spec(pod, &[], true, errors);
    images(pod, errors);
    ephemeral::create(pod, errors);
    let is_gated = !list(pod, &["spec", "schedulingGates"]).is_empty();
    if is_gated && !text(pod, &["spec", "nodeName"]).is_empty() {
        let why = "cannot be set until all schedulingGates have been cleared";
        errors.push(FieldError::forbidden("spec.nodeName", why));
    }
}

/// Validates a pod template, whose owner adds volumes. Upstream names its labels and annotations without `metadata`.
pub(in crate::state) fn template<'a>(pod: &'a Value, added: &[&'a str], errors: &mut Vec<FieldError>) {
    selector::labels(&pod["metadata"]["labels"], "labels", errors);
    meta::annotations(&pod["metadata"]["annotations"], "annotations", errors);
    annotations(pod, "annotations", errors);
    spec(pod, added, false, errors);
    if !list(pod, &["spec", "ephemeralContainers"]).is_empty() {
        let why = "ephemeral containers not allowed in pod template";
        errors.push(FieldError::forbidden("spec.ephemeralContainers", why));
    }
}

/// Validates annotations that mean something for pods.
fn annotations(pod: &Value, at: &str, errors: &mut Vec<FieldError>) {
    let annotation = |key: &str| pod["metadata"]["annotations"].get(key).and_then(Value::as_str);
    if let Some(value) = annotation(ephemeral::MIRROR)
        && text(pod, &["spec", "nodeName"]).is_empty()
    {
        let why = "must set spec.nodeName if mirror pod annotation is set";
        errors.push(FieldError::invalid(format!("{at}[{}]", ephemeral::MIRROR), &value.into(), why));
    }
    if let Some(cost) = annotation(DELETION_COST)
        && !is_cost(cost)
    {
        let why = "must be a 32bit integer";
        errors.push(FieldError::invalid(format!("{at}[{DELETION_COST}]"), &cost.into(), why));
    }
}

/// Returns true for a 32-bit integer without a plus sign and without leading zeros.
fn is_cost(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_plain = !text.starts_with('+') && (text == "0" || !digits.starts_with('0'));
    is_plain && text.parse::<i32>().is_ok()
}

/// Validates the spec of a pod or of a template, in upstream's order.
fn spec<'a>(pod: &'a Value, added: &[&'a str], is_pod: bool, errors: &mut Vec<FieldError>) {
    let spec = &pod["spec"];
    let setting = Setting::of(spec, added, errors);
    surroundings::claims(list(spec, &["resourceClaims"]), errors);
    container::containers(spec, &setting, errors);
    container::init_containers(spec, &setting, errors);
    surroundings::host_network(spec, is_pod, errors);
    one_of(&spec["restartPolicy"], "spec.restartPolicy".to_owned(), &["Always", "OnFailure", "Never"], errors);
    one_of(&spec["dnsPolicy"], "spec.dnsPolicy".to_owned(), DNS_POLICIES, errors);
    selector::labels(&spec["nodeSelector"], "spec.nodeSelector", errors);
    security::of_pod(spec, errors);
    scheduling::affinity(&spec["affinity"], errors);
    surroundings::resolver(spec, errors);
    for (i, gate) in list(spec, &["readinessGates"]).iter().enumerate() {
        let condition = text(gate, &["conditionType"]);
        refuse(condition, &format!("spec.readinessGates[{i}].conditionType"), names::qualified(condition), errors);
    }
    scheduling::gates(list(spec, &["schedulingGates"]), errors);
    scheduling::spread(list(spec, &["topologySpreadConstraints"]), errors);
    surroundings::host_users(spec, &setting, errors);
    surroundings::named(spec, errors);
    if let Some(seconds) = int(spec, &["activeDeadlineSeconds"]).filter(|d| !(1..=MAX_DEADLINE).contains(d)) {
        let why = format!("must be between 1 and {MAX_DEADLINE}, inclusive");
        errors.push(FieldError::invalid("spec.activeDeadlineSeconds", &seconds.into(), why));
    }
    surroundings::host_names(spec, errors);
    scheduling::tolerations(list(spec, &["tolerations"]), errors);
    surroundings::aliases(list(spec, &["hostAliases"]), errors);
    for field in ["priorityClassName", "runtimeClassName"] {
        // Only the name of the runtime class is a pointer.
        let name = spec[field].as_str().filter(|name| !name.is_empty() || field == "runtimeClassName");
        if let Some(name) = name {
            refuse(name, &format!("spec.{field}"), names::subdomain(name), errors);
        }
    }
    let policies = ["PreemptLowerPriority", "Never"];
    one_of(&spec["preemptionPolicy"], "spec.preemptionPolicy".to_owned(), &policies, errors);
    if !spec["overhead"].is_null() {
        resources::amounts(&json!({"limits": spec["overhead"]}), "spec.overhead", errors);
    }
    if !spec["os"].is_null() && setting.os.is_empty() {
        errors.push(FieldError::required("spec.os.name", ""));
    } else if !spec["os"].is_null() {
        one_of(&spec["os"]["name"], "spec.os".to_owned(), &["linux", "windows"], errors);
        operating_system::check(spec, setting.os, errors);
    }
}

/// Refuses spaces around images.
fn images(pod: &Value, errors: &mut Vec<FieldError>) {
    for field in ["containers", "initContainers"] {
        for (i, container) in list(pod, &["spec", field]).iter().enumerate() {
            container::image(container, &format!("spec.{field}[{i}]"), errors);
        }
    }
}

pub(in crate::state) fn update(pod: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    if pod.get("spec") == old.get("spec") {
        return;
    }
    annotations(pod, "metadata.annotations", errors);
    spec(pod, &[], true, errors);
    images(pod, errors);
    for field in ["containers", "initContainers"] {
        if list(pod, &["spec", field]).len() != list(old, &["spec", field]).len() {
            let why = "pod updates may not add or remove containers";
            errors.push(FieldError::forbidden(format!("spec.{field}"), why));
            return;
        }
    }
    if let Some(error) = deadline(&pod["spec"]["activeDeadlineSeconds"], &old["spec"]["activeDeadlineSeconds"]) {
        let is_last = !pod["spec"]["activeDeadlineSeconds"].is_null();
        errors.push(error);
        if is_last {
            return;
        }
    }
    let (mut new_spec, old_spec) = (pod["spec"].clone(), &old["spec"]);
    let (sent, was) = (list(pod, &["spec", "tolerations"]), list(old, &["spec", "tolerations"]));
    // Tolerations may be added, or get other tolerationSeconds.
    let kept = was.iter().all(|t| sent.iter().any(|s| same_toleration(s, t)));
    if kept {
        scheduling::tolerations(sent, errors);
    } else {
        errors.push(FieldError::forbidden(
            "spec.tolerations",
            "existing toleration can not be modified except its tolerationSeconds",
        ));
    }
    // Scheduling gates may only be removed.
    let gates = |pod| list(pod, &["spec", "schedulingGates"]).iter().map(|gate| text(gate, &["name"]));
    for (i, gate) in gates(pod).enumerate().filter(|(_, gate)| !gates(old).any(|old| old == *gate)) {
        let why = format!("only deletion is allowed, but found new scheduling gate '{gate}'");
        errors.push(FieldError::forbidden(format!("spec.schedulingGates[{i}].name"), why));
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
