//! Validation of jobs and cron jobs (`pkg/apis/batch/validation`).

use substrate::json::Value;

use super::validate::{NEGATIVE, pods};
use super::{schedule, success_policy};
use crate::state::validate::selector::label_selector;
use crate::state::validate::{names, refuse, unchanged};
use crate::state::value::{int, list, name, text};
use crate::state::{FieldError, internal};

/// Maximum length of a cron job's name: the names of its jobs have eleven more characters.
const MAX_CRON_NAME: usize = 52;
/// Numbers of a job, in upstream's order.
const NUMBERS: [&str; 7] = [
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
];
/// Largest parallelism of an indexed job.
const MOST_PARALLEL: i64 = 100_000;
const INDEXED: &str = "requires indexed completion mode";
const ACTIONS: &[&str] = &["Count", "FailIndex", "FailJob", "Ignore"];
const OPERATORS: &[&str] = &["In", "NotIn"];
const STATUSES: &[&str] = &["False", "True", "Unknown"];

pub(super) fn job(object: &Value, errors: &mut Vec<FieldError>) {
    let spec = &object["spec"];
    of_spec(spec, "spec", errors);
    label_selector(&spec["selector"], "spec.selector", errors);
    let labels = &spec["template"]["metadata"]["labels"];
    // A selector is generated from the uid after the validation.
    if spec["manualSelector"] == true {
        if spec["selector"].is_null() {
            errors.push(FieldError::required("spec.selector", ""));
        }
        if !crate::state::selector::matches(&spec["selector"], labels) {
            let why = "`selector` does not match template `labels`";
            errors.push(FieldError::invalid("spec.template.metadata.labels", labels, why));
        }
    }
    if let Some(last) = int(spec, &["completions"]).filter(|count| *count > 0 && is_indexed(spec)) {
        let host = format!("{}-{}", name(object), last - 1);
        if !names::label(&host).is_empty() {
            let why = format!("will not able to create pod with invalid DNS label: {host}");
            errors.push(FieldError::invalid("metadata.name", &name(object).into(), why));
        }
    }
}

fn is_indexed(spec: &Value) -> bool {
    text(spec, &["completionMode"]) == "Indexed"
}

/// Validates the spec of a job, or that in a cron job.
fn of_spec(spec: &Value, at: &str, errors: &mut Vec<FieldError>) {
    for field in NUMBERS {
        number(spec, field, at, errors);
    }
    let has = |field: &str| !spec[field].is_null();
    if has("maxFailedIndexes") && !has("backoffLimitPerIndex") {
        let why = "when maxFailedIndexes is specified";
        errors.push(FieldError::required(format!("{at}.backoffLimitPerIndex"), why));
    }
    let mode = &spec["completionMode"];
    let modes = ["NonIndexed", "Indexed"];
    if mode.as_str().is_some_and(|mode| !modes.contains(&mode)) {
        errors.push(FieldError::not_supported(format!("{at}.completionMode"), mode, &modes));
    }
    if is_indexed(spec) {
        of_indexed(spec, at, errors);
    } else {
        for field in ["backoffLimitPerIndex", "maxFailedIndexes"].into_iter().filter(|field| has(field)) {
            errors.push(FieldError::invalid(format!("{at}.{field}"), &spec[field], INDEXED));
        }
    }
    failure_policy(spec, &format!("{at}.podFailurePolicy"), errors);
    if has("successPolicy") && !is_indexed(spec) {
        errors.push(FieldError::invalid(format!("{at}.successPolicy"), &spec["successPolicy"], INDEXED));
    } else if has("successPolicy") {
        success_policy::check(spec, &format!("{at}.successPolicy"), errors);
    }
    let policy = &spec["podReplacementPolicy"];
    let policies: &[&str] = if has("podFailurePolicy") { &["Failed"] } else { &["Failed", "TerminatingOrFailed"] };
    if policy.as_str().is_some_and(|policy| !policies.contains(&policy)) {
        errors.push(FieldError::not_supported(format!("{at}.podReplacementPolicy"), policy, policies));
    }
    let template = &spec["template"];
    pods(template, &format!("{at}.template"), Vec::new(), errors);
    let (policy, field) = (text(template, &["spec", "restartPolicy"]), format!("{at}.template.spec.restartPolicy"));
    match policy {
        "Always" | "" => errors.push(FieldError::required(field, "valid values: \"OnFailure\", \"Never\"")),
        "OnFailure" if has("podFailurePolicy") => {
            let why = "only \"Never\" is supported when podFailurePolicy is specified";
            errors.push(FieldError::invalid(field, &policy.into(), why));
        }
        "OnFailure" | "Never" => {}
        _ => errors.push(FieldError::not_supported(field, &policy.into(), &["OnFailure", "Never"])),
    }
}

fn of_indexed(spec: &Value, at: &str, errors: &mut Vec<FieldError>) {
    let completions = int(spec, &["completions"]);
    if completions.is_none() {
        errors.push(FieldError::required(format!("{at}.completions"), "when completion mode is Indexed"));
    }
    if let Some(many) = int(spec, &["parallelism"]).filter(|many| *many > MOST_PARALLEL) {
        let why = format!("must be less than or equal to {MOST_PARALLEL} when completion mode is Indexed");
        errors.push(FieldError::invalid(format!("{at}.parallelism"), &many.into(), why));
    }
    if let (Some(failed), Some(completions)) = (int(spec, &["maxFailedIndexes"]), completions)
        && failed > completions
    {
        let why = "must be less than or equal to completions";
        errors.push(FieldError::invalid(format!("{at}.maxFailedIndexes"), &failed.into(), why));
    }
}

fn number(spec: &Value, field: &str, at: &str, errors: &mut Vec<FieldError>) {
    if let Some(number) = int(spec, &[field]).filter(|number| *number < 0) {
        errors.push(FieldError::invalid(format!("{at}.{field}"), &number.into(), NEGATIVE));
    }
}

fn failure_policy(spec: &Value, at: &str, errors: &mut Vec<FieldError>) {
    for (i, rule) in list(spec, &["podFailurePolicy", "rules"]).iter().enumerate() {
        let at = format!("{at}.rules[{i}]");
        let action = text(rule, &["action"]);
        if action == "FailIndex" && spec["backoffLimitPerIndex"].is_null() {
            let why = "requires the backoffLimitPerIndex to be set";
            errors.push(FieldError::invalid(format!("{at}.action"), &action.into(), why));
        }
        one_of(action, &format!("{at}.action"), ACTIONS, errors);
        let (codes, conditions) = (&rule["onExitCodes"], list(rule, &["onPodConditions"]));
        if !codes.is_null() {
            exit_codes(codes, spec, &format!("{at}.onExitCodes"), errors);
        }
        for (k, condition) in conditions.iter().enumerate() {
            let (at, of) = (format!("{at}.onPodConditions[{k}]"), text(condition, &["type"]));
            refuse(of, &format!("{at}.type"), names::qualified(of), errors);
            one_of(text(condition, &["status"]), &format!("{at}.status"), STATUSES, errors);
        }
        let why = match (codes.is_null(), conditions.is_empty()) {
            (false, false) => "specifying both OnExitCodes and OnPodConditions is not supported",
            (true, true) => "specifying one of OnExitCodes and OnPodConditions is required",
            _ => continue,
        };
        errors.push(FieldError::invalid_text(at, "", why));
    }
}

fn exit_codes(codes: &Value, spec: &Value, at: &str, errors: &mut Vec<FieldError>) {
    one_of(text(codes, &["operator"]), &format!("{at}.operator"), OPERATORS, errors);
    if let Some(container) = codes["containerName"].as_str() {
        let all = ["containers", "initContainers"].map(|field| list(spec, &["template", "spec", field]));
        if !all.iter().copied().flatten().any(|other| text(other, &["name"]) == container) {
            let why = "must be one of the container or initContainer names in the pod template";
            errors.push(FieldError::invalid(format!("{at}.containerName"), &container.into(), why));
        }
    }
    let values: Vec<i64> = list(codes, &["values"]).iter().filter_map(Value::as_i64).collect();
    if values.is_empty() {
        let shown = if codes["values"].is_null() { "null" } else { "[]" };
        errors.push(FieldError::invalid_text(format!("{at}.values"), shown, "at least one value is required"));
    }
    for (i, value) in values.iter().enumerate() {
        if *value == 0 && text(codes, &["operator"]) == "In" {
            let why = "must not be 0 for the In operator";
            errors.push(FieldError::invalid(format!("{at}.values[{i}]"), &(*value).into(), why));
        }
        if values[..i].contains(value) {
            errors.push(FieldError::duplicate(format!("{at}.values[{i}]"), &(*value).into()));
        }
    }
    if !values.is_sorted() {
        errors.push(FieldError::invalid(format!("{at}.values"), &codes["values"], "must be ordered"));
    }
}

/// Checks that a required text is one of `values`.
fn one_of(text: &str, field: &str, values: &[&str], errors: &mut Vec<FieldError>) {
    if text.is_empty() {
        let all: Vec<String> = values.iter().map(|value| format!("{value:?}")).collect();
        errors.push(FieldError::required(field, format!("valid values: [{}]", all.join(" "))));
    } else if !values.contains(&text) {
        errors.push(FieldError::not_supported(field, &text.into(), values));
    }
}

pub(super) fn job_update(object: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let spec = &object["spec"];
    if !is_indexed(spec) {
        unchanged(object, old, &["spec", "completions"], errors);
    } else if spec["completions"] != old["spec"]["completions"] && spec["completions"] != spec["parallelism"] {
        let why = "can only be modified in tandem with spec.parallelism";
        errors.push(FieldError::invalid("spec.completions", &spec["completions"], why));
    }
    unchanged(object, old, &["spec", "selector"], errors);
    // The template may change while the job is suspended.
    let template = &spec["template"];
    if old["spec"]["suspend"] != true && *template != old["spec"]["template"] {
        let shown = internal::template_shown(template);
        errors.push(FieldError::invalid_text("spec.template", shown, "field is immutable"));
    }
    for field in ["completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"] {
        unchanged(object, old, &["spec", field], errors);
    }
}

/// Validates a new cron job.
pub(super) fn cron_job(object: &Value, errors: &mut Vec<FieldError>) {
    cron_job_spec(object, &Value::Null, errors);
    if name(object).len() > MAX_CRON_NAME {
        let why = format!("must be no more than {MAX_CRON_NAME} characters");
        errors.push(FieldError::invalid("metadata.name", &name(object).into(), why));
    }
}

/// Validates the spec of a cron job; `old` is null for a new one.
pub(super) fn cron_job_spec(object: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let spec = &object["spec"];
    let written = text(spec, &["schedule"]);
    if written.is_empty() {
        errors.push(FieldError::required("spec.schedule", ""));
    } else {
        let zone = if !written.contains("TZ") {
            None
        } else if !text(old, &["spec", "schedule"]).contains("TZ") {
            Some("cannot use TZ or CRON_TZ in schedule, use timeZone field instead")
        } else {
            (!spec["timeZone"].is_null()).then_some("cannot use both timeZone field and TZ or CRON_TZ in schedule")
        };
        for why in schedule::refusal(written).into_iter().chain(zone.map(str::to_owned)) {
            errors.push(FieldError::invalid("spec.schedule", &written.into(), why));
        }
    }
    number(spec, "startingDeadlineSeconds", "spec", errors);
    if spec["timeZone"] != old["spec"]["timeZone"]
        && let Some(zone) = spec["timeZone"].as_str()
    {
        time_zone(zone, errors);
    }
    let policy = text(spec, &["concurrencyPolicy"]);
    let policies = ["Allow", "Forbid", "Replace"];
    if policy.is_empty() {
        errors.push(FieldError::required("spec.concurrencyPolicy", ""));
    } else if !policies.contains(&policy) {
        errors.push(FieldError::not_supported("spec.concurrencyPolicy", &policy.into(), &policies));
    }
    let job = &spec["jobTemplate"]["spec"];
    of_spec(job, "spec.jobTemplate.spec", errors);
    // All jobs would have the same selector.
    if !job["selector"].is_null() {
        let why = "`selector` will be auto-generated";
        errors.push(FieldError::invalid("spec.jobTemplate.spec.selector", &job["selector"], why));
    }
    if job["manualSelector"] == true {
        let field = "spec.jobTemplate.spec.manualSelector";
        errors.push(FieldError::not_supported(field, &true.into(), &["nil", "false"]));
    }
    for field in ["successfulJobsHistoryLimit", "failedJobsHistoryLimit"] {
        number(spec, field, "spec", errors);
    }
}

/// Names of all time zones. Upstream's server has them within, too.
const TIME_ZONES: &str = include_str!("time_zones.txt");

/// Validates a time zone (`validateTimeZone`).
fn time_zone(zone: &str, errors: &mut Vec<FieldError>) {
    let mut refuse = |why: String| errors.push(FieldError::invalid("spec.timeZone", &zone.into(), why));
    let fits = |part: &str| {
        let known = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_' | b'+');
        !matches!(part, "" | "." | "..") && !part.starts_with('-') && part.len() <= 14 && part.bytes().all(known)
    };
    let is_known = || zone == "Local" || TIME_ZONES.lines().any(|known| known == zone);
    if zone.is_empty() {
        return refuse("timeZone must be nil or non-empty string".to_owned());
    }
    if !zone.split('/').all(fits) {
        return refuse(format!("unknown time zone {zone}"));
    }
    if zone.eq_ignore_ascii_case("local") {
        refuse("timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones".to_owned());
    }
    if !is_known() {
        refuse(format!("unknown time zone {zone}"));
    }
}
