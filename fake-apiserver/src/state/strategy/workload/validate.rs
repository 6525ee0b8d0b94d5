//! Validation of workloads and budgets (`pkg/apis/*/validation`).

use substrate::json::Value;

use crate::state::validate::selector::label_selector;
use crate::state::validate::{pod, unchanged};
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

/// Maximum length of a cron job's name: the names of its jobs have eleven more characters.
const MAX_CRON_NAME: usize = 52;

pub(super) fn deployment(object: &Value, errors: &mut Vec<FieldError>) {
    replicated(object, "deployment", errors);
    let strategy = Shown::of(object, "strategy");
    if !matches!(strategy.of, "Recreate" | "RollingUpdate") {
        errors.push(FieldError::not_supported("spec.strategy", &strategy.shown, &["Recreate", "RollingUpdate"]));
    }
    let none = |bound: &Value| *bound == 0 || *bound == "0%";
    let rolling = &object["spec"]["strategy"]["rollingUpdate"];
    if none(&rolling["maxSurge"]) && none(&rolling["maxUnavailable"]) {
        let why = "may not be 0 when `maxSurge` is 0";
        let field = "spec.strategy.rollingUpdate.maxUnavailable";
        errors.push(FieldError::invalid(field, &rolling["maxUnavailable"], why));
    }
    no_deadline(object, "ReplicaSet", errors);
}

pub(super) fn replica_set(object: &Value, errors: &mut Vec<FieldError>) {
    replicated(object, "deployment", errors);
    no_deadline(object, "ReplicaSet", errors);
}

pub(super) fn stateful_set(object: &Value, errors: &mut Vec<FieldError>) {
    replicated(object, "statefulset", errors);
    let strategy = Shown::of(object, "updateStrategy");
    if !matches!(strategy.of, "RollingUpdate" | "OnDelete") {
        let why = "must be 'RollingUpdate' or 'OnDelete'";
        errors.push(FieldError::invalid("spec.updateStrategy", &strategy.shown, why));
    }
    let management = text(object, &["spec", "podManagementPolicy"]);
    if !matches!(management, "OrderedReady" | "Parallel") {
        let why = "must be 'OrderedReady' or 'Parallel'";
        errors.push(FieldError::invalid("spec.podManagementPolicy", &management.into(), why));
    }
    no_deadline(object, "StatefulSet", errors);
}

pub(super) fn stateful_set_update(object: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let rest = |of: &Value| {
        let mut spec = of["spec"].as_object().cloned().unwrap_or_default();
        spec.retain(|field, _| !CHANGEABLE.contains(&field.as_str()));
        spec
    };
    if rest(object) != rest(old) {
        errors.push(FieldError::forbidden("spec", STATEFUL_SET));
    }
}

pub(super) fn daemon_set(object: &Value, errors: &mut Vec<FieldError>) {
    replicated(object, "daemonset", errors);
    let strategy = Shown::of(object, "updateStrategy");
    if !matches!(strategy.of, "RollingUpdate" | "OnDelete") {
        let supported = ["RollingUpdate", "OnDelete"];
        errors.push(FieldError::not_supported("spec.updateStrategy", &strategy.shown, &supported));
    }
    no_deadline(object, "DaemonSet", errors);
}

pub(super) fn replication_controller(object: &Value, errors: &mut Vec<FieldError>) {
    if at(object, &["spec", "selector"]).and_then(Value::as_object).is_none_or(substrate::json::Map::is_empty) {
        errors.push(FieldError::required("spec.selector", ""));
    }
    template(object, "spec.template", &["spec", "template"], &["Always"], errors);
    whole(object, "replicas", errors);
}

pub(super) fn job(object: &Value, errors: &mut Vec<FieldError>) {
    template(object, "spec.template", &["spec", "template"], &["OnFailure", "Never"], errors);
    for field in ["parallelism", "completions", "backoffLimit", "activeDeadlineSeconds", "ttlSecondsAfterFinished"] {
        whole(object, field, errors);
    }
    let per_index = &object["spec"]["backoffLimitPerIndex"];
    if !per_index.is_null() && text(object, &["spec", "completionMode"]) != "Indexed" {
        let why = "requires indexed completion mode";
        errors.push(FieldError::invalid("spec.backoffLimitPerIndex", per_index, why));
    }
    let policy = text(object, &["spec", "podReplacementPolicy"]);
    let policies = ["Failed", "TerminatingOrFailed"];
    if !policies.contains(&policy) {
        errors.push(FieldError::not_supported("spec.podReplacementPolicy", &policy.into(), &policies));
    }
}

pub(super) fn job_update(object: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    unchanged(object, old, &["spec", "selector"], errors);
    unchanged(object, old, &["spec", "completionMode"], errors);
    // The template may change while the job is suspended.
    let template = &object["spec"]["template"];
    if old["spec"]["suspend"] != true && *template != old["spec"]["template"] {
        let shown = internal::template_shown(template);
        errors.push(FieldError::invalid_text("spec.template", shown, "field is immutable"));
    }
    if text(object, &["spec", "completionMode"]) != "Indexed" {
        unchanged(object, old, &["spec", "completions"], errors);
    }
}

pub(super) fn autoscaler(object: &Value, errors: &mut Vec<FieldError>) {
    let (least, most) = (int(object, &["spec", "minReplicas"]), int(object, &["spec", "maxReplicas"]).unwrap_or(0));
    if most < 1 {
        errors.push(FieldError::invalid("spec.maxReplicas", &most.into(), "must be greater than 0"));
    } else if least.is_some_and(|least| least > most) {
        let why = "must be greater than or equal to `minReplicas`";
        errors.push(FieldError::invalid("spec.maxReplicas", &most.into(), why));
    }
    for field in ["kind", "name"] {
        if text(object, &["spec", "scaleTargetRef", field]).is_empty() {
            errors.push(FieldError::required(format!("spec.scaleTargetRef.{field}"), ""));
        }
    }
}

/// Validates what the workloads of the group apps share; `of` names the workload in the error about an empty selector.
fn replicated(object: &Value, of: &str, errors: &mut Vec<FieldError>) {
    selector(object, of, errors);
    template(object, "spec.template", &["spec", "template"], &["Always"], errors);
    whole(object, "replicas", errors);
    whole(object, "minReadySeconds", errors);
    whole(object, "revisionHistoryLimit", errors);
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
        let shown = substrate::json::json!({"Type": of, "RollingUpdate": strategy["rollingUpdate"]});
        Self { of, shown }
    }
}

/// Refuses a negative number.
fn whole(object: &Value, field: &str, errors: &mut Vec<FieldError>) {
    if let Some(number) = int(object, &["spec", field]).filter(|n| *n < 0) {
        errors.push(FieldError::invalid(format!("spec.{field}"), &number.into(), "must be greater than or equal to 0"));
    }
}

/// Validates a selector: it is required and not empty, and it matches the labels of the template.
fn selector(object: &Value, of: &str, errors: &mut Vec<FieldError>) {
    let selector = &object["spec"]["selector"];
    if selector.is_null() {
        errors.push(FieldError::required("spec.selector", ""));
    } else if list(selector, &["matchExpressions"]).is_empty()
        && at(selector, &["matchLabels"]).and_then(Value::as_object).is_none_or(substrate::json::Map::is_empty)
    {
        let why = format!("empty selector is invalid for {of}");
        errors.push(FieldError::invalid("spec.selector", selector, why));
    }
    label_selector(selector, "spec.selector", errors);
    let labels = &object["spec"]["template"]["metadata"]["labels"];
    if !crate::state::selector::matches(selector, labels) {
        let shown = if labels.is_null() { substrate::json::json!({}) } else { labels.clone() };
        errors.push(FieldError::invalid(
            "spec.template.metadata.labels",
            &shown,
            "`selector` does not match template `labels`",
        ));
    }
}

/// Validates the pod template at a path; `policies` are the restart policies that its owner allows.
fn template(object: &Value, at_path: &str, path: &[&str], policies: &[&str], errors: &mut Vec<FieldError>) {
    let Some(template) = at(object, path).filter(|t| !t.is_null()) else {
        errors.push(FieldError::required(at_path, ""));
        return;
    };
    let mut found = Vec::new();
    // The claims of a StatefulSet become volumes of its pods.
    let claims: Vec<&str> =
        list(object, &["spec", "volumeClaimTemplates"]).iter().map(crate::state::value::name).collect();
    pod::template(template, &claims, &mut found);
    errors.extend(found.into_iter().map(|mut error| {
        error.field = format!("{at_path}.{}", error.field);
        error
    }));
    let policy = text(template, &["spec", "restartPolicy"]);
    if !policies.contains(&policy) && ["Always", "OnFailure", "Never"].contains(&policy) {
        let field = format!("{at_path}.spec.restartPolicy");
        if policies.len() > 1 && policy == "Always" {
            errors.push(FieldError::required(field, "valid values: \"OnFailure\", \"Never\""));
        } else {
            errors.push(FieldError::not_supported(field, &policy.into(), policies));
        }
    }
}

pub(super) fn cron_job(object: &Value, errors: &mut Vec<FieldError>) {
    let schedule = text(object, &["spec", "schedule"]);
    if schedule.is_empty() {
        errors.push(FieldError::required("spec.schedule", ""));
    } else if !schedule.starts_with('@') && schedule.split_whitespace().count() != 5 {
        let why = format!("expected exactly 5 fields, found {}: [{schedule}]", schedule.split_whitespace().count());
        errors.push(FieldError::invalid("spec.schedule", &schedule.into(), why));
    }
    whole(object, "startingDeadlineSeconds", errors);
    if crate::state::value::name(object).len() > MAX_CRON_NAME {
        let why = format!("must be no more than {MAX_CRON_NAME} characters");
        errors.push(FieldError::invalid("metadata.name", &crate::state::value::name(object).into(), why));
    }
    let policy = text(object, &["spec", "concurrencyPolicy"]);
    let supported = ["Allow", "Forbid", "Replace"];
    if !supported.contains(&policy) {
        errors.push(FieldError::not_supported("spec.concurrencyPolicy", &policy.into(), &supported));
    }
    let path = ["spec", "jobTemplate", "spec", "template"];
    template(object, "spec.jobTemplate.spec.template", &path, &["OnFailure", "Never"], errors);
}

pub(super) fn budget(object: &Value, errors: &mut Vec<FieldError>) {
    let policy = &object["spec"]["unhealthyPodEvictionPolicy"];
    let policies = ["AlwaysAllow", "IfHealthyBudget"];
    if !policy.is_null() && !policy.as_str().is_some_and(|policy| policies.contains(&policy)) {
        errors.push(FieldError::not_supported("spec.unhealthyPodEvictionPolicy", policy, &policies));
    }
    if has(object, &["spec", "minAvailable"]) && has(object, &["spec", "maxUnavailable"]) {
        let why = "minAvailable and maxUnavailable cannot be both set";
        errors.push(FieldError::invalid("spec", &object["spec"], why));
    }
    for field in ["minAvailable", "maxUnavailable"] {
        let bound = &object["spec"][field];
        let bad = match bound {
            Value::String(text) => {
                text.strip_suffix('%').and_then(|n| n.parse::<u32>().ok()).is_none_or(|percent| percent > 100)
            }
            Value::Number(number) => number.as_i64().is_none_or(|n| n < 0),
            _ => false,
        };
        if bad {
            let why = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or \
                       '93%'), and a number must not be negative";
            errors.push(FieldError::invalid(format!("spec.{field}"), bound, why));
        }
    }
}
