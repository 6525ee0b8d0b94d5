//! Validation of workloads and budgets (`pkg/apis/*/validation`).

use substrate::json::{Value, json};

use super::bounds;
use crate::state::validate::selector::label_selector;
use crate::state::validate::{claim, names, pod, refuse};
use crate::state::value::{at, has, int, list, text};
use crate::state::{FieldError, internal};

/// Upstream's message about immutable fields of a StatefulSet.
const STATEFUL_SET: &str = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', \
    'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";
const CHANGEABLE: &[&str] = &[
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
];

pub(super) const NEGATIVE: &str = "must be greater than or equal to 0";

pub(super) fn deployment(object: &Value, errors: &mut Vec<FieldError>) {
    whole(object, "replicas", errors);
    selector(object, "deployment", errors);
    matching(object, errors);
    template(object, APPS, errors);
    no_deadline(object, "ReplicaSet", errors);
    deployment_strategy(object, errors);
    whole(object, "minReadySeconds", errors);
    whole(object, "revisionHistoryLimit", errors);
    if let Some(deadline) = int(object, &["spec", "progressDeadlineSeconds"]) {
        whole(object, "progressDeadlineSeconds", errors);
        if deadline <= int(object, &["spec", "minReadySeconds"]).unwrap_or(0) {
            let why = "must be greater than minReadySeconds";
            errors.push(FieldError::invalid("spec.progressDeadlineSeconds", &deadline.into(), why));
        }
    }
}

fn deployment_strategy(object: &Value, errors: &mut Vec<FieldError>) {
    const AT: &str = "spec.strategy.rollingUpdate";
    let strategy = Shown::of(object, "strategy");
    let rolling = &object["spec"]["strategy"]["rollingUpdate"];
    match strategy.of {
        "Recreate" if !rolling.is_null() => {
            errors.push(FieldError::forbidden(AT, "may not be specified when strategy `type` is 'Recreate'"));
        }
        "Recreate" => {}
        "RollingUpdate" => {
            for field in ["maxUnavailable", "maxSurge"] {
                bounds::positive(&rolling[field], &format!("{AT}.{field}"), errors);
            }
            let (down, up) = (&rolling["maxUnavailable"], &rolling["maxSurge"]);
            let field = format!("{AT}.maxUnavailable");
            if bounds::value(down) == 0 && bounds::value(up) == 0 {
                errors.push(FieldError::invalid(&field, down, "may not be 0 when `maxSurge` is 0"));
            }
            bounds::at_most_all(down, &field, errors);
        }
        _ => errors.push(FieldError::not_supported("spec.strategy", &strategy.shown, &["Recreate", "RollingUpdate"])),
    }
}

pub(super) fn replica_set(object: &Value, errors: &mut Vec<FieldError>) {
    whole(object, "replicas", errors);
    whole(object, "minReadySeconds", errors);
    // Upstream names another kind here.
    selector(object, "deployment", errors);
    matching(object, errors);
    template(object, APPS, errors);
    no_deadline(object, "ReplicaSet", errors);
}

/// Validates a new StatefulSet.
pub(super) fn stateful_set(object: &Value, errors: &mut Vec<FieldError>) {
    stateful_set_spec(object, true, errors);
}

/// Validates an update, without what cannot change.
pub(super) fn stateful_set_update(object: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    stateful_set_spec(object, false, errors);
    let rest = |of: &Value| {
        let mut spec = of["spec"].as_object().cloned().unwrap_or_default();
        spec.retain(|field, _| !CHANGEABLE.contains(&field.as_str()));
        spec
    };
    if rest(object) != rest(old) {
        errors.push(FieldError::forbidden("spec", STATEFUL_SET));
    }
}

fn stateful_set_spec(object: &Value, is_new: bool, errors: &mut Vec<FieldError>) {
    let spec = &object["spec"];
    let management = text(spec, &["podManagementPolicy"]);
    if !matches!(management, "OrderedReady" | "Parallel") {
        let why = "must be 'OrderedReady' or 'Parallel'";
        errors.push(FieldError::invalid("spec.podManagementPolicy", &management.into(), why));
    }
    stateful_set_strategy(object, errors);
    let policy = &spec["persistentVolumeClaimRetentionPolicy"];
    for field in ["whenDeleted", "whenScaled"] {
        let named = text(policy, &[field]);
        if !policy.is_null() && !matches!(named, "Retain" | "Delete") {
            let field = format!("spec.persistentVolumeClaimRetentionPolicy.{field}");
            errors.push(FieldError::not_supported(field, &named.into(), &["Retain", "Delete"]));
        }
    }
    if is_new {
        for (i, claim) in list(spec, &["volumeClaimTemplates"]).iter().enumerate() {
            claim::spec(&claim["spec"], &format!("spec.volumeClaimTemplates[{i}].spec"), errors);
        }
    }
    whole(object, "replicas", errors);
    whole(object, "minReadySeconds", errors);
    if let Some(start) = int(spec, &["ordinals", "start"]).filter(|start| *start < 0) {
        errors.push(FieldError::invalid("spec.ordinals.start", &start.into(), NEGATIVE));
    }
    let service = text(spec, &["serviceName"]);
    if is_new && !service.is_empty() {
        refuse(service, "spec.serviceName", names::label(service), errors);
    }
    selector(object, "statefulset", errors);
    matching(object, errors);
    template(object, APPS, errors);
    no_deadline(object, "StatefulSet", errors);
}

fn stateful_set_strategy(object: &Value, errors: &mut Vec<FieldError>) {
    let strategy = Shown::of(object, "updateStrategy");
    let rolling = &object["spec"]["updateStrategy"]["rollingUpdate"];
    let at = "spec.updateStrategy.rollingUpdate";
    match strategy.of {
        "OnDelete" if !rolling.is_null() => {
            let shown = json!({
                "Partition": int(rolling, &["partition"]).unwrap_or(0), "MaxUnavailable": rolling["maxUnavailable"],
            });
            errors.push(FieldError::invalid(at, &shown, "only allowed for updateStrategy 'RollingUpdate'"));
        }
        "OnDelete" => {}
        "RollingUpdate" => {
            if let Some(partition) = int(rolling, &["partition"]).filter(|partition| *partition < 0) {
                errors.push(FieldError::invalid(format!("{at}.partition"), &partition.into(), NEGATIVE));
            }
            let (down, field) = (&rolling["maxUnavailable"], format!("{at}.maxUnavailable"));
            if !down.is_null() {
                bounds::positive(down, &field, errors);
                if bounds::value(down) == 0 {
                    errors.push(FieldError::invalid(&field, down, "cannot be 0"));
                }
                bounds::at_most_all(down, &field, errors);
            }
        }
        _ => {
            let why = "must be 'RollingUpdate' or 'OnDelete'";
            errors.push(FieldError::invalid("spec.updateStrategy", &strategy.shown, why));
        }
    }
}

pub(super) fn daemon_set(object: &Value, errors: &mut Vec<FieldError>) {
    // A missing selector matches no template.
    let selector = &object["spec"]["selector"];
    label_selector(selector, "spec.selector", errors);
    matching(object, errors);
    if !selector.is_null() {
        not_empty(selector, "daemonset", errors);
    }
    template(object, APPS, errors);
    no_deadline(object, "DaemonSet", errors);
    whole(object, "minReadySeconds", errors);
    daemon_set_strategy(object, errors);
    whole(object, "revisionHistoryLimit", errors);
}

fn daemon_set_strategy(object: &Value, errors: &mut Vec<FieldError>) {
    let strategy = Shown::of(object, "updateStrategy");
    let rolling = &object["spec"]["updateStrategy"]["rollingUpdate"];
    let at = "spec.updateStrategy.rollingUpdate";
    match strategy.of {
        "OnDelete" => {}
        "RollingUpdate" if rolling.is_null() => errors.push(FieldError::required(at, "")),
        "RollingUpdate" => {
            let fields = ["maxUnavailable", "maxSurge"];
            for field in fields {
                bounds::positive(&rolling[field], &format!("{at}.{field}"), errors);
            }
            for field in fields {
                bounds::at_most_all(&rolling[field], &format!("{at}.{field}"), errors);
            }
            match fields.map(|field| bounds::value(&rolling[field]) != 0) {
                [true, true] => {
                    let why = "may not be set when maxUnavailable is non-zero";
                    errors.push(FieldError::invalid(format!("{at}.maxSurge"), &rolling["maxSurge"], why));
                }
                [false, false] => {
                    let why = "cannot be 0 when maxSurge is 0";
                    errors.push(FieldError::required(format!("{at}.maxUnavailable"), why));
                }
                _ => {}
            }
        }
        _ => {
            let supported = ["RollingUpdate", "OnDelete"];
            errors.push(FieldError::not_supported("spec.updateStrategy", &strategy.shown, &supported));
        }
    }
}

pub(super) fn replication_controller(object: &Value, errors: &mut Vec<FieldError>) {
    let labels = at(object, &["spec", "selector"]).and_then(Value::as_object);
    whole(object, "minReadySeconds", errors);
    if labels.is_none_or(substrate::json::Map::is_empty) {
        errors.push(FieldError::required("spec.selector", ""));
    }
    whole(object, "replicas", errors);
    if object["spec"]["template"].is_null() {
        errors.push(FieldError::required("spec.template", ""));
        return;
    }
    if labels.is_some_and(|labels| !labels.is_empty()) {
        matching(object, errors);
    }
    template(object, APPS, errors);
    no_deadline(object, "ReplicationController", errors);
}

/// Refuses a deadline: the pods of this owner run forever.
fn no_deadline(object: &Value, owner: &str, errors: &mut Vec<FieldError>) {
    if !object["spec"]["template"]["spec"]["activeDeadlineSeconds"].is_null() {
        let why = format!("activeDeadlineSeconds in {owner} is not Supported");
        errors.push(FieldError::forbidden("spec.template.spec.activeDeadlineSeconds", why));
    }
}

/// Update strategy of a workload.
struct Shown<'a> {
    of: &'a str,
    /// The strategy as errors show it.
    shown: Value,
}

impl<'a> Shown<'a> {
    fn of(object: &'a Value, field: &str) -> Self {
        let strategy = &object["spec"][field];
        let of = text(strategy, &["type"]);
        let shown = json!({"Type": of, "RollingUpdate": strategy["rollingUpdate"]});
        Self { of, shown }
    }
}

/// Refuses a negative number.
fn whole(object: &Value, field: &str, errors: &mut Vec<FieldError>) {
    if let Some(number) = int(object, &["spec", field]).filter(|n| *n < 0) {
        errors.push(FieldError::invalid(format!("spec.{field}"), &number.into(), NEGATIVE));
    }
}

/// Validates a required selector; `of` names the workload in the error about an empty one.
fn selector(object: &Value, of: &str, errors: &mut Vec<FieldError>) {
    let selector = &object["spec"]["selector"];
    if selector.is_null() {
        errors.push(FieldError::required("spec.selector", ""));
        return;
    }
    label_selector(selector, "spec.selector", errors);
    not_empty(selector, of, errors);
}

fn not_empty(selector: &Value, of: &str, errors: &mut Vec<FieldError>) {
    let labels = at(selector, &["matchLabels"]).and_then(Value::as_object);
    if list(selector, &["matchExpressions"]).is_empty() && labels.is_none_or(substrate::json::Map::is_empty) {
        let why = format!("empty selector is invalid for {of}");
        errors.push(FieldError::invalid("spec.selector", selector, why));
    }
}

/// Checks that a selector matches the labels of the template.
fn matching(object: &Value, errors: &mut Vec<FieldError>) {
    let labels = &object["spec"]["template"]["metadata"]["labels"];
    if !crate::state::selector::matches(&object["spec"]["selector"], labels) {
        let why = "`selector` does not match template `labels`";
        errors.push(FieldError::invalid("spec.template.metadata.labels", labels, why));
    }
}

/// Restart policies of the pods of workloads that run forever.
const APPS: &[&str] = &["Always"];

/// Validates the pod template of a workload that runs forever.
fn template(object: &Value, policies: &[&str], errors: &mut Vec<FieldError>) {
    let template = &object["spec"]["template"];
    // The claims of a StatefulSet become volumes of its pods.
    let claims = list(object, &["spec", "volumeClaimTemplates"]).iter().map(crate::state::value::name).collect();
    pods(template, "spec.template", claims, errors);
    let policy = text(template, &["spec", "restartPolicy"]);
    if !policy.is_empty() && !policies.contains(&policy) {
        errors.push(FieldError::not_supported("spec.template.spec.restartPolicy", &policy.into(), policies));
    }
}

/// Validates a pod template at a path; `claims` are volumes that its owner adds.
pub(super) fn pods(template: &Value, at: &str, claims: Vec<&str>, errors: &mut Vec<FieldError>) {
    let mut found = Vec::new();
    pod::template(template, &claims, &mut found);
    errors.extend(found.into_iter().map(|mut error| {
        error.field = format!("{at}.{}", error.field);
        error
    }));
}

pub(super) fn budget(object: &Value, errors: &mut Vec<FieldError>) {
    let spec = &object["spec"];
    let fields = ["minAvailable", "maxUnavailable"];
    if fields.iter().all(|field| has(spec, &[field])) {
        let why = "minAvailable and maxUnavailable cannot be both set";
        errors.push(FieldError::invalid_text("spec", internal::shown(spec, internal::BUDGET_SPEC), why));
    }
    for field in fields {
        let at = format!("spec.{field}");
        bounds::positive(&spec[field], &at, errors);
        bounds::at_most_all(&spec[field], &at, errors);
    }
    label_selector(&spec["selector"], "spec.selector", errors);
    let policy = &spec["unhealthyPodEvictionPolicy"];
    let policies = ["AlwaysAllow", "IfHealthyBudget"];
    if !policy.is_null() && !policy.as_str().is_some_and(|policy| policies.contains(&policy)) {
        errors.push(FieldError::not_supported("spec.unhealthyPodEvictionPolicy", policy, &policies));
    }
}
